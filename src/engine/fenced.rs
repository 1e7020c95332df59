//! The `fenced` format: Markdown in which prose is text and a fence of `typescript` or `ts` is code.
//!
//! A message without code is the end: the format says so, and `engine:stop` says it to the cognet, unless the message
//! was cut off. Fences of other languages are prose, and so is what is inside them. Prose loses the blank lines around
//! it, code the newline before its closing fence.

use axon_runtime::EngineEvent;

use super::decoder::{Decoder, MessageEnd, code::INCOMPLETE_BLOCK, trim_trailing_newline, violation};

/// Info words of a fence that make it code.
const CODE_LANGUAGES: &[&str] = &["typescript", "ts"];
/// Markers that make a fence.
const MIN_FENCE_MARKERS: usize = 3;
/// Bytes of a line that can be a fence. It bounds what is held back while a line arrives.
const MAX_FENCE_LINE_BYTES: usize = 256;

#[derive(Debug, Default)]
pub(super) struct FencedDecoder {
    /// The line that is arriving, as far as it has not been passed on.
    line: String,
    line_kind: LineKind,
    inside: Inside,
    prose: Prose,
    code: String,
    has_code: bool,
}

/// What the line that is arriving can be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LineKind {
    /// It may be a fence: nothing of it is passed on.
    #[default]
    Undecided,
    /// It is no fence: prose streams.
    Content,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Prose,
    Code(Fence),
    /// A fence that is not ours: prose up to its end.
    Other(Fence),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fence {
    marker: char,
    len: usize,
}

impl Decoder for FencedDecoder {
    fn feed(&mut self, piece: &str, events: &mut Vec<EngineEvent>) {
        for part in piece.split_inclusive('\n') {
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.end_line(events);
            } else if self.line_kind == LineKind::Content || !may_be_fence(&self.line) {
                self.line_kind = LineKind::Content;
                self.pass_on();
            }
        }
        self.prose.flush(events);
    }

    fn finish(&mut self, end: MessageEnd, events: &mut Vec<EngineEvent>) {
        if !self.line.is_empty() {
            self.end_line(events);
        }
        match self.inside {
            Inside::Code(_) => {
                let message = "The message ended inside a fence of code: its closing fence is missing.";
                events.push(violation(INCOMPLETE_BLOCK, message, Some(&self.code)));
            }
            Inside::Prose | Inside::Other(_) => self.prose.end(events),
        }
        let without_code = !self.has_code && !matches!(self.inside, Inside::Code(_));
        if without_code && end == MessageEnd::Complete {
            events.push(EngineEvent::Stop);
        }
    }
}

impl FencedDecoder {
    fn end_line(&mut self, events: &mut Vec<EngineEvent>) {
        let fence = match self.line_kind {
            LineKind::Undecided => read_fence(&self.line),
            LineKind::Content => None,
        };
        self.line_kind = LineKind::Undecided;
        match (self.inside, fence) {
            (Inside::Prose, Some((fence, info))) => {
                if is_code(info) {
                    self.inside = Inside::Code(fence);
                    self.line.clear();
                    self.prose.end(events);
                    return;
                }
                self.inside = Inside::Other(fence);
            }
            (Inside::Code(open), Some((fence, info))) if closes(open, fence, info) => {
                self.inside = Inside::Prose;
                self.line.clear();
                let code = std::mem::take(&mut self.code);
                events.push(EngineEvent::TypeScript { content: trim_trailing_newline(&code).to_owned() });
                self.has_code = true;
                return;
            }
            (Inside::Other(open), Some((fence, info))) if closes(open, fence, info) => self.inside = Inside::Prose,
            _ => {}
        }
        self.pass_on();
    }

    fn pass_on(&mut self) {
        match self.inside {
            Inside::Code(_) => self.code.push_str(&self.line),
            Inside::Prose | Inside::Other(_) => self.prose.push(&self.line),
        }
        self.line.clear();
    }
}

/// Whether a line that begins with `line` can still turn out to be a fence.
fn may_be_fence(line: &str) -> bool {
    let rest = line.trim_start_matches([' ', '\t']);
    let only_markers = |marker| rest.chars().all(|char| char == marker);
    line.len() <= MAX_FENCE_LINE_BYTES && (only_markers('`') || only_markers('~') || read_fence(line).is_some())
}

/// The fence that a line is, with its info string.
fn read_fence(line: &str) -> Option<(Fence, &str)> {
    let line = line.strip_suffix('\n').unwrap_or(line);
    let rest = line.trim_start_matches([' ', '\t']);
    let marker = rest.chars().next().filter(|marker| matches!(marker, '`' | '~'))?;
    let info = rest.trim_start_matches(marker);
    let len = rest.len() - info.len();
    let is_fence = len >= MIN_FENCE_MARKERS
        && line.len() <= MAX_FENCE_LINE_BYTES
        // Otherwise it is a span of inline code.
        && !(marker == '`' && info.contains('`'));
    is_fence.then_some((Fence { marker, len }, info.trim()))
}

fn is_code(info: &str) -> bool {
    let language =
        info.split(|char: char| char.is_whitespace() || matches!(char, '{' | ':')).next().unwrap_or_default();
    CODE_LANGUAGES.iter().any(|code| code.eq_ignore_ascii_case(language))
}

fn closes(open: Fence, fence: Fence, info: &str) -> bool {
    info.is_empty() && fence.marker == open.marker && fence.len >= open.len
}

/// Prose without the blank lines around it.
#[derive(Debug, Default)]
struct Prose {
    content: String,
    /// How much of `content` has been emitted as deltas.
    emitted: usize,
    /// White space that belongs to the content only if more text follows.
    held: String,
}

impl Prose {
    fn push(&mut self, text: &str) {
        let end = text.trim_end().len();
        let (text, space) = text.split_at(end);
        if !text.is_empty() {
            let held = std::mem::take(&mut self.held);
            if self.content.is_empty() {
                let indent = held.rfind('\n').map_or(0, |newline| newline + 1);
                self.content.push_str(&held[indent..]);
            } else {
                self.content.push_str(&held);
            }
            self.content.push_str(text);
        }
        self.held.push_str(space);
    }

    fn flush(&mut self, events: &mut Vec<EngineEvent>) {
        if self.emitted < self.content.len() {
            events.push(EngineEvent::TextDelta { content: self.content[self.emitted..].to_owned() });
            self.emitted = self.content.len();
        }
    }

    fn end(&mut self, events: &mut Vec<EngineEvent>) {
        self.flush(events);
        let Self { content, .. } = std::mem::take(self);
        if !content.is_empty() {
            events.push(EngineEvent::Text { content });
        }
    }
}
