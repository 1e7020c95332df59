//! Server-sent events, from bytes in any split.

/// Bytes that one event may have.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Gathers the data of events. Their names, ids and comments are of no use here and dropped.
#[derive(Debug, Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    data: Option<Vec<u8>>,
    /// The last byte was a carriage return: a newline behind it ends no further line.
    after_return: bool,
    /// A byte order mark may stand before the first line.
    begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    #[error("an event is longer than {} MiB", MAX_EVENT_BYTES / (1024 * 1024))]
    TooLong,
    #[error("an event is not UTF-8")]
    NotUtf8,
}

impl SseParser {
    /// Takes the next bytes and appends the data of each event that they complete to `events`.
    pub fn feed(&mut self, mut bytes: &[u8], events: &mut Vec<String>) -> Result<(), SseError> {
        if let Some(&first) = bytes.first()
            && std::mem::take(&mut self.after_return)
            && first == b'\n'
        {
            bytes = &bytes[1..];
        }
        while let Some(end) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.extend_line(&bytes[..end])?;
            self.end_line(events)?;
            let is_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            match bytes.first() {
                Some(b'\n') if is_return => bytes = &bytes[1..],
                None => self.after_return = is_return,
                Some(_) => {}
            }
        }
        self.extend_line(bytes)
    }

    fn extend_line(&mut self, bytes: &[u8]) -> Result<(), SseError> {
        let data = self.data.as_ref().map_or(0, Vec::len);
        if self.line.len() + bytes.len() + data > MAX_EVENT_BYTES {
            return Err(SseError::TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self, events: &mut Vec<String>) -> Result<(), SseError> {
        let mut line = self.line.as_slice();
        if !self.begun {
            self.begun = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            if let Some(data) = self.data.take() {
                events.push(String::from_utf8(data).map_err(|_| SseError::NotUtf8)?);
            }
        } else if let Some(value) = line.strip_prefix(b"data:") {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        self.line.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(stream: &[u8], split: usize) -> Vec<String> {
        let mut parser = SseParser::default();
        let mut events = Vec::new();
        for bytes in stream.chunks(split) {
            parser.feed(bytes, &mut events).unwrap();
        }
        events
    }

    #[test]
    fn events_are_the_same_for_every_line_ending_and_every_split() {
        let stream = "\u{feff}: hello\ndata: ä1\ndata: 2\n\nevent: x\nid: 7\ndata:3\n\n\ndata:\n\ndata: never ended";
        for ending in ["\n", "\r\n", "\r"] {
            let stream = stream.replace('\n', ending);
            for split in 1..=stream.len() {
                assert_eq!(parse(stream.as_bytes(), split), ["ä1\n2", "3", ""], "{ending:?} {split}");
            }
        }
        for split in 1..=20 {
            assert_eq!(parse(b"data: 1\r\n\ndata: 2\n\r\n", split), ["1", "2"], "{split}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error() {
        assert_eq!(SseParser::default().feed(b"data: \xff\n\n", &mut Vec::new()), Err(SseError::NotUtf8));
    }

    #[test]
    fn an_event_without_end_is_an_error_and_not_all_of_the_memory() {
        let mut parser = SseParser::default();
        let megabyte = vec![b'x'; 1024 * 1024];
        let result = (0..16).try_for_each(|_| parser.feed(&megabyte, &mut Vec::new()));
        assert_eq!(result, Err(SseError::TooLong));
    }
}
