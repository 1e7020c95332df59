//! How tools fail, in the words that the model reads.

use std::io;

use axon_capsule::ToolError;

use crate::policy::{Denied, Refusal};

/// Why a tool gave no answer.
#[derive(Debug)]
pub(super) enum Failure {
    Denied(Denied),
    /// The call was cancelled or ran out of time; its caller knows which.
    Stopped,
    /// A tool of the user's threw.
    Thrown(ToolError),
    Fault(Fault),
}

/// What went wrong, without the call in front.
#[derive(Debug)]
pub(super) struct Fault {
    pub kind: FaultKind,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FaultKind {
    NotFound,
    AlreadyExists,
    IsAFolder,
    NotAFolder,
    NotAFile,
    NotText,
    NoMatch,
    TooLarge,
    InvalidPath,
    InvalidArgument,
    InvalidPattern,
    UnknownTool,
    TimedOut,
    Cancelled,
    Network,
    NotStarted,
    Io,
    Internal,
}

impl FaultKind {
    /// The class shown to the model and the code it can branch on.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::NotFound => ("NotFound", "NOT_FOUND"),
            Self::AlreadyExists => ("AlreadyExists", "ALREADY_EXISTS"),
            Self::IsAFolder => ("IsADirectory", "IS_A_DIRECTORY"),
            Self::NotAFolder => ("NotADirectory", "NOT_A_DIRECTORY"),
            Self::NotAFile => ("NotAFile", "NOT_A_FILE"),
            Self::NotText => ("NotText", "NOT_TEXT"),
            Self::NoMatch => ("NoMatch", "NO_MATCH"),
            Self::TooLarge => ("TooLarge", "TOO_LARGE"),
            Self::InvalidPath => ("InvalidPath", "INVALID_PATH"),
            Self::InvalidArgument => ("TypeError", "INVALID_ARGUMENT"),
            Self::InvalidPattern => ("SyntaxError", "INVALID_PATTERN"),
            Self::UnknownTool => ("TypeError", "UNKNOWN_TOOL"),
            Self::TimedOut => ("TimeoutError", "TOOL_TIMEOUT"),
            Self::Cancelled => ("AbortError", "CANCELLED"),
            Self::Network => ("NetworkError", "NETWORK"),
            Self::NotStarted => ("ProcessError", "NOT_STARTED"),
            Self::Io => ("IoError", "IO"),
            Self::Internal => ("InternalError", "INTERNAL"),
        }
    }

    pub fn because(self, detail: impl Into<String>) -> Fault {
        Fault { kind: self, detail: detail.into() }
    }
}

impl Fault {
    /// As it is thrown in the block. `call` is the call as the model wrote it.
    pub fn to_error(&self, call: &str) -> ToolError {
        let (name, code) = self.kind.names();
        ToolError { name: name.into(), message: format!("{call}: {}", self.detail), code: Some(code.into()) }
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Denied(denied) => Self::Denied(denied),
            Refusal::Invalid(detail) => FaultKind::InvalidPath.because(detail).into(),
            Refusal::NotFound { missing, nearest: Some(nearest) } => {
                FaultKind::NotFound.because(format!("{missing} does not exist; did you mean {nearest}?")).into()
            }
            Refusal::NotFound { missing, nearest: None } => {
                FaultKind::NotFound.because(format!("{missing} does not exist")).into()
            }
            Refusal::NotAFolder(path) => {
                FaultKind::NotAFolder.because(format!("{path} is not a folder, so nothing lies in it")).into()
            }
            Refusal::Io(error) => error.into(),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => FaultKind::NotFound.because("it was removed meanwhile"),
            io::ErrorKind::AlreadyExists => FaultKind::AlreadyExists.because("it exists already"),
            io::ErrorKind::PermissionDenied => {
                FaultKind::Io.because("the operating system refuses: the user who runs Axon lacks the rights")
            }
            _ => FaultKind::Io.because(format!("the operating system refuses: {error}")),
        };
        fault.into()
    }
}
