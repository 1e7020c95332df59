//! What a block printed, bounded while it is printed.

use std::mem;

/// Part of the output limit that a value may always claim, as a fraction.
const VALUE_SHARE: usize = 4;

/// Lines up to a limit; what does not fit is counted.
#[derive(Debug)]
pub struct Output {
    limit: usize,
    lines: Vec<String>,
    bytes: usize,
    left_out_lines: usize,
    left_out_bytes: usize,
}

/// Lines and value together, within the limit (markers aside).
#[derive(Debug, PartialEq, Eq)]
pub struct Finished {
    pub lines: Vec<String>,
    /// JSON text.
    pub value: Option<String>,
    pub truncated: bool,
}

impl Output {
    pub fn new(limit: usize) -> Self {
        Self { limit, lines: Vec::new(), bytes: 0, left_out_lines: 0, left_out_bytes: 0 }
    }

    /// Adds printed text, a line for each line break in it.
    pub fn print(&mut self, text: &str) {
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            let room = self.limit - self.bytes;
            if self.left_out_bytes == 0 && line.len() < room {
                self.bytes += line.len() + 1;
                self.lines.push(line.to_owned());
                continue;
            }
            let kept = if self.left_out_bytes == 0 { &line[..line.floor_char_boundary(room)] } else { "" };
            if !kept.is_empty() {
                self.bytes += kept.len();
                self.lines.push(kept.to_owned());
            }
            self.left_out_lines += 1;
            self.left_out_bytes += line.len() + 1 - kept.len();
        }
    }

    /// Bytes that a value may take: what the lines left, and a share in any case.
    pub fn value_room(&self) -> usize {
        (self.limit - self.bytes).max(self.limit / VALUE_SHARE)
    }

    /// Ends the output. A value larger than [`value_room`](Self::value_room) is kept as the beginning of its text.
    pub fn finish(&mut self, value: Option<Value>) -> Finished {
        let room = self.value_room();
        let (value, value_cut) = value.map(|value| value.within(room)).unzip();
        let value_cut = value_cut.unwrap_or(false);
        let lines_limit = self.limit.saturating_sub(value.as_ref().map_or(0, String::len).min(room));
        while self.bytes > lines_limit
            && let Some(line) = self.lines.pop()
        {
            self.bytes -= (line.len() + 1).min(self.bytes);
            self.left_out_lines += 1;
            self.left_out_bytes += line.len() + 1;
        }
        let lines_cut = self.left_out_lines > 0;
        let mut lines = mem::take(&mut self.lines);
        if lines_cut {
            lines.push(format!(
                "[output cut: {} bytes in {} lines left out; the limit is {} bytes]",
                self.left_out_bytes, self.left_out_lines, self.limit
            ));
        }
        Finished { lines, value, truncated: lines_cut || value_cut }
    }
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Is JSON; this is its text.
    Json(String),
    /// Is something else; this is what printing it gives.
    Text(String),
    /// The beginning of a text, either kind, that was not read to its end because it is over the limit anyhow.
    Beginning(String),
}

impl Value {
    /// As JSON text, and whether it had to be cut.
    fn within(self, room: usize) -> (String, bool) {
        let (text, at_least) = match self {
            Self::Json(json) if json.len() <= room => return (json, false),
            Self::Text(text) if text.len() <= room => return (json_string(&text), false),
            Self::Json(text) | Self::Text(text) => (text, ""),
            Self::Beginning(text) => (text, "more than "),
        };
        let kept = &text[..text.floor_char_boundary(room)];
        let left_out = text.len() - kept.len();
        (json_string(&format!("{kept}… [value cut: {at_least}{left_out} bytes left out]")), true)
    }
}

fn json_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_kept_as_it_is() {
        let mut output = Output::new(100);
        output.print("a\nb\n");
        output.print("");
        let finished = output.finish(Some(Value::Json("{\"a\":1}".into())));
        assert_eq!(
            finished,
            Finished {
                lines: vec!["a".into(), "b".into(), String::new()],
                value: Some("{\"a\":1}".into()),
                truncated: false
            }
        );
    }

    #[test]
    fn a_storm_of_lines_is_cut_with_a_counted_marker_and_bounded_memory() {
        let mut output = Output::new(100);
        for _ in 0..1_000 {
            output.print("0123456789\n");
        }
        assert!(output.lines.iter().map(String::len).sum::<usize>() <= 100);
        let finished = output.finish(None);
        assert!(finished.truncated);
        assert_eq!(
            finished.lines.last().map(String::as_str),
            Some("[output cut: 10900 bytes in 991 lines left out; the limit is 100 bytes]")
        );
    }

    #[test]
    fn a_value_keeps_its_share_beside_many_lines() {
        let mut output = Output::new(100);
        output.print(&"x\n".repeat(80));
        let finished = output.finish(Some(Value::Text("y".repeat(20))));
        assert_eq!(finished.value, Some(format!("\"{}\"", "y".repeat(20))));
        assert!(finished.truncated);
    }

    #[test]
    fn a_large_value_becomes_the_beginning_of_its_text() {
        let mut output = Output::new(10);
        let finished = output.finish(Some(Value::Json(format!("\"{}\"", "é".repeat(50)))));
        assert_eq!(finished.value.as_deref(), Some("\"\\\"éééé… [value cut: 93 bytes left out]\""));
        assert!(finished.truncated);
    }
}
