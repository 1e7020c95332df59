//! Tags, read from a buffer that may end in the middle of one.

/// Bytes from `<` to `>` of an opening tag, attributes included. Longer ones are not tags.
const MAX_OPEN_TAG_BYTES: usize = 512;
/// White space that a closing tag may have before its `>`, in bytes.
const MAX_CLOSE_TAG_SPACE_BYTES: usize = 16;

/// What the bytes from a `<` on are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reading<T> {
    Is(T),
    IsNot,
    /// More bytes are needed to tell.
    Undecided,
}

/// A tag outside of any known block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    pub name: &'a str,
    pub kind: TagKind,
    /// Bytes, from `<` to `>`.
    pub len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagKind {
    Open,
    Close,
    SelfClosing,
}

/// Reads the tag at the start of `text`, which begins with `<`. With `ending`, nothing follows `text`.
pub(super) fn read_tag(text: &str, ending: bool) -> Reading<Tag<'_>> {
    let bytes = text.as_bytes();
    let name_at = if bytes.get(1) == Some(&b'/') { 2 } else { 1 };
    let name_len = bytes[name_at.min(bytes.len())..].iter().take_while(|byte| is_name_byte(**byte)).count();
    let name_end = name_at + name_len;
    match bytes.get(name_at) {
        Some(first) if !first.is_ascii_alphabetic() => return Reading::IsNot,
        Some(_) => {}
        None => return undecided(ending),
    }
    match bytes.get(name_end) {
        Some(byte) if !matches!(byte, b'>' | b'/') && !byte.is_ascii_whitespace() => return Reading::IsNot,
        Some(_) => {}
        None if name_end < MAX_OPEN_TAG_BYTES => return undecided(ending),
        None => return Reading::IsNot,
    }

    let window = &bytes[..bytes.len().min(MAX_OPEN_TAG_BYTES)];
    let end = match tag_end(window, name_end) {
        TagEnd::At(end) => end,
        TagEnd::Broken => return Reading::IsNot,
        TagEnd::Open { .. } if !ending && bytes.len() < MAX_OPEN_TAG_BYTES => return Reading::Undecided,
        // A quote that nothing closes does not hide the end of the tag.
        TagEnd::Open { first_angle: Some(end) } => end,
        TagEnd::Open { first_angle: None } => return Reading::IsNot,
    };
    let kind = if name_at == 2 {
        TagKind::Close
    } else if bytes[end - 1] == b'/' {
        TagKind::SelfClosing
    } else {
        TagKind::Open
    };
    Reading::Is(Tag { name: &text[name_at..name_end], kind, len: end + 1 })
}

enum TagEnd {
    At(usize),
    /// Another `<` comes first.
    Broken,
    Open {
        first_angle: Option<usize>,
    },
}

/// Finds the `>` that ends a tag; one inside a quoted attribute value does not.
fn tag_end(window: &[u8], from: usize) -> TagEnd {
    let mut quote = None;
    let mut first_angle = None;
    for (index, &byte) in window.iter().enumerate().skip(from) {
        if byte == b'>' && first_angle.is_none() {
            first_angle = Some(index);
        }
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'>') => return TagEnd::At(index),
            (None, b'<') => return TagEnd::Broken,
            (None, b'"' | b'\'') if window[index - 1] == b'=' => quote = Some(byte),
            (None, _) => {}
        }
    }
    TagEnd::Open { first_angle }
}

/// Reads `</name>` at the start of `bytes`, in any case, white space before the `>` allowed. `Is` holds its length.
pub(super) fn read_close(bytes: &[u8], name: &str, ending: bool) -> Reading<usize> {
    let head = b"</".iter().chain(name.as_bytes());
    let head_len = 2 + name.len();
    if !head.zip(bytes).all(|(expected, byte)| expected.eq_ignore_ascii_case(byte)) {
        return Reading::IsNot;
    }
    let Some(tail) = bytes.get(head_len..) else { return undecided(ending) };
    let spaces = tail.iter().take(MAX_CLOSE_TAG_SPACE_BYTES + 1).take_while(|byte| byte.is_ascii_whitespace()).count();
    match tail.get(spaces) {
        _ if spaces > MAX_CLOSE_TAG_SPACE_BYTES => Reading::IsNot,
        Some(b'>') => Reading::Is(head_len + spaces + 1),
        Some(_) => Reading::IsNot,
        None => undecided(ending),
    }
}

fn undecided<T>(ending: bool) -> Reading<T> {
    if ending { Reading::IsNot } else { Reading::Undecided }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':')
}
