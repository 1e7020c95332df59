//! One life of the isolate process, as the kernel sees it. Whatever comes from it is hostile until checked.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::{Map, Value};
use tokio::{
    io::AsyncWriteExt,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    process::{self, Exit, Process},
    run_clock::RunClock,
};
use crate::{
    Block, CapsuleHost, Launch, Limits, Namespace, ToolCall, ToolError, ToolFile, ToolReport,
    wire::{
        CallId, DecodeError, MAX_DATUM_DEPTH, RunId, RunReport, RunRequest, ToHost, ToKernel, frame, nests_too_deep,
    },
};

/// How long a child may take until it can serve.
const BOOT_TIMEOUT: Duration = Duration::from_secs(20);

/// How long a child may take to end when it is asked to.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the arguments of one block's calls in flight may hold together.
const MAX_ARGUMENTS_IN_FLIGHT_BYTES: usize = 64 << 20;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the capsule's process does not start: {0}")]
    Spawn(#[from] std::io::Error),
    #[error("the capsule's process ended before it was ready: {}", describe_exit(.0))]
    Died(Exit),
    #[error("the capsule's process was not ready within {} s", BOOT_TIMEOUT.as_secs())]
    Silent,
    #[error("the capsule's process keeps dying; it stays down until the next wake")]
    StaysDown,
}

/// What the process sent that it must not send.
#[derive(Debug, thiserror::Error)]
enum Violation {
    #[error("broken frame: {0}")]
    Frame(#[from] std::io::Error),
    #[error("broken message: {0}")]
    Message(#[from] DecodeError),
    #[error("a message out of turn: {0}")]
    Turn(&'static str),
}

/// A run that ended with its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The block had not begun: it can run elsewhere.
    BeforeStart,
    /// The block was running.
    Running,
}

pub type Settlement = Result<RunReport, Lost>;

pub struct Incarnation {
    pub number: u64,
    process: Process,
    outgoing: mpsc::UnboundedSender<ToHost>,
    runs: Mutex<Runs>,
    retired: AtomicBool,
    /// The kernel wants it to end: that is no crash.
    leaving: AtomicBool,
    host: Arc<dyn CapsuleHost>,
    limits: Limits,
    gone: watch::Receiver<bool>,
}

#[derive(Default)]
struct Runs {
    live: HashMap<RunId, Run>,
    /// Who waits for what files of `tools/` declare.
    describing: HashMap<RunId, oneshot::Sender<ToolReport>>,
    dead: bool,
}

struct Run {
    block: String,
    namespaces: Arc<[Namespace]>,
    settle: oneshot::Sender<Settlement>,
    clock: Arc<RunClock>,
    calls: HashMap<CallId, InFlight>,
    calls_made: usize,
    cancel: CancellationToken,
}

/// A call in flight.
struct InFlight {
    /// What its arguments hold, in bytes.
    size: usize,
    cancel: CancellationToken,
}

impl Incarnation {
    /// Starts a child and waits until it can serve. `on_death` is called when it has died without being asked to.
    pub async fn start(
        number: u64,
        launch: &Launch,
        limits: &Limits,
        host: Arc<dyn CapsuleHost>,
        on_death: impl FnOnce() + Send + 'static,
    ) -> Result<Arc<Self>, StartError> {
        let began = Instant::now();
        let (process, channel, mut exit) = process::spawn(launch).await?;
        channel.set_nonblocking(true)?;
        let (mut from_child, to_child) = UnixStream::from_std(channel)?.into_split();
        let (outgoing, messages) = mpsc::unbounded_channel();
        tokio::spawn(write_all(to_child, messages));
        // The receiver lives in the task just spawned.
        let _ = outgoing.send(ToHost::Limits(limits.clone()));
        let first = timeout(BOOT_TIMEOUT, read(&mut from_child)).await;
        let backend = match first {
            Err(_) => return Err(StartError::Silent),
            Ok(Ok(Some((ToKernel::Ready { backend }, _)))) if backend.len() <= 32 => backend,
            Ok(_) => {
                process.kill();
                let unknown = Exit { signal: None, status: None, stderr: String::new() };
                return Err(StartError::Died(exit.await.unwrap_or(unknown)));
            }
        };
        let (gone_now, gone) = watch::channel(false);
        let incarnation = Arc::new(Self {
            number,
            process,
            outgoing,
            runs: Mutex::default(),
            retired: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            host,
            limits: limits.clone(),
            gone,
        });
        incarnation.event(
            "capsule:boot",
            &[("pid", incarnation.pid().into()), ("durationMs", millis(began.elapsed())), ("backend", backend.into())],
        );
        let attended = Arc::clone(&incarnation);
        tokio::spawn(async move {
            let violation = attended.read_until_end(from_child).await.err();
            attended.process.kill();
            let lost = attended.lose_all();
            let exit = (&mut exit).await.unwrap_or(Exit { signal: None, status: None, stderr: String::new() });
            if attended.leaving.load(Relaxed) {
                attended.report_exit("capsule:exit", &exit, None);
            } else {
                on_death();
                attended.report_exit("capsule:crash", &exit, violation);
            }
            for (settle, lost) in lost {
                let _ = settle.send(Err(lost));
            }
            gone_now.send_replace(true);
        });
        Ok(incarnation)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Whether new blocks may be sent to it.
    pub fn serves(&self) -> bool {
        !self.retired.load(Relaxed) && !self.leaving.load(Relaxed) && !self.runs().dead
    }

    /// Sends a block. The receiver gets its report, or word that the process has ended before.
    pub fn send(
        &self,
        run: RunId,
        block: &Block,
        cancel: CancellationToken,
    ) -> (oneshot::Receiver<Settlement>, Arc<RunClock>) {
        let (settle, settled) = oneshot::channel();
        let clock = Arc::new(RunClock::default());
        let mut runs = self.runs();
        if runs.dead {
            drop(settle.send(Err(Lost::BeforeStart)));
            return (settled, clock);
        }
        runs.live.insert(
            run,
            Run {
                block: block.id.clone(),
                namespaces: Arc::clone(&block.namespaces),
                settle,
                clock: Arc::clone(&clock),
                calls: HashMap::new(),
                calls_made: 0,
                cancel,
            },
        );
        drop(runs);
        let namespaces = block.namespaces.to_vec();
        let files = block.files.to_vec();
        let _ = self.outgoing.send(ToHost::Run(RunRequest { run, source: block.source.clone(), namespaces, files }));
        (settled, clock)
    }

    /// Asks what files of `tools/` declare. There is no answer when the process ends before.
    pub fn describe(&self, id: RunId, files: Vec<ToolFile>) -> oneshot::Receiver<ToolReport> {
        let (answer, answered) = oneshot::channel();
        let mut runs = self.runs();
        if !runs.dead {
            runs.describing.insert(id, answer);
            let _ = self.outgoing.send(ToHost::Describe { id, files });
        }
        answered
    }

    /// Cancels a run's tool calls, then the block.
    pub fn cancel(&self, run: RunId) {
        if let Some(run) = self.runs().live.get(&run) {
            run.cancel.cancel();
        }
        let _ = self.outgoing.send(ToHost::Cancel(run));
    }

    /// Gives a run up: nothing that still comes of it counts.
    pub fn abandon(&self, run: RunId) {
        let abandoned = self.runs().live.remove(&run);
        if let Some(abandoned) = abandoned {
            abandoned.cancel.cancel();
            let _ = self.outgoing.send(ToHost::Cancel(run));
        }
        self.leave_if_retired();
    }

    /// Kills the process; its runs are lost.
    pub fn kill(&self) {
        self.process.kill();
    }

    /// Ends the process without waiting for it.
    pub fn dismiss(&self) {
        self.leaving.store(true, Relaxed);
        self.process.kill();
    }

    /// Asks the process to end and waits until it has.
    pub async fn shut_down(&self) {
        self.leaving.store(true, Relaxed);
        let _ = self.outgoing.send(ToHost::Shutdown);
        let mut gone = self.gone.clone();
        if timeout(EXIT_TIMEOUT, gone.wait_for(|gone| *gone)).await.is_err() {
            self.process.kill();
            let _ = gone.wait_for(|gone| *gone).await;
        }
    }

    async fn read_until_end(self: &Arc<Self>, mut from: OwnedReadHalf) -> Result<(), Violation> {
        while let Some((message, size)) = read(&mut from).await? {
            match message {
                ToKernel::Ready { .. } => return Err(Violation::Turn("ready twice")),
                ToKernel::Started(run) => {
                    if let Some(run) = self.runs().live.get(&run) {
                        run.clock.start(Instant::now());
                    }
                }
                ToKernel::ToolCall { run, call, namespace, function, args } => {
                    self.call_tool((run, call), size, ToolCall { block: String::new(), namespace, function, args })?;
                }
                ToKernel::CancelCall { run, call } => {
                    if let Some(call) = self.runs().live.get(&run).and_then(|run| run.calls.get(&call)) {
                        call.cancel.cancel();
                    }
                }
                ToKernel::Described { id, report } => {
                    let answer =
                        self.runs().describing.remove(&id).ok_or(Violation::Turn("an answer to no question"))?;
                    let _ = answer.send(report);
                }
                ToKernel::Done(report) => self.settle(report)?,
                ToKernel::Retire => {
                    self.retired.store(true, Relaxed);
                    self.leave_if_retired();
                }
            }
        }
        Ok(())
    }

    fn settle(&self, report: RunReport) -> Result<(), Violation> {
        check_report(&report, &self.limits)?;
        let run = self.runs().live.remove(&report.run);
        // A run that was given up may still report.
        if let Some(run) = run {
            run.cancel.cancel();
            let _ = run.settle.send(Ok(report));
        }
        self.leave_if_retired();
        Ok(())
    }

    /// Passes a call of `size` bytes on to the host. Whose it is the process does not say: the kernel knows.
    fn call_tool(
        self: &Arc<Self>,
        (run_id, call_id): (RunId, CallId),
        size: usize,
        call: ToolCall,
    ) -> Result<(), Violation> {
        let mut runs = self.runs();
        let Some(run) = runs.live.get_mut(&run_id) else { return Ok(()) };
        run.calls_made += 1;
        if run.calls_made > self.limits.max_tool_calls {
            return Err(Violation::Turn("more tool calls than the limit"));
        }
        let known = |space: &Namespace| space.name == call.namespace && space.members.contains(&call.function);
        if !run.namespaces.iter().any(known) {
            return Err(Violation::Turn("a call of a tool that is not in the block's scope"));
        }
        let in_flight: usize = run.calls.values().map(|call| call.size).sum();
        if in_flight + size > MAX_ARGUMENTS_IN_FLIGHT_BYTES {
            let _ = self.outgoing.send(ToHost::ToolResult {
                run: run_id,
                call: call_id,
                result: Err(too_much_in_flight()),
            });
            return Ok(());
        }
        let token = run.cancel.child_token();
        if run.calls.insert(call_id, InFlight { size, cancel: token.clone() }).is_some() {
            return Err(Violation::Turn("two tool calls with one number"));
        }
        run.clock.pause(Instant::now());
        let call = ToolCall { block: run.block.clone(), ..call };
        drop(runs);
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let result = tokio::select! {
                biased;
                result = this.host.call_tool(call, token.clone()) => result,
                () = cancelled_for_long(&token) => Err(cancelled()),
            };
            if let Some(run) = this.runs().live.get_mut(&run_id) {
                run.calls.remove(&call_id);
                if run.calls.is_empty() {
                    run.clock.resume(Instant::now());
                }
            }
            let result = result.and_then(|datum| if nests_too_deep(&datum) { Err(too_deep()) } else { Ok(datum) });
            let _ = this.outgoing.send(ToHost::ToolResult { run: run_id, call: call_id, result });
        });
        Ok(())
    }

    /// A retired process ends with its last run.
    fn leave_if_retired(&self) {
        if self.retired.load(Relaxed) && self.runs().live.is_empty() && !self.leaving.swap(true, Relaxed) {
            // What made it retire does not react to a request either.
            self.process.kill();
        }
    }

    fn lose_all(&self) -> Vec<(oneshot::Sender<Settlement>, Lost)> {
        let mut runs = self.runs();
        runs.dead = true;
        runs.describing.clear();
        let lost = runs.live.drain().map(|(_, run)| {
            run.cancel.cancel();
            (run.settle, if run.clock.started().is_some() { Lost::Running } else { Lost::BeforeStart })
        });
        lost.collect()
    }

    fn report_exit(&self, kind: &'static str, exit: &Exit, violation: Option<Violation>) {
        let mut data = Vec::new();
        if let Some(signal) = exit.signal {
            data.push(("signal", signal.into()));
        }
        if let Some(status) = exit.status {
            data.push(("status", status.into()));
        }
        if !exit.stderr.is_empty() {
            data.push(("stderr", exit.stderr.as_str().into()));
        }
        if let Some(violation) = violation {
            data.push(("reason", violation.to_string().into()));
        }
        self.event(kind, &data);
    }

    fn event(&self, kind: &'static str, data: &[(&str, Value)]) {
        let mut fields = Map::new();
        fields.insert("incarnation".into(), self.number.into());
        fields.extend(data.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self.host.event(kind, fields);
    }

    fn runs(&self) -> MutexGuard<'_, Runs> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A report holds no more than the limits allow, markers and messages included.
fn check_report(report: &RunReport, limits: &Limits) -> Result<(), Violation> {
    /// What markers, hints and escapes may add.
    const SLACK_BYTES: usize = 16 << 10;
    /// A character of a value takes at most so many bytes in JSON.
    const JSON_GROWTH: usize = 6;
    let printed: usize = report.stdout.iter().map(|line| line.len() + 1).sum();
    let result = match &report.result {
        Ok(value) => value.as_ref().map_or(0, String::len),
        Err(error) => error.message.len() + error.code.as_ref().map_or(0, String::len),
    };
    if printed > limits.max_output_bytes.saturating_add(SLACK_BYTES)
        || result > limits.max_output_bytes.saturating_mul(JSON_GROWTH).saturating_add(SLACK_BYTES)
    {
        return Err(Violation::Turn("a report larger than the output limit"));
    }
    Ok(())
}

/// A tool that does not react to its cancellation is not waited for.
async fn cancelled_for_long(token: &CancellationToken) {
    const TOOL_GRACE: Duration = Duration::from_millis(100);
    token.cancelled().await;
    tokio::time::sleep(TOOL_GRACE).await;
}

fn too_much_in_flight() -> ToolError {
    ToolError {
        name: "RangeError".into(),
        message: format!(
            "the arguments of the calls in flight hold more than {} MiB; await some of them first",
            MAX_ARGUMENTS_IN_FLIGHT_BYTES >> 20
        ),
        code: Some("ARGUMENTS_TOO_LARGE".into()),
    }
}

fn too_deep() -> ToolError {
    ToolError {
        name: "RangeError".into(),
        message: format!("the tool's result nests deeper than {MAX_DATUM_DEPTH} levels and cannot be passed on"),
        code: Some("RESULT_TOO_DEEP".into()),
    }
}

fn cancelled() -> ToolError {
    ToolError {
        name: "AbortError".into(),
        message: "the call was cancelled with its block".into(),
        code: Some("ABORTED".into()),
    }
}

/// The next message and its size in bytes.
async fn read(from: &mut OwnedReadHalf) -> Result<Option<(ToKernel, usize)>, Violation> {
    match frame::read_async(from).await? {
        Some(body) => Ok(Some((ToKernel::decode(&body)?, body.len()))),
        None => Ok(None),
    }
}

async fn write_all(mut to: OwnedWriteHalf, mut messages: mpsc::UnboundedReceiver<ToHost>) {
    while let Some(message) = messages.recv().await {
        let bytes = match frame::frame(&message.encode()) {
            Ok(bytes) => bytes,
            Err(error) => match too_large(message, &error) {
                Some(bytes) => bytes,
                None => continue,
            },
        };
        // The reader notices the end of the process.
        if to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// A result that no frame can hold fails its call.
fn too_large(message: ToHost, error: &std::io::Error) -> Option<Vec<u8>> {
    let ToHost::ToolResult { run, call, .. } = message else { return None };
    let error = ToolError {
        name: "RangeError".into(),
        message: format!("the tool's result cannot be passed to the block: {error}; ask for less at once"),
        code: Some("RESULT_TOO_LARGE".into()),
    };
    frame::frame(&ToHost::ToolResult { run, call, result: Err(error) }.encode()).ok()
}

fn describe_exit(exit: &Exit) -> String {
    let how = match (exit.signal, exit.status) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(status)) => format!("status {status}"),
        (None, None) => "unknown".to_owned(),
    };
    if exit.stderr.is_empty() { how } else { format!("{how}: {}", exit.stderr) }
}

/// Milliseconds with a fraction, for telemetry.
pub fn millis(duration: Duration) -> Value {
    Value::from((duration.as_secs_f64() * 1_000_000.0).round() / 1_000.0)
}
