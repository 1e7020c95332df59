//! What a block printed, bounded while it is printed.

use std::mem;

/// Part of the output limit that a value may always claim, as a fraction.
const VALUE_SHARE: usize = 4;

/// Part of the output limit that one line may take, as a fraction: what comes after a long line is seen too.
const LINE_SHARE: usize = 2;

/// Lines up to a limit; what does not fit is counted.
#[derive(Debug)]
pub struct Output {
    limit: usize,
    lines: Vec<Line>,
    /// With a line break for each line.
    bytes: usize,
    left_out_lines: usize,
    left_out_bytes: usize,
}

/// A line, or the beginning of one.
#[derive(Debug)]
struct Line {
    text: String,
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
            let room = self.limit.saturating_sub(self.bytes + 1).min(self.limit / LINE_SHARE);
            let kept = &line[..line.floor_char_boundary(room)];
            if self.left_out_lines > 0 || self.bytes >= self.limit || (kept.is_empty() && !line.is_empty()) {
                self.leave_out(line.len());
                continue;
            }
            self.bytes += kept.len() + 1;
            self.lines.push(Line { text: kept.to_owned(), left_out_bytes: line.len() - kept.len() });
        }
    }

    /// Bytes that a value may take: what the lines left, and a share in any case.
    pub fn value_room(&self) -> usize {
        self.limit.saturating_sub(self.bytes).max(self.limit / VALUE_SHARE)
    }

    /// Ends the output. A value larger than [`value_room`](Self::value_room) is kept as the beginning of its text.
    pub fn finish(&mut self, value: Option<Value>) -> Finished {
        let room = self.value_room();
        let (value, value_cut) = value.map(|value| value.within(room)).unzip();
        let value_cut = value_cut.unwrap_or(false);
        self.shrink(self.limit.saturating_sub(value.as_ref().map_or(0, String::len).min(room)));
        let mut lines_cut = self.left_out_lines > 0;
        let mut lines = Vec::with_capacity(self.lines.len() + 1);
        for Line { mut text, left_out_bytes } in mem::take(&mut self.lines) {
            if left_out_bytes > 0 {
                lines_cut = true;
                text.push_str(&format!("… [line cut: {left_out_bytes} bytes left out]"));
            }
            lines.push(text);
        }
        if self.left_out_lines > 0 {
            lines.push(format!(
                "[output cut: {} bytes in {} lines left out; the limit is {} bytes]",
                self.left_out_bytes, self.left_out_lines, self.limit
            ));
        }
        Finished { lines, value, truncated: lines_cut || value_cut }
    }

    /// Leaves out as much of the end as it takes to be within `limit`.
    fn shrink(&mut self, limit: usize) {
        while self.bytes > limit
            && let Some(mut last) = self.lines.pop()
        {
            let kept = last.text.floor_char_boundary(last.text.len().saturating_sub(self.bytes - limit));
            self.bytes -= last.text.len() + 1;
            if kept == 0 {
                self.leave_out(last.text.len() + last.left_out_bytes);
                continue;
            }
            last.left_out_bytes += last.text.len() - kept;
            last.text.truncate(kept);
            self.bytes += kept + 1;
            self.lines.push(last);
        }
    }

    fn leave_out(&mut self, line_bytes: usize) {
        self.left_out_lines += 1;
        self.left_out_bytes += line_bytes + 1;
    }
}

/// A value as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Is JSON; this is its text.
    Json(String),
    /// Is something else; this is what printing it gives.
    Text(String),
    /// The beginning of a text, either kind, that is over the limit.
    Beginning { text: String, whole: Whole },
}

/// How long a text is of which only the beginning was read, in characters as the engine counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whole {
    Exactly(usize),
    MoreThan(usize),
}

impl Value {
    /// As JSON text, and whether it had to be cut.
    fn within(self, room: usize) -> (String, bool) {
        let (text, whole) = match self {
            Self::Json(json) if json.len() <= room || is_text_within(&json, room) => return (json, false),
            Self::Text(text) if text.len() <= room => return (json_string(&text), false),
            // A string is shown as it is, not as it is spelled.
            Self::Json(json) if json.starts_with('"') => (serde_json::from_str(&json).unwrap_or(json), None),
            Self::Json(text) | Self::Text(text) => (text, None),
            Self::Beginning { text, whole } => (text, Some(whole)),
        };
        let kept = &text[..text.floor_char_boundary(room)];
        let shown = characters(kept);
        let left_out = match whole {
            None => (characters(&text) - shown).to_string(),
            Some(Whole::Exactly(all)) => all.saturating_sub(shown).to_string(),
            Some(Whole::MoreThan(all)) => format!("more than {}", all.saturating_sub(shown)),
        };
        (json_string(&format!("{kept}… [value cut: {left_out} characters left out]")), true)
    }
}

/// Whether JSON is a string that fits as it is: escapes do not count.
fn is_text_within(json: &str, room: usize) -> bool {
    json.starts_with('"') && serde_json::from_str::<String>(json).is_ok_and(|text| text.len() <= room)
}

fn characters(text: &str) -> usize {
    text.encode_utf16().count()
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
        assert!(output.lines.iter().map(|line| line.text.len()).sum::<usize>() <= 100);
        let finished = output.finish(None);
        assert!(finished.truncated);
        assert_eq!(
            finished.lines.last().map(String::as_str),
            Some("[output cut: 10901 bytes in 991 lines left out; the limit is 100 bytes]")
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
    fn a_text_is_measured_as_it_is_and_not_by_its_escapes() {
        let json = format!("\"{}\"", "\\n".repeat(10));
        let finished = Output::new(10).finish(Some(Value::Json(json.clone())));
        assert_eq!((finished.value, finished.truncated), (Some(json), false));
    }

    #[test]
    fn a_large_value_becomes_the_beginning_of_its_text() {
        for (value, expected) in [
            (
                Value::Json(format!("\"{}\"", "\\n".repeat(50))),
                "\"\\n\\n\\n\\n\\n\\n\\n\\n\\n\\n… [value cut: 40 characters left out]\"",
            ),
            (Value::Json(format!("\"{}\"", "é".repeat(50))), "\"ééééé… [value cut: 45 characters left out]\""),
            (Value::Json(format!("[{}1]", "1,".repeat(50))), "\"[1,1,1,1,1… [value cut: 93 characters left out]\""),
            (
                Value::Beginning { text: "z".repeat(11), whole: Whole::Exactly(70_000) },
                "\"zzzzzzzzzz… [value cut: 69990 characters left out]\"",
            ),
            (
                Value::Beginning { text: "z".repeat(11), whole: Whole::MoreThan(70_000) },
                "\"zzzzzzzzzz… [value cut: more than 69990 characters left out]\"",
            ),
        ] {
            let finished = Output::new(10).finish(Some(value));
            assert_eq!(finished.value.as_deref(), Some(expected));
            assert!(finished.truncated);
        }
    }

    #[test]
    fn a_long_line_shows_its_beginning_and_leaves_room_for_those_after_it() {
        let mut output = Output::new(100);
        output.print(&"y".repeat(1_000));
        output.print("short\n");
        let finished = output.finish(Some(Value::Json("1".into())));
        let long = format!("{}… [line cut: 950 bytes left out]", "y".repeat(50));
        assert_eq!(finished.lines, [long.as_str(), "short"]);
        assert!(finished.truncated);
    }

    #[test]
    fn every_byte_that_was_printed_is_shown_or_counted() {
        for limit in [1, 2, 10, 64, 100] {
            for length in 0..120 {
                let mut output = Output::new(limit);
                for _ in 0..3 {
                    output.print(&"é".repeat(length));
                }
                output.shrink(limit / 2);
                let shown: usize = output.lines.iter().map(|line| line.text.len() + line.left_out_bytes + 1).sum();
                assert_eq!(shown + output.left_out_bytes, 3 * (2 * length + 1), "limit {limit}, length {length}");
                assert!(output.bytes <= limit / 2 || output.lines.is_empty());
            }
        }
    }
}
