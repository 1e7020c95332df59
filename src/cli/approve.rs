//! Questions to the person at the terminal, for the rule `ask`.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal, Write as _},
    sync::Arc,
};

use axon_capsule::BoxFuture;
use serde_json::Value;

use super::{
    console::{BOLD, DIM},
    interrupt::Interrupts,
    keyboard::Keyboard,
};
use crate::policy::{Approval, ApprovalRequest, Approver, Unattended};

/// Lines of one question; the rest is counted, and the person is told.
const MAX_LINES: usize = 400;

/// Asks at the terminal when a person is there to read and to answer.
pub(super) fn approver(keyboard: &Keyboard, interrupts: &Interrupts) -> Arc<dyn Approver> {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        Arc::new(Terminal { keyboard: keyboard.clone(), interrupts: interrupts.clone() })
    } else {
        Arc::new(Unattended)
    }
}

struct Terminal {
    keyboard: Keyboard,
    interrupts: Interrupts,
}

impl Approver for Terminal {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        Box::pin(async move {
            let refused = self.interrupts.question();
            if show(&preview(&request)).is_err() {
                return Approval::Nobody;
            }
            let answer = tokio::select! {
                line = self.keyboard.answer() => line,
                () = refused => {
                    let _ = show("\n");
                    return Approval::No;
                }
            };
            match answer {
                Some(Ok(line)) => read(&line),
                // The end of the input, or no terminal any more.
                Some(Err(_)) | None => Approval::No,
            }
        })
    }
}

/// Whether a line can only be meant as an answer to a question.
pub(super) fn is_answer(line: &str) -> bool {
    read(line) != Approval::No || matches!(line.trim().to_lowercase().as_str(), "n" | "no")
}

pub(super) fn read(answer: &str) -> Approval {
    match answer.trim().to_lowercase().as_str() {
        "o" | "once" | "y" | "yes" => Approval::Once,
        "s" | "session" => Approval::Session,
        _ => Approval::No,
    }
}

fn show(text: &str) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    err.write_all(text.as_bytes())?;
    err.flush()
}

/// The question, with everything that the call would do.
pub(super) fn preview(request: &ApprovalRequest) -> String {
    let mut text = String::new();
    let rule = plain(&request.rule);
    let _ = writeln!(text, "\n{BOLD}{}{BOLD:#} {DIM}(asked by {rule}){DIM:#}", plain(&request.call));
    let details = match &request.diff {
        Some(diff) => diff.clone(),
        None => arguments(&request.args),
    };
    let lines: Vec<_> = details.lines().collect();
    for line in lines.iter().take(MAX_LINES) {
        let _ = writeln!(text, "  {}", plain(line));
    }
    if lines.len() > MAX_LINES {
        let _ = writeln!(text, "  … and {} more lines, which are not shown", lines.len() - MAX_LINES);
    }
    let _ = write!(
        text,
        "Allow it? {BOLD}[o]{BOLD:#}nce, for this {BOLD}[s]{BOLD:#}ession, or {BOLD}[n]{BOLD:#}o, then Enter: "
    );
    text
}

/// Every argument, texts as they are.
fn arguments(args: &Value) -> String {
    let mut text = String::new();
    for (index, argument) in args.as_array().into_iter().flatten().enumerate() {
        match argument {
            Value::String(content) if content.contains('\n') => {
                let _ = writeln!(text, "{}:", index + 1);
                for line in content.lines() {
                    let _ = writeln!(text, "  | {line}");
                }
            }
            other => {
                let _ = writeln!(text, "{}: {}", index + 1, serde_json::to_string_pretty(other).unwrap_or_default());
            }
        }
    }
    text
}

/// Text that shows every character for what it is: what a model wrote must not move the cursor, nor read from right to
/// left, nor hide.
fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let hides = matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
        if c == '\t' || !(c.is_control() || hides) {
            shown.push(c);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(call: &str, args: Value, diff: Option<&str>) -> ApprovalRequest {
        ApprovalRequest {
            block: "b".into(),
            namespace: "fs".into(),
            function: "write".into(),
            call: call.into(),
            args,
            diff: diff.map(str::to_owned),
            rule: "policy.tools.\"fs.write\"".into(),
        }
    }

    #[test]
    fn a_question_shows_the_call_its_rule_and_what_would_happen() {
        let text = preview(&request("fs.write(\"a\")", json!(["a", "b"]), Some("-old\n+new\n")));
        assert!(text.contains("fs.write(\"a\")") && text.contains("policy.tools"), "{text}");
        assert!(text.contains("  -old\n  +new\n"), "{text}");
        let text = preview(&request("process.run(\"git\")", json!(["git", ["push"], { "cwd": "x" }]), None));
        assert!(text.contains("\"push\"") && text.contains("\"cwd\": \"x\""), "{text}");
    }

    #[test]
    fn what_a_model_wrote_cannot_disguise_the_question() {
        let text = preview(&request("x(\"\u{1b}[2J\u{202e}\r\")", json!([]), Some("+\u{1b}[1A\u{8}hidden\u{200b}\n")));
        for hidden in ["\u{1b}[2J", "\u{202e}", "\r", "\u{1b}[1A", "\u{8}", "\u{200b}"] {
            assert!(!text.contains(hidden), "{hidden:?} in {text:?}");
        }
        assert!(text.contains("\\u{1b}[2J"), "{text}");
    }

    #[test]
    fn anything_but_a_clear_yes_is_a_no() {
        assert_eq!((read("o"), read("Yes\n"), read(" s ")), (Approval::Once, Approval::Once, Approval::Session));
        for answer in ["", "n", "no", "yess", "o k", "1", "\u{3}"] {
            assert_eq!(read(answer), Approval::No, "{answer:?}");
        }
    }
}
