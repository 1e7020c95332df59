//! The content of a block that is plain text up to its close tag.

use std::ops::Range;

use super::tag::{self, Reading};
use crate::engine::decoder::{leading_newline, trim_trailing_newline};

#[derive(Debug)]
pub(super) struct Prose {
    tag: &'static str,
    /// The newline that the block may begin with is behind us.
    begun: bool,
}

/// What one look at the undecided text gave. Offsets are bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProsePiece {
    /// Content that is now certain.
    pub content: Range<usize>,
    pub consumed: usize,
    pub closed: bool,
}

impl Prose {
    pub fn new(tag: &'static str) -> Self {
        Self { tag, begun: false }
    }

    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// Reads on in `text`, which begins where the last look stopped. What may yet be the last newline or the close tag
    /// stays unconsumed; with `ending`, nothing does.
    pub fn read(&mut self, text: &str, ending: bool) -> ProsePiece {
        let mut start = 0;
        if !self.begun {
            if matches!(text, "" | "\r") && !ending {
                return ProsePiece { content: 0..0, consumed: 0, closed: false };
            }
            self.begun = true;
            start = leading_newline(text);
        }

        let mut from = start;
        while let Some(angle) = text[from..].find('<').map(|offset| from + offset) {
            match tag::read_close(&text.as_bytes()[angle..], self.tag, ending) {
                Reading::Is(len) => {
                    let content = trim_trailing_newline(&text[start..angle]);
                    return ProsePiece { content: start..start + content.len(), consumed: angle + len, closed: true };
                }
                Reading::Undecided => {
                    let end = start + before_newline(&text[start..angle]).len();
                    return ProsePiece { content: start..end, consumed: end, closed: false };
                }
                Reading::IsNot => from = angle + 1,
            }
        }
        let rest = &text[start..];
        let (content, consumed) =
            if ending { (trim_trailing_newline(rest), text.len()) } else { (before_newline(rest), 0) };
        let end = start + content.len();
        ProsePiece { content: start..end, consumed: consumed.max(end), closed: false }
    }
}

/// `text` without what may be a newline, or the first half of one, at its end.
fn before_newline(text: &str) -> &str {
    match trim_trailing_newline(text) {
        all if all.len() == text.len() => text.strip_suffix('\r').unwrap_or(text),
        trimmed => trimmed,
    }
}
