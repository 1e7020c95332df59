//! A session as turns: who said what, what was run, what came of it. Chunk groups are folded.

use serde_json::Value;

use crate::{cli::follow::spoken, log::Envelope};

/// One turn of a conversation.
pub(super) enum Turn {
    /// What came to the agent.
    Heard {
        text: String,
    },
    /// What the agent said. `cut_off`: its chunk group was never closed.
    Said {
        text: String,
        cut_off: bool,
    },
    Code {
        source: String,
    },
    Result {
        content: String,
        error: Option<String>,
    },
    Stopped {
        reason: String,
    },
    Notice {
        message: String,
    },
    /// Anything that is no entry, or an entry of an unknown type.
    Event {
        seq: u64,
        kind: String,
        data: Value,
    },
}

/// Turns envelopes into turns.
#[derive(Default)]
pub(super) struct Turns {
    open: Option<Group>,
}

/// A chunk group that is still being spoken.
struct Group {
    id: String,
    text: String,
}

impl Turns {
    /// What can be told once this envelope is known.
    pub(super) fn next(&mut self, envelope: &Envelope) -> Vec<Turn> {
        let data = &envelope.data;
        if let Some(text) = spoken(&envelope.kind, data) {
            return self.speak(text, data);
        }
        let mut turns = Vec::new();
        if envelope.is_entry() {
            turns.extend(self.finish());
        }
        turns.push(match envelope.kind.as_str() {
            "cognet:action:typescript" => Turn::Code { source: text_at(data, "content") },
            "cognet:action:result" => Turn::Result { content: text_at(data, "content"), error: error_of(data) },
            "system:interrupt" => Turn::Stopped { reason: text_at(data, "reason") },
            "system:notice" => Turn::Notice { message: text_at(data, "message") },
            kind if kind.starts_with("stimulus:") => Turn::Heard { text: heard(data) },
            kind => Turn::Event { seq: envelope.time.seq, kind: kind.to_owned(), data: data.clone() },
        });
        turns
    }

    /// What was still open.
    pub(super) fn finish(&mut self) -> Option<Turn> {
        self.open.take().map(|group| Turn::Said { text: group.text, cut_off: true })
    }

    fn speak(&mut self, text: String, data: &Value) -> Vec<Turn> {
        let mut turns = Vec::new();
        let Some(id) = chunk_group(data) else {
            turns.extend(self.finish());
            turns.push(Turn::Said { text, cut_off: false });
            return turns;
        };
        if self.open.as_ref().is_some_and(|group| group.id != id) {
            turns.extend(self.finish());
        }
        let group = self.open.get_or_insert_with(|| Group { id: id.to_owned(), text: String::new() });
        group.text.push_str(&text);
        if data["chunk"].get("final").and_then(Value::as_bool) == Some(true)
            && let Some(group) = self.open.take()
        {
            turns.push(Turn::Said { text: group.text, cut_off: false });
        }
        turns
    }
}

/// The chunk group that an entry belongs to.
pub(super) fn chunk_group(data: &Value) -> Option<&str> {
    data.get("chunk").map(|chunk| chunk.get("of").and_then(Value::as_str).unwrap_or_default())
}

fn text_at(data: &Value, field: &str) -> String {
    data.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// A stimulus of any kind in words.
fn heard(data: &Value) -> String {
    match data.get("content").and_then(Value::as_str) {
        Some(content) => content.to_owned(),
        None => data.to_string(),
    }
}

fn error_of(data: &Value) -> Option<String> {
    let error = data.get("error")?;
    let code = error.get("code").and_then(Value::as_str).map(|code| format!(" {code}")).unwrap_or_default();
    Some(format!("{}{code}: {}", text_at(error, "kind"), text_at(error, "message")))
}
