//! A capsule over this test binary, and a host that records what it is told.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axon_capsule::{
    Block, BlockError, BlockErrorKind, BoxFuture, Capsule, CapsuleHost, Datum, HOST_COMMAND, Launch, Limits, Namespace,
    Outcome, ToolCall, ToolError,
};
use rustix::process::Pid;
use serde_json::{Map, Value};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

type Answer = Box<dyn Fn(ToolCall, CancellationToken) -> BoxFuture<'static, Result<Datum, ToolError>> + Send + Sync>;

#[derive(Default)]
pub struct TestHost {
    answers: HashMap<String, Answer>,
    pub calls: Mutex<Vec<ToolCall>>,
    pub events: Mutex<Vec<(&'static str, Map<String, Value>)>>,
    changed: Notify,
}

impl TestHost {
    /// Answers `namespace.function` with what the closure gives.
    pub fn answering<F, R>(mut self, name: &str, answer: F) -> Self
    where
        F: Fn(ToolCall, CancellationToken) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Datum, ToolError>> + Send + 'static,
    {
        self.answers.insert(name.into(), Box::new(move |call, cancel| Box::pin(answer(call, cancel))));
        self
    }

    pub fn event_kinds(&self) -> Vec<&'static str> {
        self.events.lock().unwrap().iter().map(|(kind, _)| *kind).collect()
    }

    pub fn event_data(&self, kind: &str) -> Option<Map<String, Value>> {
        self.events.lock().unwrap().iter().find(|(name, _)| *name == kind).map(|(_, data)| data.clone())
    }

    /// Removes the first event of this kind.
    pub fn take_event(&self, kind: &str) -> Option<Map<String, Value>> {
        let mut events = self.events.lock().unwrap();
        let at = events.iter().position(|(name, _)| *name == kind)?;
        Some(events.remove(at).1)
    }

    /// Waits until something told to the host makes `condition` true.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            loop {
                let changed = self.changed.notified();
                if condition(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), wait).await.expect("the host was never told");
    }
}

impl CapsuleHost for TestHost {
    fn call_tool(&self, call: ToolCall, cancel: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>> {
        self.calls.lock().unwrap().push(call.clone());
        let answer = self.answers.get(&format!("{}.{}", call.namespace, call.function));
        let result = match answer {
            Some(answer) => answer(call, cancel),
            None => Box::pin(async { Ok(Datum::Undefined) }),
        };
        self.changed.notify_waiters();
        result
    }

    fn event(&self, kind: &'static str, data: Map<String, Value>) {
        self.events.lock().unwrap().push((kind, data));
        self.changed.notify_waiters();
    }
}

/// A capsule and its host.
pub struct Bench {
    pub capsule: Capsule,
    pub host: Arc<TestHost>,
    pub limits: Limits,
    namespaces: Arc<[Namespace]>,
}

pub fn bench() -> Bench {
    Bench::new(TestHost::default(), Limits::default())
}

/// Limits that hostile blocks meet soon.
pub fn tight_limits() -> Limits {
    Limits { timeout: Duration::from_millis(1_200), memory_bytes: 32 << 20, ..Limits::default() }
}

impl Bench {
    pub fn new(host: TestHost, limits: Limits) -> Self {
        let host = Arc::new(host);
        let launch = Launch { program: std::env::current_exe().unwrap(), args: vec![HOST_COMMAND.into()] };
        let capsule = Capsule::new(launch, limits.clone(), host.clone());
        let namespace = |name: &str, members: &[&str]| Namespace {
            name: name.into(),
            members: members.iter().map(|member| (*member).into()).collect(),
        };
        let namespaces = [namespace("fs", &["read", "list", "write"]), namespace("slow", &["wait"])].into();
        Self { capsule, host, limits, namespaces }
    }

    /// The process that serves now.
    pub fn pid(&self) -> Pid {
        self.capsule.pid().and_then(|pid| Pid::from_raw(pid.try_into().unwrap())).expect("no process serves")
    }

    pub fn block(&self, source: &str) -> Block {
        Block {
            id: "block-1".into(),
            source: source.into(),
            namespaces: Arc::clone(&self.namespaces),
            files: Arc::default(),
        }
    }

    pub async fn run(&self, source: &str) -> Outcome {
        self.capsule.run(self.block(source), CancellationToken::new()).await
    }

    /// The value of a block that must succeed.
    pub async fn value(&self, source: &str) -> Option<Value> {
        match self.run(source).await.result {
            Ok(value) => value,
            Err(error) => panic!("{source}\n{error:?}\n{:?}", self.host.take_event("capsule:crash")),
        }
    }

    /// The error of a block that must fail.
    pub async fn error(&self, source: &str) -> BlockError {
        match self.run(source).await.result {
            Ok(value) => panic!("{source}\ngave {value:?}"),
            Err(error) => error,
        }
    }

    pub async fn assert_works(&self) {
        assert_eq!(self.value("1 + 1").await, Some(2.into()));
    }
}

pub fn kind_and_code(error: &BlockError) -> (BlockErrorKind, Option<&str>) {
    (error.kind, error.code.as_deref())
}
