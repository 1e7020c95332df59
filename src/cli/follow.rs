//! What is printed while a session goes on: the answer as it streams, or envelopes.

use std::io;

use serde_json::Value;

use super::{args::Json, console::Console};
use crate::log::{Envelope, Observer};

/// What of a session goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum View {
    /// What the agent says.
    Answer,
    Envelopes(Json),
}

impl View {
    pub(super) fn of(json: Option<Json>) -> Self {
        json.map_or(Self::Answer, Self::Envelopes)
    }
}

/// Prints until the session is closed.
pub(super) async fn follow(mut observer: Observer, view: View) -> io::Result<()> {
    let mut printer = Printer::new(view);
    while let Some(next) = observer.next().await {
        // An observer that lagged goes on where it was: nothing is lost, since the log holds it.
        if let Ok(envelope) = next {
            printer.print(&envelope)?;
        }
    }
    printer.finish()
}

/// Prints envelopes of one session, one after another.
pub(super) struct Printer {
    console: Console,
    view: View,
    /// The chunk group whose text is being printed.
    open: Option<String>,
    at_line_start: bool,
}

impl Printer {
    pub(super) fn new(view: View) -> Self {
        Self { console: Console::stdout(), view, open: None, at_line_start: true }
    }

    pub(super) fn print(&mut self, envelope: &Envelope) -> io::Result<()> {
        match self.view {
            View::Envelopes(Json::Entries) if !envelope.is_entry() => Ok(()),
            View::Envelopes(_) => {
                let line = serde_json::to_string(envelope).map_err(io::Error::other)?;
                self.console.raw(&format!("{line}\n"))
            }
            View::Answer => self.answer(envelope),
        }
    }

    /// Ends a line that was left open.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        self.open = None;
        if !self.at_line_start {
            self.at_line_start = true;
            self.console.raw("\n")?;
        }
        Ok(())
    }

    fn answer(&mut self, envelope: &Envelope) -> io::Result<()> {
        let Some(text) = spoken(&envelope.kind, &envelope.data) else { return Ok(()) };
        let chunk = envelope.data.get("chunk");
        let group = chunk.and_then(|chunk| chunk.get("of")).and_then(Value::as_str);
        let closes = chunk.and_then(|chunk| chunk.get("final")).and_then(Value::as_bool).unwrap_or(group.is_none());
        if self.open.as_deref() != group {
            self.finish()?;
        }
        self.open = group.map(str::to_owned);
        if !text.is_empty() {
            self.console.text(&text)?;
            self.at_line_start = text.ends_with('\n');
        } else if group.is_none() {
            self.at_line_start = false;
        }
        if closes { self.finish() } else { Ok(()) }
    }
}

/// An output as text: what is said, or what stands for a picture, a sound or a reading.
pub(super) fn spoken(kind: &str, data: &Value) -> Option<String> {
    let field = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
    let described = |what: &str, note: &str| {
        if note.is_empty() {
            format!("[{what} {}]", field("ref"))
        } else {
            format!("[{what} {}: {note}]", field("ref"))
        }
    };
    Some(match kind {
        "cognet:output:text" => field("content").to_owned(),
        "cognet:output:audio" => described("audio", field("transcript")),
        "cognet:output:visual" => described(field("kind"), field("caption")),
        "cognet:output:field" => {
            let reading = data.get("reading")?;
            let value = reading.get("value").map(crate::kernel::text_of).unwrap_or_default();
            match reading.get("unit").and_then(Value::as_str) {
                Some(unit) => format!("{value} {unit}"),
                None => value,
            }
        }
        _ => return None,
    })
}
