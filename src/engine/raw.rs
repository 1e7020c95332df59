//! The `raw` format: the message is one text, and nothing in it means anything else.

use axon_runtime::EngineEvent;

use super::decoder::{Decoder, MessageEnd};

#[derive(Debug, Default)]
pub(super) struct RawDecoder {
    content: String,
}

impl Decoder for RawDecoder {
    fn feed(&mut self, piece: &str, events: &mut Vec<EngineEvent>) {
        if !piece.is_empty() {
            self.content.push_str(piece);
            events.push(EngineEvent::TextDelta { content: piece.to_owned() });
        }
    }

    fn finish(&mut self, _: MessageEnd, events: &mut Vec<EngineEvent>) {
        if !self.content.is_empty() {
            events.push(EngineEvent::Text { content: std::mem::take(&mut self.content) });
        }
    }
}
