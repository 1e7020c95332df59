//! The script engine: a model whose answers are written in a file, for demonstrations and tests.

mod file;

use std::{
    collections::VecDeque,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axon_runtime::BoxFuture;

use self::file::{ScriptAnswer, ScriptCall, ScriptEnd, ScriptFault, ScriptFile, ScriptMessage};
use super::{
    fault::{Fault, FaultCode},
    provider::{ModelCall, ModelEvent, ModelStream, Provider},
    spec::{EngineConfigError, EngineSpec},
    telemetry::SessionFacts,
};

const NAME: &str = "script";

pub(super) struct ScriptProvider {
    model: String,
    file: ScriptFile,
    facts: Arc<dyn SessionFacts>,
    /// Which calls have been answered, failed attempts included.
    answered: Mutex<Vec<bool>>,
}

impl ScriptProvider {
    /// Reads the script that `spec` names, relative to `agent_dir`.
    pub fn from_spec(
        spec: &EngineSpec,
        agent_dir: &Path,
        facts: Arc<dyn SessionFacts>,
    ) -> Result<Self, EngineConfigError> {
        let missing = EngineConfigError::Missing { provider: NAME, key: "script", usage: "script:FILE" };
        let (path, name) = spec.needed_file(agent_dir, missing)?;
        let file = ScriptFile::read(&path, &name)?;
        let model = spec.model.clone().unwrap_or_else(|| NAME.to_owned());
        let answered = Mutex::new(vec![false; file.calls.len()]);
        Ok(Self { model, file, facts, answered })
    }

    /// The first call for `model` that was not answered yet, else the last one again.
    fn next_call(&self, model: &str) -> Result<&ScriptCall, Fault> {
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = self.file.calls.iter().zip(answered.iter_mut());
        let mut fitting: Vec<_> =
            calls.filter(|(call, _)| call.model.as_ref().is_none_or(|own| own == model)).collect();
        let held = fitting.len();
        if let Some((call, answered)) = fitting.iter_mut().find(|(_, answered)| !**answered) {
            **answered = true;
            return Ok(*call);
        }
        match fitting.pop() {
            Some((call, _)) if !self.file.strict => Ok(call),
            _ => {
                let what = if held == self.file.calls.len() { String::new() } else { format!(" for model {model}") };
                let message = format!("the script is strict and holds {held} calls{what}; this is call {}", held + 1);
                Err(Fault::new(FaultCode::InvalidRequest, NAME, message))
            }
        }
    }

    /// `text` with the facts that it quotes. What a fact says is not looked into again.
    fn fill_in(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let (before, found) = rest.split_at(at);
            filled.push_str(before);
            rest = if let Some(rest) = found.strip_prefix("${last_result}") {
                filled.push_str(&self.facts.last_result().unwrap_or_default());
                rest
            } else if let Some(rest) = found.strip_prefix("${last_stimulus}") {
                filled.push_str(&self.facts.last_stimulus().unwrap_or_default());
                rest
            } else {
                filled.push_str("${");
                &found["${".len()..]
            };
        }
        filled.push_str(rest);
        filled
    }

    fn pieces(&self, message: &ScriptMessage) -> VecDeque<ModelEvent> {
        let pieces: Vec<String> = match message {
            ScriptMessage::Deltas(deltas) => deltas.iter().map(|delta| self.fill_in(delta)).collect(),
            ScriptMessage::Text { text, chunk: None } => vec![self.fill_in(text)],
            ScriptMessage::Text { text, chunk: Some(chunk) } => {
                let chars: Vec<char> = self.fill_in(text).chars().collect();
                chars.chunks(chunk.get()).map(|chunk| chunk.iter().collect()).collect()
            }
        };
        pieces.into_iter().map(ModelEvent::Text).collect()
    }
}

impl Provider for ScriptProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async move {
            let ScriptCall { answer, delay_ms, .. } =
                self.next_call(&call.model).map_err(|fault| fault.model(&call.model))?;
            let delay = Duration::from_millis(*delay_ms);
            match answer {
                ScriptAnswer::Fails(fault) => {
                    tokio::time::sleep(delay).await;
                    Err(scripted(fault).model(call.model))
                }
                ScriptAnswer::Says { message, reasoning, end } => {
                    let mut events = self.pieces(message);
                    if let Some(reasoning) = reasoning {
                        events.push_front(ModelEvent::Reasoning(reasoning.clone()));
                    }
                    Ok(Box::new(ScriptStream { events, delay, end: Some(end.clone()), model: call.model }) as _)
                }
            }
        })
    }
}

fn scripted(fault: &ScriptFault) -> Fault {
    let code = fault.code.or(fault.status.map(FaultCode::from_status)).unwrap_or(FaultCode::Unknown);
    let message = fault.message.clone().unwrap_or_else(|| "the script says so".to_owned());
    let built = Fault::new(code, NAME, message).retry_after(fault.retry_after_ms.map(Duration::from_millis));
    match fault.status {
        Some(status) => built.status(status),
        None => built,
    }
}

struct ScriptStream {
    events: VecDeque<ModelEvent>,
    delay: Duration,
    /// Taken once it has been told.
    end: Option<ScriptEnd>,
    model: String,
}

impl ModelStream for ScriptStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async move {
            if !self.events.is_empty() && !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            match self.end.take() {
                Some(ScriptEnd::Finished { stop_reason, usage }) => {
                    Ok(Some(ModelEvent::Finished { stop_reason, usage, model: Some(self.model.clone()) }))
                }
                Some(ScriptEnd::Disconnect) => {
                    Err(Fault::new(FaultCode::Transport, NAME, "the connection broke off").model(&self.model))
                }
                None => Ok(None),
            }
        })
    }
}
