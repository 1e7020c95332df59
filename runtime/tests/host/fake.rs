//! A kernel in memory, and cognets written to disk.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use axon_runtime::{
    AbortController, AbortSignal, BoxFuture, Brain, CognetError, CognetSource, EngineEvent, Entries, Entry, EntryTime,
    EventStream, Kernel, Limits, RunError, RunErrorKind, RunResult, Scope, StreamRequest, VerbError, WakeFailure,
    WakeReport,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;

/// One step of a scripted inference.
#[derive(Clone, Debug)]
pub enum Step {
    Event(EngineEvent),
    Fail(VerbError),
    /// Never comes.
    Hang,
}

#[derive(Default)]
pub struct FakeKernel {
    pub log: Mutex<Vec<Entry>>,
    pub telemetry: Mutex<Vec<(String, Value)>>,
    pub store: Mutex<BTreeMap<String, Value>>,
    pub requests: Mutex<Vec<StreamRequest>>,
    pub script: Mutex<VecDeque<Vec<Step>>>,
    pub base: Mutex<String>,
    /// Verbs that never settle, by name.
    pub hanging: Mutex<Vec<&'static str>>,
    /// Told each time that a hanging verb begins to wait.
    pub waiting: Notify,
    /// How many hanging verbs and streams were dropped.
    pub dropped: Arc<AtomicUsize>,
}

struct CountDrop(Arc<AtomicUsize>);

impl Drop for CountDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl FakeKernel {
    pub fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    pub fn scripted(calls: impl IntoIterator<Item = Vec<Step>>) -> Arc<Self> {
        let kernel = Self::default();
        kernel.script.lock().unwrap().extend(calls);
        Arc::new(kernel)
    }

    pub fn append(&self, kind: &str, data: Value) -> Entry {
        let mut log = self.log.lock().unwrap();
        let seq = log.len() as u64;
        let entry = Entry {
            id: format!("entry-{seq}"),
            kind: kind.to_owned(),
            time: EntryTime { ms: 1_785_156_432_000 + seq, seq },
            data,
        };
        log.push(entry.clone());
        entry
    }

    pub fn say(&self, text: &str) -> Entry {
        self.append("stimulus:text", json!({ "content": text }))
    }

    /// The contents of the entries of a type, in order.
    pub fn contents(&self, kind: &str) -> Vec<String> {
        let log = self.log.lock().unwrap();
        let of_kind = log.iter().filter(|entry| entry.kind == kind);
        of_kind.map(|entry| entry.data["content"].as_str().unwrap_or_default().to_owned()).collect()
    }

    pub fn outputs(&self) -> Vec<String> {
        self.contents("cognet:output:text")
    }

    pub fn emitted(&self, kind: &str) -> Vec<Value> {
        let telemetry = self.telemetry.lock().unwrap();
        telemetry.iter().filter(|(own, _)| own == kind).map(|(_, data)| data.clone()).collect()
    }

    pub fn emitted_kinds(&self) -> Vec<String> {
        self.telemetry.lock().unwrap().iter().map(|(kind, _)| kind.clone()).collect()
    }

    pub fn hang(&self, verb: &'static str) {
        self.hanging.lock().unwrap().push(verb);
    }

    pub fn drops(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }

    async fn reach(&self, verb: &'static str) {
        let hangs = self.hanging.lock().unwrap().contains(&verb);
        if hangs {
            let _count = CountDrop(Arc::clone(&self.dropped));
            self.waiting.notify_one();
            std::future::pending::<()>().await;
        }
        // Really suspends the script, as a kernel does.
        tokio::task::yield_now().await;
    }
}

fn result_of(block: &str) -> RunResult {
    match block {
        "throw" => RunResult {
            ok: false,
            value: None,
            stdout: vec!["before".to_owned()],
            error: Some(RunError {
                kind: RunErrorKind::Exception,
                message: "Error: as asked (block:1:1)".to_owned(),
                code: None,
            }),
        },
        "2 ** 60" => RunResult { ok: true, value: Some(json!([1_u64 << 60, null])), stdout: Vec::new(), error: None },
        block => RunResult {
            ok: true,
            value: Some(json!(format!("ran {block}"))),
            stdout: vec!["a line".to_owned()],
            error: None,
        },
    }
}

impl Kernel for FakeKernel {
    fn output(&self, kind: String, data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move {
            self.reach("output").await;
            if kind != "cognet:output:text" {
                return Err(VerbError::new("OUTPUT_INVALID", format!("unknown type {kind}")));
            }
            self.append(&kind, data);
            Ok(())
        })
    }

    fn stream(
        &self,
        request: StreamRequest,
        _signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        Box::pin(async move {
            self.reach("stream").await;
            self.requests.lock().unwrap().push(request);
            let steps = self.script.lock().unwrap().pop_front().unwrap_or_default();
            Ok(Box::new(FakeStream { steps: steps.into(), _dropped: CountDrop(Arc::clone(&self.dropped)) })
                as Box<dyn EventStream>)
        })
    }

    fn run(&self, blocks: Vec<String>, _signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        Box::pin(async move {
            self.reach("run").await;
            let mut results = Vec::new();
            for block in blocks {
                let result = result_of(&block);
                let id = format!("action-{}", self.log.lock().unwrap().len());
                self.append("cognet:action:typescript", json!({ "id": id, "content": block }));
                let mut data = json!({ "for": id, "ok": result.ok, "content": result.stdout.join("\n") });
                if let Some(error) = &result.error {
                    data["error"] = serde_json::to_value(error).unwrap();
                }
                self.append("cognet:action:result", data);
                results.push(result);
            }
            Ok(results)
        })
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async move {
            self.reach("scope").await;
            Ok(Scope { modules: Vec::new(), dts: "declare namespace fs {}".to_owned() })
        })
    }

    fn base(&self) -> String {
        assert!(!self.hanging.lock().unwrap().contains(&"panic"), "the kernel panics as asked");
        self.base.lock().unwrap().clone()
    }

    fn emit(&self, kind: &str, data: Option<Value>) -> Result<(), VerbError> {
        if !kind.starts_with("cognet:") || kind.starts_with("cognet:action:") {
            return Err(VerbError::new("COGNET_EMIT_FORBIDDEN", format!("{kind} is not the cognet's to emit")));
        }
        self.telemetry.lock().unwrap().push((kind.to_owned(), data.unwrap_or(Value::Null)));
        Ok(())
    }

    fn session_get(&self, after: Option<u64>) -> Result<Entries<'_>, VerbError> {
        let log = self.log.lock().unwrap();
        let entries: Vec<_> =
            log.iter().filter(|entry| after.is_none_or(|after| entry.time.seq > after)).cloned().collect();
        Ok(Box::new(entries.into_iter().map(Ok)))
    }

    fn store_get(&self, key: &str) -> Result<Option<Value>, VerbError> {
        Ok(self.store.lock().unwrap().get(key).cloned())
    }

    fn store_set(&self, key: String, value: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move {
            self.reach("store.set").await;
            self.store.lock().unwrap().insert(key, value);
            Ok(())
        })
    }
}

struct FakeStream {
    steps: VecDeque<Step>,
    _dropped: CountDrop,
}

impl EventStream for FakeStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<EngineEvent>, VerbError>> {
        let step = self.steps.pop_front();
        Box::pin(async move {
            tokio::task::yield_now().await;
            match step {
                None => Ok(None),
                Some(Step::Event(event)) => Ok(Some(event)),
                Some(Step::Fail(error)) => Err(error),
                Some(Step::Hang) => std::future::pending().await,
            }
        })
    }
}

pub fn delta(content: &str) -> Step {
    Step::Event(EngineEvent::TextDelta { content: content.to_owned() })
}

pub fn text(content: &str) -> Step {
    Step::Event(EngineEvent::Text { content: content.to_owned() })
}

pub fn code(content: &str) -> Step {
    Step::Event(EngineEvent::TypeScript { content: content.to_owned() })
}

pub fn stop() -> Step {
    Step::Event(EngineEvent::Stop)
}

pub fn format_error(code: &str, message: &str) -> Step {
    Step::Event(EngineEvent::OutputError { code: code.to_owned(), message: message.to_owned(), excerpt: None })
}

pub fn done() -> Step {
    Step::Event(EngineEvent::Done(axon_runtime::Done { stop_reason: "stop".to_owned(), ..Default::default() }))
}

/// A cognet's files in a folder that goes away with it.
pub struct Cognet {
    pub folder: TempDir,
    pub source: CognetSource,
}

pub const CONFIG: &str =
    r#"return defineCognet { name = "demo", version = "1.0.0", abi = "9", mode = { kind = "invocation" } }"#;

impl Cognet {
    /// A folder `demo` with the files given.
    pub fn folder(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("demo");
        for (key, text) in files {
            let path = root.join(key);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self { folder, source: CognetSource::Folder(root) }
    }

    /// A folder with the usual config and this main.
    pub fn main(main: &str) -> Self {
        Self::folder(&[("cognet.config.lua", CONFIG), ("src/main.lua", main)])
    }

    /// A cognet whose body is `body` and that stops after it.
    pub fn body(body: &str) -> Self {
        Self::main(&format!("loop(function(wake)\n{body}\nwake.stop()\nend)"))
    }

    pub fn file(name: &str, text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Self { folder, source: CognetSource::File(path) }
    }

    pub async fn load(&self, kernel: &Arc<FakeKernel>) -> Result<Brain, CognetError> {
        self.load_within(kernel, Limits::default()).await
    }

    pub async fn load_within(&self, kernel: &Arc<FakeKernel>, limits: Limits) -> Result<Brain, CognetError> {
        Brain::load(&self.source, Arc::clone(kernel) as Arc<dyn Kernel>, limits).await
    }
}

/// Loads the body and wakes it once without stimuli.
pub async fn wake_body(kernel: &Arc<FakeKernel>, body: &str) -> Result<WakeReport, WakeFailure> {
    let mut brain = Cognet::body(body).load(kernel).await.unwrap();
    brain.wake(Vec::new(), AbortSignal::default()).await
}

/// What `body` outputs as text.
pub async fn outputs_of(body: &str) -> Vec<String> {
    let kernel = FakeKernel::new();
    wake_body(&kernel, body).await.unwrap();
    kernel.outputs()
}

/// The error of a body that fails.
pub async fn failure_of(body: &str) -> CognetError {
    failure(wake_body(&FakeKernel::new(), body).await)
}

pub fn failure(outcome: Result<WakeReport, WakeFailure>) -> CognetError {
    match outcome {
        Err(WakeFailure::Failed { error, .. }) => error,
        other => panic!("the wake should have failed: {other:?}"),
    }
}

/// Wakes `brain`, aborts it as soon as a hanging verb waits, and gives what became of it.
pub async fn abort_when_waiting(brain: &mut Brain, kernel: &FakeKernel) -> Result<WakeReport, WakeFailure> {
    let controller = AbortController::new();
    let abort = async {
        kernel.waiting.notified().await;
        controller.abort("the user asked");
    };
    let (outcome, ()) = tokio::join!(brain.wake(Vec::new(), controller.signal()), abort);
    outcome
}
