//! An agent folder of a test, and calls into it.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use axon::{
    policy::{Approver, Policy, PolicyRules, Rule, Unattended},
    tools::{ToolObserver, Toolbox},
};
use axon_capsule::{BoxFuture, Datum, ToolCall, ToolError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Far beyond what any call here needs, far below a test that hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A temporary folder with the agent folder in it, so that there is an outside.
pub struct Desk {
    outside: tempfile::TempDir,
}

impl Desk {
    pub fn new() -> Self {
        let desk = Self { outside: tempfile::tempdir().unwrap() };
        fs::create_dir(desk.agent()).unwrap();
        desk
    }

    /// With the files that every agent has, each holding its own name.
    pub fn furnished() -> Self {
        let desk = Self::new();
        for file in [
            ".env",
            ".env.local",
            "axon.toml",
            "boot.md",
            "data/sessions/s.jsonl",
            ".axon/cache",
            "cognets/c.lua",
            "tools/t.ts",
            "notes.md",
            "src/main.rs",
            "work/draft.txt",
        ] {
            desk.put(file, file);
        }
        fs::write(desk.outside("secret.txt"), "secret").unwrap();
        desk
    }

    pub fn agent(&self) -> PathBuf {
        self.outside.path().canonicalize().unwrap().join("agent")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.agent().join(path)
    }

    pub fn outside(&self, path: &str) -> PathBuf {
        self.outside.path().canonicalize().unwrap().join(path)
    }

    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    pub fn link(&self, target: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(target, self.path(path)).unwrap();
    }

    pub fn rules(&self, read: &[&str], write: &[&str]) -> PolicyRules {
        let own = |roots: &[&str]| roots.iter().map(|root| root.to_string()).collect();
        PolicyRules { fs_read: own(read), fs_write: own(write), ..PolicyRules::default() }
    }

    pub fn tools(&self, read: &[&str], write: &[&str]) -> Tools {
        self.tools_with(self.rules(read, write), Arc::new(Unattended))
    }

    /// With hosts and programs; every file of the agent folder can be read, and `work/` written.
    pub fn tools_for(&self, net: &[&str], run: &[&str]) -> Tools {
        let own = |list: &[&str]| list.iter().map(|item| item.to_string()).collect();
        let rules = PolicyRules { net: own(net), run: own(run), ..self.rules(&["."], &["work"]) };
        self.tools_with(rules, Arc::new(Unattended))
    }

    pub fn tools_with(&self, rules: PolicyRules, approver: Arc<dyn Approver>) -> Tools {
        let policy = Policy::new(&self.agent(), rules).unwrap();
        Tools { toolbox: Toolbox::new(policy, approver), journal: Journal::default() }
    }
}

pub fn ruled(mut rules: PolicyRules, tools: &[(&str, Rule)]) -> PolicyRules {
    rules.tools = tools.iter().map(|(pattern, rule)| (pattern.to_string(), *rule)).collect();
    rules
}

#[derive(Default)]
pub struct Journal(Mutex<Vec<(&'static str, Value)>>);

impl Journal {
    pub fn kinds(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().iter().map(|(kind, _)| *kind).collect()
    }

    pub fn data(&self, kind: &str) -> Value {
        let records = self.0.lock().unwrap();
        records.iter().find(|(k, _)| *k == kind).unwrap_or_else(|| panic!("no {kind} in {records:?}")).1.clone()
    }
}

impl ToolObserver for Journal {
    fn record(&self, kind: &'static str, data: Value) {
        self.0.lock().unwrap().push((kind, data));
    }

    fn before_effect(&self) -> BoxFuture<'_, Result<(), ToolError>> {
        self.record("before_effect", Value::Null);
        Box::pin(std::future::ready(Ok(())))
    }
}

pub struct Tools {
    pub toolbox: Toolbox,
    pub journal: Journal,
}

impl Tools {
    pub async fn call(&self, function: &str, args: impl IntoIterator<Item = Datum>) -> Result<Datum, ToolError> {
        let call = tool_call(function, args);
        let answer = self.toolbox.call(call, &self.journal, CancellationToken::new());
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("{function} hangs"))
    }

    pub async fn text(&self, function: &str, args: impl IntoIterator<Item = Datum>) -> String {
        match self.call(function, args).await.unwrap() {
            Datum::String(text) => text,
            other => panic!("not a string: {other:?}"),
        }
    }

    pub async fn json(&self, function: &str, args: impl IntoIterator<Item = Datum>) -> Value {
        self.call(function, args).await.unwrap().to_json()
    }

    pub async fn refusal(&self, function: &str, args: impl IntoIterator<Item = Datum>) -> ToolError {
        match self.call(function, args).await {
            Err(error) => error,
            Ok(value) => panic!("{function} answered {value:?}"),
        }
    }

    /// The error has to be a denial, and the log has to name the rule.
    pub async fn denial(&self, function: &str, args: impl IntoIterator<Item = Datum>) -> String {
        let error = self.refusal(function, args).await;
        assert_eq!(error.code.as_deref(), Some("POLICY_DENIED"), "{error}");
        assert_eq!(error.name, "PolicyDenied");
        let record = self.journal.data("capsule:policy:denied");
        assert!(!record["rule"].as_str().unwrap().is_empty());
        let (namespace, function) = name_of(function);
        assert!(error.message.starts_with(&format!("{namespace}.{function}(")), "{error}");
        error.message
    }
}

pub fn tool_call(function: &str, args: impl IntoIterator<Item = Datum>) -> ToolCall {
    let (namespace, function) = name_of(function);
    ToolCall {
        block: "b1".into(),
        namespace: namespace.into(),
        function: function.into(),
        args: args.into_iter().collect(),
    }
}

/// `read` is `fs.read`.
fn name_of(function: &str) -> (&str, &str) {
    function.split_once('.').unwrap_or(("fs", function))
}

pub fn s(text: impl AsRef<str>) -> Datum {
    Datum::String(text.as_ref().to_owned())
}

pub fn p(path: impl AsRef<Path>) -> Datum {
    s(path.as_ref().to_str().unwrap())
}

pub fn o(value: Value) -> Datum {
    Datum::from(value)
}
