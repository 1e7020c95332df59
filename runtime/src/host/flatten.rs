//! Errors that came up through mlua, without the layers that it wraps around them.

use mlua::Error;

use super::Host;
use crate::{error::code, meter::Ended};

/// What lies below an error.
pub(crate) struct Flat {
    pub code: &'static str,
    pub message: String,
    /// The cognet must not go on: catching it raises it again.
    pub last: bool,
}

pub(crate) fn flatten(host: &Host, error: &Error) -> Flat {
    let root = root(error);
    if let Error::MemoryError(_) = root {
        return Flat { code: code::MEMORY, message: host.memory_message(), last: true };
    }
    match root.downcast_ref::<Ended>() {
        Some(Ended::Cpu) => Flat { code: code::CPU, message: host.cpu_message(), last: true },
        Some(Ended::Forced) => Flat { code: code::INTERRUPTED, message: host.forced_message(), last: true },
        None => Flat { code: code::RUNTIME, message: text(error), last: false },
    }
}

/// The first line that says what happened.
pub(crate) fn text(error: &Error) -> String {
    let text = match root(error) {
        Error::RuntimeError(message) | Error::MemoryError(message) | Error::SyntaxError { message, .. } => {
            message.clone()
        }
        other => other.to_string(),
    };
    // mlua appends a traceback of its own.
    text.split("\nstack traceback:").next().unwrap_or_default().trim().to_owned()
}

fn root(error: &Error) -> &Error {
    match error {
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => root(cause),
        other => other,
    }
}
