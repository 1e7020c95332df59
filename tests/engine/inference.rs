//! What every inference keeps to, whatever the provider: the order of events, retries, aborts, telemetry.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use axon::engine::{Engine, EngineConfigError, Fault, FaultCode, ModelCall, ModelEvent, ModelStream, Provider};
use axon_runtime::{AbortController, BoxFuture, EngineEvent, Format, StreamRequest};
use serde_json::{Value, json};

use crate::support::{Recorder, infer, request, scripted};

fn codes(model: &Value) -> Value {
    json!({ "calls": [model] })
}

#[tokio::test]
async fn events_come_in_the_order_of_the_message_and_done_is_last_and_once() {
    let model =
        scripted(&codes(&json!({ "deltas": ["x<te", "xt>a", "b</text><typescript>1</typescript>", "<done/>"] })));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    outcome.done();
    let kinds: Vec<String> = outcome
        .events
        .iter()
        .map(|event| serde_json::to_value(event).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        kinds,
        [
            "engine:output:error",
            "engine:text:delta",
            "engine:text:delta",
            "engine:text",
            "engine:typescript",
            "engine:stop",
            "engine:done",
        ]
    );
}

#[tokio::test]
async fn one_call_is_one_span_from_start_to_complete() {
    let model = scripted(&json!({ "calls": [
        { "fault": { "status": 503, "retryAfterMs": 1 } },
        { "text": "<text>hi</text><done/>", "reasoning": "secret thoughts", "usage": { "input": 3 } },
    ]}));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(outcome.log.kinds(), ["start", "input", "retry", "complete"]);
    assert_eq!(outcome.log.spans().len(), 1);
    assert_eq!(outcome.log.only("start"), json!({ "provider": "script", "model": "script", "format": "air" }));
    assert_eq!(outcome.log.only("input"), json!({ "messages": [{ "role": "user", "content": "hello" }] }));
    let complete = outcome.log.only("complete");
    assert_eq!(complete["text"], "<text>hi</text><done/>");
    assert_eq!(complete["stopReason"], "stop");
    assert_eq!(complete["usage"], json!({ "input": 3 }));
    assert_eq!(complete["attempts"], 2);
    assert!(complete["durationMs"].is_u64() && complete["firstTokenMs"].is_u64());

    assert_eq!(complete["reasoning"], "secret thoughts");
    assert!(!format!("{:?}", outcome.events).contains("secret"), "reasoning never crosses");
}

#[tokio::test]
async fn three_attempts_are_made_and_then_the_fault_is_raised() {
    let model = scripted(&codes(&json!({ "fault": { "status": 500, "retryAfterMs": 1, "message": "on fire" } })));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(outcome.failure(), "TRANSPORT (script, script, HTTP 500): on fire (after 3 attempts)");
    assert_eq!(outcome.log.kinds(), ["start", "input", "retry", "retry", "failed"]);
    assert_eq!(outcome.log.only("failed")["attempts"], 3);
    assert_eq!(outcome.log.all("retry").iter().map(|retry| retry["attempt"].clone()).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn what_would_fail_again_is_not_retried() {
    let model = scripted(&codes(&json!({ "fault": { "status": 401 } })));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    outcome.failure();
    assert_eq!(outcome.log.kinds(), ["start", "input", "failed"]);
}

#[tokio::test]
async fn a_failure_is_final_once_an_event_has_crossed() {
    let model = scripted(&json!({ "calls": [
        { "deltas": ["<text>half"], "then": "disconnect" },
        { "text": "<text>whole</text><done/>" },
    ]}));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert!(outcome.failure().contains("part of the answer had arrived"), "{}", outcome.failure());
    assert_eq!(outcome.events, [EngineEvent::TextDelta { content: "half".to_owned() }]);
    assert_eq!(outcome.log.kinds(), ["start", "input", "failed"]);
}

#[tokio::test]
async fn a_failure_before_any_event_is_retried_and_leaves_no_trace_of_its_text() {
    let model = scripted(&json!({ "calls": [
        { "deltas": ["<thinking>hm</thinking>\n", "<te"], "then": "disconnect" },
        { "text": "<text>whole</text><done/>" },
    ]}));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(outcome.blocks(), ["text:whole", "stop"]);
    assert_eq!(outcome.done().text, "<text>whole</text><done/>");
}

#[tokio::test]
async fn an_answer_without_text_is_a_fault_and_retried() {
    let model = scripted(&json!({ "calls": [{ "text": "" }, { "deltas": [], "reasoning": "hm" }, { "text": "\n" }] }));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(outcome.fault()["code"], "EMPTY_RESPONSE");
    assert_eq!(outcome.log.only("failed")["attempts"], 3);
}

#[tokio::test]
async fn an_answer_that_was_cut_off_says_so() {
    let model = scripted(&json!({ "calls": [
        { "text": "<text>and so", "stop_reason": "length" },
        { "text": "", "stop_reason": "length" },
    ]}));
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(outcome.blocks(), ["text:and so", "error:INCOMPLETE_BLOCK", "error:MISSING_DONE", "error:TRUNCATED"]);
    assert_eq!(outcome.done().stop_reason, "length");
    for format in [Format::Raw, Format::Fenced] {
        let outcome = infer(&model.engine, request(format)).await;
        assert_eq!(outcome.blocks(), ["error:TRUNCATED"]);
    }
}

#[tokio::test]
async fn an_aborted_call_is_interrupted_and_no_fault() {
    let model = scripted(&codes(&json!({ "text": "<text>a</text><text>b</text><done/>" })));
    let abort = AbortController::new();
    let log = Arc::new(Recorder::default());
    let mut stream = model.engine.stream(request(Format::Air), abort.signal(), log.clone());
    assert!(matches!(stream.next().await, Ok(Some(EngineEvent::TextDelta { .. }))));
    abort.abort("user");
    assert_eq!(stream.next().await.unwrap_err().code, "INTERRUPTED");
    assert_eq!(stream.next().await, Ok(None));
    drop(stream);
    assert_eq!(log.kinds(), ["start", "input", "complete"]);
    assert_eq!(log.only("complete")["stopReason"], "interrupted");
}

#[tokio::test]
async fn an_abort_behind_the_end_of_the_answer_is_not_recorded_as_another_end() {
    let model = scripted(&codes(&json!({ "text": "", "stop_reason": "length" })));
    let abort = AbortController::new();
    let log = Arc::new(Recorder::default());
    let mut stream = model.engine.stream(request(Format::Raw), abort.signal(), log.clone());
    assert!(matches!(stream.next().await, Ok(Some(EngineEvent::OutputError { .. }))));
    abort.abort("user");
    assert_eq!(stream.next().await.unwrap_err().code, "INTERRUPTED");
    assert_eq!(log.only("complete")["stopReason"], "length");
}

#[tokio::test]
async fn an_abort_ends_the_wait_for_another_attempt() {
    let model = scripted(&codes(&json!({ "fault": { "status": 429, "retryAfterMs": 5000 } })));
    let abort = AbortController::new();
    let log = Arc::new(Recorder::default());
    let mut stream = model.engine.stream(request(Format::Air), abort.signal(), log.clone());
    let reader = tokio::spawn(async move { stream.next().await });
    while log.all("retry").is_empty() {
        tokio::task::yield_now().await;
    }
    abort.abort("user");
    assert_eq!(reader.await.unwrap().unwrap_err().code, "INTERRUPTED");
    assert_eq!(log.kinds(), ["start", "input", "retry", "complete"]);
}

#[tokio::test]
async fn a_stream_that_is_dropped_is_recorded_with_what_had_arrived() {
    let model = scripted(&codes(&json!({ "deltas": ["<text>a", "b</text>"] })));
    let log = Arc::new(Recorder::default());
    let mut stream = model.engine.stream(request(Format::Air), AbortController::new().signal(), log.clone());
    stream.next().await.unwrap();
    drop(stream);
    let complete = log.only("complete");
    assert_eq!((&complete["stopReason"], &complete["text"]), (&json!("dropped"), &json!("<text>a")));
}

#[tokio::test]
async fn an_engine_that_is_not_configured_fails_when_it_is_asked() {
    let error = EngineConfigError::MissingKey { variable: "OPENAI_API_KEY".to_owned(), base_url: "x".to_owned() };
    let outcome = infer(&Engine::unavailable(&error), request(Format::Air)).await;
    assert_eq!(outcome.fault()["code"], "AUTH");
    assert!(outcome.failure().contains("OPENAI_API_KEY"));
}

/// A provider of an embedder: it keeps the calls and says what it is told to.
struct Fake {
    calls: Arc<Mutex<Vec<ModelCall>>>,
    events: Vec<ModelEvent>,
    open: Arc<AtomicUsize>,
}

struct FakeStream {
    events: std::vec::IntoIter<ModelEvent>,
    open: Arc<AtomicUsize>,
}

impl Provider for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn model(&self) -> &str {
        "small"
    }

    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async move {
            self.calls.lock().unwrap().push(call);
            self.open.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(FakeStream { events: self.events.clone().into_iter(), open: self.open.clone() }) as _)
        })
    }
}

impl ModelStream for FakeStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async { Ok(self.events.next()) })
    }
}

impl Drop for FakeStream {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_request_names_the_model_or_gets_the_providers() {
    let calls = Arc::default();
    let finished = ModelEvent::Finished { stop_reason: "stop".to_owned(), usage: None, model: None };
    let engine = Engine::with_provider(Arc::new(Fake {
        calls: Arc::clone(&calls),
        events: vec![ModelEvent::Text("hi".to_owned()), finished],
        open: Arc::default(),
    }));
    assert_eq!(engine.describe(), ("fake", "small"));
    let named = StreamRequest {
        model: Some("large".to_owned()),
        max_tokens: Some(5),
        temperature: Some(0.5),
        ..request(Format::Raw)
    };
    assert_eq!(infer(&engine, request(Format::Raw)).await.done().model, "small");
    let outcome = infer(&engine, named).await;
    assert_eq!(outcome.done().model, "large");
    assert_eq!(outcome.log.only("start")["model"], "large");
    let calls = calls.lock().unwrap();
    assert_eq!((calls[0].model.as_str(), calls[0].max_tokens, calls[0].temperature), ("small", None, None));
    assert_eq!((calls[1].model.as_str(), calls[1].max_tokens, calls[1].temperature), ("large", Some(5), Some(0.5)));
}

#[tokio::test]
async fn an_answer_that_ends_without_saying_so_is_a_fault() {
    let engine = Engine::with_provider(Arc::new(Fake {
        calls: Arc::default(),
        events: vec![ModelEvent::Text("hi".to_owned())],
        open: Arc::default(),
    }));
    let outcome = infer(&engine, request(Format::Raw)).await;
    assert_eq!(outcome.fault()["code"], FaultCode::Transport.as_str());
}

#[tokio::test]
async fn the_providers_stream_is_let_go_at_the_end_at_an_abort_and_when_dropped() {
    let open = Arc::new(AtomicUsize::new(0));
    let text = ModelEvent::Text("hi".to_owned());
    let finished = ModelEvent::Finished { stop_reason: "stop".to_owned(), usage: None, model: None };
    let engine = Engine::with_provider(Arc::new(Fake {
        calls: Arc::default(),
        events: vec![text.clone(), text, finished],
        open: open.clone(),
    }));
    let abort = AbortController::new();
    let begin = || engine.stream(request(Format::Raw), abort.signal(), Arc::new(Recorder::default()));

    let mut stream = begin();
    stream.next().await.unwrap();
    assert_eq!(open.load(Ordering::SeqCst), 1);
    while !matches!(stream.next().await, Ok(Some(EngineEvent::Done(_)))) {}
    assert_eq!(open.load(Ordering::SeqCst), 0);

    let mut dropped = begin();
    dropped.next().await.unwrap();
    drop(dropped);
    assert_eq!(open.load(Ordering::SeqCst), 0);

    let mut aborted = begin();
    aborted.next().await.unwrap();
    abort.abort("user");
    aborted.next().await.unwrap_err();
    assert_eq!(open.load(Ordering::SeqCst), 0);
}
