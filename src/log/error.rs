//! What can go wrong with a session's log.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::SessionId;

/// What can go wrong with a session's log.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "`{name}` cannot name a session: {why}. Use up to 200 letters, digits, `-`, `_` and `.`, starting with a letter \
         or a digit"
    )]
    SessionId { name: String, why: String },

    /// There is one writer for each session.
    #[error("session {session} is held by {holder}. End it, or use another session")]
    Held { session: SessionId, holder: Holder },

    #[error("there is no session {session} in {}", dir.display())]
    NotFound { session: String, dir: PathBuf },

    /// A line that is no envelope, or not the one that belongs there.
    #[error(
        "{}:{line}: {why}. The file was left as it is; `axon log check --repair {}` keeps the good lines and moves the \
         bad ones aside",
        path.display(), session_of(path)
    )]
    Corrupt { path: PathBuf, line: u64, why: String },

    #[error("an event `{kind}` of {bytes} bytes is too large for the log: at most {limit} bytes")]
    TooLarge { kind: String, bytes: usize, limit: usize },

    #[error("an event `{kind}` nests lists and objects too deeply for the log: at most {limit} levels")]
    TooDeep { kind: String, limit: usize },

    /// A write or a sync failed. The session takes nothing more; what was acknowledged before is in the file.
    #[error(
        "session {session} cannot go on: writing {} failed: {cause}. What was acknowledged before is kept; remove the \
         cause, then resume the session",
        path.display()
    )]
    Broken { session: SessionId, path: PathBuf, cause: Arc<io::Error> },

    #[error("session {session} is closed")]
    Closed { session: SessionId },

    #[error("cannot {action} {}: {cause}", path.display())]
    Io { action: &'static str, path: PathBuf, cause: Arc<io::Error> },
}

impl LogError {
    /// A name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::SessionId { .. } => "SESSION_ID_INVALID",
            Self::Held { .. } => "SESSION_HELD",
            Self::NotFound { .. } => "SESSION_NOT_FOUND",
            Self::Corrupt { .. } => "LOG_CORRUPT",
            Self::TooLarge { .. } => "LOG_EVENT_TOO_LARGE",
            Self::TooDeep { .. } => "LOG_EVENT_TOO_DEEP",
            Self::Broken { .. } => "LOG_WRITE_FAILED",
            Self::Closed { .. } => "LOG_CLOSED",
            Self::Io { .. } => "LOG_IO",
        }
    }

    pub(super) fn not_found(path: &Path) -> Self {
        let dir = path.parent().unwrap_or(Path::new("."));
        Self::NotFound { session: session_of(path).into_owned(), dir: dir.to_owned() }
    }

    pub(super) fn io(action: &'static str, path: &Path, cause: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), cause: Arc::new(cause) }
    }
}

/// Who holds a session, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    ThisProcess,
    Process(u32),
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisProcess => write!(f, "this process ({})", std::process::id()),
            Self::Process(pid) => write!(f, "process {pid}"),
            Self::Unknown => f.write_str("another process"),
        }
    }
}

fn session_of(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_stem().unwrap_or_default().to_string_lossy()
}
