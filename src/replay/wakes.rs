//! A session's wakes, read one after another.

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
};

use axon_runtime::Entry;
use serde_json::Value;

use crate::log::{ENGINE_INPUT, Envelope, InputExpander, LogError, SessionReader};

/// What a session is made of.
pub(super) enum Step {
    /// A brain was put to service, of a cognet by the name that people give.
    Loaded(String),
    /// An entry between two wakes.
    Entry(Entry),
    Wake(Box<RecordedWake>),
}

/// A wake as the log has it.
#[derive(Debug, Default)]
pub(super) struct RecordedWake {
    pub seq: u64,
    /// The seq of its last event.
    pub last_seq: u64,
    /// The cognet that was in service.
    pub cognet: Option<String>,
    pub stimuli: Vec<Entry>,
    /// In order.
    pub entries: Vec<Entry>,
    /// In the order in which they were made.
    pub calls: Vec<RecordedCall>,
    /// Where each type of the cognet's telemetry was emitted: the seqs in order.
    pub emitted: HashMap<String, VecDeque<u64>>,
    /// How the results of blocks were made up, by the block's id.
    pub blocks: HashMap<String, BlockShape>,
    pub ending: Ending,
}

/// One inference.
#[derive(Clone, Debug, Default)]
pub(super) struct RecordedCall {
    span: String,
    /// The seqs of its beginning and of its end.
    pub started: u64,
    pub ended: u64,
    /// `kernel:engine:start`.
    pub start: Value,
    /// As the cognet gave them; references expanded.
    pub messages: Value,
    pub answer: RecordedAnswer,
}

#[derive(Clone, Debug, Default)]
pub(super) enum RecordedAnswer {
    /// `kernel:engine:complete`
    Complete(Value),
    /// `kernel:engine:failed`
    Failed(Value),
    /// The log has no end of it.
    #[default]
    Missing,
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
    Failed {
        code: String,
        message: String,
    },
    Interrupted,
    /// The process died.
    #[default]
    Missing,
}

/// Who is in service, as the log tells it: a brain that is loaded at a start serves at once, one that is loaded beside another
/// once the reload is complete.
#[derive(Debug, Default)]
struct Service {
    cognet: Option<String>,
    candidate: Option<String>,
}

impl Service {
    /// The cognet that this event puts to service.
    fn takes(&mut self, kind: &str, data: &Value) -> Option<String> {
        const FIRST_GENERATION: u64 = 1;
        match kind {
            "cognet:load:start" => {
                self.candidate = data["name"].as_str().map(str::to_owned);
                return None;
            }
            "cognet:load:complete" if data["generation"] == FIRST_GENERATION => {}
            "axon:reload:complete" => {}
            _ => return None,
        }
        self.cognet = self.candidate.clone();
        self.cognet.clone()
    }
}

/// The cognet that a session was last run with, by the name that people give.
pub(crate) fn last_cognet(path: &Path) -> Result<Option<String>, LogError> {
    let mut service = Service::default();
    for line in SessionReader::open(path)? {
        let line = line?;
        if line.kind.as_deref().is_some_and(|kind| kind.starts_with("cognet:load:") || kind == "axon:reload:complete")
            && let Some(envelope) = line.envelope()
        {
            service.takes(&envelope.kind, &envelope.data);
        }
    }
    Ok(service.cognet)
}

/// The steps of a session in order.
pub(super) struct Steps {
    reader: SessionReader,
    expander: InputExpander,
    service: Service,
    /// Stimuli that no wake has been handed.
    waiting: Vec<Entry>,
    open: Option<(Option<String>, Box<RecordedWake>)>,
    /// Read, and not yet told.
    next: Option<Envelope>,
}

impl Steps {
    pub(super) fn new(reader: SessionReader) -> Self {
        Self {
            reader,
            expander: InputExpander::default(),
            service: Service::default(),
            waiting: Vec::new(),
            open: None,
            next: None,
        }
    }

    /// The next step, once it is whole.
    fn read(&mut self) -> Result<Option<Step>, LogError> {
        loop {
            let envelope = match self.next.take() {
                Some(envelope) => Some(envelope),
                None => self.envelope()?,
            };
            let Some(envelope) = envelope else { return Ok(self.end_wake()) };
            let begins = envelope.kind == "kernel:run:start";
            if self.open.is_some() && (begins || envelope.kind == "axon:session:opened") {
                // The process died during the wake.
                self.next = Some(envelope);
                return Ok(self.end_wake());
            }
            if let Some(cognet) = self.service.takes(&envelope.kind, &envelope.data) {
                return Ok(Some(Step::Loaded(cognet)));
            }
            if begins {
                let wake = RecordedWake {
                    seq: envelope.time.seq,
                    last_seq: envelope.time.seq,
                    cognet: self.service.cognet.clone(),
                    stimuli: std::mem::take(&mut self.waiting),
                    ..RecordedWake::default()
                };
                self.open = Some((envelope.context.run_id, Box::new(wake)));
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
                return Ok(self.end_wake());
            }
            wake.take(envelope);
        }
    }

    fn end_wake(&mut self) -> Option<Step> {
        self.open.take().map(|(_, wake)| Step::Wake(wake))
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
            let error = &envelope.data["error"];
            let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
            Some(Ending::Failed { code: text("code"), message: text("message") })
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
        match (envelope.kind.as_str(), envelope.context.span_id) {
            ("kernel:engine:start", Some(span)) => {
                self.calls.push(RecordedCall { span, started: seq, start: data, ..RecordedCall::default() });
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
                let id = data["id"].as_str().unwrap_or_default().to_owned();
                self.blocks.insert(id, BlockShape { stdout_lines: data["stdoutLines"].as_u64(), value });
            }
            (kind, _) if kind.starts_with("cognet:") => self.emitted.entry(kind.to_owned()).or_default().push_back(seq),
            _ => {}
        }
    }

    fn call(&mut self, span: &str) -> Option<&mut RecordedCall> {
        self.calls.iter_mut().rfind(|call| call.span == span)
    }

    fn answered(&mut self, span: &str, seq: u64, answer: RecordedAnswer) {
        if let Some(call) = self.call(span) {
            call.ended = seq;
            call.answer = answer;
        }
    }
}
