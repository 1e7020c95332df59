//! Turns as a terminal shows them: the speaker's name in the margin, the text beside it.

use anstyle::Style;
use serde_json::Value;

use super::turns::{Turn, Turns};
use crate::{
    cli::console::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, harmless},
    log::{ENGINE_INPUT, Envelope},
};

/// Columns that the speaker's name takes.
const MARGIN: usize = 9;
/// Lines of one result that are shown; the log holds the rest.
const MAX_RESULT_LINES: usize = 40;

/// Turns envelopes into text.
#[derive(Default)]
pub(super) struct Timeline {
    turns: Turns,
    /// Engine inputs in full, not as counts.
    inputs_in_full: bool,
}

impl Timeline {
    pub(super) fn with_inputs_in_full(inputs_in_full: bool) -> Self {
        Self { inputs_in_full, ..Self::default() }
    }

    /// What can be shown once this envelope is known.
    pub(super) fn next(&mut self, envelope: &Envelope) -> String {
        if envelope.kind == ENGINE_INPUT && !self.inputs_in_full {
            let seq = envelope.time.seq;
            return format!("{DIM}{seq:>MARGIN$} · {ENGINE_INPUT} {}{DIM:#}\n", counted(&envelope.data));
        }
        self.turns.next(envelope).iter().map(shown).collect()
    }

    /// What was still open.
    pub(super) fn finish(&mut self) -> String {
        self.turns.finish().iter().map(shown).collect()
    }
}

fn shown(turn: &Turn) -> String {
    match turn {
        Turn::Heard { text } => beside(BOLD, "you", text),
        Turn::Said { text, cut_off: false } => beside(GREEN, "agent", text),
        Turn::Said { text, cut_off: true } => beside(GREEN, "agent", &format!("{text} [cut off]")),
        Turn::Code { source } => beside(CYAN, "code", source),
        Turn::Result { content, error: None } => beside(GREEN, "ok", &shortened(content)),
        Turn::Result { content, error: Some(error) } => {
            let content = shortened(content);
            let between = if content.is_empty() { "" } else { "\n" };
            beside(RED, "failed", &format!("{content}{between}{error}"))
        }
        Turn::Stopped { reason } => beside(YELLOW, "stop", reason),
        Turn::Notice { message } => beside(YELLOW, "notice", message),
        Turn::Event { seq, kind, data } => {
            format!("{DIM}{seq:>MARGIN$} · {kind} {}{DIM:#}\n", harmless(&data.to_string()))
        }
    }
}

/// An engine's input in numbers: it may be as long as all that was said before.
fn counted(data: &Value) -> String {
    let elements = data.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (mut messages, mut known, mut chars) = (0, 0, 0);
    for element in elements {
        let content = element.get("content").and_then(Value::as_str);
        let count = element.get("count").and_then(Value::as_u64).unwrap_or(1);
        messages += count;
        chars += content.map_or(0, |content| content.chars().count());
        known += if content.is_none() { count } else { 0 };
    }
    let plural = if messages == 1 { "" } else { "s" };
    let known = if known == 0 { String::new() } else { format!(", {known} of them sent before") };
    format!("{messages} message{plural}{known}, {chars} characters new (--expand or --json has them)")
}

fn shortened(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    if lines.len() <= MAX_RESULT_LINES {
        return text.to_owned();
    }
    let left_out = lines.len() - MAX_RESULT_LINES;
    format!("{}\n… {left_out} more lines", lines[..MAX_RESULT_LINES].join("\n"))
}

fn beside(style: Style, who: &str, text: &str) -> String {
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
