//! The framed protocol between the kernel and the isolate process.

mod codec;
pub mod frame;
mod message;
mod tools;

pub use codec::{DecodeError, Decoder, Encoder, MAX_DATUM_DEPTH, nests_too_deep};
pub use frame::MAX_FRAME_BYTES;
pub use message::{CallId, RunId, RunReport, RunRequest, ToHost, ToKernel};
