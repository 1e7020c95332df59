//! The blocks of AIR, the wire format of the reference brain. The renderer (`@axon/air`) and the engine's decoder both
//! take them from here.

/// What a block of a model's message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirRole {
    /// Said to the user.
    Text,
    /// Code to run in the capsule.
    TypeScript,
    /// Dropped.
    Thinking,
    /// The model wants nothing more. Empty.
    Done,
}

impl AirRole {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::TypeScript => "typescript",
            Self::Thinking => "thinking",
            Self::Done => "done",
        }
    }
}

/// One block of the grammar: `<tag>…</tag>`, or `<tag/>` for [`AirRole::Done`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirBlock {
    /// In lower case; a model may write it in any case.
    pub tag: &'static str,
    pub role: AirRole,
}

/// Every block there is.
pub const AIR_BLOCKS: &[AirBlock] = &[
    AirBlock { tag: "text", role: AirRole::Text },
    AirBlock { tag: "typescript", role: AirRole::TypeScript },
    AirBlock { tag: "thinking", role: AirRole::Thinking },
    AirBlock { tag: "done", role: AirRole::Done },
];
