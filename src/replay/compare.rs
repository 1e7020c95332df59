//! What a brain says now, beside what was said.

use std::{fmt::Write, time::Duration};

use axon_runtime::Entry;
use serde_json::Value;
use similar::TextDiff;

use super::{
    kernel::Own,
    wakes::{Ending, RecordedWake},
};
use crate::secrets::Secrets;

/// A difference that is not found by then is shown coarser than it is.
const MAX_DIFF_TIME: Duration = Duration::from_millis(500);

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// What became of a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It says and does what it did. It may have asked the model in other words.
    Same { asked: Vec<Difference> },
    Differs {
        /// In what it says and does, and in how it ends. Empty where it is asked otherwise and nothing else.
        said: Difference,
        asked: Vec<Difference>,
        /// Why the replay could not go on.
        left: Option<String>,
    },
    /// Not replayed, and why.
    Skipped(String),
}

/// Lines that differ, as `diff -u` shows them: `-` recorded, `+` replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference(pub String);

impl Difference {
    /// `None` where there is none.
    pub(super) fn of(recorded: &str, replayed: &str) -> Option<Self> {
        if recorded == replayed {
            return None;
        }
        // A line that goes back to its beginning would hide what it is compared with.
        let (recorded, replayed) = (recorded.replace('\r', "␍"), replayed.replace('\r', "␍"));
        let difference = TextDiff::configure().timeout(MAX_DIFF_TIME).diff_lines(&recorded, &replayed);
        Some(Self(difference.unified_diff().context_radius(CONTEXT_LINES).to_string()))
    }
}

/// What it means that a model is asked otherwise than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    /// It is told, and is no difference.
    Told,
    /// The wake differs.
    Counts,
}

pub(super) fn judge(
    recorded: &RecordedWake,
    replayed: &Own,
    ending: &Ending,
    asking: Asking,
    secrets: &Secrets,
) -> Verdict {
    let mut before = transcript(&recorded.entries, recorded.calls.len(), &recorded.ending);
    let mut now = transcript(&replayed.entries, replayed.calls, ending);
    // One that came in pieces was in no piece.
    secrets.hide_in_text(&mut before);
    secrets.hide_in_text(&mut now);
    let asked = replayed.asked_differently.clone();
    match (Difference::of(&before, &now), &replayed.left) {
        (None, None) if asking == Asking::Told || asked.is_empty() => Verdict::Same { asked },
        (said, left) => {
            let said = said.unwrap_or_else(|| Difference(String::new()));
            Verdict::Differs { said, asked, left: left.clone() }
        }
    }
}

/// Something that was said or done.
struct Part<'a> {
    what: &'static str,
    text: String,
    /// The group that more of it may come in.
    open: Option<&'a str>,
}

/// What a wake said and did, for people to read and to compare. Chunks that belong together are one text: how a model's
/// answer was split is not the brain's doing.
fn transcript(entries: &[Entry], calls: usize, ending: &Ending) -> String {
    let mut parts: Vec<Part> = Vec::new();
    for entry in entries {
        let content = entry.data["content"].as_str();
        match (entry.kind.as_str(), content) {
            ("cognet:output:text", Some(content)) => {
                let chunk = &entry.data["chunk"];
                let group = chunk["of"].as_str();
                let is_last = chunk["final"] == true;
                match parts.iter_mut().rfind(|part| group.is_some() && part.open == group) {
                    Some(part) => {
                        part.text.push_str(content);
                        part.open = group.filter(|_| !is_last);
                    }
                    None => {
                        parts.push(Part { what: "says:", text: content.to_owned(), open: group.filter(|_| !is_last) })
                    }
                }
            }
            ("cognet:action:typescript", Some(source)) => {
                parts.push(Part { what: "runs:", text: source.to_owned(), open: None });
            }
            ("cognet:action:result", _) => {
                parts.push(Part { what: "(a block has ended)", text: String::new(), open: None });
            }
            (kind, _) if kind.starts_with("cognet:output:") => {
                let text = format!("{kind} {}", without_group(&entry.data));
                parts.push(Part { what: "outputs:", text, open: None });
            }
            _ => {}
        }
    }
    let mut text = String::new();
    for Part { what, text: part, open } in &parts {
        text.push_str(what);
        // What is said stands further right than what is said of it, so that it cannot be taken for it.
        for (number, line) in part.split('\n').enumerate() {
            let before = if number == 0 { " " } else { "\n  " };
            let _ = if part.is_empty() { Ok(()) } else { write!(text, "{before}{line}") };
        }
        text.push_str(if open.is_some() { "\n(and was cut off)\n" } else { "\n" });
    }
    // Writing to a string cannot fail.
    let _ = match calls {
        0 => Ok(()),
        1 => writeln!(text, "(asks a model once)"),
        _ => writeln!(text, "(asks a model {calls} times)"),
    };
    let _ = match ending {
        Ending::Failed { code, message } => writeln!(text, "(fails: {code}: {message})"),
        Ending::Interrupted => writeln!(text, "(cannot go on)"),
        Ending::Complete | Ending::Missing => Ok(()),
    };
    text
}

/// A payload without the name of its group, which is another one each time.
fn without_group(data: &Value) -> Value {
    let mut data = data.clone();
    if let Some(chunk) = data.get_mut("chunk").and_then(Value::as_object_mut) {
        chunk.remove("of");
    }
    data
}

/// Whether two payloads of one type say the same.
pub(super) fn says_the_same(a: &Value, b: &Value) -> bool {
    without_group(a) == without_group(b) && a["chunk"].is_null() == b["chunk"].is_null()
}

/// A request as people read it: what `kernel:engine:start` says of it, then its messages.
pub(super) fn request_text(start: &Value, messages: &Value) -> String {
    let mut text = String::new();
    for key in ["model", "format", "maxTokens", "temperature"] {
        match &start[key] {
            Value::Null => {}
            Value::String(value) => drop(writeln!(text, "{key} {value}")),
            value => drop(writeln!(text, "{key} {value}")),
        }
    }
    for message in messages.as_array().into_iter().flatten() {
        let field = |key: &str| message[key].as_str().unwrap_or_default();
        let _ = writeln!(text, "[{}]\n{}", field("role"), field("content"));
    }
    text
}
