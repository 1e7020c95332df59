//! From a model's TypeScript to JavaScript that an isolate can run.
//!
//! The result is an expression: an async function whose return value is the block's value. Positions survive through a
//! source map that speaks of the source as the model wrote it, fence included.

use std::collections::BTreeMap;

mod completion;
mod declarations;
mod fence;
mod names;
mod nesting;
mod signatures;
mod typescript;

pub use declarations::{describe, module_code};
pub use names::{Declared, Names, Shape};
pub use nesting::MAX_NESTING;
pub use typescript::{erase, erase_types};

/// The name under which a block's positions are reported: `block:LINE:COL`.
pub const SOURCE_NAME: &str = "block";

/// JavaScript with the way back to the model's positions.
#[derive(Debug)]
pub struct Erased {
    /// An expression: an async function, called with what takes the readers of its top-level names.
    pub code: String,
    /// A source map, as JSON.
    pub source_map: String,
    pub names: Names,
    /// The source of each namespace that is declared, as JavaScript.
    pub namespaces: BTreeMap<String, String>,
}

/// Why a source cannot be run, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    #[error("SyntaxError: {message}\n    at {SOURCE_NAME}:{line}:{column}{excerpt}")]
    Syntax {
        message: String,
        line: usize,
        column: usize,
        /// The line of the source with a mark under the place, or nothing.
        excerpt: String,
    },
    /// A static import, or a re-export from a module.
    #[error("SyntaxError: modules cannot be imported here\n    at {SOURCE_NAME}:{line}:{column}")]
    Import { line: usize, column: usize },
    #[error("SyntaxError: the source nests deeper than {MAX_NESTING} levels; use data or loops instead")]
    TooDeep,
}

/// The line that `offset` is in, with a mark under it; nothing for lines that are too long to show.
fn excerpt(source: &str, offset: usize) -> String {
    const MAX_LINE_BYTES: usize = 160;
    let offset = source.floor_char_boundary(offset);
    let start = source[..offset].rfind('\n').map_or(0, |at| at + 1);
    let line = source[start..].lines().next().unwrap_or_default();
    if line.trim().is_empty() || line.len() > MAX_LINE_BYTES {
        return String::new();
    }
    let before = line.get(..offset - start).unwrap_or(line);
    let indent: String = before.chars().map(|char| if char == '\t' { '\t' } else { ' ' }).collect();
    format!("\n    | {line}\n    | {indent}^")
}

/// One-based line and column (in UTF-16 units, as engines count) of a byte offset.
fn position(source: &str, offset: usize) -> (usize, usize) {
    let before = &source[..source.floor_char_boundary(offset)];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    (before.matches('\n').count() + 1, before[line_start..].encode_utf16().count() + 1)
}
