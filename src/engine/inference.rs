//! One call to a model: attempts, decoding, telemetry.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use axon_runtime::{
    AbortSignal, BoxFuture, Done, EngineEvent, EventStream, Format, Message, StreamRequest, Usage, VerbError,
};
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    decoder::{Decoder, MessageEnd, code::TRUNCATED, decoder, violation},
    fault::{Fault, FaultCode},
    provider::{ModelCall, ModelEvent, ModelStream, Provider},
    retry,
    telemetry::Telemetry,
};

/// Bytes that a model may send in one answer, reasoning included.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;

/// The reason to stop that a model gives when it was cut off at its limit of tokens.
const STOP_LENGTH: &str = "length";
/// What the log calls the end of an inference that was aborted.
const STOP_INTERRUPTED: &str = "interrupted";
/// What the log calls the end of an inference whose events nobody wanted to the end.
const STOP_DROPPED: &str = "dropped";

pub(super) struct Inference {
    provider: Arc<dyn Provider>,
    call: ModelCall,
    format: Format,
    signal: AbortSignal,
    telemetry: Arc<dyn Telemetry>,
    span: String,
    started: Instant,
    /// From 1.
    attempt: u32,
    phase: Phase,
    answer: Answer,
    /// Events that are decided and not yet handed over.
    events: VecDeque<EngineEvent>,
    /// An event has been handed over: another attempt would say things twice.
    crossed: bool,
}

enum Phase {
    /// The next attempt begins then.
    Waiting(Instant),
    Reading(Box<dyn ModelStream>),
    Ended,
}

/// What has come of the attempt so far.
struct Answer {
    decoder: Box<dyn Decoder>,
    text: String,
    reasoning: String,
    first_token: Option<Duration>,
}

impl Answer {
    fn new(format: Format) -> Self {
        Self { decoder: decoder(format), text: String::new(), reasoning: String::new(), first_token: None }
    }
}

impl Inference {
    pub fn new(
        provider: Arc<dyn Provider>,
        request: StreamRequest,
        signal: AbortSignal,
        telemetry: Arc<dyn Telemetry>,
    ) -> Self {
        let StreamRequest { messages, format, model, max_tokens, temperature } = request;
        let model = model.unwrap_or_else(|| provider.model().to_owned());
        let started = Instant::now();
        let inference = Self {
            provider,
            call: ModelCall { model, messages, max_tokens, temperature },
            format,
            signal,
            telemetry,
            span: Uuid::now_v7().to_string(),
            started,
            attempt: 1,
            phase: Phase::Waiting(started),
            answer: Answer::new(format),
            events: VecDeque::new(),
            crossed: false,
        };
        inference.record(
            "kernel:engine:start",
            Start {
                provider: inference.provider.name(),
                model: &inference.call.model,
                format: inference.format,
                max_tokens: inference.call.max_tokens,
                temperature: inference.call.temperature,
            },
        );
        inference.record("kernel:engine:input", Input { messages: &inference.call.messages });
        inference
    }

    /// Goes one step on: to the next attempt, or to the next event of the model.
    async fn step(&mut self) -> Result<(), VerbError> {
        let step = match &mut self.phase {
            Phase::Waiting(until) => {
                tokio::time::sleep_until((*until).into()).await;
                match self.provider.open(self.call.clone()).await {
                    Ok(stream) => {
                        self.phase = Phase::Reading(stream);
                        return Ok(());
                    }
                    Err(fault) => Err(fault),
                }
            }
            Phase::Reading(stream) => stream.next().await,
            Phase::Ended => return Ok(()),
        };
        let outcome = match step {
            Ok(Some(event)) => self.take(event),
            Ok(None) => Err(self.fault(FaultCode::Transport, "the answer broke off before its end")),
            Err(fault) => Err(fault),
        };
        outcome.or_else(|fault| self.fail(fault))
    }

    fn take(&mut self, event: ModelEvent) -> Result<(), Fault> {
        match event {
            ModelEvent::Text(piece) => {
                self.token(&piece)?;
                self.answer.text.push_str(&piece);
                self.decode(|decoder, events| decoder.feed(&piece, events));
            }
            ModelEvent::Reasoning(piece) => {
                self.token(&piece)?;
                self.answer.reasoning.push_str(&piece);
            }
            ModelEvent::Finished { stop_reason, usage, model } => self.finish(stop_reason, usage, model)?,
        }
        Ok(())
    }

    /// Counts a piece of the answer that has arrived.
    fn token(&mut self, piece: &str) -> Result<(), Fault> {
        if self.answer.first_token.is_none() && !piece.is_empty() {
            self.answer.first_token = Some(self.started.elapsed());
        }
        if self.answer.text.len() + self.answer.reasoning.len() + piece.len() > MAX_ANSWER_BYTES {
            let message = format!("the answer is longer than {} MiB", MAX_ANSWER_BYTES / (1024 * 1024));
            return Err(self.fault(FaultCode::Protocol, message));
        }
        Ok(())
    }

    fn decode(&mut self, with: impl FnOnce(&mut dyn Decoder, &mut Vec<EngineEvent>)) {
        let mut events = Vec::new();
        with(self.answer.decoder.as_mut(), &mut events);
        self.crossed |= !events.is_empty();
        self.events.extend(events);
    }

    fn finish(&mut self, stop_reason: String, usage: Option<Usage>, model: Option<String>) -> Result<(), Fault> {
        let truncated = stop_reason == STOP_LENGTH;
        if self.answer.text.trim().is_empty() && !self.crossed && !truncated {
            return Err(self.fault(FaultCode::EmptyResponse, "the model answered without a text"));
        }
        let usage = usage.filter(|usage| *usage != Usage::default());
        self.decode(|decoder, events| {
            decoder.finish(if truncated { MessageEnd::Truncated } else { MessageEnd::Complete }, events);
            if truncated {
                let message = "The message was cut off at the limit of tokens. Say less at once, or go on in the next \
                               message.";
                events.push(violation(TRUNCATED, message, None));
            }
        });
        let duration_ms = millis(self.started.elapsed());
        self.record_complete(&stop_reason, usage, model.as_deref(), duration_ms);
        self.events.push_back(EngineEvent::Done(Done {
            text: std::mem::take(&mut self.answer.text),
            stop_reason,
            model: model.unwrap_or_else(|| self.call.model.clone()),
            provider: self.provider.name().to_owned(),
            usage,
            duration_ms,
            first_token_ms: self.answer.first_token.map(millis),
        }));
        self.phase = Phase::Ended;
        Ok(())
    }

    /// Begins another attempt, or gives up.
    fn fail(&mut self, fault: Fault) -> Result<(), VerbError> {
        let delay = if self.crossed { None } else { retry::delay(self.attempt, &fault) };
        if let Some(delay) = delay {
            let data = json!({ "attempt": self.attempt, "delayMs": millis(delay), "fault": fault });
            self.record("kernel:engine:retry", data);
            self.attempt += 1;
            self.answer = Answer::new(self.format);
            self.phase = Phase::Waiting(Instant::now() + delay);
            return Ok(());
        }
        self.end();
        let mut data = json!({ "fault": fault, "attempts": self.attempt });
        if self.crossed {
            data["text"] = self.answer.text.as_str().into();
        }
        self.record("kernel:engine:failed", data);
        Err(failure(&fault, self.crossed, self.attempt))
    }

    fn interrupt(&mut self) -> VerbError {
        if !matches!(self.phase, Phase::Ended) {
            self.record_unfinished(STOP_INTERRUPTED);
        }
        self.end();
        VerbError::new("INTERRUPTED", self.signal.reason().unwrap_or("the wake was aborted"))
    }

    /// Lets go of the provider's stream, which closes its connection, and of what was not handed over.
    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.events.clear();
    }

    fn fault(&self, code: FaultCode, message: impl Into<String>) -> Fault {
        Fault::new(code, self.provider.name(), message).model(&self.call.model)
    }

    fn record_unfinished(&self, stop_reason: &str) {
        self.record_complete(stop_reason, None, None, millis(self.started.elapsed()));
    }

    fn record_complete(&self, stop_reason: &str, usage: Option<Usage>, answered_by: Option<&str>, duration_ms: u64) {
        self.record(
            "kernel:engine:complete",
            Complete {
                text: &self.answer.text,
                reasoning: Some(self.answer.reasoning.as_str()).filter(|reasoning| !reasoning.is_empty()),
                stop_reason,
                usage,
                model: answered_by.filter(|model| *model != self.call.model),
                attempts: self.attempt,
                first_token_ms: self.answer.first_token.map(millis),
                duration_ms,
            },
        );
    }

    fn record(&self, kind: &'static str, data: impl Serialize) {
        // Strings, numbers and maps with string keys always have a JSON form.
        let data = serde_json::to_value(data).unwrap_or(Value::Null);
        self.telemetry.record(kind, data, &self.span);
    }
}

/// What a cognet is told of an inference that failed. `crossed` says whether it has seen part of the answer.
pub(crate) fn failure(fault: &Fault, crossed: bool, attempts: u32) -> VerbError {
    let context = match (crossed, attempts) {
        (true, _) => " (part of the answer had arrived, so it was not asked for again)".to_owned(),
        (false, 1) => String::new(),
        (false, attempts) => format!(" (after {attempts} attempts)"),
    };
    VerbError::new("ENGINE_FAILED", format!("{fault}{context}"))
}

impl EventStream for Inference {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<EngineEvent>, VerbError>> {
        Box::pin(async move {
            let signal = self.signal.clone();
            loop {
                let ended = matches!(self.phase, Phase::Ended);
                if signal.aborted() && !(ended && self.events.is_empty()) {
                    return Err(self.interrupt());
                }
                if let Some(event) = self.events.pop_front() {
                    return Ok(Some(event));
                }
                if ended {
                    return Ok(None);
                }
                tokio::select! {
                    biased;
                    () = signal.cancelled() => return Err(self.interrupt()),
                    step = self.step() => step?,
                }
            }
        })
    }
}

impl Drop for Inference {
    fn drop(&mut self) {
        if !matches!(self.phase, Phase::Ended) {
            self.record_unfinished(if self.signal.aborted() { STOP_INTERRUPTED } else { STOP_DROPPED });
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Start<'a> {
    provider: &'a str,
    model: &'a str,
    format: Format,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct Input<'a> {
    messages: &'a [Message],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Complete<'a> {
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a str>,
    stop_reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
    /// The one that answered, where it is called otherwise than the one that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<&'a str>,
    attempts: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_token_ms: Option<u64>,
    duration_ms: u64,
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
