//! Decoders turn a model's text, as it arrives, into events.

use axon_runtime::{EngineEvent, Format};

use super::{air::AirDecoder, fenced::FencedDecoder, raw::RawDecoder};

/// Why a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageEnd {
    /// The model stopped of its own accord.
    Complete,
    /// The model was cut off at its limit of tokens.
    Truncated,
}

/// Decodes one message of a model.
///
/// A decoder is chunk-invariant: whatever the split of the message into pieces, the events but for the deltas are the
/// same, and the deltas of a text concatenate to its content. It never fails: what breaks the format becomes an
/// [`EngineEvent::OutputError`].
pub trait Decoder: Send {
    /// Takes the next piece of the message and appends the events that it decides to `events`.
    fn feed(&mut self, piece: &str, events: &mut Vec<EngineEvent>);

    /// Takes the end of the message. A decoder is not used afterwards.
    fn finish(&mut self, end: MessageEnd, events: &mut Vec<EngineEvent>);
}

/// A decoder for one message in `format`.
pub fn decoder(format: Format) -> Box<dyn Decoder> {
    match format {
        Format::Air => Box::new(AirDecoder::default()),
        Format::Fenced => Box::new(FencedDecoder::default()),
        Format::Raw => Box::new(RawDecoder::default()),
    }
}

/// Codes of [`EngineEvent::OutputError`].
pub(super) mod code {
    pub const INCOMPLETE_BLOCK: &str = "INCOMPLETE_BLOCK";
    pub const UNKNOWN_BLOCK: &str = "UNKNOWN_BLOCK";
    pub const STRAY_TEXT: &str = "STRAY_TEXT";
    pub const MISSING_DONE: &str = "MISSING_DONE";
    pub const TRUNCATED: &str = "TRUNCATED";
}

/// Characters of the model's text that a violation quotes.
pub(super) const EXCERPT_CHARS: usize = 120;

/// The event for a violation; `about` is the text that it quotes.
pub(super) fn violation(code: &str, message: impl Into<String>, about: Option<&str>) -> EngineEvent {
    EngineEvent::OutputError { code: code.to_owned(), message: message.into(), excerpt: about.map(excerpt) }
}

/// The start of `text`, without the white space around it, marked where it is cut.
pub(super) fn excerpt(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The length of the one newline at the start of `text`: 0, 1 or 2 bytes.
pub(super) fn leading_newline(text: &str) -> usize {
    match text.as_bytes() {
        [b'\n', ..] => 1,
        [b'\r', b'\n', ..] => 2,
        _ => 0,
    }
}

/// `text` without the one newline at its end.
pub(super) fn trim_trailing_newline(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(text) => text.strip_suffix('\r').unwrap_or(text),
        None => text,
    }
}
