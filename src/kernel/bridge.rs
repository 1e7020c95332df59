//! The capsule's way to the kernel: every tool call of a block passes here, and every event of the capsule.

use axon_capsule::{BoxFuture, CapsuleHost, Datum, ToolCall, ToolError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::Recorder;
use crate::tools::{ToolObserver, Toolbox};

/// What a capsule of one session asks of the kernel.
pub(crate) struct CapsuleBridge {
    recorder: Recorder,
    toolbox: Toolbox,
}

impl CapsuleBridge {
    pub(crate) fn new(recorder: Recorder, toolbox: Toolbox) -> Self {
        Self { recorder, toolbox }
    }
}

impl CapsuleHost for CapsuleBridge {
    fn call_tool(&self, call: ToolCall, cancel: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>> {
        Box::pin(async move { self.toolbox.call(call, &self.recorder, cancel).await })
    }

    fn event(&self, kind: &'static str, data: Map<String, Value>) {
        self.recorder.emit(kind, Value::Object(data));
    }
}

impl ToolObserver for Recorder {
    fn record(&self, kind: &'static str, data: Value) {
        self.emit(kind, data);
    }

    /// The log is on disk before anything outside is changed.
    fn before_effect(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(async move {
            self.log().sync().await.map_err(|error| ToolError {
                name: "Error".into(),
                message: format!("the session log could not be written, so nothing was done: {error}"),
                code: Some("SESSION_LOG_FAILED".into()),
            })
        })
    }
}
