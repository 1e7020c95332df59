//! The Luau host: loads cognets into sandboxed VMs and hands them the seven verbs of a [`Kernel`].
//!
//! A [`Brain`] is one loaded cognet. [`Brain::load`] reads its files (`source`), builds a VM (`vm`) whose globals are made in
//! Luau (`luau/host.luau`) over functions bound in Rust (`host`), and runs config, plugins, main and boot hooks.
//! [`Brain::wake`] takes a turn (`turn`): the VM runs on a thread of its own, its time is kept by whoever waits for it
//! (`meter`), and each verb that waits is raced against the wake's [`AbortSignal`]. Values cross as JSON (`json`).
//!
//! The crate knows nothing of what stands behind the trait: no engine, no log, no capsule.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod abort;
pub mod air;
mod brain;
mod clock;
mod config;
mod dry;
mod error;
mod host;
mod json;
mod kernel;
mod limits;
mod meter;
mod nearest;
mod own;
mod source;
mod turn;
mod types;
mod vm;

pub use abort::{AbortController, AbortSignal};
pub use brain::{Brain, WakeReport, read_config};
pub use config::{CognetConfig, Mode};
pub use dry::DryKernel;
pub use error::{CognetError, Location, WakeFailure};
pub use kernel::{
    ABI_VERSION, BoxFuture, Done, EngineEvent, Entries, Entry, EntryTime, EventStream, Format, Kernel, Message, Role,
    RunError, RunErrorKind, RunResult, Scope, ScopeMember, ScopeModule, StreamRequest, Usage, VerbError,
};
pub use limits::Limits;
pub use source::CognetSource;
pub use types::{AUTHOR_FILES, LUAU_DECLARATIONS};
