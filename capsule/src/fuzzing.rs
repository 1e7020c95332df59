//! What fuzz targets drive: everything of the capsule that reads bytes of others'.

use serde_json::Value;

use crate::{
    Bindings, Datum,
    wire::{DecodeError, Decoder, Encoder, MAX_FRAME_BYTES, ToHost, ToKernel, frame, nests_too_deep},
};

/// Reads bytes as a stream of frames and each frame as a message of either end. What is a message is the same after it
/// was written and read again.
pub fn frames(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some(body)) = frame::read(&mut rest) {
        assert!(body.len() <= MAX_FRAME_BYTES);
        messages(&body);
    }
    messages(bytes);
}

fn messages(body: &[u8]) {
    // By their bytes: numbers that are no numbers are not equal to themselves.
    if let Ok(message) = ToHost::decode(body) {
        let written = message.encode();
        assert_eq!(ToHost::decode(&written).map(|again| again.encode()), Ok(written));
    }
    if let Ok(message) = ToKernel::decode(body) {
        let written = message.encode();
        assert_eq!(ToKernel::decode(&written).map(|again| again.encode()), Ok(written));
    }
    if let Ok(bindings) = Bindings::decode(body) {
        let written = bindings.encode();
        assert_eq!(Bindings::decode(&written), Ok(bindings));
    }
}

/// Reads text as TypeScript, twice with the same outcome.
pub fn typescript(source: &str) {
    assert_eq!(crate::erase_types(source), crate::erase_types(source));
}

/// Takes a JSON value the way that tools' arguments and results go: nothing of it is lost on the wire.
pub fn value(json: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(json) else { return };
    let datum = Datum::from(value);
    let mut out = Encoder::default();
    out.datum(&datum);
    let written = out.finish();
    let mut body = Decoder::new(&written);
    let read = body.datum();
    if nests_too_deep(&datum) {
        assert_eq!(read, Err(DecodeError::TooDeep));
    } else {
        assert_eq!(read.map(|read| read.to_json()), Ok(datum.to_json()));
        assert_eq!(body.finish(), Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    /// Words that make up sources which nearly parse.
    const WORDS: &[&str] = &[
        "const ",
        "let ",
        "var ",
        "function ",
        "async ",
        "await ",
        "class ",
        "extends ",
        "enum ",
        "namespace ",
        "export ",
        "default ",
        "import ",
        "return ",
        "type ",
        "interface ",
        "declare ",
        "new ",
        "yield ",
        "if",
        "else ",
        "for",
        "try ",
        "catch ",
        "a",
        "b",
        "x1",
        "$expose",
        "1",
        "0n",
        "'s'",
        "`t${",
        "}`",
        "/r/g",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "<",
        ">",
        "=>",
        "=",
        ":",
        ";",
        ",",
        ".",
        "...",
        "?",
        "?.",
        "!",
        "+",
        "*",
        "@",
        "#p",
        "\n",
        "\r\n",
        "//c\n",
        "/*",
        "*/",
        "\u{0}",
        "é",
        "```ts\n",
        "```",
        "satisfies ",
        "as ",
        "static ",
        "get ",
        "readonly ",
    ];

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn any_source_is_erased_or_refused(words in prop::collection::vec(prop::sample::select(WORDS), 0..80)) {
            super::typescript(&words.concat());
        }

        #[test]
        fn any_text_is_erased_or_refused(source in "\\PC{0,200}") {
            super::typescript(&source);
        }

        #[test]
        fn any_bytes_are_frames_or_an_error(bytes in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..200)) {
            super::frames(&bytes);
        }

        #[test]
        fn any_json_crosses_unchanged(json in "[\\[\\]{}\":,0-9a-zu\\\\.e+-]{0,60}", wrapped in 0usize..200) {
            super::value(json.as_bytes());
            super::value(format!("{}{}", "[".repeat(wrapped), "]".repeat(wrapped)).as_bytes());
        }
    }
}
