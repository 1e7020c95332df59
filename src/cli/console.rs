//! Standard output: the answer and nothing else.

use std::{
    io::{self, IsTerminal, Write},
    time::{Duration, UNIX_EPOCH},
};

use anstyle::{AnsiColor, Style};

use super::interrupt::leave;

/// Where the answer goes. A reader that went away ends the program quietly, as people expect of `| head`.
pub(super) struct Console {
    out: anstream::AutoStream<io::Stdout>,
    terminal: bool,
    /// What waits to be written, when writing is put off.
    pending: Option<String>,
}

/// How much a buffered console puts off at most, in bytes.
const PENDING_BYTES: usize = 64 * 1024;

pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const GREEN: Style = AnsiColor::Green.on_default();
pub(super) const RED: Style = AnsiColor::Red.on_default();
pub(super) const CYAN: Style = AnsiColor::Cyan.on_default();
pub(super) const YELLOW: Style = AnsiColor::Yellow.on_default();

impl Console {
    pub(super) fn stdout() -> Self {
        Self { out: anstream::AutoStream::auto(io::stdout()), terminal: io::stdout().is_terminal(), pending: None }
    }

    /// For much at once: written in pieces, the last one by [`Console::flush`].
    pub(super) fn buffered() -> Self {
        Self { pending: Some(String::new()), ..Self::stdout() }
    }

    /// Text as it is, made harmless for a terminal.
    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        if self.terminal { self.raw(&harmless(text)) } else { self.raw(text) }
    }

    /// Our own text, styles included.
    pub(super) fn raw(&mut self, text: &str) -> io::Result<()> {
        let Some(pending) = &mut self.pending else { return self.write(text) };
        pending.push_str(text);
        if pending.len() < PENDING_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes what was put off.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let text = self.pending.as_mut().map(std::mem::take).unwrap_or_default();
        if text.is_empty() { Ok(()) } else { self.write(&text) }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => leave(0),
            Err(error) => Err(io::Error::new(error.kind(), format!("standard output could not be written: {error}"))),
            Ok(()) => Ok(()),
        }
    }

    pub(super) fn line(&mut self, text: &str) -> io::Result<()> {
        self.text(text)?;
        self.raw("\n")
    }
}

/// Control characters other than newline and tab are shown, not obeyed: what a model or a tool says cannot move the
/// cursor, set a title or write to a clipboard.
pub(super) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or('\u{fffd}'),
            '\x7f' => '\u{2421}',
            '\u{80}'..='\u{9f}' => '\u{fffd}',
            _ => c,
        })
        .collect()
}

/// Milliseconds since the Unix epoch as a date and a time of day, UTC.
pub(super) fn timestamp(ms: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

#[cfg(test)]
mod tests {
    use super::harmless;

    #[test]
    fn control_sequences_are_shown_and_not_obeyed() {
        assert_eq!(harmless("a\x1b[2Jb\tc\nd\u{9b}31m\x07"), "a␛[2Jb\tc\nd\u{fffd}31m␇");
    }
}
