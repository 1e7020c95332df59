//! The Luau host: loads cognets into sandboxed VMs and hands them the seven verbs of a [`Kernel`].

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod abort;
mod kernel;

pub use abort::{AbortController, AbortSignal};
pub use kernel::{
    ABI_VERSION, BoxFuture, Done, EngineEvent, Entry, EntryTime, EventStream, Format, Kernel, Message, Role, RunError,
    RunErrorKind, RunResult, Scope, ScopeMember, ScopeModule, StreamRequest, Usage, VerbError,
};
