//! One session of one agent: the log, the kernel, the capsule and the brain, and the wakes between them.

mod reload;
mod survey;

pub use reload::{Candidate, Demand, Reload, ReloadError, Reloaded, Reloader};
pub use survey::Survey;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axon_capsule::Capsule;
use axon_runtime::{
    AbortController, AbortSignal, Brain, CognetError, Entry, Limits, Mode, RunResult, Scope, VerbError, WakeFailure,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    agent::{Agent, AgentError, launch},
    beats::Beats,
    cognets::Found,
    config::ConfigError,
    engine::Recording,
    inbox::Inbox,
    kernel::{Actions, BindingsFile, CapsuleBridge, CognetKernel, Recorder},
    log::{Envelope, LogError, SessionId, SessionLog},
    policy::Approver,
    store::Store,
    tools::Toolbox,
};

/// How a session is opened.
pub struct SessionOptions {
    /// Resumed if it exists, created otherwise; a new one for `None`.
    pub session: Option<SessionId>,
    /// A cognet's name; the agent's own choice for `None`.
    pub cognet: Option<String>,
    /// An engine (`script:FILE`, `openai:MODEL`); the configured one for `None`.
    pub engine: Option<String>,
    /// Where the calls of the engine are put down.
    pub recording: Option<Recording>,
    /// Who is asked where the policy says `ask`.
    pub approver: Arc<dyn Approver>,
}

/// Why a session could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Cognet(#[from] Box<CognetError>),
}

/// How a wake ended.
#[derive(Debug)]
pub enum WakeOutcome {
    Complete { ticks: u32 },
    Failed { error: Box<CognetError>, ticks: u32 },
    Interrupted { reason: String, ticks: u32 },
}

/// What is common to everything that an opened session runs: its log and what may be called.
pub struct Workbench {
    recorder: Recorder,
    toolbox: Toolbox,
    capsule: Capsule,
    actions: Arc<Actions>,
    opened_after: Option<u64>,
}

/// A session with a brain in it.
pub struct Session {
    bench: Workbench,
    asked: Asked,
    kernel: Arc<CognetKernel>,
    brain: Brain,
    found: Found,
    generation: u32,
    inbox: Inbox,
    wake_on: Option<Vec<String>>,
    /// The period of a continuous cognet.
    period: Duration,
    /// Stimuli up to this seq have been handed to a wake.
    cursor: Option<u64>,
}

/// What was asked for in place of what `axon.toml` says.
#[derive(Clone)]
struct Asked {
    cognet: Option<String>,
    engine: Option<String>,
    recording: Option<Recording>,
    approver: Arc<dyn Approver>,
}

/// The first load of a cognet into a session; hot reload counts on.
const FIRST_GENERATION: u32 = 1;

impl Workbench {
    /// Opens the log and makes ready what blocks need. No process is started yet.
    pub async fn open(
        agent: &Agent,
        session: Option<SessionId>,
        approver: Arc<dyn Approver>,
    ) -> Result<Self, OpenError> {
        // What is wrong with the policy is told before there is a session.
        agent.policy()?;
        let launch = launch().map_err(OpenError::from)?;
        let id = session.unwrap_or_default();
        let (log, _) = SessionLog::open(&agent.sessions_dir(), id, agent.name(), agent.config().session.fsync)?;
        // Opening has written one line.
        let opened_after = log.last_seq().and_then(|opening| opening.checked_sub(1));
        let recorder = Recorder::new(log, agent.secrets());
        let toolbox = agent.toolbox_keeping(recorder.secrets().clone(), approver, Arc::new(recorder.clone()));
        let toolbox = match toolbox.await {
            Ok(toolbox) => toolbox,
            Err(error) => {
                recorder.log().clone().abandon().await?;
                return Err(error.into());
            }
        };
        let bridge = CapsuleBridge::new(recorder.clone(), toolbox.clone());
        let capsule = Capsule::new(launch, agent.block_limits(), Arc::new(bridge));
        let bindings = BindingsFile::of_session(&agent.state_dir(), recorder.log().id().as_str());
        if let Err(error) = bindings.restore(&capsule, recorder.log()) {
            toolbox.shutdown().await;
            recorder.log().clone().abandon().await?;
            return Err(error.into());
        }
        let actions = Arc::new(Actions::new(recorder.clone(), capsule.clone(), toolbox.clone(), bindings));
        Ok(Self { recorder, toolbox, capsule, actions, opened_after })
    }

    pub fn log(&self) -> &SessionLog {
        self.recorder.log()
    }

    /// Where this process began: what it records has a greater seq.
    pub fn opened_after(&self) -> Option<u64> {
        self.opened_after
    }

    /// Runs blocks outside any wake, all at once; results in input order.
    pub async fn run(&self, sources: Vec<String>, signal: AbortSignal) -> Result<Vec<RunResult>, VerbError> {
        self.actions.run(sources, signal).await
    }

    /// Ends the capsule and leaves no session where nothing has happened in one.
    async fn abandon(self) -> Result<(), LogError> {
        self.capsule.shutdown().await;
        self.toolbox.shutdown().await;
        self.recorder.log().clone().abandon().await
    }

    /// Ends the capsule and closes the log.
    pub async fn close(self) -> Result<(), LogError> {
        self.capsule.shutdown().await;
        self.toolbox.shutdown().await;
        self.recorder.log().clone().close().await
    }
}

impl Session {
    /// Opens the log and loads the brain: config, plugins, main, boot hooks.
    pub async fn open(agent: &Agent, options: SessionOptions) -> Result<Self, OpenError> {
        let found = agent.cognet(options.cognet.as_deref()).map_err(AgentError::from)?;
        let bench = Workbench::open(agent, options.session, options.approver.clone()).await?;
        let cursor = bench.log().newest_seq("kernel:run:start");
        let engine =
            agent.engine(options.engine.as_deref(), options.recording.as_ref(), Arc::new(bench.recorder.clone()));
        let (engine, base) = match engine.and_then(|engine| Ok((engine, agent.base()?))) {
            Ok(parts) => parts,
            Err(error) => {
                bench.abandon().await?;
                return Err(error.into());
            }
        };
        let kernel = Arc::new(CognetKernel::new(
            bench.recorder.clone(),
            bench.actions.clone(),
            engine,
            bench.toolbox.clone(),
            Store::of_cognet(&agent.state_dir(), found.state_name()),
            &base,
        ));
        let brain = match load(&kernel, &found, FIRST_GENERATION, agent.brain_limits()).await {
            Ok(brain) => brain,
            Err(error) => {
                bench.close().await?;
                return Err(error.into());
            }
        };
        let config = &agent.config().cognet;
        let wake_on = config.wake_on.clone().or_else(|| brain.config().wake_on.clone());
        let period = Duration::from_millis(config.tick_ms);
        let inbox = Inbox::new(bench.recorder.another());
        let SessionOptions { cognet, engine, recording, approver, .. } = options;
        let asked = Asked { cognet, engine, recording, approver };
        let generation = FIRST_GENERATION;
        Ok(Self { bench, asked, kernel, brain, found, generation, inbox, wake_on, period, cursor })
    }

    pub fn log(&self) -> &SessionLog {
        self.bench.log()
    }

    pub fn cognet(&self) -> &str {
        &self.found.name
    }

    /// How often a brain was put into this session, the first one included.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// What blocks can call now.
    pub fn scope(&self) -> Scope {
        self.bench.toolbox.scope()
    }

    /// The rules of `[policy.tools]` that name no tool as things are, each with its place.
    pub fn idle_rules(&self, agent: &Agent) -> Vec<ConfigError> {
        agent.idle_rules(&self.bench.toolbox)
    }

    /// Asleep until a stimulus, or woken on a period.
    pub fn mode(&self) -> Mode {
        self.brain.config().mode
    }

    /// Whether a stimulus of this type wakes the brain. Those that do not are in the next wake's stimuli. A continuous brain
    /// is woken by its beats alone.
    pub fn wakes_on(&self, kind: &str) -> bool {
        self.mode() == Mode::Invocation
            && self.wake_on.as_ref().is_none_or(|kinds| kinds.iter().any(|known| known == kind))
    }

    /// When a continuous brain is to be woken; `None` for one that stimuli wake.
    pub fn beats(&self) -> Option<Beats> {
        (self.mode() == Mode::Continuous).then(|| Beats::new(self.period))
    }

    /// Where stimuli are admitted, also while a wake runs.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Where this process began: what it records has a greater seq.
    pub fn opened_after(&self) -> Option<u64> {
        self.bench.opened_after()
    }

    /// Admits a text stimulus: in the log when this returns.
    pub async fn admit_text(&self, content: &str, source: &str) -> Result<Arc<Envelope>, LogError> {
        self.inbox.admit_text(content, source).await
    }

    /// Whether there are stimuli that no wake has been handed.
    pub fn has_stimuli(&self) -> Result<bool, LogError> {
        match self.stimuli().next() {
            Some(stimulus) => stimulus.map(|_| true),
            None => Ok(false),
        }
    }

    /// One wake over the stimuli since the last. Every entry of it is in the log when this returns.
    pub async fn wake(&mut self, abort: &AbortController) -> Result<WakeOutcome, LogError> {
        self.wake_on_beat(abort, 0).await
    }

    /// The same on a beat of [`Session::beats`], before which as many were missed.
    pub async fn wake_on_beat(&mut self, abort: &AbortController, missed: u64) -> Result<WakeOutcome, LogError> {
        let recorder = self.bench.recorder.clone();
        let started = Instant::now();
        let stimuli = {
            // Nothing may be admitted between what is handed over and the entry that marks it as such.
            let _closed = self.inbox.close().await;
            let stimuli = self.stimuli().collect::<Result<Vec<_>, _>>()?;
            self.set_run(Some(Uuid::now_v7().to_string()));
            let data = json!({ "stimuli": stimuli.len() });
            let data = if missed == 0 { data } else { with(data, "missed", missed.into()) };
            let start = recorder.commit("kernel:run:start", data).await?;
            self.cursor = Some(start.time.seq);
            stimuli
        };
        self.bench.capsule.begin_wake();

        let result = self.brain.wake(stimuli, abort.signal()).await;
        self.bench.actions.settled().await;

        let outcome = match result {
            Ok(report) => WakeOutcome::Complete { ticks: report.ticks },
            Err(WakeFailure::Failed { error, ticks }) => WakeOutcome::Failed { error: Box::new(error), ticks },
            Err(WakeFailure::Interrupted { reason, ticks }) => WakeOutcome::Interrupted { reason, ticks },
        };
        record_end(&recorder, &outcome, started.elapsed()).await?;
        self.set_run(None);
        self.log().sync().await?;
        Ok(outcome)
    }

    /// A brain that was reloaded came with a pen of its own, so that what its boot hooks recorded was not taken for a part
    /// of the wake that ran beside them.
    fn set_run(&self, run: Option<String>) {
        self.bench.recorder.set_run(run.clone());
        self.kernel.recorder().set_run(run);
    }

    /// Those that no wake has been handed, one by one: a session that was never woken may be long.
    fn stimuli(&self) -> impl Iterator<Item = Result<Entry, LogError>> {
        let is_other = |entry: &Entry| !entry.kind.starts_with("stimulus:");
        self.log().entries(self.cursor).filter(move |entry| !entry.as_ref().is_ok_and(is_other))
    }

    /// Runs the shutdown hooks, ends the capsule and closes the log.
    pub async fn close(self) -> Result<(), CloseError> {
        let unloaded = unload(self.brain, &self.kernel, self.generation).await;
        drop(self.kernel);
        self.bench.close().await?;
        Ok(unloaded.map_err(Box::new)?)
    }
}

/// Why closing a session was not clean. The log is closed all the same.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Cognet(#[from] Box<CognetError>),
}

async fn load(
    kernel: &Arc<CognetKernel>,
    found: &Found,
    generation: u32,
    limits: Limits,
) -> Result<Brain, Box<CognetError>> {
    let recorder = kernel.recorder();
    let started = Instant::now();
    recorder.emit("cognet:load:start", json!({ "name": found.name, "generation": generation }));
    match Brain::load(&found.source, kernel.clone(), limits).await {
        Ok(brain) => {
            let config = brain.config();
            recorder.emit(
                "cognet:load:complete",
                json!({
                    "name": config.name,
                    "version": config.version,
                    "generation": generation,
                    "durationMs": millis(started.elapsed()),
                }),
            );
            Ok(brain)
        }
        Err(error) => {
            recorder.emit(
                "cognet:load:failed",
                json!({
                    "name": found.name,
                    "generation": generation,
                    "durationMs": millis(started.elapsed()),
                    "error": error,
                }),
            );
            Err(Box::new(error))
        }
    }
}

/// Runs the shutdown hooks and drops the VM.
async fn unload(brain: Brain, kernel: &CognetKernel, generation: u32) -> Result<(), CognetError> {
    let config = brain.config();
    let identity = json!({ "name": config.name, "version": config.version, "generation": generation });
    let recorder = kernel.recorder();
    recorder.emit("cognet:unload:start", identity.clone());
    let unloaded = brain.shutdown().await;
    match &unloaded {
        Ok(()) => recorder.emit("cognet:unload:complete", identity),
        Err(error) => recorder.emit("cognet:unload:failed", with(identity, "error", json!(error))),
    }
    unloaded
}

async fn record_end(recorder: &Recorder, outcome: &WakeOutcome, took: Duration) -> Result<(), LogError> {
    match outcome {
        WakeOutcome::Complete { ticks } => {
            let data = json!({ "ticks": ticks, "durationMs": millis(took) });
            recorder.commit("kernel:run:complete", data).await?;
        }
        WakeOutcome::Failed { error, ticks } => {
            let data = json!({ "ticks": ticks, "durationMs": millis(took), "error": error });
            recorder.commit("kernel:run:failed", data).await?;
        }
        WakeOutcome::Interrupted { reason, ticks } => {
            recorder.commit("system:interrupt", json!({ "reason": reason })).await?;
            let data = json!({ "ticks": ticks, "durationMs": millis(took), "reason": reason });
            recorder.commit("kernel:run:interrupted", data).await?;
        }
    }
    Ok(())
}

fn with(mut object: Value, key: &str, value: Value) -> Value {
    object[key] = value;
    object
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
