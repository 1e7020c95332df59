//! A session's wakes, read one after another.

use std::{collections::HashMap, path::Path};

use axon_runtime::Entry;
use serde_json::Value;

use crate::log::{ENGINE_INPUT, Envelope, InputExpander, LogError, SessionReader};

/// What names the cognet that serves from there on.
const LOADED: &str = "cognet:load:start";

/// The cognet that a session was last run with, by the name that people give.
pub(crate) fn last_cognet(path: &Path) -> Result<Option<String>, LogError> {
    let mut last = None;
    for line in SessionReader::open(path)? {
        let line = line?;
        if line.kind.as_deref() == Some(LOADED) {
            last = line.envelope();
        }
    }
    Ok(last.and_then(|envelope| Some(envelope.data["name"].as_str()?.to_owned())))
}

/// What a session is made of.
pub(super) enum Step {
    /// An entry between two wakes.
    Entry(Entry),
    Wake(RecordedWake),
}

/// A wake as the log has it.
#[derive(Debug, Default)]
pub(super) struct RecordedWake {
    pub seq: u64,
    /// The seq of its last event.
    pub last_seq: u64,
    /// The cognet that was loaded, by the name that people give.
    pub cognet: Option<String>,
    pub stimuli: Vec<Entry>,
    /// In order.
    pub entries: Vec<Entry>,
    /// In the order in which they were made.
    pub calls: Vec<RecordedCall>,
    /// How the results of blocks were made up, by the block's id.
    pub blocks: HashMap<String, BlockShape>,
    pub ending: Ending,
}

/// One inference.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedCall {
    span: String,
    /// The seq of its end.
    pub ended: Option<u64>,
    pub model: String,
    /// As the cognet gave them; references expanded.
    pub messages: Value,
    /// `kernel:engine:complete`, or `kernel:engine:failed`.
    pub answer: Option<RecordedAnswer>,
}

#[derive(Clone, Debug)]
pub(super) enum RecordedAnswer {
    Complete(Value),
    Failed(Value),
}

/// Which part of a result's content is what the block printed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockShape {
    pub stdout_lines: Option<u64>,
    pub value: Option<ValueShape>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    Json,
    Text,
}

/// How a wake ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// With the code of the error.
    Failed(String),
    Interrupted,
    /// The process died.
    #[default]
    Missing,
}

/// The steps of a session in order.
pub(super) struct Steps {
    reader: SessionReader,
    expander: InputExpander,
    cognet: Option<String>,
    /// Stimuli that no wake has been handed.
    waiting: Vec<Entry>,
    open: Option<(Option<String>, RecordedWake)>,
    /// Read, and not yet told.
    next: Option<Envelope>,
}

impl Steps {
    pub(super) fn new(reader: SessionReader) -> Self {
        Self { reader, expander: InputExpander::default(), cognet: None, waiting: Vec::new(), open: None, next: None }
    }

    /// The next step, once it is whole.
    fn read(&mut self) -> Result<Option<Step>, LogError> {
        loop {
            let envelope = match self.next.take() {
                Some(envelope) => Some(envelope),
                None => self.envelope()?,
            };
            let Some(envelope) = envelope else { return Ok(self.open.take().map(|(_, wake)| Step::Wake(wake))) };
            let begins = envelope.kind == "kernel:run:start";
            if self.open.is_some() && (begins || envelope.kind == "axon:session:opened") {
                // The process died during the wake.
                self.next = Some(envelope);
                return Ok(self.open.take().map(|(_, wake)| Step::Wake(wake)));
            }
            if envelope.kind == LOADED
                && let Some(name) = envelope.data["name"].as_str()
            {
                self.cognet = Some(name.to_owned());
            }
            if begins {
                let wake = RecordedWake {
                    seq: envelope.time.seq,
                    last_seq: envelope.time.seq,
                    cognet: self.cognet.clone(),
                    stimuli: std::mem::take(&mut self.waiting),
                    ..RecordedWake::default()
                };
                self.open = Some((envelope.context.run_id, wake));
                continue;
            }
            if envelope.kind.starts_with("stimulus:") {
                self.waiting.push(envelope.to_entry());
            }
            let Some((run, wake)) = &mut self.open else {
                if envelope.is_entry() {
                    return Ok(Some(Step::Entry(envelope.to_entry())));
                }
                continue;
            };
            let is_own = envelope.context.run_id == *run;
            if let Some(ending) = ending(&envelope).filter(|_| is_own) {
                wake.last_seq = envelope.time.seq;
                wake.ending = ending;
                return Ok(self.open.take().map(|(_, wake)| Step::Wake(wake)));
            }
            wake.take(envelope);
        }
    }

    fn envelope(&mut self) -> Result<Option<Envelope>, LogError> {
        while let Some(line) = self.reader.next().transpose()? {
            // Lines of another version are passed over.
            let Some(mut envelope) = line.envelope() else { continue };
            self.expander.expand(&mut envelope);
            return Ok(Some(envelope));
        }
        Ok(None)
    }
}

impl Iterator for Steps {
    type Item = Result<Step, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

fn ending(envelope: &Envelope) -> Option<Ending> {
    match envelope.kind.as_str() {
        "kernel:run:complete" => Some(Ending::Complete),
        "kernel:run:failed" => {
            Some(Ending::Failed(envelope.data["error"]["code"].as_str().unwrap_or_default().to_owned()))
        }
        "kernel:run:interrupted" => Some(Ending::Interrupted),
        _ => None,
    }
}

impl RecordedWake {
    fn take(&mut self, envelope: Envelope) {
        self.last_seq = envelope.time.seq;
        if envelope.is_entry() {
            self.entries.push(envelope.to_entry());
            return;
        }
        let seq = envelope.time.seq;
        let data = envelope.data;
        let text = |key: &str| data[key].as_str().unwrap_or_default().to_owned();
        match (envelope.kind.as_str(), envelope.context.span_id) {
            ("kernel:engine:start", Some(span)) => {
                self.calls.push(RecordedCall { span, model: text("model"), ..RecordedCall::default() });
            }
            (ENGINE_INPUT, Some(span)) => {
                if let Some(call) = self.call(&span) {
                    call.messages = data["messages"].clone();
                }
            }
            ("kernel:engine:complete", Some(span)) => self.answered(&span, seq, RecordedAnswer::Complete(data)),
            ("kernel:engine:failed", Some(span)) => self.answered(&span, seq, RecordedAnswer::Failed(data)),
            ("capsule:block:complete" | "capsule:block:failed", _) => {
                let value = match data["value"].as_str() {
                    Some("json") => Some(ValueShape::Json),
                    Some("text") => Some(ValueShape::Text),
                    _ => None,
                };
                self.blocks.insert(text("id"), BlockShape { stdout_lines: data["stdoutLines"].as_u64(), value });
            }
            _ => {}
        }
    }

    fn call(&mut self, span: &str) -> Option<&mut RecordedCall> {
        self.calls.iter_mut().rfind(|call| call.span == span)
    }

    fn answered(&mut self, span: &str, seq: u64, answer: RecordedAnswer) {
        if let Some(call) = self.call(span) {
            call.ended = Some(seq);
            call.answer = Some(answer);
        }
    }
}
