//! What the kernel is told of every call.

use axon_capsule::{BoxFuture, ToolError};
use serde_json::Value;

/// The kernel's side of the tool path: it logs what it is told.
pub trait ToolObserver: Send + Sync + 'static {
    /// Telemetry: `capsule:tool:start|complete|failed`, `capsule:policy:denied|allowed|asked`.
    fn record(&self, kind: &'static str, data: Value);

    /// Awaited before each call that has effects outside (a file written, the network, a process), after its start
    /// was recorded. The kernel makes the log durable before the first one of a block. An error ends the call.
    fn before_effect(&self) -> BoxFuture<'_, Result<(), ToolError>>;
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl ToolObserver for Unobserved {
    fn record(&self, _kind: &'static str, _data: Value) {}

    fn before_effect(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}
