//! The kernel's handle of the capsule. It starts the process when a block needs it, and again when it has died.

mod incarnation;
mod process;
mod restarts;
mod run_clock;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use incarnation::{Incarnation, Lost, Settlement, StartError, millis};
use restarts::Restarts;
use run_clock::{Overdue, RunClock};
use serde_json::{Map, Value};
use tokio::{
    sync::{Semaphore, oneshot},
    time::{sleep_until, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Bindings, Block, BlockError, BlockErrorKind, CapsuleHost, Launch, Limits, Outcome, ToolFile, ToolReport,
    bindings::Binding,
    stop::{StopReason, code},
    wire::{RunId, RunReport},
};

/// A block that lost its process before it began is sent to the next one, so often at most.
const MAX_ATTEMPTS: usize = 3;

/// How long reading the user's tools may take.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(20);

/// Runs model-written TypeScript in a process of its own.
///
/// A handle is cheap to clone; all clones share the process, which is killed when the last of them is dropped. The
/// methods are to be called within a tokio runtime with I/O and time enabled.
#[derive(Clone)]
pub struct Capsule(Arc<Shared>);

struct Shared {
    launch: Launch,
    limits: Limits,
    host: Arc<dyn CapsuleHost>,
    slots: Semaphore,
    next_run: AtomicU64,
    /// Number of the last incarnation. Locked while one starts, so that there is one at a time.
    starts: tokio::sync::Mutex<u64>,
    current: Mutex<Option<Arc<Incarnation>>>,
    restarts: Arc<Mutex<Restarts>>,
    bindings: Mutex<Bindings>,
}

impl Capsule {
    /// A capsule whose process is not started yet.
    pub fn new(launch: Launch, limits: Limits, host: Arc<dyn CapsuleHost>) -> Self {
        Self(Arc::new(Shared {
            slots: Semaphore::new(limits.max_concurrent_blocks.clamp(1, Semaphore::MAX_PERMITS)),
            launch,
            limits,
            host,
            next_run: AtomicU64::new(0),
            starts: tokio::sync::Mutex::new(0),
            current: Mutex::default(),
            restarts: Arc::default(),
            bindings: Mutex::default(),
        }))
    }

    /// Runs one block to its end. Whatever the block does is in the outcome; dropping the future cancels the block.
    ///
    /// When `cancel` fires, the block's tool calls are cancelled first, then the block.
    pub async fn run(&self, block: Block, cancel: CancellationToken) -> Outcome {
        let shared = &self.0;
        if let Err(error) = shared.check_source(&block.source) {
            return failed(error);
        }
        let _slot = tokio::select! {
            biased;
            () = cancel.cancelled() => return failed(stopped(StopReason::Interrupt, &shared.limits)),
            // The semaphore is never closed.
            slot = shared.slots.acquire() => slot,
        };
        shared.event("capsule:block:start", &[("id", block.id.as_str().into())]);
        let mut ended = self.attempt(&block, &cancel).await;
        if !ended.bindings.is_empty() {
            let changes = std::mem::take(&mut ended.bindings);
            ended.outcome.rebinding = Some(shared.bindings().rebind(changes));
        }
        let kind = if ended.outcome.result.is_ok() { "capsule:block:complete" } else { "capsule:block:failed" };
        let mut data = vec![
            ("id", block.id.into()),
            ("durationMs", millis(ended.duration)),
            ("cpuMs", millis(ended.cpu)),
            ("peakBytes", ended.peak_bytes.into()),
            // With these, what was printed and the value can be told apart in the text of the result.
            ("stdoutLines", ended.outcome.stdout.iter().map(|line| line.split('\n').count()).sum::<usize>().into()),
        ];
        if let Ok(Some(value)) = &ended.outcome.result {
            data.push(("value", if value.is_string() { "text" } else { "json" }.into()));
        }
        shared.event(kind, &data);
        ended.outcome
    }

    /// Runs blocks at the same time, as many as the limits allow; outcomes in the order of the blocks.
    pub async fn run_all(&self, blocks: Vec<Block>, cancel: CancellationToken) -> Vec<Outcome> {
        let runs = blocks.into_iter().map(|block| self.run(block, cancel.clone()));
        deno_core::futures::future::join_all(runs).await
    }

    /// What the blocks that have ended so far have left for later ones. Blocks that are to run at the same time start
    /// from the same bindings; where they declare the same name, the last to end counts.
    pub fn bindings(&self) -> Bindings {
        self.0.bindings().clone()
    }

    /// Takes up the bindings of an earlier process.
    pub fn restore(&self, bindings: Bindings) {
        *self.0.bindings() = bindings;
    }

    /// What files of `tools/` declare. They are read in the process, never by the kernel itself.
    ///
    /// # Errors
    /// `CAPSULE_CRASHED` when the process does not start or dies of the files.
    pub async fn describe(&self, files: Vec<ToolFile>) -> Result<ToolReport, BlockError> {
        let incarnation = self.0.incarnation().await.map_err(|error| crashed(&error.to_string()))?;
        let answer = incarnation.describe(self.0.next_run.fetch_add(1, Relaxed), files);
        match timeout(DESCRIBE_TIMEOUT, answer).await {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(_)) => Err(crashed("the process that reads the tools died of them")),
            Err(_) => {
                incarnation.kill();
                Err(crashed("the process that reads the tools did not come to an end"))
            }
        }
    }

    /// Starts the process and its first isolates in the background.
    pub fn prewarm(&self) {
        let this = self.clone();
        // A failure is in the telemetry, and the next block meets it again.
        tokio::spawn(async move { drop(this.0.incarnation().await) });
    }

    /// Marks the beginning of a wake: a capsule that stays down after repeated deaths may try again.
    pub fn begin_wake(&self) {
        self.0.restarts().forgive();
    }

    /// Ends the process in good order. A later block starts it again.
    pub async fn shutdown(&self) {
        let _no_start = self.0.starts.lock().await;
        let current = self.0.current().take();
        if let Some(current) = current {
            current.shut_down().await;
        }
    }

    /// The id of the process, while it serves.
    pub fn pid(&self) -> Option<u32> {
        self.0.current().as_ref().filter(|current| current.serves()).map(|current| current.pid())
    }

    async fn attempt(&self, block: &Block, cancel: &CancellationToken) -> Ended {
        let shared = &self.0;
        for _ in 0..MAX_ATTEMPTS {
            // On a task of its own, so that a cancelled block does not undo the start that others wait for.
            let starting = self.clone();
            let started = tokio::spawn(async move { starting.0.incarnation().await });
            let incarnation = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ended::failed(stopped(StopReason::Interrupt, &shared.limits)),
                started = started => started,
            };
            let incarnation = match incarnation {
                Ok(Ok(incarnation)) => incarnation,
                Ok(Err(error)) => return Ended::failed(crashed(&error.to_string())),
                Err(_) => return Ended::failed(crashed("the kernel is shutting down")),
            };
            let run = shared.next_run.fetch_add(1, Relaxed);
            let (settled, clock) = incarnation.send(run, block, cancel.child_token());
            let _guard = RunGuard { incarnation: &incarnation, run };
            let ended = match wait(&incarnation, run, settled, &clock, cancel, &shared.limits).await {
                Waited::Settled(Ok(report)) => Ended::from_report(report, &incarnation),
                Waited::Settled(Err(Lost::BeforeStart)) => continue,
                Waited::NeverBegan => Ended::failed(stopped(StopReason::Interrupt, &shared.limits)),
                Waited::Settled(Err(Lost::Running)) => {
                    Ended::failed(crashed("the capsule's process died while the block ran"))
                }
                Waited::Overdue(overdue) => {
                    incarnation.abandon(run);
                    incarnation.kill();
                    Ended::failed(overdue_error(overdue, &shared.limits))
                }
            };
            let duration = clock.started().map_or(Duration::ZERO, |started| started.elapsed());
            return Ended { duration, ..ended };
        }
        Ended::failed(crashed("the capsule's process died several times before the block could begin"))
    }
}

/// Cancels the run if its future is dropped before it settles.
struct RunGuard<'a> {
    incarnation: &'a Incarnation,
    run: RunId,
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.incarnation.abandon(self.run);
    }
}

enum Waited {
    Settled(Settlement),
    /// Cancelled before it had an isolate.
    NeverBegan,
    Overdue(Overdue),
}

async fn wait(
    incarnation: &Incarnation,
    run: RunId,
    mut settled: oneshot::Receiver<Settlement>,
    clock: &RunClock,
    cancel: &CancellationToken,
    limits: &Limits,
) -> Waited {
    let mut cancelled = false;
    loop {
        let look_again = match clock.check(Instant::now(), limits) {
            Ok(at) => at,
            Err(overdue) => return Waited::Overdue(overdue),
        };
        tokio::select! {
            biased;
            settlement = &mut settled => return Waited::Settled(settlement.unwrap_or(Err(Lost::Running))),
            () = cancel.cancelled(), if !cancelled => {
                if clock.started().is_none() {
                    return Waited::NeverBegan;
                }
                cancelled = true;
                clock.interrupt(Instant::now());
                incarnation.cancel(run);
            }
            () = sleep_until(look_again.into()) => {}
        }
    }
}

impl Shared {
    fn check_source(&self, source: &str) -> Result<(), BlockError> {
        let limit = self.limits.max_source_bytes;
        if source.len() <= limit {
            return Ok(());
        }
        Err(BlockError {
            kind: BlockErrorKind::Exception,
            message: format!(
                "the block has {} bytes, the limit is {limit}. Split it, or read the data from a file.",
                source.len()
            ),
            code: Some(code::SOURCE_TOO_LARGE.into()),
        })
    }

    /// The process that serves, started if there is none.
    async fn incarnation(&self) -> Result<Arc<Incarnation>, StartError> {
        if let Some(current) = self.serving() {
            return Ok(current);
        }
        let mut starts = self.starts.lock().await;
        if let Some(current) = self.serving() {
            return Ok(current);
        }
        if !self.restarts().may_start() {
            return Err(StartError::StaysDown);
        }
        *starts += 1;
        let number = *starts;
        if number > 1 {
            self.event("capsule:restart", &[("incarnation", number.into())]);
        }
        let restarts = Arc::clone(&self.restarts);
        let on_death = move || restarts.lock().unwrap_or_else(PoisonError::into_inner).death(Instant::now());
        match Incarnation::start(number, &self.launch, &self.limits, Arc::clone(&self.host), on_death).await {
            Ok(incarnation) => {
                *self.current() = Some(Arc::clone(&incarnation));
                Ok(incarnation)
            }
            Err(error) => {
                self.restarts().death(Instant::now());
                let reason = error.to_string();
                self.event("capsule:crash", &[("incarnation", number.into()), ("reason", reason.into())]);
                Err(error)
            }
        }
    }

    fn serving(&self) -> Option<Arc<Incarnation>> {
        self.current().as_ref().filter(|current| current.serves()).cloned()
    }

    fn event(&self, kind: &'static str, data: &[(&str, Value)]) {
        let fields: Map<String, Value> = data.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.host.event(kind, fields);
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Incarnation>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bindings(&self) -> MutexGuard<'_, Bindings> {
        self.bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn restarts(&self) -> MutexGuard<'_, Restarts> {
        self.restarts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(current) = self.current().take() {
            current.dismiss();
        }
    }
}

/// An outcome with what telemetry wants to know of it.
struct Ended {
    outcome: Outcome,
    /// Since the block got its isolate.
    duration: Duration,
    cpu: Duration,
    peak_bytes: u64,
    bindings: Vec<(String, Binding)>,
}

impl Ended {
    fn failed(error: BlockError) -> Self {
        Self {
            outcome: failed(error),
            duration: Duration::ZERO,
            cpu: Duration::ZERO,
            peak_bytes: 0,
            bindings: Vec::new(),
        }
    }

    fn from_report(report: RunReport, incarnation: &Incarnation) -> Self {
        let result = match report.result {
            Ok(None) => Ok(None),
            Ok(Some(json)) => serde_json::from_str(&json).map(Some).map_err(|_| {
                // A process that does not write JSON is not to be trusted any further.
                incarnation.kill();
                crashed("the capsule's process sent a value that is not JSON")
            }),
            Err(error) => Err(error),
        };
        let bindings = if result.is_ok() { report.bindings } else { Vec::new() };
        let outcome = Outcome { result, stdout: report.stdout, truncated: report.truncated, rebinding: None };
        Self { outcome, duration: Duration::ZERO, cpu: report.cpu, peak_bytes: report.peak_bytes, bindings }
    }
}

fn failed(error: BlockError) -> Outcome {
    Outcome { result: Err(error), stdout: Vec::new(), truncated: false, rebinding: None }
}

fn stopped(reason: StopReason, limits: &Limits) -> BlockError {
    reason.into_error(limits)
}

fn overdue_error(overdue: Overdue, limits: &Limits) -> BlockError {
    match overdue {
        Overdue::OwnTime => stopped(StopReason::OwnTime, limits),
        Overdue::TotalTime => stopped(StopReason::TotalTime, limits),
        Overdue::Interrupt => stopped(StopReason::Interrupt, limits),
        Overdue::Start => crashed("the capsule's process gave the block no isolate"),
    }
}

fn crashed(why: &str) -> BlockError {
    BlockError {
        kind: BlockErrorKind::Exception,
        message: format!("{why}. Nothing else is lost; run the block again if that is safe."),
        code: Some(code::CAPSULE_CRASHED.into()),
    }
}
