//! What the kernel and the capsule say to each other, as the kernel sees it.

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{Datum, ToolFile};

/// Limits of every block. The keys of `[capsule]` in `axon.toml` have the same names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A block's own time: waiting for the kernel's tools does not count.
    pub timeout: Duration,
    /// Everything from start to end of a block.
    pub total_timeout: Duration,
    /// JS heap and array buffers together, in bytes.
    pub memory_bytes: usize,
    /// Printed lines and value together, in bytes.
    pub max_output_bytes: usize,
    pub max_source_bytes: usize,
    pub max_concurrent_blocks: usize,
    /// Per block.
    pub max_tool_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(30_000),
            total_timeout: Duration::from_millis(300_000),
            memory_bytes: 256 << 20,
            max_output_bytes: 65_536,
            max_source_bytes: 1_048_576,
            max_concurrent_blocks: 8,
            max_tool_calls: 1_000,
        }
    }
}

/// How the isolate process is started: the program itself with a hidden command.
#[derive(Clone, Debug)]
pub struct Launch {
    pub program: PathBuf,
    pub args: Vec<String>,
}

/// One block to run.
#[derive(Clone, Debug)]
pub struct Block {
    /// The id of its `cognet:action:typescript` entry; names it in events and in tool calls.
    pub id: String,
    pub source: String,
    /// Tool namespaces that are in scope for it.
    pub namespaces: Arc<[Namespace]>,
    /// Files of `tools/` that it can import; none for what a model wrote.
    pub files: Arc<[ToolFile]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    /// The names of its functions.
    pub members: Vec<String>,
}

/// What one block came to.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// `Ok(None)` is a block without a value (or `undefined`).
    pub result: Result<Option<Value>, BlockError>,
    /// Lines as printed.
    pub stdout: Vec<String>,
    /// Output was cut at `max_output_bytes`; the cut is marked in what is left.
    pub truncated: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct BlockError {
    pub kind: BlockErrorKind,
    /// Name, message, position in the model's source, causes, hints.
    pub message: String,
    /// `OUT_OF_MEMORY`, `SOURCE_TOO_LARGE`, `TOO_MANY_TOOL_CALLS`, `CAPSULE_CRASHED`, or the error's own `code`.
    pub code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockErrorKind {
    Timeout,
    Interrupt,
    Exception,
}

/// A tool call that a block makes.
#[derive(Clone, Debug)]
pub struct ToolCall {
    /// The block that calls.
    pub block: String,
    pub namespace: String,
    pub function: String,
    pub args: Vec<Datum>,
}

/// Why a tool call failed: thrown in the block as an `Error` of this name with this `code`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct ToolError {
    /// The class shown to the model: `PolicyDenied`, `TypeError`, `NotFound`, ...
    pub name: String,
    pub message: String,
    pub code: Option<String>,
}

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What the capsule asks of the kernel.
pub trait CapsuleHost: Send + Sync + 'static {
    /// Executes a tool call, or refuses it. Cancelled when the block that made it ends.
    fn call_tool(&self, call: ToolCall, cancel: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>>;

    /// Something for the session's telemetry: `capsule:boot|restart|crash|exit`, `capsule:block:start|complete|failed`.
    fn event(&self, kind: &'static str, data: Map<String, Value>);
}
