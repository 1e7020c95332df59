//! The user's own tools: TypeScript in `tools/`, each file a namespace in an isolate of its own.
//!
//! They run in a process of their own, apart from what models write. The kernel never parses them: what they declare is
//! read in that process too.

mod files;
mod known;
mod runner;

use std::{
    collections::HashMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use axon_capsule::{
    BlockError, BoxFuture, Capsule, CapsuleHost, Datum, Launch, Limits, ToolCall, ToolError, ToolFile, ToolModule,
    ToolProblem,
};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

pub(super) use self::files::bad_name as why_no_namespace;
use self::runner::{DOOR, Runner};
use super::{ToolObserver, toolbox::Toolbox};
use crate::policy::{Approver, Policy, PolicyError, PolicyRules};

/// Beyond any session: an isolate of a tool lives as long as its session, and each call has a time of its own.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// What `[tools.NAME]` of `axon.toml` gives a tool.
#[derive(Clone, Debug, Default)]
pub struct OwnGrants {
    pub rules: PolicyRules,
    /// Variables that the tool sees as `env`, with their values.
    pub env: Vec<(String, String)>,
}

/// Where the user's tools are, and what they get.
pub struct OwnSettings {
    pub agent_dir: PathBuf,
    pub launch: Launch,
    /// Memory and sizes are those of blocks; times are not used.
    pub limits: Limits,
    pub grants: HashMap<String, OwnGrants>,
}

/// Why the user's tools cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OwnToolsError {
    #[error("{}", Problems(.0))]
    Problems(Vec<ToolProblem>),
    #[error("tools/ could not be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("the tools could not be examined: {0}")]
    Process(#[from] BlockError),
    #[error("[tools.{name}] {source}")]
    Grants { name: String, source: PolicyError },
    #[error(
        "[tools.{0}] in axon.toml grants something to tools/{0}.ts, which does not exist; create it, or take the table out"
    )]
    NoFile(String),
}

struct Problems<'a>(&'a [ToolProblem]);

impl fmt::Display for Problems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "\n" } else { "" })?;
        }
        Ok(())
    }
}

/// The user's tools of one session; none by default. Dropped, it ends their isolates.
#[derive(Default)]
pub struct OwnTools {
    modules: Vec<ToolModule>,
    runners: HashMap<String, Arc<Runner>>,
    capsule: Option<Capsule>,
}

impl OwnTools {
    /// Reads `tools/`. A process is started only to examine files that were not examined before.
    ///
    /// # Errors
    /// Every problem of every file, with file and line.
    pub async fn load(
        settings: OwnSettings,
        approver: Arc<dyn Approver>,
        observer: Arc<dyn ToolObserver>,
    ) -> Result<Self, OwnToolsError> {
        let (files, mut problems) = files::read(&settings.agent_dir.join("tools"))?;
        if let Some(name) = settings.grants.keys().find(|name| !has_namespace(&files, name) && !names(&problems, name))
        {
            return Err(OwnToolsError::NoFile(name.clone()));
        }
        if files.is_empty() && problems.is_empty() {
            return Ok(Self::default());
        }
        let desk = Arc::new(Desk { runners: OnceLock::new(), observer });
        let namespaces = files.iter().filter(|file| file.namespace.is_some()).count();
        let limits = Limits {
            timeout: FOREVER,
            total_timeout: FOREVER,
            max_tool_calls: usize::MAX,
            max_concurrent_blocks: namespaces.max(1),
            ..settings.limits
        };
        let known = known::Place::of(&settings.agent_dir, &settings.launch.program, &files);
        let capsule = Capsule::new(settings.launch, limits, desk.clone());
        let modules = match known.get() {
            Some(modules) => modules,
            None => {
                let report = capsule.describe(files.clone()).await?;
                if report.problems.is_empty() {
                    known.put(&report.modules);
                }
                problems.extend(report.problems);
                report.modules
            }
        };
        if !problems.is_empty() {
            capsule.shutdown().await;
            problems.sort_by(|a, b| (&a.path, a.line, a.column).cmp(&(&b.path, b.line, b.column)));
            return Err(OwnToolsError::Problems(problems));
        }
        let files: Arc<[ToolFile]> = files.into();
        let mut runners = HashMap::new();
        let mut grants = settings.grants;
        for module in &modules {
            let own = grants.remove(&module.name).unwrap_or_default();
            let tools = nested(&settings.agent_dir, own.rules, approver.clone())
                .map_err(|source| OwnToolsError::Grants { name: module.name.clone(), source })?;
            let runner = Runner::new(&module.name, capsule.clone(), files.clone(), own.env, tools);
            runners.insert(module.name.clone(), Arc::new(runner));
        }
        let known = runners.iter().map(|(name, runner)| (Runner::block_id(name), Arc::downgrade(runner))).collect();
        // The cell was made above and is empty.
        let _ = desk.runners.set(known);
        Ok(Self { modules, runners, capsule: Some(capsule) })
    }

    /// What the files declare.
    pub(super) fn modules(&self) -> &[ToolModule] {
        &self.modules
    }

    /// Whether there is such a function.
    pub(super) fn has(&self, namespace: &str, function: &str) -> bool {
        self.modules
            .iter()
            .any(|module| module.name == namespace && module.members.iter().any(|member| member.name == function))
    }

    /// `None` when the call was cancelled.
    pub(super) async fn call(
        &self,
        namespace: &str,
        function: &str,
        args: Vec<Datum>,
        cancel: &CancellationToken,
    ) -> Option<Result<Datum, ToolError>> {
        self.runners.get(namespace)?.call(function, args, cancel).await
    }

    /// Ends the tools' process in good order.
    pub async fn shutdown(&self) {
        for runner in self.runners.values() {
            runner.end();
        }
        if let Some(capsule) = &self.capsule {
            capsule.shutdown().await;
        }
    }
}

impl Drop for OwnTools {
    fn drop(&mut self) {
        for runner in self.runners.values() {
            runner.end();
        }
    }
}

fn has_namespace(files: &[ToolFile], name: &str) -> bool {
    files.iter().any(|file| file.namespace.as_deref() == Some(name))
}

fn names(problems: &[ToolProblem], name: &str) -> bool {
    problems.iter().any(|problem| problem.path.strip_suffix(".ts") == Some(name))
}

fn nested(agent_dir: &Path, rules: PolicyRules, approver: Arc<dyn Approver>) -> Result<Toolbox, PolicyError> {
    Ok(Toolbox::new(Policy::new(agent_dir, rules)?, approver))
}

/// The kernel's side of the tools' process.
struct Desk {
    /// By the name of their block. Weak, since they hold the process that holds this.
    runners: OnceLock<HashMap<String, Weak<Runner>>>,
    observer: Arc<dyn ToolObserver>,
}

impl CapsuleHost for Desk {
    fn call_tool(&self, call: ToolCall, cancel: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>> {
        let runner = self.runners.get().and_then(|runners| runners.get(&call.block)).and_then(Weak::upgrade);
        Box::pin(async move {
            match runner {
                Some(runner) if call.namespace == DOOR => runner.door(&call.function, call.args).await,
                Some(runner) => runner.tools.call(call, &*self.observer, cancel).await,
                None => Err(ToolError {
                    name: "Error".into(),
                    message: "the session is over".into(),
                    code: Some("CANCELLED".into()),
                }),
            }
        })
    }

    /// What becomes of the process is recorded; that a tool's isolate serves is no block of anybody's.
    fn event(&self, kind: &'static str, data: Map<String, Value>) {
        if !kind.starts_with("capsule:block:") {
            self.observer.record(kind, Value::Object(data));
        }
    }
}
