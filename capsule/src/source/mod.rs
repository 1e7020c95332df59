//! From a model's TypeScript to JavaScript that an isolate can run.
//!
//! The result is an expression: an async function whose return value is the block's value. Positions survive through a
//! source map that speaks of the source as the model wrote it, fence included.

mod completion;
mod declarations;
mod fence;
mod nesting;
mod typescript;

pub use declarations::{describe, module_code};
pub use nesting::MAX_NESTING;
pub use typescript::{erase, erase_types};

/// The name under which a block's positions are reported: `block:LINE:COL`.
pub const SOURCE_NAME: &str = "block";

/// JavaScript with the way back to the model's positions.
#[derive(Debug)]
pub struct Erased {
    /// An expression: `(async () => { ... })`.
    pub code: String,
    /// A source map, as JSON.
    pub source_map: String,
}

/// Why a source cannot be run, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("SyntaxError: {message}\n    at {SOURCE_NAME}:{line}:{column}")]
    Syntax { message: String, line: usize, column: usize },
    /// A static import, or a re-export from a module.
    #[error("SyntaxError: modules cannot be imported here\n    at {SOURCE_NAME}:{line}:{column}")]
    Import { line: usize, column: usize },
    #[error("SyntaxError: the source nests deeper than {MAX_NESTING} levels; use data or loops instead")]
    TooDeep,
}

/// One-based line and column (in UTF-16 units, as engines count) of a byte offset.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].encode_utf16().count() + 1)
}
