//! A conversation as a Markdown page: a heading when the speaker changes, what was heard as a quotation, code and results
//! fenced, long results folded away.

use super::turns::{Turn, Turns};
use crate::{
    cli::console::{harmless, timestamp},
    log::Envelope,
};

/// A result of more lines is folded.
const MAX_OPEN_LINES: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Agent,
}

/// Turns envelopes into a page.
#[derive(Default)]
pub(super) struct Markdown {
    turns: Turns,
    titled: bool,
    speaker: Option<Speaker>,
}

impl Markdown {
    /// What can be written once this entry is known.
    pub(super) fn next(&mut self, envelope: &Envelope) -> String {
        let mut page = String::new();
        if !self.titled {
            self.titled = true;
            let (session, agent) = (&envelope.context.session_id, &envelope.context.agent_id);
            page.push_str(&format!("# Session {session}\n\nAgent {agent}, from {}.\n", timestamp(envelope.time.ms)));
        }
        for turn in self.turns.next(envelope) {
            self.write(&turn, &mut page);
        }
        page
    }

    /// What was still open.
    pub(super) fn finish(&mut self) -> String {
        let mut page = String::new();
        if let Some(turn) = self.turns.finish() {
            self.write(&turn, &mut page);
        }
        page
    }

    fn write(&mut self, turn: &Turn, page: &mut String) {
        let speaker = match turn {
            Turn::Heard { .. } => Speaker::User,
            _ => Speaker::Agent,
        };
        if self.speaker.replace(speaker) != Some(speaker) {
            page.push_str(match speaker {
                Speaker::User => "\n## User\n",
                Speaker::Agent => "\n## Agent\n",
            });
        }
        page.push('\n');
        page.push_str(&written(turn));
    }
}

fn written(turn: &Turn) -> String {
    match turn {
        Turn::Heard { text } => quoted(text),
        Turn::Said { text, cut_off: false } => format!("{}\n", harmless(text).trim_end()),
        Turn::Said { text, cut_off: true } => format!("{} *(cut off)*\n", harmless(text).trim_end()),
        Turn::Code { source } => fenced("ts", source),
        Turn::Result { content, error: None } => result("Result", content),
        Turn::Result { content, error: Some(error) } => {
            let output = if content.is_empty() { String::new() } else { result("Output", content) + "\n" };
            format!("{output}**Failed**\n\n{}", fenced("text", error))
        }
        Turn::Stopped { reason } => quoted(&format!("Interrupted: {reason}")),
        Turn::Notice { message } => quoted(&format!("Notice: {message}")),
        Turn::Event { kind, data, .. } => format!("`{kind}`\n\n{}", fenced("json", &data.to_string())),
    }
}

fn result(title: &str, content: &str) -> String {
    match content.lines().count() {
        0 => format!("**{title}**: nothing\n"),
        lines if lines > MAX_OPEN_LINES => {
            let fenced = fenced("text", content);
            format!("<details>\n<summary>{title}, {lines} lines</summary>\n\n{fenced}\n</details>\n")
        }
        _ => format!("**{title}**\n\n{}", fenced("text", content)),
    }
}

fn quoted(text: &str) -> String {
    let text = harmless(text);
    text.trim_end().split('\n').map(|line| format!("> {line}").trim_end().to_owned() + "\n").collect()
}

/// Fenced by more backticks than the text has in a row.
fn fenced(language: &str, text: &str) -> String {
    let text = harmless(text);
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::{fenced, quoted, result};

    #[test]
    fn what_is_fenced_cannot_end_its_fence() {
        assert_eq!(fenced("ts", "a\n"), "```ts\na\n```\n");
        assert_eq!(fenced("text", "````\nx\n````"), "`````text\n````\nx\n````\n`````\n");
    }

    #[test]
    fn each_line_of_a_quotation_is_quoted() {
        assert_eq!(quoted("a\n\n# b\n"), "> a\n>\n> # b\n");
    }

    #[test]
    fn a_long_result_is_folded_away() {
        assert!(result("Result", &"x\n".repeat(20)).starts_with("**Result**"));
        assert!(
            result("Result", &"x\n".repeat(21)).starts_with("<details>\n<summary>Result, 21 lines</summary>\n\n```")
        );
    }
}
