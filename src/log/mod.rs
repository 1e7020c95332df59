//! The session log: one append-only file of JSON envelopes for each session, one writer, `time.seq` the only order.
//!
//! [`SessionLog`] is the writer and what the kernel holds; [`SessionReader`], [`Follow`], [`list_sessions`] and
//! [`check`] read without a lock. Nothing but the file is authoritative: indexes and rings are rebuilt from it.

mod check;
mod disk;
mod entries;
mod envelope;
mod error;
#[cfg(test)]
mod faults;
mod file;
mod follow;
mod id;
mod index;
mod inputs;
mod keeper;
mod listing;
mod lock;
mod observer;
mod open;
mod prune;
mod reader;
mod scan;
mod session;
mod writer;

pub use check::{Fault, FaultKind, Repair, Report, check, repair};
pub use entries::Entries;
pub use envelope::{Context, ENVELOPE_VERSION, Envelope, Event, Time, is_entry_type};
pub use error::{Holder, LogError};
pub use file::MAX_LINE_BYTES;
pub use follow::Follow;
pub use id::SessionId;
pub(crate) use inputs::InputFolder;
pub use inputs::{ENGINE_INPUT, InputExpander};
pub use keeper::Fsync;
pub use listing::{SessionInfo, last_session, last_woken_session, list_sessions, session_path};
pub(crate) use lock::leave_held_sessions;
pub use observer::{Lagged, Observer};
pub use open::Opened;
pub use prune::remove_session;
pub use reader::{Line, SessionReader};
pub use session::SessionLog;
