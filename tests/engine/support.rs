//! What the tests of engines share.

use std::{
    path::Path,
    sync::{Arc, Mutex},
};

use axon::engine::{Engine, EngineSpec, MessageEnd, SessionFacts, Telemetry, decoder};
use axon_runtime::{AbortController, Done, EngineEvent, EventStream, Format, Message, Role, StreamRequest, VerbError};
use serde_json::{Value, json};

/// The session of a test: what a script may quote.
#[derive(Default)]
pub struct Facts {
    pub result: Option<String>,
    pub stimulus: Option<String>,
}

impl SessionFacts for Facts {
    fn last_result(&self) -> Option<String> {
        self.result.clone()
    }

    fn last_stimulus(&self) -> Option<String> {
        self.stimulus.clone()
    }
}

/// Keeps the telemetry of a test: type, data, span.
#[derive(Default)]
pub struct Recorder(Mutex<Vec<(&'static str, Value, String)>>);

impl Telemetry for Recorder {
    fn record(&self, kind: &'static str, data: Value, span: &str) {
        self.0.lock().unwrap().push((kind, data, span.to_owned()));
    }
}

impl Recorder {
    pub fn kinds(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(kind, ..)| kind.rsplit(':').next().unwrap()).collect()
    }

    /// The data of all events of `kernel:engine:{kind}`.
    pub fn all(&self, kind: &str) -> Vec<Value> {
        let kind = format!("kernel:engine:{kind}");
        self.0.lock().unwrap().iter().filter(|(k, ..)| *k == kind).map(|(_, data, _)| data.clone()).collect()
    }

    pub fn only(&self, kind: &str) -> Value {
        let mut all = self.all(kind);
        assert_eq!(all.len(), 1, "{kind} in {:?}", self.kinds());
        all.remove(0)
    }

    pub fn spans(&self) -> Vec<String> {
        let mut spans: Vec<String> = self.0.lock().unwrap().iter().map(|(.., span)| span.clone()).collect();
        spans.dedup();
        spans
    }

    pub fn text(&self) -> String {
        format!("{:?}", self.0.lock().unwrap())
    }
}

pub fn request(format: Format) -> StreamRequest {
    StreamRequest {
        messages: vec![Message { role: Role::User, content: "hello".to_owned() }],
        format,
        model: None,
        max_tokens: None,
        temperature: None,
    }
}

pub fn no_env(_: &str) -> Option<String> {
    None
}

/// A scripted engine, its file in a folder of its own.
pub struct Scripted {
    pub engine: Engine,
    _dir: tempfile::TempDir,
}

pub fn scripted(script: &Value) -> Scripted {
    scripted_with(script, Facts::default())
}

pub fn scripted_with(script: &Value, facts: Facts) -> Scripted {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.json"), script.to_string()).unwrap();
    let spec = EngineSpec { script: Some("model.json".into()), ..EngineSpec::default() };
    let engine = Engine::from_spec(spec, dir.path(), &no_env, Arc::new(facts)).unwrap();
    Scripted { engine, _dir: dir }
}

pub fn engine_for(spec: EngineSpec) -> Engine {
    Engine::from_spec(spec, Path::new("."), &no_env, Arc::new(Facts::default())).unwrap()
}

/// One inference, to its end.
pub struct Outcome {
    pub events: Vec<EngineEvent>,
    pub error: Option<VerbError>,
    pub log: Arc<Recorder>,
}

pub async fn infer(engine: &Engine, request: StreamRequest) -> Outcome {
    let log = Arc::new(Recorder::default());
    let stream = engine.stream(request, AbortController::new().signal(), log.clone());
    let (events, error) = read(stream).await;
    Outcome { events, error, log }
}

pub async fn read(mut stream: Box<dyn EventStream>) -> (Vec<EngineEvent>, Option<VerbError>) {
    let mut events = Vec::new();
    loop {
        match stream.next().await {
            Ok(Some(event)) => events.push(event),
            Ok(None) => return (events, None),
            Err(error) => {
                assert!(matches!(stream.next().await, Ok(None)), "a failed stream has ended");
                return (events, Some(error));
            }
        }
    }
}

impl Outcome {
    pub fn done(&self) -> &Done {
        let is_done = |event: &&EngineEvent| matches!(event, EngineEvent::Done(_));
        assert_eq!(self.events.iter().filter(is_done).count(), 1, "{:?} {:?}", self.events, self.error);
        match self.events.last() {
            Some(EngineEvent::Done(done)) => done,
            last => panic!("engine:done is not last but {last:?}"),
        }
    }

    /// The events without deltas and `engine:done`, in short.
    pub fn blocks(&self) -> Vec<String> {
        blocks(&self.events)
    }

    pub fn failure(&self) -> &str {
        let error = self.error.as_ref().expect("the inference fails");
        assert_eq!(error.code, "ENGINE_FAILED");
        assert!(!self.events.iter().any(|event| matches!(event, EngineEvent::Done(_))));
        &error.message
    }

    pub fn fault(&self) -> Value {
        self.log.only("failed")["fault"].clone()
    }
}

/// Events without deltas and `engine:done`, in short: `text:hi`, `ts:1+1`, `error:CODE`, `stop`.
pub fn blocks(events: &[EngineEvent]) -> Vec<String> {
    events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::TextDelta { .. } | EngineEvent::Done(_) => None,
            EngineEvent::Text { content } => Some(format!("text:{content}")),
            EngineEvent::TypeScript { content } => Some(format!("ts:{content}")),
            EngineEvent::OutputError { code, .. } => Some(format!("error:{code}")),
            EngineEvent::Stop => Some("stop".to_owned()),
        })
        .collect()
}

/// Decodes a message that arrives in `pieces`.
pub fn decode<'a>(format: Format, pieces: impl IntoIterator<Item = &'a str>) -> Vec<EngineEvent> {
    let mut decoder = decoder(format);
    let mut events = Vec::new();
    for piece in pieces {
        decoder.feed(piece, &mut events);
    }
    decoder.finish(MessageEnd::Complete, &mut events);
    events
}

/// A chunk of an answer of chat completions.
pub fn chunk(delta: Value) -> String {
    format!("data: {}\n\n", json!({ "model": "served-model", "choices": [{ "index": 0, "delta": delta }] }))
}
