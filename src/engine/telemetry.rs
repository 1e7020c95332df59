//! What an engine tells the session log, and asks of it.

use serde_json::Value;

/// Takes the engine's telemetry, `kernel:engine:start|input|retry|complete|failed`.
pub trait Telemetry: Send + Sync + 'static {
    /// Records `data` as an event of type `kind`. All events of one call, retries included, share `span`.
    fn record(&self, kind: &'static str, data: Value, span: &str);
}

/// For an engine that is asked nothing.
pub(crate) struct NoFacts;

impl SessionFacts for NoFacts {
    fn last_result(&self) -> Option<String> {
        None
    }

    fn last_stimulus(&self) -> Option<String> {
        None
    }
}

/// What an engine asks of the session that it answers in.
pub trait SessionFacts: Send + Sync + 'static {
    /// Hides the secrets that the session knows of, in what is to be recorded or compared with what was.
    fn hide_secrets(&self, _json: &mut Value) {}

    /// The content of the newest `cognet:action:result`.
    fn last_result(&self) -> Option<String>;

    /// The content of the newest `stimulus:text`.
    fn last_stimulus(&self) -> Option<String>;
}
