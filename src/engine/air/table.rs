//! The blocks of AIR: what the decoder recognises.

/// What a block's content is to the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirContent {
    /// Said to the user, streamed as it arrives.
    Text,
    /// Run in the capsule; its end is found by a TypeScript-aware scan.
    TypeScript,
    /// Dropped.
    Thinking,
    /// None: the tag alone says that the model is done.
    Done,
}

/// One kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AirBlock {
    /// The tag's name in lower case. Models may write it in any case.
    pub tag: &'static str,
    pub content: AirContent,
}

/// Every block of AIR. The contract that is shown to the model names just these.
pub const AIR_BLOCKS: &[AirBlock] = &[
    AirBlock { tag: "text", content: AirContent::Text },
    AirBlock { tag: "typescript", content: AirContent::TypeScript },
    AirBlock { tag: "thinking", content: AirContent::Thinking },
    AirBlock { tag: "done", content: AirContent::Done },
];

/// The block whose tag is `name`, in any case.
pub(super) fn block(name: &str) -> Option<&'static AirBlock> {
    AIR_BLOCKS.iter().find(|block| block.tag.eq_ignore_ascii_case(name))
}
