//! Turns as a terminal shows them: the speaker's name in the margin, the text beside it.

use anstyle::Style;

use super::turns::{Turn, Turns};
use crate::{
    cli::console::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, harmless},
    log::Envelope,
};

/// Columns that the speaker's name takes.
const MARGIN: usize = 9;
/// Lines of one result that are shown; the log holds the rest.
const MAX_RESULT_LINES: usize = 40;

/// Turns envelopes into text.
#[derive(Default)]
pub(super) struct Timeline {
    turns: Turns,
}

impl Timeline {
    /// What can be shown once this envelope is known.
    pub(super) fn next(&mut self, envelope: &Envelope) -> String {
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
