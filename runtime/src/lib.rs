//! The Luau host: loads cognets into sandboxed VMs and hands them the seven verbs of a [`Kernel`].

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod abort;
pub mod air;
mod brain;
mod clock;
mod config;
mod error;
mod host;
mod json;
mod kernel;
mod limits;
mod meter;
mod nearest;
mod nothing;
mod source;
mod turn;
mod vm;

/// The globals of a cognet as a luau-lsp definition file.
pub const LUAU_DECLARATIONS: &str = include_str!("../luau/kernel.d.luau");

pub use abort::{AbortController, AbortSignal};
pub use brain::{Brain, WakeReport, read_config};
pub use config::{CognetConfig, Mode};
pub use error::{CognetError, Location, WakeFailure};
pub use kernel::{
    ABI_VERSION, BoxFuture, Done, EngineEvent, Entry, EntryTime, EventStream, Format, Kernel, Message, Role, RunError,
    RunErrorKind, RunResult, Scope, ScopeMember, ScopeModule, StreamRequest, Usage, VerbError,
};
pub use limits::Limits;
pub use source::CognetSource;
