//! The cognets that come with the project, over a scripted kernel.

use std::{path::PathBuf, sync::Arc};

use axon_runtime::{AbortSignal, Brain, CognetSource, Kernel, Limits, Role};
use serde_json::json;

use crate::fake::{FakeKernel, Step, abort_when_waiting, code, delta, done, format_error, stop, text};

fn bundled(name: &str) -> CognetSource {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../cognets").join(name);
    if name.ends_with(".lua") { CognetSource::File(path) } else { CognetSource::Folder(path) }
}

async fn load(name: &str, kernel: &Arc<FakeKernel>) -> Brain {
    Brain::load(&bundled(name), Arc::clone(kernel) as Arc<dyn Kernel>, Limits::default()).await.unwrap()
}

async fn wake(brain: &mut Brain, kernel: &FakeKernel, said: &str) -> u32 {
    let stimuli = vec![kernel.say(said)];
    brain.wake(stimuli, AbortSignal::default()).await.unwrap().ticks
}

/// What the log holds, a line an entry.
fn log_of(kernel: &FakeKernel) -> Vec<String> {
    let log = kernel.log.lock().unwrap();
    let line = |entry: &axon_runtime::Entry| {
        let chunk = &entry.data["chunk"];
        let mark = match (chunk.is_object(), chunk["final"] == json!(true)) {
            (false, _) => "",
            (true, false) => " …",
            (true, true) => " .",
        };
        format!("{} {}{mark}", entry.kind, entry.data["content"].as_str().unwrap_or_default())
    };
    log.iter().map(line).collect()
}

#[tokio::test]
async fn zero_speaks_in_chunks_runs_its_blocks_and_stops_when_the_model_is_done() {
    let kernel = FakeKernel::scripted([
        vec![delta("Let "), delta("me."), text("Let me."), code("a"), code("throw"), done()],
        vec![format_error("STRAY_TEXT", "text outside blocks"), text("whole"), done()],
        vec![delta("It is."), text("It is."), stop(), done()],
    ]);
    let mut brain = load("zero", &kernel).await;
    assert_eq!(wake(&mut brain, &kernel, "count").await, 3);
    assert_eq!(
        log_of(&kernel),
        [
            "stimulus:text count",
            "cognet:output:text Let  …",
            "cognet:output:text me. …",
            "cognet:output:text  .",
            "cognet:action:typescript a",
            "cognet:action:result a line",
            "cognet:action:typescript throw",
            "cognet:action:result before",
            "cognet:output:text [format] STRAY_TEXT: text outside blocks",
            "cognet:output:text whole",
            "cognet:output:text It is. …",
            "cognet:output:text  .",
        ]
    );
    let log = kernel.log.lock().unwrap();
    let groups: Vec<_> = log.iter().filter_map(|entry| entry.data["chunk"]["of"].as_str()).collect();
    assert_eq!(groups.iter().collect::<std::collections::HashSet<_>>().len(), 2, "one id a spoken block: {groups:?}");
}

#[tokio::test]
async fn zero_shows_the_model_what_has_happened() {
    let kernel = FakeKernel::scripted([vec![code("a"), done()], vec![text("ok"), stop(), done()]]);
    *kernel.base.lock().unwrap() = "be kind".to_owned();
    let mut brain = load("zero", &kernel).await;
    wake(&mut brain, &kernel, "go").await;
    let requests = kernel.requests.lock().unwrap();
    let last = requests[1].messages.last().unwrap();
    assert_eq!(last.role, Role::User);
    assert_eq!(
        last.content,
        "<timeline>\n<user id=\"u1\">go</user>\n<agent><typescript id=\"e1\">a</typescript></agent>\n\
                              <result for=\"e1\" ok=\"true\">a line</result>\n</timeline>"
    );
    assert!(requests[0].messages.iter().any(|message| message.content == "<system>\nbe kind\n</system>"));
}

#[tokio::test]
async fn zero_goes_on_after_done_with_code_and_after_neither() {
    let kernel = FakeKernel::scripted([
        vec![code("a"), stop(), done()],
        vec![text("hm"), format_error("MISSING_DONE", "neither"), done()],
        vec![stop(), done()],
    ]);
    let mut brain = load("zero", &kernel).await;
    assert_eq!(wake(&mut brain, &kernel, "go").await, 3);
}

#[tokio::test]
async fn zero_tells_its_phases() {
    let kernel = FakeKernel::scripted([vec![code("a"), done()], vec![stop(), done()]]);
    let mut brain = load("zero", &kernel).await;
    wake(&mut brain, &kernel, "go").await;
    let phases: Vec<_> = kernel.emitted("cognet:phase:complete").iter().map(|data| data["phase"].clone()).collect();
    assert_eq!(phases, ["sync", "render", "invoke", "act", "sync", "render", "invoke", "act"]);
}

#[tokio::test]
async fn zero_folds_the_log_at_boot_and_leaves_a_checkpoint_at_shutdown() {
    let kernel = FakeKernel::scripted([vec![stop(), done()]]);
    kernel.say("before");
    kernel.store.lock().unwrap().insert("checkpoint".to_owned(), json!({ "seq": 0, "savedAt": 1 }));
    let mut brain = load("zero", &kernel).await;
    let value = &kernel.emitted("cognet:log:info")[0]["value"];
    assert_eq!(*value, json!({ "entries": 1, "seq": 0, "checkpoint": { "seq": 0, "savedAt": 1 } }));
    wake(&mut brain, &kernel, "go").await;
    brain.shutdown().await.unwrap();
    let store = kernel.store.lock().unwrap();
    assert_eq!(store["checkpoint"]["seq"], json!(1));
    assert!(store["checkpoint"]["savedAt"].as_u64().unwrap() > 1_700_000_000_000);
}

#[tokio::test]
async fn zero_is_interrupted_in_the_middle_of_a_word_and_serves_the_next_wake() {
    let kernel = FakeKernel::scripted([vec![delta("half"), Step::Hang]]);
    let mut brain = load("zero", &kernel).await;
    kernel.hang("stream");
    assert!(abort_when_waiting(&mut brain, &kernel).await.is_err());
    kernel.hanging.lock().unwrap().clear();
    *kernel.script.lock().unwrap() = [vec![text("again"), stop(), done()]].into();
    wake(&mut brain, &kernel, "go").await;
    assert_eq!(kernel.outputs(), ["again"]);
}

#[tokio::test]
async fn repl_runs_each_text_and_says_what_came_of_it() {
    let kernel = FakeKernel::new();
    let mut brain = load("repl.lua", &kernel).await;
    let stimuli = vec![kernel.say("x"), kernel.append("stimulus:field", json!({ "source": "s" })), kernel.say("throw")];
    brain.wake(stimuli, AbortSignal::default()).await.unwrap();
    assert_eq!(kernel.outputs(), ["a line\nran x", "before\nexception: Error: as asked (block:1:1)"]);
}

#[tokio::test]
async fn echo_says_what_it_hears_in_five_lines() {
    let kernel = FakeKernel::new();
    let mut brain = load("echo.lua", &kernel).await;
    wake(&mut brain, &kernel, "hello").await;
    assert_eq!(kernel.outputs(), ["hello"]);
    let CognetSource::File(path) = bundled("echo.lua") else { unreachable!() };
    assert_eq!(std::fs::read_to_string(path).unwrap().lines().count(), 5);
}
