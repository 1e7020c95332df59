//! A block that was run, as one line: how it went, its first words, what it called, how long it took, what came of it.

use std::collections::BTreeMap;

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::cli::console::{CYAN, DIM, GREEN, RED, harmless};

/// Of the width of a window, what the code and what the tools may take, in percent.
const CODE_SHARE: usize = 40;
const TOOLS_SHARE: usize = 30;

/// A block that runs.
pub(super) struct Running {
    code: String,
    began_ms: u64,
    /// How often each function was called.
    tools: BTreeMap<String, usize>,
}

impl Running {
    pub(super) fn new(code: &str, began_ms: u64) -> Self {
        Self { code: harmless(code), began_ms, tools: BTreeMap::new() }
    }

    pub(super) fn call(&mut self, namespace: &str, function: &str) {
        *self.tools.entry(format!("{namespace}.{function}")).or_default() += 1;
    }

    /// What it does now, for as long as it runs.
    pub(super) fn doing(&self) -> String {
        match self.tools.last_key_value() {
            Some((name, _)) => format!("running, {name}"),
            None => "running".to_owned(),
        }
    }

    /// The line once there is a result (`cognet:action:result`); ends with a newline.
    pub(super) fn settle(&self, result: &Value, ended_ms: u64, columns: usize) -> String {
        let error = result.get("error");
        let (mark, style) = if error.is_none() { ("✓", GREEN) } else { ("✗", RED) };
        let mut lines = self.code.lines().map(str::trim).filter(|line| !line.is_empty());
        let mut code = clip(lines.next().unwrap_or("(nothing)"), columns * CODE_SHARE / 100);
        let more = lines.count();
        if more > 0 {
            code.push_str(&format!(" +{more}"));
        }
        let tools: Vec<_> = self.tools.iter().map(|(name, count)| times(name, *count)).collect();
        let tools = clip(&tools.join(", "), columns * TOOLS_SHARE / 100);
        let took = duration(ended_ms.saturating_sub(self.began_ms));
        let outcome = match error {
            None => one_line(result.get("content").and_then(Value::as_str).unwrap_or_default()),
            Some(error) => one_line(error.get("message").and_then(Value::as_str).unwrap_or_default()),
        };
        let mut shown = format!("{style}{mark}{style:#} {CYAN}{code}{CYAN:#}");
        let mut used = mark.width() + 1 + code.width();
        for text in [tools, took] {
            let width = text.width() + 3;
            if !text.is_empty() && used + width <= columns {
                shown.push_str(&format!(" {DIM}·{DIM:#} {text}"));
                used += width;
            }
        }
        let left = columns.saturating_sub(used + 4);
        if !outcome.is_empty() && left >= 4 {
            shown.push_str(&format!(" {DIM}→{DIM:#} {}", clip(&outcome, left)));
        }
        shown.push('\n');
        shown
    }
}

fn times(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name} ×{count}") }
}

/// Milliseconds as people read them.
pub(super) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        _ => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
    }
}

fn one_line(text: &str) -> String {
    harmless(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// At most so many columns of a text, with a mark where it was cut.
pub(super) fn clip(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let mut width = 0;
    let mut clipped: String = text
        .chars()
        .take_while(|c| {
            width += c.width().unwrap_or(0);
            width < columns
        })
        .collect();
    clipped.push('…');
    clipped
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(running: &Running, result: &Value, columns: usize) -> String {
        anstream::adapter::strip_str(&running.settle(result, 1_014, columns)).to_string()
    }

    #[test]
    fn a_block_is_one_line_with_its_tools_its_time_and_its_outcome() {
        let mut running = Running::new("\nconst a = await fs.read(\"a\")\n\na.length\n", 1_000);
        running.call("fs", "read");
        running.call("fs", "read");
        let shown = line(&running, &json!({ "ok": true, "content": "42\n" }), 80);
        assert_eq!(shown, "✓ const a = await fs.read(\"a\") +1 · fs.read ×2 · 14 ms → 42\n");
        let failed = json!({ "ok": false, "content": "", "error": { "kind": "exception", "message": "no\nsuch" } });
        assert_eq!(line(&Running::new("x", 1_000), &failed, 80), "✗ x · 14 ms → no such\n");
    }

    #[test]
    fn it_fits_into_the_window_whatever_it_holds() {
        let mut running = Running::new(&"漢字".repeat(50), 0);
        for tool in ["aaaaaaaaaaaa", "bbbbbbbbbbbbbbb", "cccccccccccc"] {
            running.call("namespace", tool);
        }
        for columns in [20, 40, 80, 200] {
            let shown = line(&running, &json!({ "ok": true, "content": "語".repeat(300) }), columns);
            assert!(shown.trim_end().width() <= columns, "{columns}: {shown}");
        }
    }
}
