//! What goes wrong with a cognet, as people and programs are told.

use std::fmt;

use serde::Serialize;

/// The codes of [`CognetError::code`] that the host itself gives.
pub(crate) mod code {
    pub const NOT_FOUND: &str = "COGNET_NOT_FOUND";
    pub const INVALID: &str = "COGNET_INVALID";
    pub const ABI_MISMATCH: &str = "COGNET_ABI_MISMATCH";
    pub const NO_LOOP: &str = "COGNET_NO_LOOP";
    pub const SYNTAX: &str = "COGNET_SYNTAX";
    pub const RUNTIME: &str = "COGNET_RUNTIME";
    pub const MEMORY: &str = "COGNET_MEMORY";
    pub const CPU: &str = "COGNET_CPU";
    pub const INTERRUPTED: &str = "INTERRUPTED";
    pub const OUTSIDE_WAKE: &str = "SYSCALL_OUTSIDE_WAKE";
    pub const OUTPUT_INVALID: &str = "OUTPUT_INVALID";
    pub const ARGUMENT_INVALID: &str = "ARGUMENT_INVALID";
    pub const UNKNOWN_FIELD: &str = "UNKNOWN_FIELD";
    pub const JSON_INVALID: &str = "JSON_INVALID";
    pub const REQUIRE_REFUSED: &str = "REQUIRE_REFUSED";
    pub const REQUIRE_NOT_FOUND: &str = "REQUIRE_NOT_FOUND";
}

/// A place in a cognet's own source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Location {
    /// For example `cognets/mind/src/main.lua`, or `@axon/zero/src/main.lua` for a cognet in the binary.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// The line itself, without the space around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_line: Option<String>,
}

/// Why a cognet was not loaded or a wake failed.
///
/// `code` is one of the contract's (`COGNET_SYNTAX`, `COGNET_CPU`, ...), the code of a verb's error that the cognet did
/// not catch, or `COGNET_RUNTIME`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CognetError {
    pub code: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Location>,
    /// The cognet's and the libraries' frames, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traceback: Vec<String>,
    /// The `phase` that was running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// The tick of the wake, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tick: Option<u32>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl CognetError {
    pub(crate) fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
            at: None,
            traceback: Vec::new(),
            phase: None,
            tick: None,
            hint: hint(code).map(str::to_owned),
        }
    }

    pub(crate) fn at(mut self, location: Location) -> Self {
        self.at = Some(location);
        self
    }
}

impl fmt::Display for CognetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        match &self.at {
            Some(at) => write!(f, " (at {}:{})", at.file, at.line),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CognetError {}

/// How a wake ended that did not converge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WakeFailure {
    #[error("{error}")]
    Failed { error: CognetError, ticks: u32 },
    #[error("interrupted: {reason}")]
    Interrupted { reason: String, ticks: u32 },
}

fn hint(code: &str) -> Option<&'static str> {
    Some(match code {
        code::NO_LOOP => "call loop(function(wake) ... wake.stop() end) once at the end of the main file",
        code::CPU => "call a verb that waits, do less per tick, or raise [cognet] cpu_ms in axon.toml",
        code::MEMORY => "keep less, or raise [cognet] memory_mb in axon.toml",
        "COGNET_MAX_TICKS" => "call wake.stop() once there is nothing left to do, or raise maxTicksPerWake",
        "COGNET_LOOP_TWICE" => "keep one loop and put both bodies into it",
        code::ABI_MISMATCH => "port the cognet to this kernel's ABI, then change abi in its config",
        code::OUTSIDE_WAKE => "call it from the loop, or from a wake or tick hook",
        _ => return None,
    })
}
