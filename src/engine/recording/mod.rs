//! Recordings of a provider's calls: what was asked and what was answered, attempt by attempt, so that it can be
//! answered again without the provider.
//!
//! A recording is a file of JSON lines, one an attempt, in the order in which the attempts ended.

mod attempt;
mod record;
mod replay;

pub use record::Recording;
pub(super) use record::RecordingProvider;
pub(super) use replay::ReplayProvider;
