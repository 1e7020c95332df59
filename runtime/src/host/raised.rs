//! What a bound function ends with when it has no value.

use crate::{VerbError, error::code, json::JsonError, source::FileError};

/// Why a bound function has no value to answer.
#[derive(Debug)]
pub(crate) enum Raised {
    /// What the Luau half of the host raises as a value with a code and a message.
    Verb(VerbError),
    /// The VM itself failed beneath the function: its memory is used up, its stack has overflown, or it was told to end. That is
    /// raised as it is: whoever took it for the answer of a verb could go on after what must not be caught.
    Vm(mlua::Error),
}

impl Raised {
    /// The error of a verb under another code.
    pub fn under(self, code: &str) -> Self {
        match self {
            Self::Verb(error) => Self::Verb(VerbError::new(code, error.message)),
            Self::Vm(error) => Self::Vm(error),
        }
    }
}

impl From<VerbError> for Raised {
    fn from(error: VerbError) -> Self {
        Self::Verb(error)
    }
}

impl From<mlua::Error> for Raised {
    fn from(error: mlua::Error) -> Self {
        Self::Vm(error)
    }
}

impl From<JsonError> for Raised {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Refused(why) => Self::Verb(VerbError::new(code::JSON_INVALID, why)),
            JsonError::Vm(error) => Self::Vm(error),
        }
    }
}

impl From<FileError> for Raised {
    fn from(error: FileError) -> Self {
        Self::Verb(error.into())
    }
}
