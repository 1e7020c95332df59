//! The capsule: model-written TypeScript in isolates of a child process.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod api;
mod datum;

pub use api::{
    Block, BlockError, BlockErrorKind, BoxFuture, CapsuleHost, Launch, Limits, Namespace, Outcome, ToolCall, ToolError,
};
pub use datum::Datum;
