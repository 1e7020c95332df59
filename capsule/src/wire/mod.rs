//! The framed protocol between the kernel and the isolate process.

mod codec;
pub mod frame;
mod message;
mod tools;

pub use codec::{DecodeError, MAX_DATUM_DEPTH, nests_too_deep};
pub use message::{CallId, RunId, RunReport, RunRequest, ToHost, ToKernel};
