//! Which JavaScript engine runs the blocks.

use std::fmt;

/// A JavaScript engine that the capsule can be built on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    V8,
    QuickJs,
}

/// The one that this build has.
pub const ENGINE: Engine = if cfg!(feature = "v8") { Engine::V8 } else { Engine::QuickJs };

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::V8 => "v8",
            Self::QuickJs => "quickjs",
        })
    }
}
