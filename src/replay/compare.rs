//! What a brain says now, beside what was said.

use std::fmt::Write;

use axon_runtime::Entry;
use serde_json::Value;
use similar::TextDiff;

use super::{
    kernel::Own,
    wakes::{Ending, RecordedWake},
};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// What became of a wake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It says and does what it did. It may have asked the model in other words.
    Same { asked: Vec<Difference> },
    Differs {
        /// In what it says and does, and in how it ends.
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
        let difference = TextDiff::from_lines(recorded, replayed);
        Some(Self(difference.unified_diff().context_radius(CONTEXT_LINES).to_string()))
    }
}

pub(super) fn judge(recorded: &RecordedWake, replayed: &Own, ending: &Ending) -> Verdict {
    let before = transcript(&recorded.entries, recorded.calls.len(), &recorded.ending);
    let now = transcript(&replayed.entries, replayed.calls, ending);
    let asked = replayed.asked_differently.clone();
    match (Difference::of(&before, &now), &replayed.left) {
        (None, None) => Verdict::Same { asked },
        (said, left) => {
            let said = said.unwrap_or_else(|| Difference(String::new()));
            Verdict::Differs { said, asked, left: left.clone() }
        }
    }
}

/// What a wake said and did, for people to read and to compare. Chunks that belong together are one text: how a model's
/// answer was split is not the brain's doing.
fn transcript(entries: &[Entry], calls: usize, ending: &Ending) -> String {
    let mut parts: Vec<(Option<&str>, String)> = Vec::new();
    for entry in entries {
        let content = entry.data["content"].as_str();
        let group = entry.data["chunk"]["of"].as_str();
        match (entry.kind.as_str(), content) {
            ("cognet:output:text", Some(content)) => {
                let open = group.and_then(|_| parts.iter_mut().rfind(|(of, _)| *of == group));
                match open {
                    Some((_, text)) => text.push_str(content),
                    None => parts.push((group, format!("says: {content}"))),
                }
            }
            ("cognet:action:typescript", Some(source)) => parts.push((None, format!("runs:\n{source}"))),
            (kind, _) if kind.starts_with("cognet:output:") => {
                parts.push((None, format!("{kind} {}", without_group(&entry.data))));
            }
            _ => {}
        }
    }
    let mut text = String::new();
    for (_, part) in &parts {
        text.push_str(part);
        text.push('\n');
    }
    let _ = match calls {
        0 => Ok(()),
        1 => writeln!(text, "(asks a model once)"),
        _ => writeln!(text, "(asks a model {calls} times)"),
    };
    let _ = match ending {
        Ending::Failed(code) => writeln!(text, "(fails: {code})"),
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

/// The messages of a request as people read them.
pub(super) fn request_text(messages: &Value) -> String {
    let mut text = String::new();
    for message in messages.as_array().into_iter().flatten() {
        let field = |key: &str| message[key].as_str().unwrap_or_default();
        let _ = writeln!(text, "[{}]\n{}", field("role"), field("content"));
    }
    text
}
