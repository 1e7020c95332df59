//! The capsule: model-written TypeScript in isolates of a child process.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod api;
mod bindings;
mod datum;
mod engine;
#[doc(hidden)]
pub mod fuzzing;
mod handle;
mod host;
mod source;
mod stop;
mod tool_source;
mod wire;

pub use api::{
    Block, BlockError, BlockErrorKind, BoxFuture, CapsuleHost, Launch, Limits, Namespace, Outcome, ToolCall, ToolError,
};
pub use bindings::{Bindings, MAX_BINDINGS_BYTES, Rebinding};
pub use datum::Datum;
pub use engine::{ENGINE, Engine};
pub use handle::Capsule;
pub use host::serve;
pub use source::{SourceError, erase_types};
pub use tool_source::{ToolFile, ToolMember, ToolModule, ToolProblem, ToolReport};
pub use wire::DecodeError;

/// The hidden command that makes the program serve blocks instead: `capsule-host`.
pub const HOST_COMMAND: &str = "capsule-host";
