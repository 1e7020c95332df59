//! The script engine.

use std::{path::Path, sync::Arc, time::Duration};

use axon::engine::{Engine, EngineConfigError, EngineSpec};
use axon_runtime::{AbortController, EngineEvent, Format, StreamRequest, Usage};
use serde_json::json;

use crate::support::{Facts, Recorder, infer, no_env, request, scripted, scripted_with};

fn deltas(events: &[EngineEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::TextDelta { content } => Some(content.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn calls_are_answered_in_order_and_the_last_one_repeats() {
    let model = scripted(&json!({ "calls": [
        { "deltas": ["<typescript>1+", "1</typescript>"], "usage": { "input": 12, "output": 8 } },
        { "text": "<text>two</text><done/>" },
    ]}));
    let first = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(first.blocks(), ["ts:1+1"]);
    let done = first.done();
    assert_eq!(done.text, "<typescript>1+1</typescript>");
    assert_eq!(done.usage, Some(Usage { input: Some(12), output: Some(8), ..Usage::default() }));
    assert_eq!((done.provider.as_str(), done.model.as_str(), done.stop_reason.as_str()), ("script", "script", "stop"));
    for _ in 0..2 {
        let next = infer(&model.engine.clone(), request(Format::Air)).await;
        assert_eq!(next.blocks(), ["text:two", "stop"]);
        assert_eq!(next.done().usage, None);
    }
}

#[tokio::test]
async fn deltas_are_sent_just_as_split_and_text_in_chunks_of_characters() {
    let model = scripted(&json!({ "calls": [
        { "deltas": ["a", "bc", "", "ä"] },
        { "text": "aäbcé", "chunk": 2, "delay_ms": 1 },
    ]}));
    assert_eq!(deltas(&infer(&model.engine, request(Format::Raw)).await.events), ["a", "bc", "ä"]);
    assert_eq!(deltas(&infer(&model.engine, request(Format::Raw)).await.events), ["aä", "bc", "é"]);
}

#[tokio::test]
async fn a_script_quotes_the_session() {
    let script = json!({ "calls": [
        { "text": "${last_stimulus}? ${last_result}! ${other} ${" },
        { "deltas": ["<text>${last_result}", "${last_stimulus}</text>"] },
    ]});
    let facts = Facts { result: Some("${last_stimulus}".to_owned()), stimulus: Some("why".to_owned()) };
    let model = scripted_with(&script, facts);
    assert_eq!(infer(&model.engine, request(Format::Raw)).await.done().text, "why? ${last_stimulus}! ${other} ${");
    assert_eq!(infer(&model.engine, request(Format::Raw)).await.done().text, "<text>${last_stimulus}why</text>");

    let empty = scripted(&script);
    assert_eq!(infer(&empty.engine, request(Format::Raw)).await.done().text, "? ! ${other} ${");
}

#[tokio::test]
async fn attempts_count_as_calls() {
    let model = scripted(&json!({ "calls": [
        { "fault": { "status": 429, "retryAfterMs": 5 } },
        { "text": "<text>at last</text><done/>" },
        { "text": "<text>next</text><done/>" },
    ]}));
    let first = infer(&model.engine, request(Format::Air)).await;
    assert_eq!(first.blocks(), ["text:at last", "stop"]);
    let retry = first.log.only("retry");
    assert_eq!(retry["attempt"], 1);
    assert_eq!(
        retry["fault"],
        json!({
            "code": "RATE_LIMIT", "message": "the script says so", "retryable": true, "provider": "script",
            "model": "script", "status": 429, "retryAfterMs": 5,
        })
    );
    assert!(retry["delayMs"].as_u64().unwrap() < 100);
    assert_eq!(infer(&model.engine, request(Format::Air)).await.blocks(), ["text:next", "stop"]);
}

#[tokio::test]
async fn a_fault_names_its_status_or_its_code() {
    let cases = [
        (json!({ "status": 401 }), "AUTH"),
        (json!({ "status": 402 }), "QUOTA"),
        (json!({ "status": 422, "message": "bad" }), "INVALID_REQUEST"),
        (json!({ "code": "CONTEXT_TOO_LONG" }), "CONTEXT_TOO_LONG"),
        (json!({ "code": "PROTOCOL", "status": 500 }), "PROTOCOL"),
    ];
    for (fault, code) in cases {
        let model = scripted(&json!({ "calls": [{ "fault": fault }] }));
        let outcome = infer(&model.engine, request(Format::Air)).await;
        assert_eq!(outcome.fault()["code"], code);
        assert!(outcome.failure().starts_with(code), "{}", outcome.failure());
    }
}

#[tokio::test]
async fn a_strict_script_fails_past_its_end() {
    let model = scripted(&json!({ "strict": true, "calls": [{ "text": "<done/>" }] }));
    infer(&model.engine, request(Format::Air)).await.done();
    let outcome = infer(&model.engine, request(Format::Air)).await;
    assert!(outcome.failure().contains("holds 1 calls; this is call 2"), "{}", outcome.failure());
}

#[tokio::test]
async fn a_call_with_a_model_answers_requests_for_that_model_alone() {
    let model = scripted(&json!({ "strict": true, "calls": [
        { "model": "large", "text": "from the large" },
        { "text": "from any" },
        { "model": "small", "text": "from the small" },
    ] }));
    let ask = async |name: &str| {
        let asked = StreamRequest { model: Some(name.to_owned()), ..request(Format::Raw) };
        infer(&model.engine, asked).await
    };
    assert_eq!(ask("small").await.done().text, "from any");
    assert_eq!(ask("small").await.done().text, "from the small");
    assert_eq!(ask("large").await.done().text, "from the large");
    let failure = ask("large").await;
    assert!(failure.failure().contains("holds 2 calls for model large; this is call 3"), "{}", failure.failure());
}

#[tokio::test]
async fn a_scripted_wait_can_be_aborted() {
    let model = scripted(&json!({ "calls": [{ "text": "ab", "chunk": 1, "delay_ms": 3_600_000 }] }));
    let abort = AbortController::new();
    let log = Arc::new(Recorder::default());
    let mut stream = model.engine.stream(request(Format::Raw), abort.signal(), log.clone());
    let read = tokio::spawn(async move { stream.next().await });
    tokio::task::yield_now().await;
    abort.abort("enough");
    let error = tokio::time::timeout(Duration::from_secs(10), read).await.unwrap().unwrap().unwrap_err();
    assert_eq!((error.code.as_str(), error.message.as_str()), ("INTERRUPTED", "enough"));
    assert_eq!(log.only("complete")["stopReason"], "interrupted");
}

fn config_error(script: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("model.json"), script).unwrap();
    let spec = EngineSpec { script: Some("model.json".into()), ..EngineSpec::default() };
    let error = Engine::from_spec(spec, dir.path(), &no_env, Arc::new(Facts::default())).expect_err("an error");
    assert!(matches!(error, EngineConfigError::InvalidScript { .. }));
    let message = error.to_string();
    message.strip_prefix("model.json").expect("the file comes first, by its path in the agent").to_owned()
}

#[test]
fn a_bad_script_names_file_line_and_what_is_accepted() {
    let unknown = config_error("{\"calls\":[\n{\"txt\":\"a\"}]}");
    assert!(unknown.starts_with(":2:"), "{unknown}");
    assert!(unknown.contains("unknown field `txt`") && unknown.contains("`deltas`, `text`"), "{unknown}");

    let cases = [
        ("{\"calls\":[],\"x\":1}", "unknown field `x`"),
        ("{\"calls\":[]}", "`calls` is empty"),
        ("{}", "missing field `calls`"),
        ("{\"calls\":[{}]}", "just one of `deltas`, `text` and `fault`"),
        ("{\"calls\":[{\"text\":\"a\",\"deltas\":[]}]}", "just one of"),
        ("{\"calls\":[{\"deltas\":[],\"chunk\":3}]}", "`chunk` splits `text`"),
        ("{\"calls\":[{\"text\":\"a\",\"chunk\":0}]}", "nonzero"),
        ("{\"calls\":[{\"text\":\"a\",\"then\":\"explode\"}]}", "`explode`, expected `disconnect`"),
        ("{\"calls\":[{\"fault\":{}}]}", "needs `status` or `code`"),
        ("{\"calls\":[{\"fault\":{\"code\":\"NOPE\"}}]}", "expected one of `EMPTY_RESPONSE`"),
        ("{\"calls\":[{\"fault\":{\"status\":500},\"usage\":{}}]}", "nothing else"),
        ("{\"calls\":[{\"text\":\"a\",\"usage\":{\"in\":1}}]}", "unknown field `in`"),
        ("{\"calls\":", "EOF"),
    ];
    for (script, part) in cases {
        let message = config_error(script);
        assert!(message.contains(part) && !message.contains(" at line "), "{script}: {message}");
    }
}

#[test]
fn a_script_that_is_not_there_is_named() {
    let spec = EngineSpec { script: Some("nowhere.json".into()), ..EngineSpec::default() };
    let error = Engine::from_spec(spec, Path::new("/agent"), &no_env, Arc::new(Facts::default())).unwrap_err();
    let message = error.to_string();
    assert!(message.starts_with("cannot read the engine's script nowhere.json: "), "{message}");
}
