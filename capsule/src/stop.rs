//! Why a block is stopped, in one value that both ends share.

use crate::{BlockError, BlockErrorKind, Limits};

/// Codes that the capsule alone gives.
pub mod code {
    pub const CAPSULE_CRASHED: &str = "CAPSULE_CRASHED";
    pub const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY";
    pub const SOURCE_TOO_LARGE: &str = "SOURCE_TOO_LARGE";
    pub const TOO_MANY_TOOL_CALLS: &str = "TOO_MANY_TOOL_CALLS";

    /// Whether what a block throws may not carry this code: it would pass for a verdict of the capsule.
    pub fn is_reserved(code: &str) -> bool {
        [CAPSULE_CRASHED, OUT_OF_MEMORY, SOURCE_TOO_LARGE, TOO_MANY_TOOL_CALLS].contains(&code)
    }
}

/// Why a block was stopped. Set once; what a caller sees is derived from it at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    OwnTime,
    TotalTime,
    Interrupt,
    OutOfMemory,
    TooManyToolCalls,
    /// The engine gave up in the middle of the block.
    EngineFailed,
    /// Nothing is left that could settle the promise that the block awaits.
    NeverSettles,
}

impl StopReason {
    pub fn into_error(self, limits: &Limits) -> BlockError {
        let (kind, code, message) = match self {
            Self::OwnTime => (
                BlockErrorKind::Timeout,
                None,
                format!(
                    "the block ran for more than {} ms of its own time (waiting for tools does not count). \
                     Do less in one block, or bound the loop.",
                    limits.timeout.as_millis()
                ),
            ),
            Self::TotalTime => (
                BlockErrorKind::Timeout,
                None,
                format!(
                    "the block took more than {} ms, tools included. Do less in one block.",
                    limits.total_timeout.as_millis()
                ),
            ),
            Self::NeverSettles => (
                BlockErrorKind::Timeout,
                None,
                "the block awaits a promise that nothing can settle any more: no timer and no tool call is \
                 pending. Make sure that the promise is resolved or rejected on every path."
                    .to_owned(),
            ),
            Self::Interrupt => (BlockErrorKind::Interrupt, None, "the block was aborted".to_owned()),
            Self::OutOfMemory => (
                BlockErrorKind::Exception,
                Some(code::OUT_OF_MEMORY),
                format!(
                    "the block needed more than {} MiB (heap and array buffers together), or one object larger than the \
                     engine can hold. Work on less data at a time.",
                    limits.memory_bytes >> 20
                ),
            ),
            Self::EngineFailed => (
                BlockErrorKind::Exception,
                Some(code::CAPSULE_CRASHED),
                "the engine failed in the middle of the block: it asked for more than the engine can do, as a rule a text \
                 or an object of hundreds of megabytes. Work on less data at a time."
                    .to_owned(),
            ),
            Self::TooManyToolCalls => (
                BlockErrorKind::Exception,
                Some(code::TOO_MANY_TOOL_CALLS),
                format!("the block made more than {} tool calls. Ask for more with each call.", limits.max_tool_calls),
            ),
        };
        BlockError { kind, message, code: code.map(str::to_owned) }
    }
}
