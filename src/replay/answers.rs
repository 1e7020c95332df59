//! What a model and the capsule answered in a recorded wake.

use axon_runtime::{BoxFuture, Done, Entry, RunError, RunErrorKind, RunResult, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::wakes::{BlockShape, RecordedAnswer, RecordedCall, ValueShape};
use crate::engine::{Fault, FaultCode, ModelCall, ModelEvent, ModelStream, Provider};

/// Answers one call as it was answered.
pub(super) struct RecordedProvider(RecordedCall);

impl RecordedProvider {
    pub(super) fn new(call: RecordedCall) -> Self {
        Self(call)
    }
}

/// What of `kernel:engine:complete` an answer is made of.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Complete {
    text: String,
    stop_reason: String,
    usage: Option<Usage>,
    model: Option<String>,
    duration_ms: u64,
    first_token_ms: Option<u64>,
}

impl RecordedCall {
    /// What the end of the answer said.
    pub(super) fn done(&self, done: Done) -> Done {
        let RecordedAnswer::Complete(data) = &self.answer else { return done };
        let Complete { duration_ms, first_token_ms, .. } = Complete::deserialize(data).unwrap_or_default();
        let provider = self.start["provider"].as_str().unwrap_or_default().to_owned();
        Done { provider, duration_ms, first_token_ms, ..done }
    }

    fn model(&self) -> &str {
        self.start["model"].as_str().unwrap_or_default()
    }
}

impl Provider for RecordedProvider {
    fn name(&self) -> &str {
        "replay"
    }

    fn model(&self) -> &str {
        self.0.model()
    }

    fn open(&self, _: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        let unanswered = || {
            let message = "the recorded call has no end";
            Fault { retryable: false, ..Fault::new(FaultCode::Transport, self.name(), message) }
        };
        // Backwards.
        let events = match &self.0.answer {
            RecordedAnswer::Complete(data) => {
                let Complete { text, stop_reason, usage, model, .. } = Complete::deserialize(data).unwrap_or_default();
                let model = model.or_else(|| Some(self.0.model().to_owned()));
                vec![Ok(ModelEvent::Finished { stop_reason, usage, model }), Ok(ModelEvent::Text(text))]
            }
            RecordedAnswer::Failed(data) => {
                // It was the last attempt's: another one would be of no use.
                let fault = Fault::deserialize(&data["fault"])
                    .map_or_else(|_| unanswered(), |fault| Fault { retryable: false, ..fault });
                let text = data["text"].as_str().map(|text| Ok(ModelEvent::Text(text.to_owned())));
                [Err(fault)].into_iter().chain(text).collect()
            }
            RecordedAnswer::Missing => vec![Err(unanswered())],
        };
        Box::pin(async move { Ok(Box::new(Answer(events)) as _) })
    }
}

/// What is left of an answer, backwards.
struct Answer(Vec<Result<ModelEvent, Fault>>);

impl ModelStream for Answer {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async move { self.0.pop().transpose() })
    }
}

/// What a cognet was handed for a block whose result is this entry.
pub(super) fn run_result(entry: &Entry, shape: BlockShape) -> RunResult {
    let content = entry.data["content"].as_str().unwrap_or_default();
    let (stdout, rest) = match shape.stdout_lines.map(usize::try_from) {
        Some(Ok(lines)) => split(content, lines),
        // A log from before this was noted: all of it counts as printed.
        _ => (content.split('\n').filter(|_| !content.is_empty()).map(str::to_owned).collect(), ""),
    };
    let value = shape.value.map(|shape| match shape {
        ValueShape::Text => Value::from(rest),
        ValueShape::Json => serde_json::from_str(rest).unwrap_or_else(|_| rest.into()),
    });
    let error = entry.data.get("error").map(|error| {
        serde_json::from_value(error.clone()).unwrap_or_else(|_| RunError {
            kind: RunErrorKind::Exception,
            message: error.to_string(),
            code: None,
        })
    });
    RunResult { ok: entry.data["ok"].as_bool().unwrap_or_default(), value, stdout, error }
}

/// The first lines, and what is behind them.
fn split(content: &str, lines: usize) -> (Vec<String>, &str) {
    let mut rest = Some(content);
    let mut stdout = Vec::new();
    while stdout.len() < lines
        && let Some(text) = rest
    {
        let (line, behind) = text.split_once('\n').map_or((text, None), |(line, behind)| (line, Some(behind)));
        stdout.push(line.to_owned());
        rest = behind;
    }
    (stdout, rest.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use axon_runtime::EntryTime;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_is_taken_apart_as_it_was_put_together() {
        let shaped = |stdout_lines, value| BlockShape { stdout_lines, value };
        for (content, shape, stdout, value) in [
            ("", shaped(Some(0), None), vec![], None),
            ("a\n", shaped(Some(2), None), vec!["a", ""], None),
            ("a\n[1]", shaped(Some(1), Some(ValueShape::Json)), vec!["a"], Some(json!([1]))),
            ("a\n1", shaped(Some(1), Some(ValueShape::Text)), vec!["a"], Some(json!("1"))),
            ("x\ny", shaped(Some(0), Some(ValueShape::Text)), vec![], Some(json!("x\ny"))),
            ("a\nb", shaped(None, None), vec!["a", "b"], None),
            ("[1, … 5 left out", shaped(Some(0), Some(ValueShape::Json)), vec![], Some(json!("[1, … 5 left out"))),
        ] {
            let entry = Entry {
                id: "i".into(),
                kind: "cognet:action:result".into(),
                time: EntryTime { ms: 0, seq: 0 },
                data: json!({ "for": "b", "ok": true, "content": content }),
            };
            let result = run_result(&entry, shape);
            assert_eq!((result.stdout, result.value), (stdout.iter().map(|&line| line.to_owned()).collect(), value));
        }
    }
}
