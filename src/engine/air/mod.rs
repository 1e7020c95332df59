//! AIR: a message is a sequence of blocks, `<text>…</text>`, `<typescript>…</typescript>`, `<thinking>…</thinking>` and
//! `<done/>`.
//!
//! What the grammar leaves open is decided thus:
//!
//! - `<done/>` does not end the message: blocks behind it count like those before it, so that nothing the model said is
//!   lost. `engine:stop` is emitted once, where the first `<done/>` stands.
//! - A text that is cut off at the end of the message is still emitted, since its deltas were. Code that is cut off
//!   is not: half a program must not run.
//! - What is inside an unknown block is dropped up to its close tag, or up to the next known block.
//! - Code loses one newline at its start and one at its end, as text does. An empty text is no event.

mod prose;
mod tag;
mod typescript;

use axon_runtime::{
    EngineEvent,
    air::{AIR_BLOCKS, AirBlock, AirRole},
};

use self::{
    prose::Prose,
    tag::{Reading, TagKind},
    typescript::{CloseRule, CodeScanner, Scan},
};
use super::decoder::{
    Decoder, EXCERPT_CHARS, MessageEnd,
    code::{INCOMPLETE_BLOCK, MISSING_DONE, STRAY_TEXT, UNKNOWN_BLOCK},
    leading_newline, trim_trailing_newline, violation,
};

/// Unknown blocks of one message that are reported; more of them say nothing new.
const MAX_REPORTED_UNKNOWN_BLOCKS: usize = 16;
/// Blocks of one message that may prove to be unbalanced, each of which costs a second look at what follows it. After
/// them, code ends at the first literal close tag, so that hostile text cannot make decoding quadratic.
const MAX_UNBALANCED_BLOCKS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct AirDecoder {
    /// What is not decided yet begins at `at`.
    buffer: String,
    at: usize,
    state: State,
    stray: Stray,
    unknown_blocks: usize,
    unbalanced_blocks: usize,
    has_code: bool,
    done: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Between,
    /// Inside a block that is not AIR's, with its name.
    Unknown(String),
    Text {
        prose: Prose,
        content: String,
    },
    Thinking(Prose),
    /// The content of the block begins at [`AirDecoder::at`].
    Code(CodeScanner),
}

/// Whether the buffer holds more to decide.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Advanced,
    Starved,
}

impl Decoder for AirDecoder {
    fn feed(&mut self, piece: &str, events: &mut Vec<EngineEvent>) {
        self.buffer.push_str(piece);
        self.decode(false, events);
        self.buffer.drain(..self.at);
        self.at = 0;
    }

    fn finish(&mut self, _: MessageEnd, events: &mut Vec<EngineEvent>) {
        self.decode(true, events);
        self.report_stray(events);
        if !self.has_code && !self.done {
            let message = "The message has neither a <typescript> block nor <done/>. End it with <done/> when nothing \
                           more is wanted.";
            events.push(violation(MISSING_DONE, message, None));
        }
    }
}

impl AirDecoder {
    fn decode(&mut self, ending: bool, events: &mut Vec<EngineEvent>) {
        loop {
            let progress = match &self.state {
                State::Between | State::Unknown(_) => self.read_tag(ending, events),
                State::Text { .. } | State::Thinking(_) => self.read_prose(ending, events),
                State::Code(_) => self.read_code(ending, events),
            };
            if progress == Progress::Starved {
                return;
            }
        }
    }

    fn read_tag(&mut self, ending: bool, events: &mut Vec<EngineEvent>) -> Progress {
        let Some(angle) = self.buffer[self.at..].find('<') else {
            self.pass_over(self.buffer.len());
            return Progress::Starved;
        };
        self.pass_over(self.at + angle);
        let tag = match tag::read_tag(&self.buffer[self.at..], ending) {
            Reading::Undecided => return Progress::Starved,
            Reading::IsNot => {
                self.pass_over(self.at + 1);
                return Progress::Advanced;
            }
            Reading::Is(tag) => tag,
        };
        let (kind, end) = (tag.kind, self.at + tag.len);
        match (block(tag.name), kind) {
            (Some(block), TagKind::Open | TagKind::SelfClosing) => {
                self.report_stray(events);
                self.at = end;
                self.open(block, kind, events);
            }
            // Some models write `<done></done>`.
            (Some(AirBlock { role: AirRole::Done, .. }), TagKind::Close) => self.at = end,
            (Some(_), TagKind::Close) => self.pass_over(end),
            (None, TagKind::Close) => match &self.state {
                State::Unknown(open) if open.eq_ignore_ascii_case(tag.name) => {
                    self.at = end;
                    self.state = State::Between;
                }
                _ => self.pass_over(end),
            },
            (None, TagKind::Open | TagKind::SelfClosing) if matches!(self.state, State::Unknown(_)) => {
                self.pass_over(end);
            }
            (None, TagKind::Open | TagKind::SelfClosing) => {
                if kind == TagKind::Open {
                    self.state = State::Unknown(tag.name.to_owned());
                }
                self.report_stray(events);
                self.report_unknown(end, events);
                self.at = end;
            }
        }
        Progress::Advanced
    }

    fn open(&mut self, block: &AirBlock, kind: TagKind, events: &mut Vec<EngineEvent>) {
        self.state = match (block.role, kind) {
            (AirRole::Done, _) => {
                if !self.done {
                    events.push(EngineEvent::Stop);
                }
                self.done = true;
                State::Between
            }
            (AirRole::TypeScript, TagKind::SelfClosing) => {
                self.has_code = true;
                events.push(EngineEvent::TypeScript { content: String::new() });
                State::Between
            }
            (_, TagKind::SelfClosing) => State::Between,
            (AirRole::Text, _) => State::Text { prose: Prose::new(block.tag), content: String::new() },
            (AirRole::Thinking, _) => State::Thinking(Prose::new(block.tag)),
            (AirRole::TypeScript, _) => State::Code(CodeScanner::new(
                block.tag,
                if self.unbalanced_blocks < MAX_UNBALANCED_BLOCKS {
                    CloseRule::Balanced
                } else {
                    CloseRule::FirstLiteral
                },
            )),
        };
    }

    fn read_prose(&mut self, ending: bool, events: &mut Vec<EngineEvent>) -> Progress {
        let rest = &self.buffer[self.at..];
        let (State::Text { prose, .. } | State::Thinking(prose)) = &mut self.state else { return Progress::Advanced };
        let piece = prose.read(rest, ending);
        let tag = prose.tag();
        let delta = &rest[piece.content];
        self.at += piece.consumed;
        if let State::Text { content, .. } = &mut self.state
            && !delta.is_empty()
        {
            content.push_str(delta);
            events.push(EngineEvent::TextDelta { content: delta.to_owned() });
        }
        if !piece.closed && !ending {
            return Progress::Starved;
        }
        let content = match std::mem::take(&mut self.state) {
            State::Text { content, .. } => content,
            _ => String::new(),
        };
        let incomplete = (!piece.closed).then(|| incomplete_block(tag, &content));
        if !content.is_empty() {
            events.push(EngineEvent::Text { content });
        }
        events.extend(incomplete);
        Progress::Advanced
    }

    fn read_code(&mut self, ending: bool, events: &mut Vec<EngineEvent>) -> Progress {
        let rest = &self.buffer[self.at..];
        let State::Code(scanner) = &mut self.state else { return Progress::Advanced };
        let close = match scanner.scan(rest, ending) {
            Scan::Closed(close) => close,
            Scan::Unbalanced(close) => {
                self.unbalanced_blocks += 1;
                close
            }
            Scan::Open if ending => {
                events.push(incomplete_block(scanner.tag(), rest));
                self.at = self.buffer.len();
                self.state = State::Between;
                return Progress::Advanced;
            }
            Scan::Open => return Progress::Starved,
        };
        let content = &rest[..close.start];
        let content = trim_trailing_newline(&content[leading_newline(content)..]);
        events.push(EngineEvent::TypeScript { content: content.to_owned() });
        self.has_code = true;
        self.at += close.end;
        self.state = State::Between;
        Progress::Advanced
    }

    /// Goes past what is no block, up to `end`.
    fn pass_over(&mut self, end: usize) {
        if matches!(self.state, State::Between) {
            self.stray.add(&self.buffer[self.at..end]);
        }
        self.at = end;
    }

    fn report_stray(&mut self, events: &mut Vec<EngineEvent>) {
        if let Some(text) = self.stray.take() {
            let message = "There is text outside of blocks, which nobody sees. What is meant for the user belongs in \
                           <text>…</text>.";
            events.push(violation(STRAY_TEXT, message, Some(&text)));
        }
    }

    /// Reports the tag between `at` and `end`.
    fn report_unknown(&mut self, end: usize, events: &mut Vec<EngineEvent>) {
        self.unknown_blocks += 1;
        if self.unknown_blocks <= MAX_REPORTED_UNKNOWN_BLOCKS {
            let tag = &self.buffer[self.at..end];
            let known = AIR_BLOCKS.iter().map(|block| format!("<{}>", block.tag)).collect::<Vec<_>>().join(", ");
            let message = format!("There is no such block; what it holds was dropped. Blocks are {known}.");
            events.push(violation(UNKNOWN_BLOCK, message, Some(tag)));
        }
    }
}

/// The block whose tag is `name`, in any case.
fn block(name: &str) -> Option<&'static AirBlock> {
    AIR_BLOCKS.iter().find(|block| block.tag.eq_ignore_ascii_case(name))
}

fn incomplete_block(tag: &str, content: &str) -> EngineEvent {
    violation(INCOMPLETE_BLOCK, format!("The message ended inside <{tag}>: </{tag}> is missing."), Some(content))
}

/// The first text outside of blocks, as much of it as a report quotes.
#[derive(Debug, Default)]
struct Stray {
    text: String,
    chars: usize,
    reported: bool,
}

impl Stray {
    fn add(&mut self, text: &str) {
        if self.reported || self.chars > EXCERPT_CHARS {
            return;
        }
        let text = if self.text.is_empty() { text.trim_start() } else { text };
        for char in text.chars().take(EXCERPT_CHARS + 1 - self.chars) {
            self.text.push(char);
            self.chars += 1;
        }
    }

    /// The text, once a message.
    fn take(&mut self) -> Option<String> {
        if self.reported || self.text.is_empty() {
            return None;
        }
        self.reported = true;
        Some(std::mem::take(&mut self.text))
    }
}
