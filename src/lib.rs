//! Axon hosts cognets: agent brains written as Luau scripts, each given only a table of seven verbs.
//!
//! An embedder calls [`init`] first in `main`, opens an [`Agent`] folder and a [`Session`] in it, admits stimuli and
//! wakes the brain. Everything that happens is in the session's log, which observers can follow.

#![deny(clippy::print_stderr, clippy::print_stdout)]

mod agent;
mod beats;
mod cognets;
mod files;
mod inbox;
mod json;
mod kernel;
mod replay;
mod session;
mod text;
mod watch;

pub mod cli;
pub mod config;
pub mod engine;
pub mod log;
pub mod policy;
pub mod secrets;
pub mod store;
pub mod tools;

pub use agent::{Agent, AgentError};
pub use beats::Beats;
pub use cognets::{BUNDLED, BundledCognet, CognetLookupError, Found};
pub use inbox::Inbox;
pub use session::{
    Candidate, CloseError, Demand, OpenError, Reload, ReloadError, Reloaded, Reloader, Session, SessionOptions, Survey,
    WakeOutcome, Workbench,
};
pub use watch::Watcher;

/// Must be the first call of `main`: in a process that was started as a capsule it serves blocks and never returns.
pub fn init() {
    if std::env::args_os().nth(1).is_some_and(|command| command == axon_capsule::HOST_COMMAND) {
        axon_capsule::serve();
    }
}
