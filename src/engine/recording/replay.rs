//! Answering from a recording, and from nothing else.

use std::{
    collections::{HashSet, VecDeque},
    fmt::Write,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axon_runtime::{BoxFuture, Message};
use similar::TextDiff;

use super::attempt::{Attempt, Delta, End, VERSION};
use crate::{
    engine::{
        fault::{Fault, FaultCode},
        provider::{ModelCall, ModelEvent, ModelStream, Provider},
        spec::{EngineConfigError, EngineSpec},
        telemetry::SessionFacts,
    },
    files,
};

const NAME: &str = "replay";

/// A difference that is not found by then is shown coarser than it is. A wake waits for it.
const MAX_DIFF_TIME: Duration = Duration::from_millis(200);
/// Lines of a difference that are shown.
const MAX_DIFF_LINES: usize = 60;
/// Recorded requests that a strange one is compared with.
const MAX_COMPARED: usize = 20;
/// Lines around a change.
const CONTEXT_LINES: usize = 2;

/// Answers each request with an attempt that was recorded for that very request, each attempt once and in their order.
pub(in crate::engine) struct ReplayProvider {
    /// What messages call the file.
    name: PathBuf,
    model: String,
    attempts: Vec<Recorded>,
    facts: Arc<dyn SessionFacts>,
    answered: Mutex<Vec<bool>>,
}

struct Recorded {
    line: usize,
    attempt: Attempt,
}

impl ReplayProvider {
    /// Reads the recording that `spec` names, relative to `agent_dir`.
    pub fn from_spec(
        spec: &EngineSpec,
        agent_dir: &Path,
        facts: Arc<dyn SessionFacts>,
    ) -> Result<Self, EngineConfigError> {
        let missing = EngineConfigError::Missing { provider: NAME, key: "recording", usage: "replay:FILE" };
        let (path, name) = spec.needed_file(agent_dir, missing)?;
        let text = files::read_text(&path)
            .map_err(|source| EngineConfigError::UnreadableRecording { path: name.clone(), source })?;
        let invalid = |line, message| EngineConfigError::InvalidRecording { path: name.clone(), line, message };
        let text = text.trim_start_matches('\u{feff}');
        let mut attempts = Vec::new();
        for (line, number) in text.split_inclusive('\n').zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            match parse(line) {
                Ok(attempt) => attempts.push(Recorded { line: number, attempt }),
                // A last line without its end was being written when the process died.
                Err(_) if !line.ends_with('\n') => {}
                Err(message) => return Err(invalid(number, message)),
            }
        }
        let Some(first) = attempts.first() else {
            let message = "it is empty: no call was recorded".to_owned();
            return Err(invalid(1, message));
        };
        // As the recorded provider answered to it: a cognet that names no model asks for the same one again.
        let model = first.attempt.provider.model.clone();
        let answered = Mutex::new(vec![false; attempts.len()]);
        Ok(Self { name, model, attempts, facts, answered })
    }

    /// The request as a recording would have it.
    fn as_recorded(&self, call: &ModelCall) -> ModelCall {
        let mut json = serde_json::to_value(call).unwrap_or_default();
        self.facts.hide_secrets(&mut json);
        serde_json::from_value(json).unwrap_or_else(|_| call.clone())
    }

    /// The first attempt for this very request that has not been answered yet.
    fn attempt(&self, call: &ModelCall) -> Result<&Attempt, Fault> {
        let refused = |message: String| Fault::new(FaultCode::InvalidRequest, NAME, message).model(&call.model);
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let free = |index: &usize| !answered[*index];
        let mut same = (0..self.attempts.len()).filter(|index| self.attempts[*index].attempt.request == *call);
        if let Some(index) = same.clone().find(free) {
            answered[index] = true;
            return Ok(&self.attempts[index].attempt);
        }
        let file = self.name.display();
        if let Some(Recorded { line, attempt }) = same.next_back().map(|index| &self.attempts[index]) {
            return Err(match &attempt.end {
                // Whatever came of the next attempt was not recorded.
                End::Fault(fault) => Fault { retryable: false, ..fault.clone() },
                _ => refused(format!("this request was recorded in {file}:{line}, and has been answered already")),
            });
        }
        let left: Vec<_> = (0..self.attempts.len()).filter(free).take(MAX_COMPARED).collect();
        let asked = as_text(call);
        let left = left.into_iter().map(|index| &self.attempts[index]);
        let left = left.map(|recorded| (recorded, likeness(&as_text(&recorded.attempt.request), &asked)));
        // Of several that are equally like it, the first.
        Err(refused(match left.rev().max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            Some((Recorded { line, attempt }, _)) => format!(
                "this request is not in the recording; the one most like it, {file}:{line}, differs (- recorded, + asked):\n{}",
                difference(&attempt.request, call)
            ),
            None => format!(
                "this request is not in the recording; every one of the {} in {file} has been answered",
                self.attempts.len()
            ),
        }))
    }
}

fn parse(line: &str) -> Result<Attempt, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        v: u32,
    }
    let malformed = |error: serde_json::Error| {
        let position = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        format!("this is no line of a recording: {}", message.strip_suffix(&position).unwrap_or(&message))
    };
    let Version { v } = serde_json::from_str(line).map_err(malformed)?;
    if v != VERSION {
        return Err(format!("the recording has version {v}; this program reads {VERSION}"));
    }
    serde_json::from_str(line).map_err(malformed)
}

/// How much two texts are alike: the share of lines that both have.
fn likeness(a: &str, b: &str) -> f64 {
    let (a, b): (HashSet<_>, HashSet<_>) = (a.lines().collect(), b.lines().collect());
    a.intersection(&b).count() as f64 / a.union(&b).count().max(1) as f64
}

fn difference(recorded: &ModelCall, asked: &ModelCall) -> String {
    let (recorded, asked) = (as_text(recorded), as_text(asked));
    let difference = TextDiff::configure().timeout(MAX_DIFF_TIME).diff_lines(&recorded, &asked);
    let difference = difference.unified_diff().context_radius(CONTEXT_LINES).to_string();
    let mut lines = difference.lines();
    let mut text: String = lines.by_ref().take(MAX_DIFF_LINES).collect::<Vec<_>>().join("\n");
    let more = lines.count();
    if more > 0 {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n… and {more} lines more");
    }
    text
}

/// A request as people read it.
fn as_text(call: &ModelCall) -> String {
    let ModelCall { model, messages, max_tokens, temperature } = call;
    let mut text = format!("model {model}\n");
    let _ = max_tokens.map(|limit| writeln!(text, "maxTokens {limit}"));
    let _ = temperature.map(|temperature| writeln!(text, "temperature {temperature}"));
    for Message { role, content } in messages {
        let role = serde_json::to_value(role).unwrap_or_default();
        let _ = writeln!(text, "[{}]\n{content}", role.as_str().unwrap_or_default());
    }
    text
}

impl Provider for ReplayProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async move {
            let attempt = self.attempt(&self.as_recorded(&call))?;
            Ok(Box::new(ReplayStream { deltas: attempt.answer.clone().into(), end: Some(attempt.end.clone()) }) as _)
        })
    }
}

struct ReplayStream {
    deltas: VecDeque<Delta>,
    /// Taken once it has been told.
    end: Option<End>,
}

impl ModelStream for ReplayStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async move {
            match self.deltas.pop_front() {
                Some(Delta::Text(piece)) => return Ok(Some(ModelEvent::Text(piece))),
                Some(Delta::Reasoning(piece)) => return Ok(Some(ModelEvent::Reasoning(piece))),
                None => {}
            }
            match self.end.take() {
                Some(End::Finished { stop_reason, usage, model }) => {
                    Ok(Some(ModelEvent::Finished { stop_reason, usage, model }))
                }
                Some(End::Fault(fault)) => Err(fault),
                Some(End::GivenUp) => {
                    let message = "the recording ends here: whoever asked did not read on when it was made";
                    Err(Fault { retryable: false, ..Fault::new(FaultCode::Transport, NAME, message) })
                }
                None => Ok(None),
            }
        })
    }
}
