//! Why a block is stopped, in one value that both ends share.

use crate::{BlockError, BlockErrorKind, Limits};

/// Why a block was stopped. Set once; what a caller sees is derived from it at the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    OwnTime,
    TotalTime,
    Interrupt,
    OutOfMemory,
    TooManyToolCalls,
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
                Some("OUT_OF_MEMORY"),
                format!(
                    "the block needed more than {} MiB (heap and array buffers together). Work on less \
                     data at a time.",
                    limits.memory_bytes >> 20
                ),
            ),
            Self::TooManyToolCalls => (
                BlockErrorKind::Exception,
                Some("TOO_MANY_TOOL_CALLS"),
                format!("the block made more than {} tool calls. Ask for more with each call.", limits.max_tool_calls),
            ),
        };
        BlockError { kind, message, code: code.map(str::to_owned) }
    }
}
