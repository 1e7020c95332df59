//! What is recorded of calls, and how they end early.

use std::time::Duration;

use axon::tools::ToolObserver;
use axon_capsule::{BoxFuture, Datum, ToolError};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Desk, Journal, s, tool_call};

#[tokio::test]
async fn a_call_is_recorded_at_its_start_and_at_its_end() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    tools.call("read", [s("notes.md")]).await.unwrap();
    assert_eq!(tools.journal.kinds(), ["capsule:tool:start", "capsule:tool:complete"]);
    let start = tools.journal.data("capsule:tool:start");
    let end = tools.journal.data("capsule:tool:complete");
    assert_eq!((&start["block"], &start["namespace"], &start["fn"]), (&json!("b1"), &json!("fs"), &json!("read")));
    assert_eq!(start["args"], json!(["notes.md"]));
    assert_eq!(start["id"], end["id"]);
    assert!(end["durationMs"].is_number());
}

#[tokio::test]
async fn a_failed_call_is_recorded_with_the_whole_error() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    let error = tools.refusal("read", [s("absent")]).await;
    let data = tools.journal.data("capsule:tool:failed");
    assert_eq!(data["error"], json!({ "name": "NotFound", "code": "NOT_FOUND", "message": error.message }));
}

#[tokio::test]
async fn an_effect_is_announced_after_the_start_was_recorded() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    tools.call("write", [s("work/a"), s("x")]).await.unwrap();
    let kinds = ["capsule:policy:allowed", "capsule:tool:start", "before_effect", "capsule:tool:complete"];
    assert_eq!(tools.journal.kinds(), kinds);
    assert_eq!(tools.journal.data("capsule:policy:allowed")["rule"], "policy.fs.write = \"work\"");
}

#[tokio::test]
async fn a_denial_by_the_text_of_a_path_starts_no_tool() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    tools.denial("write", [s("notes.md"), s("x")]).await;
    assert_eq!(tools.journal.kinds(), ["capsule:policy:denied"]);
}

#[tokio::test]
async fn long_arguments_are_shortened_in_the_log() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    tools.call("write", [s("work/a"), s("x".repeat(10_000))]).await.unwrap();
    tools.call("write", [s("work/b"), Datum::Bytes(vec![0; 10_000])]).await.unwrap();
    let args = tools.journal.data("capsule:tool:start")["args"].to_string();
    assert!(args.len() < 400 && args.contains("(+9800 characters)"), "{args}");
}

/// Refuses every effect.
struct FullDisk(Journal);

impl ToolObserver for FullDisk {
    fn record(&self, kind: &'static str, data: Value) {
        self.0.record(kind, data);
    }

    fn before_effect(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        let error = ToolError { name: "LogError".into(), message: "the log cannot be written".into(), code: None };
        Box::pin(std::future::ready(Err(error)))
    }
}

#[tokio::test]
async fn an_effect_that_the_log_cannot_hold_does_not_happen() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    let observer = FullDisk(Journal::default());
    let call = tool_call("write", [s("work/a"), s("x")]);
    let error = tools.toolbox.call(call, &observer, CancellationToken::new()).await.unwrap_err();
    assert_eq!(error.name, "LogError");
    assert!(!desk.path("work/a").exists());
    assert!(observer.0.kinds().contains(&"capsule:tool:failed"));
}

#[tokio::test]
async fn a_cancelled_call_does_nothing_more() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    let cancel = CancellationToken::new();
    cancel.cancel();
    let call = tool_call("write", [s("work/a"), s("x")]);
    let error = tools.toolbox.call(call, &tools.journal, cancel).await.unwrap_err();
    assert_eq!((error.name.as_str(), error.code.as_deref()), ("AbortError", Some("CANCELLED")));
    assert!(!desk.path("work/a").exists());
}

#[tokio::test]
async fn a_call_that_nobody_waits_for_any_more_is_recorded_as_cancelled() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    let answer = tools.toolbox.call(tool_call("read", [s("notes.md")]), &tools.journal, CancellationToken::new());
    // One poll starts it; then the answer is dropped.
    assert!(futures_util::FutureExt::now_or_never(answer).is_none());
    assert_eq!(tools.journal.kinds(), ["capsule:tool:start", "capsule:tool:failed"]);
    assert_eq!(tools.journal.data("capsule:tool:failed")["error"]["code"], "CANCELLED");
}

#[tokio::test]
async fn a_call_over_its_time_ends_and_says_so() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    // Copying it takes seconds; the limit is a thousandth of that.
    std::fs::File::create(desk.path("huge")).unwrap().set_len(4 << 30).unwrap();
    let hurried = tools.toolbox.clone().with_time(Duration::from_millis(1));
    let call = tool_call("copy", [s("huge"), s("work/huge")]);
    let error = hurried.call(call, &tools.journal, CancellationToken::new()).await.unwrap_err();
    assert_eq!((error.name.as_str(), error.code.as_deref()), ("TimeoutError", Some("TOOL_TIMEOUT")));
    assert!(error.message.contains("took longer than 1ms"), "{error}");
    assert!(tools.journal.kinds().contains(&"capsule:tool:failed"));
    assert!(!desk.path("work/huge").exists());
}

#[tokio::test]
async fn a_name_that_is_no_tool_is_answered_with_the_nearest() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    let error = tools.refusal("raed", [s("notes.md")]).await;
    assert_eq!(error.code.as_deref(), Some("UNKNOWN_TOOL"));
    assert!(error.message.contains("did you mean fs.read?"), "{error}");
}
