//! The envelope: one line of the log.

use axon_runtime::Entry;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use axon_runtime::EntryTime as Time;

/// The version of the envelope that is written. Lines of another version are kept and passed over.
pub const ENVELOPE_VERSION: u32 = 1;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    pub v: u32,
    /// UUID v7.
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub time: Time,
    pub context: Context,
    #[serde(default)]
    pub data: Value,
}

/// Where an event belongs. Cognets never see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Context {
    pub agent_id: String,
    pub session_id: String,
    /// The wake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The engine call, its retries included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span_id: Option<String>,
}

impl Envelope {
    /// Whether cognets and users see it.
    pub fn is_entry(&self) -> bool {
        is_entry_type(&self.kind)
    }

    /// What a cognet is handed: no context.
    pub fn to_entry(&self) -> Entry {
        Entry { id: self.id.clone(), kind: self.kind.clone(), time: self.time, data: self.data.clone() }
    }
}

/// Whether a type belongs to the entries: the families that cognets and users see. All else is telemetry.
pub fn is_entry_type(kind: &str) -> bool {
    const FAMILIES: [&str; 4] = ["stimulus:", "cognet:output:", "cognet:action:", "system:"];
    FAMILIES.iter().any(|family| kind.starts_with(family))
}

/// What is asked to be logged. The log adds id, time and context.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub(super) kind: String,
    pub(super) data: Value,
    pub(super) run_id: Option<String>,
    pub(super) span_id: Option<String>,
}

impl Event {
    pub fn new(kind: impl Into<String>, data: Value) -> Self {
        Self { kind: kind.into(), data, run_id: None, span_id: None }
    }

    /// The wake that the event belongs to.
    pub fn run(mut self, run_id: impl Into<String>) -> Self {
        self.run_id = Some(run_id.into());
        self
    }

    /// The engine call that the event belongs to.
    pub fn span(mut self, span_id: impl Into<String>) -> Self {
        self.span_id = Some(span_id.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_envelope_is_spelled_as_the_format_says() {
        let envelope = Envelope {
            v: ENVELOPE_VERSION,
            id: "i".into(),
            kind: "cognet:output:text".into(),
            time: Time { ms: 1_785_156_432_071, seq: 42 },
            context: Context {
                agent_id: "a".into(),
                session_id: "s".into(),
                run_id: Some("r".into()),
                span_id: Some("p".into()),
            },
            data: json!({"content": "hi"}),
        };
        let line = r#"{"v":1,"id":"i","type":"cognet:output:text","time":{"ms":1785156432071,"seq":42},"context":{"agentId":"a","sessionId":"s","runId":"r","spanId":"p"},"data":{"content":"hi"}}"#;
        assert_eq!(serde_json::to_string(&envelope).unwrap(), line);
        assert_eq!(serde_json::from_str::<Envelope>(line).unwrap(), envelope);
    }

    #[test]
    fn entries_are_the_four_families_and_nothing_else() {
        for kind in ["stimulus:text", "cognet:output:field", "cognet:action:result", "system:notice"] {
            assert!(is_entry_type(kind), "{kind}");
        }
        for kind in ["cognet:system:start", "cognet:log:info", "cognet:outputs", "kernel:run:start", "system", ""] {
            assert!(!is_entry_type(kind), "{kind}");
        }
    }
}
