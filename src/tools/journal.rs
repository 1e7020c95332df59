//! What the log is told of a call.

use std::time::{Duration, Instant};

use axon_capsule::{Datum, ToolCall, ToolError};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    ToolObserver,
    args::quote,
    fault::{Failure, Fault, FaultKind},
    limits::{MAX_LOGGED_CHARS, MAX_LOGGED_ITEMS},
    table::Need,
};

/// What is recorded of one call.
pub(super) struct Journal<'a> {
    pub call: &'a ToolCall,
    /// The call in short.
    pub label: &'a str,
    pub observer: &'a dyn ToolObserver,
}

impl Journal<'_> {
    pub fn start(&self) -> Running<'_> {
        let id = Uuid::now_v7().to_string();
        let args: Value = self.call.args.iter().map(shorten).collect();
        let mut data = self.about(&id);
        data["args"] = args;
        self.observer.record("capsule:tool:start", data);
        Running { journal: self, id, started: Instant::now(), ended: false }
    }

    fn about(&self, id: &str) -> Value {
        let ToolCall { block, namespace, function, .. } = self.call;
        json!({ "id": id, "block": block, "namespace": namespace, "fn": function })
    }

    pub fn policy(&self, kind: &'static str, rule: &str, detail: &str) {
        let data = json!({
            "block": self.call.block, "namespace": self.call.namespace, "fn": self.call.function,
            "rule": rule, "detail": detail,
        });
        self.observer.record(kind, data);
    }

    /// The error that the block sees; a denial is recorded.
    pub fn failure(&self, failure: Failure, stopped: Fault) -> ToolError {
        match failure {
            Failure::Denied(denied) => {
                let error = denied.to_error(self.label);
                self.policy("capsule:policy:denied", &denied.rule, &error.message);
                error
            }
            Failure::Stopped => stopped.to_error(self.label),
            Failure::Thrown(error) => ToolError { message: format!("{}: {}", self.label, error.message), ..error },
            Failure::Fault(fault) => fault.to_error(self.label),
        }
    }
}

/// A call that was started. Its end is recorded also when nobody waits for its answer any more.
pub(super) struct Running<'a> {
    journal: &'a Journal<'a>,
    id: String,
    started: Instant,
    ended: bool,
}

impl Running<'_> {
    pub fn end(mut self, error: Option<&ToolError>) {
        self.record(error);
    }

    fn record(&mut self, error: Option<&ToolError>) {
        self.ended = true;
        let mut data = self.journal.about(&self.id);
        data["durationMs"] = milliseconds(self.started.elapsed()).into();
        let kind = match error {
            None => "capsule:tool:complete",
            Some(error) => {
                data["error"] = json!({ "name": error.name, "code": error.code, "message": error.message });
                "capsule:tool:failed"
            }
        };
        self.journal.observer.record(kind, data);
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let error = FaultKind::Cancelled.because("cancelled").to_error(self.journal.label);
            self.record(Some(&error));
        }
    }
}

/// Milliseconds to the microsecond.
fn milliseconds(took: Duration) -> f64 {
    took.as_micros() as f64 / 1e3
}

/// The call in short: its name and what it is about, which are its paths or its first argument.
pub(super) fn label(needs: &[Need], call: &ToolCall) -> String {
    const MAX_CHARS: usize = 200;
    let subjects = needs.iter().map(|need| need.subjects()).max().unwrap_or(1);
    let shown = call.args.iter().take(subjects).map(|argument| match argument {
        Datum::String(text) => quote(text, MAX_CHARS),
        Datum::Undefined => String::new(),
        Datum::Array(items) => cut(&Value::from_iter(items.iter().map(Datum::to_json)).to_string(), MAX_CHARS),
        _ => "…".into(),
    });
    format!("{}.{}({})", call.namespace, call.function, shown.collect::<Vec<_>>().join(", "))
}

fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.into(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// An argument as the log keeps it.
fn shorten(argument: &Datum) -> Value {
    match argument {
        Datum::String(text) => match text.char_indices().nth(MAX_LOGGED_CHARS) {
            Some((cut, _)) => format!("{}… (+{} characters)", &text[..cut], text[cut..].chars().count()).into(),
            None => text.as_str().into(),
        },
        Datum::Array(items) => {
            let more = items.len().saturating_sub(MAX_LOGGED_ITEMS);
            let kept = items.iter().take(MAX_LOGGED_ITEMS).map(shorten);
            kept.chain((more > 0).then(|| format!("… (+{more} items)").into())).collect()
        }
        Datum::Object(fields) => {
            let more = fields.len().saturating_sub(MAX_LOGGED_ITEMS);
            let kept = fields.iter().take(MAX_LOGGED_ITEMS).map(|(name, value)| (name.clone(), shorten(value)));
            kept.chain((more > 0).then(|| ("…".into(), format!("(+{more} fields)").into()))).collect()
        }
        other => other.to_json(),
    }
}
