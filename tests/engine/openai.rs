//! The OpenAI-compatible provider against a server that can do anything.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use axon::engine::{Engine, EngineSpec, Timeouts};
use axon_runtime::{AbortController, Format, StreamRequest, Usage};
use serde_json::{Value, json};

use crate::{
    server::{Body, Reply, Server, bytes},
    support::{Facts, Outcome, Recorder, chunk, engine_for, infer, request},
};

/// Longer than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);

fn spec(server: &Server) -> EngineSpec {
    EngineSpec {
        provider: Some("openai".to_owned()),
        model: Some("test-model".to_owned()),
        base_url: Some(server.base_url.clone()),
        timeouts: Timeouts { connect: LONG, first_token: LONG, silence: LONG },
        ..EngineSpec::default()
    }
}

async fn infer_raw(server: &Server) -> Outcome {
    infer(&engine_for(spec(server)), request(Format::Raw)).await
}

fn text(content: &str) -> String {
    chunk(json!({ "content": content }))
}

fn finish(reason: &str) -> String {
    format!("data: {}\n\n", json!({ "choices": [{ "delta": {}, "finish_reason": reason }] }))
}

const DONE: &str = "data: [DONE]\n\n";

fn answer() -> Vec<String> {
    vec![
        chunk(json!({ "role": "assistant", "content": "" })),
        chunk(json!({ "reasoning_content": "let me " })),
        chunk(json!({ "reasoning": "see", "content": null })),
        text("<text>Hällo "),
        text("😀</text><done/>"),
        finish("stop"),
        format!(
            "data: {}\n\n",
            json!({ "choices": [], "usage": {
                "prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 46,
                "prompt_tokens_details": { "cached_tokens": 5 },
                "completion_tokens_details": { "reasoning_tokens": 6 },
            }})
        ),
        DONE.to_owned(),
    ]
}

fn check_answer(outcome: &Outcome) {
    assert_eq!(outcome.blocks(), ["text:Hällo 😀", "stop"], "{:?}", outcome.error);
    let done = outcome.done();
    assert_eq!(done.text, "<text>Hällo 😀</text><done/>");
    assert_eq!(
        (done.provider.as_str(), done.model.as_str(), done.stop_reason.as_str()),
        ("openai", "served-model", "stop")
    );
    assert_eq!(
        done.usage,
        Some(Usage { input: Some(12), output: Some(34), cached_input: Some(5), reasoning: Some(6) })
    );
    assert_eq!(outcome.log.only("complete")["reasoning"], "let me see");
    assert!(!format!("{:?}", outcome.events).contains("let me"));
}

#[tokio::test]
async fn an_answer_is_decoded_with_its_usage_and_reasoning_stays_in_the_log() {
    let server = Server::start([Reply::events(answer())]).await;
    check_answer(&infer(&engine_for(spec(&server)), request(Format::Air)).await);
}

#[tokio::test]
async fn packets_and_line_endings_do_not_matter() {
    let stream = format!(": keep-alive\n\nevent: message\n{}", answer().concat());
    for ending in ["\n", "\r\n", "\r"] {
        let stream = stream.replace('\n', ending).into_bytes();
        for size in [1, 7, stream.len()] {
            let pieces = stream.chunks(size).map(<[u8]>::to_vec).collect();
            let server = Server::start([Reply::stream(Body::Pieces(pieces))]).await;
            check_answer(&infer(&engine_for(spec(&server)), request(Format::Air)).await);
        }
    }
}

#[tokio::test]
async fn a_request_says_what_was_asked_and_no_more() {
    let server = Server::start([Reply::events([text("hi"), finish("stop"), DONE.to_owned()])]).await;
    infer_raw(&server).await.done();
    let full = StreamRequest {
        model: Some("other".to_owned()),
        max_tokens: Some(100),
        temperature: Some(0.5),
        ..request(Format::Raw)
    };
    let spec = EngineSpec {
        headers: BTreeMap::from([("x-title".to_owned(), "axon".to_owned())]),
        api_key_env: Some("TEST_KEY".to_owned()),
        base_url: Some(format!("{}/?version=1", server.base_url)),
        ..spec(&server)
    };
    let env = |name: &str| (name == "TEST_KEY").then(|| "sk-secret".to_owned());
    let engine = Engine::from_spec(spec, Path::new("."), &env, Arc::new(Facts::default())).unwrap();
    infer(&engine, full).await.done();

    let [plain, full] = &server.requests()[..] else { panic!("two requests") };
    assert!(plain.head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{}", plain.head);
    assert!(!plain.head.contains("authorization"));
    let messages = json!([{ "role": "user", "content": "hello" }]);
    assert_eq!(
        plain.body,
        json!({
            "model": "test-model", "messages": messages, "stream": true, "stream_options": { "include_usage": true },
        })
    );
    assert!(full.head.starts_with("post /v1/chat/completions?version=1 http/1.1\r\n"), "{}", full.head);
    assert!(full.head.contains("authorization: bearer sk-secret\r\n") && full.head.contains("x-title: axon\r\n"));
    assert_eq!(
        full.body,
        json!({
            "model": "other", "messages": messages, "stream": true, "stream_options": { "include_usage": true },
            "max_tokens": 100, "temperature": 0.5,
        })
    );
}

#[tokio::test]
async fn content_in_parts_is_text_and_reasoning() {
    let thinking = json!({ "content": [{ "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] }] });
    let said = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] });
    let server = Server::start([Reply::events([chunk(thinking), chunk(said), DONE.to_owned()])]).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.done().text, "ab");
    assert_eq!(outcome.log.only("complete")["reasoning"], "hm");
}

#[tokio::test]
async fn a_failure_says_what_to_do_about_it() {
    let refused = Reply::status("401 Unauthorized", "{\"error\":{\"message\":\"Who are you?\"}}");
    let server = Server::start([refused]).await;
    let message = infer_raw(&server).await.failure().to_owned();
    assert!(message.contains("Who are you? (no key was sent: name its variable with `api_key_env`"), "{message}");
    let with_key = EngineSpec { api_key_env: Some("TEST_KEY".to_owned()), ..spec(&server) };
    let env = |_: &str| Some("sk-secret".to_owned());
    let engine = Engine::from_spec(with_key, Path::new("."), &env, Arc::new(Facts::default())).unwrap();
    let message = infer(&engine, request(Format::Raw)).await.failure().to_owned();
    assert!(message.contains("Who are you? (the key is the one in TEST_KEY)"), "{message}");

    let server = Server::start([Reply::status("308 Permanent\r\nlocation: https://elsewhere.example/v1", "")]).await;
    let message = infer_raw(&server).await.failure().to_owned();
    assert!(message.contains("at https://elsewhere.example/v1; correct `base_url`"), "{message}");
}

#[tokio::test]
async fn what_was_not_reported_is_absent() {
    let usage = format!("data: {}\n\n", json!({ "choices": null, "usage": null, "model": null }));
    let server = Server::start([Reply::events([text("hi"), usage, finish("stop")])]).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.done().usage, None);
    assert!(outcome.log.only("complete").get("usage").is_none());
}

#[tokio::test]
async fn an_answer_that_was_cut_off_is_truncated() {
    let server = Server::start([Reply::events([text("<text>and"), finish("length"), DONE.to_owned()])]).await;
    let outcome = infer(&engine_for(spec(&server)), request(Format::Air)).await;
    assert_eq!(outcome.blocks().last().unwrap(), "error:TRUNCATED");
    assert_eq!(outcome.done().stop_reason, "length");
}

#[tokio::test]
async fn a_rate_limit_is_waited_out() {
    let limited = Reply::status(
        "429 Too Many Requests\r\nretry-after: 0.02\r\ncontent-type: application/json",
        r#"{"error":{"message":"Slow down","type":"rate_limit_exceeded"}}"#,
    );
    let server = Server::start([limited, Reply::events([text("hi"), DONE.to_owned()])]).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.done().text, "hi");
    assert_eq!(
        outcome.log.only("retry")["fault"],
        json!({
            "code": "RATE_LIMIT", "message": "Slow down", "retryable": true, "provider": "openai",
            "model": "test-model", "status": 429, "retryAfterMs": 20,
        })
    );
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_server_in_trouble_is_asked_again() {
    let trouble = Reply::status("500 Internal Server Error", "oops");
    let server = Server::start([trouble, Reply::events([text("hi"), DONE.to_owned()])]).await;
    assert_eq!(infer_raw(&server).await.done().text, "hi");
}

#[tokio::test]
async fn statuses_and_words_give_the_fault() {
    let long = "This model's maximum context length is 8192 tokens";
    let cases: &[(&str, Value, &str)] = &[
        ("401 Unauthorized", json!({ "error": { "message": "bad key", "code": "invalid_api_key" } }), "AUTH"),
        ("403 Forbidden", json!({ "error": { "message": "no" } }), "AUTH"),
        ("402 Payment Required", json!({ "error": { "message": "no credits", "code": 402 } }), "QUOTA"),
        ("429 Too Many", json!({ "error": { "message": "spent", "code": "insufficient_quota" } }), "QUOTA"),
        (
            "400 Bad Request",
            json!({ "error": { "message": "what?", "type": "invalid_request_error" } }),
            "INVALID_REQUEST",
        ),
        ("400 Bad Request", json!({ "error": { "message": "x", "code": "content_filter" } }), "CONTENT_FILTER"),
        ("404 Not Found", json!({ "error": "model 'x' not found" }), "INVALID_REQUEST"),
        ("422 Unprocessable", json!({ "detail": "temperature" }), "INVALID_REQUEST"),
        ("307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/", json!({}), "INVALID_REQUEST"),
        (
            "400 Bad Request",
            json!({ "error": { "message": "x", "code": "context_length_exceeded" } }),
            "CONTEXT_TOO_LONG",
        ),
        ("400 Bad Request", json!({ "message": long, "type": "invalid_request_error" }), "CONTEXT_TOO_LONG"),
        ("400 Bad Request", json!({ "error": { "message": "x", "code": "content_filter" } }), "CONTENT_FILTER"),
        ("418 Teapot", json!("short and stout"), "INVALID_REQUEST"),
    ];
    for (head, body, code) in cases {
        let server = Server::start([Reply::status(head, &body.to_string())]).await;
        let outcome = infer_raw(&server).await;
        let fault = outcome.fault();
        assert_eq!(fault["code"], *code, "{head} {body}");
        assert_eq!(fault["status"].to_string(), head[..3]);
        assert_eq!(fault["retryable"], false);
        assert_eq!(server.requests().len(), 1);
        assert!(outcome.failure().starts_with(&format!("{code} (openai, test-model, HTTP ")), "{}", outcome.failure());
    }
}

#[tokio::test]
async fn no_message_holds_a_key_or_all_of_an_error_page() {
    let page = format!("Incorrect API key provided: sk-secret.{}", " and so on".repeat(10_000));
    let server = Server::start([Reply::status("401 Unauthorized", &page)]).await;
    let spec = EngineSpec {
        api_key_env: Some("TEST_KEY".to_owned()),
        headers: BTreeMap::from([("x-key".to_owned(), "header-secret".to_owned())]),
        ..spec(&server)
    };
    let env = |_: &str| Some("sk-secret".to_owned());
    let engine = Engine::from_spec(spec, Path::new("."), &env, Arc::new(Facts::default())).unwrap();
    let outcome = infer(&engine, request(Format::Raw)).await;
    assert!(outcome.failure().contains("Incorrect API key provided: [redacted]."), "{}", outcome.failure());
    assert!(outcome.failure().len() < 500);
    let told = format!("{} {:?}", outcome.log.text(), outcome.error);
    assert!(!told.contains("sk-secret") && !told.contains("header-secret"), "{told}");
}

#[tokio::test]
async fn a_connection_that_breaks_before_any_text_is_made_again() {
    let broken = [
        Reply::stream(Body::CutOff(vec![])),
        Reply::stream(Body::CutOff(bytes([chunk(json!({ "reasoning": "hm" }))]))),
        Reply::events([text("hi"), finish("stop"), DONE.to_owned()]),
    ];
    let server = Server::start(broken).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.done().text, "hi");
    assert_eq!(
        outcome.log.all("retry").iter().map(|retry| &retry["fault"]["code"]).collect::<Vec<_>>(),
        ["TRANSPORT", "TRANSPORT"]
    );
    assert!(outcome.log.only("complete").get("reasoning").is_none(), "the attempt that failed left nothing");
}

#[tokio::test]
async fn a_connection_that_breaks_after_text_is_final() {
    for body in [Body::CutOff(bytes([text("half")])), Body::Pieces(bytes([text("half")]))] {
        let server = Server::start([Reply::stream(body)]).await;
        let outcome = infer_raw(&server).await;
        assert_eq!(outcome.fault()["code"], "TRANSPORT");
        assert_eq!(outcome.events.len(), 1);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_server_that_says_why_it_stopped_but_not_that_it_is_done_is_done() {
    for body in [
        Body::Pieces(bytes([text("hi"), finish("stop")])),
        Body::CutOff(bytes([text("hi"), finish("stop")])),
        Body::Silence(bytes([text("hi"), DONE.to_owned()])),
    ] {
        let server = Server::start([Reply::stream(body)]).await;
        assert_eq!(infer_raw(&server).await.done().text, "hi");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_a_breach_of_protocol() {
    let replies = [
        Reply::events(["data: {\"choices\":\n\n"]),
        Reply::events(["data: [1,2]\n\n"]),
        Reply::stream(Body::Pieces(vec![b"data: \xff\xfe\n\n".to_vec()])),
        Reply::status("200 OK\r\ncontent-type: text/html", "<html>welcome</html>"),
        Reply::status("200 OK\r\ncontent-type: application/json", "{\"choices\":[]}"),
    ];
    for reply in replies {
        let server = Server::start([reply]).await;
        let outcome = infer_raw(&server).await;
        assert_eq!(outcome.fault()["code"], "PROTOCOL", "{:?}", outcome.error);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn text_before_garbage_is_told_whatever_the_packets() {
    let server = Server::start([Reply::events([format!("{}data: garbage\n\n", text("half"))])]).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.events.len(), 1);
    assert_eq!(outcome.fault()["code"], "PROTOCOL");
}

#[tokio::test]
async fn an_error_inside_the_stream_is_a_fault() {
    let cases = [
        (json!({ "message": "overloaded", "type": "server_error" }), "TRANSPORT"),
        (json!({ "message": "provider down", "code": 502 }), "TRANSPORT"),
        (json!({ "message": "slow", "code": 429 }), "RATE_LIMIT"),
        (json!("who knows"), "UNKNOWN"),
    ];
    for (error, code) in cases {
        let event = format!("data: {}\n\n", json!({ "error": error }));
        let server = Server::start([Reply::events([text("half"), event.clone()])]).await;
        assert_eq!(infer_raw(&server).await.fault()["code"], code);
        let reply = Reply::status("200 OK\r\ncontent-type: application/json", &event["data: ".len()..]);
        let server = Server::start([reply, Reply::events([text("hi"), DONE.to_owned()])]).await;
        let outcome = infer_raw(&server).await;
        assert_eq!(outcome.events.last().is_some(), matches!(code, "TRANSPORT" | "RATE_LIMIT"));
    }
}

#[tokio::test]
async fn a_content_filter_is_a_fault_of_its_own() {
    let server = Server::start([Reply::events([finish("content_filter"), DONE.to_owned()])]).await;
    assert_eq!(infer_raw(&server).await.fault()["code"], "CONTENT_FILTER");
}

#[tokio::test]
async fn an_empty_answer_is_asked_for_again() {
    let empty = Reply::events([finish("stop"), DONE.to_owned()]);
    let server = Server::start([empty, Reply::events([text("hi"), DONE.to_owned()])]).await;
    let outcome = infer_raw(&server).await;
    assert_eq!(outcome.done().text, "hi");
    assert_eq!(outcome.log.only("retry")["fault"]["code"], "EMPTY_RESPONSE");
}

#[tokio::test]
async fn a_server_that_never_begins_is_given_up() {
    let slow = Duration::from_millis(100);
    for body in [vec![], bytes([": working\n\n"])] {
        let server = Server::start([Reply::stream(Body::Silence(body))]).await;
        let timeouts = Timeouts { first_token: slow, ..spec(&server).timeouts };
        let outcome = infer(&engine_for(EngineSpec { timeouts, ..spec(&server) }), request(Format::Raw)).await;
        assert_eq!(outcome.fault()["code"], "TRANSPORT");
        assert!(outcome.failure().contains("100 ms (timeout_ms.first_token)"), "{}", outcome.failure());
        assert_eq!(outcome.log.only("failed")["attempts"], 3);
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up() {
    let mut server = Server::start([Reply::stream(Body::Silence(bytes([text("half")])))]).await;
    let timeouts = Timeouts { silence: Duration::from_millis(100), ..spec(&server).timeouts };
    let outcome = infer(&engine_for(EngineSpec { timeouts, ..spec(&server) }), request(Format::Raw)).await;
    assert!(outcome.failure().contains("100 ms (timeout_ms.silence)"), "{}", outcome.failure());
    server.closed_by_client().await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_fault() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spec = EngineSpec {
        model: Some("m".to_owned()),
        base_url: Some(format!("http://{free}/v1")),
        ..EngineSpec::default()
    };
    let outcome = infer(&engine_for(spec), request(Format::Raw)).await;
    assert_eq!(outcome.fault()["code"], "TRANSPORT");
    assert!(outcome.failure().contains("cannot connect"), "{}", outcome.failure());
}

#[tokio::test]
async fn an_abort_closes_the_connection_in_flight() {
    for body in [vec![], bytes([text("half")])] {
        let mut server = Server::start([Reply::stream(Body::Silence(body.clone()))]).await;
        let abort = AbortController::new();
        let log = Arc::new(Recorder::default());
        let mut stream = engine_for(spec(&server)).stream(request(Format::Raw), abort.signal(), log.clone());
        if !body.is_empty() {
            stream.next().await.unwrap();
        }
        let reader = tokio::spawn(async move { (stream.next().await, stream) });
        while server.requests().is_empty() {
            tokio::task::yield_now().await;
        }
        abort.abort("user");
        let (outcome, stream) = reader.await.unwrap();
        assert_eq!(outcome.unwrap_err().code, "INTERRUPTED");
        server.closed_by_client().await;
        drop(stream);
        assert_eq!(log.kinds(), ["start", "input", "complete"]);
    }
}

#[tokio::test]
async fn a_stream_that_is_dropped_closes_its_connection() {
    let mut server = Server::start([Reply::stream(Body::Silence(bytes([text("half")])))]).await;
    let log = Arc::new(Recorder::default());
    let mut stream = engine_for(spec(&server)).stream(request(Format::Raw), AbortController::new().signal(), log);
    stream.next().await.unwrap();
    drop(stream);
    server.closed_by_client().await;
}
