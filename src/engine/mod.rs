//! Engines: inference, wire formats, providers.
//!
//! An [`Engine`] makes calls to one [`Provider`] of models. Each call is an inference: attempts with retries, a
//! [`Decoder`] for the format that the cognet asked for, and telemetry. Providers only make single attempts.

mod air;
mod decoder;
mod fault;
mod fenced;
mod handle;
mod inference;
mod openai;
mod provider;
mod raw;
mod recording;
mod retry;
mod script;
mod spec;
mod telemetry;

pub use decoder::{Decoder, MessageEnd, decoder};
pub use fault::{Fault, FaultCode};
pub use handle::Engine;
pub(crate) use inference::failure;
pub use provider::{ModelCall, ModelEvent, ModelStream, Provider};
pub use recording::Recording;
pub use spec::{EngineConfigError, EngineSpec, Timeouts};
pub(crate) use telemetry::NoFacts;
pub use telemetry::{SessionFacts, Telemetry};
