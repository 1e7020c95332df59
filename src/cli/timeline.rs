//! A session as a conversation: who said what, what was run, what came of it.

use anstyle::Style;
use serde_json::Value;

use super::{
    console::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, harmless},
    follow::spoken,
};
use crate::log::Envelope;

/// Columns that the speaker's name takes.
const MARGIN: usize = 9;
/// Lines of one result that are shown; the log holds the rest.
const MAX_RESULT_LINES: usize = 40;

/// Turns envelopes into text, chunk groups folded into one turn.
pub(super) struct Timeline {
    open: Option<Group>,
}

/// A chunk group that is still being spoken.
struct Group {
    id: String,
    text: String,
}

impl Timeline {
    pub(super) fn new() -> Self {
        Self { open: None }
    }

    /// What can be shown once this envelope is known.
    pub(super) fn next(&mut self, envelope: &Envelope) -> String {
        let data = &envelope.data;
        if let Some(text) = spoken(&envelope.kind, data) {
            return self.speak(&text, data);
        }
        let mut shown = if envelope.is_entry() { self.finish() } else { String::new() };
        shown.push_str(&match envelope.kind.as_str() {
            "cognet:action:typescript" => turn(CYAN, "code", text_at(data, "content")),
            "cognet:action:result" => result(data),
            "system:interrupt" => turn(YELLOW, "stop", text_at(data, "reason")),
            "system:notice" => turn(YELLOW, "notice", text_at(data, "message")),
            kind if kind.starts_with("stimulus:") => turn(BOLD, "you", &heard(data)),
            kind => telemetry(envelope.time.seq, kind, data),
        });
        shown
    }

    /// What was still open.
    pub(super) fn finish(&mut self) -> String {
        match self.open.take() {
            Some(group) => turn(GREEN, "agent", &format!("{} [cut off]", group.text)),
            None => String::new(),
        }
    }

    fn speak(&mut self, text: &str, data: &Value) -> String {
        let Some(chunk) = data.get("chunk") else {
            return self.finish() + &turn(GREEN, "agent", text);
        };
        let id = text_at(chunk, "of");
        let mut shown = String::new();
        if self.open.as_ref().is_some_and(|group| group.id != id) {
            shown = self.finish();
        }
        let group = self.open.get_or_insert_with(|| Group { id: id.to_owned(), text: String::new() });
        group.text.push_str(text);
        if chunk.get("final").and_then(Value::as_bool) == Some(true)
            && let Some(group) = self.open.take()
        {
            shown.push_str(&turn(GREEN, "agent", &group.text));
        }
        shown
    }
}

fn text_at<'a>(data: &'a Value, field: &str) -> &'a str {
    data.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A stimulus of any kind in words.
fn heard(data: &Value) -> String {
    match data.get("content").and_then(Value::as_str) {
        Some(content) => content.to_owned(),
        None => data.to_string(),
    }
}

fn result(data: &Value) -> String {
    let content = text_at(data, "content");
    let Some(error) = data.get("error") else {
        return turn(GREEN, "ok", &shortened(content));
    };
    let mut text = shortened(content);
    if !text.is_empty() {
        text.push('\n');
    }
    let kind = text_at(error, "kind");
    let code = error.get("code").and_then(Value::as_str).map(|code| format!(" {code}")).unwrap_or_default();
    text.push_str(&format!("{kind}{code}: {}", text_at(error, "message")));
    turn(RED, "failed", &text)
}

fn shortened(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    if lines.len() <= MAX_RESULT_LINES {
        return text.to_owned();
    }
    let left_out = lines.len() - MAX_RESULT_LINES;
    format!("{}\n… {left_out} more lines", lines[..MAX_RESULT_LINES].join("\n"))
}

/// One turn: the speaker's name in the margin, the text beside it.
fn turn(style: Style, who: &str, text: &str) -> String {
    let text = harmless(text);
    let mut shown = String::new();
    let mut lines = text.trim_end_matches('\n').split('\n');
    let first = lines.next().unwrap_or_default();
    shown.push_str(&format!("{style}{who:>MARGIN$}{style:#} {DIM}│{DIM:#} {first}\n"));
    for line in lines {
        shown.push_str(&format!("{:>MARGIN$} {DIM}│{DIM:#} {line}\n", ""));
    }
    shown
}

fn telemetry(seq: u64, kind: &str, data: &Value) -> String {
    format!("{DIM}{seq:>MARGIN$} · {kind} {}{DIM:#}\n", harmless(&data.to_string()))
}
