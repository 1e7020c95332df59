//! The isolate process: the kernel's own program, executed again with [`HOST_COMMAND`](crate::HOST_COMMAND).
//!
//! Threads: the main thread reads what the kernel sends; one thread watches the clocks; every isolate has its own.

mod block;
mod carry;
mod clocks;
mod confine;
mod control;
mod fatal;
mod files;
mod isolate;
mod memory;
mod native;
mod ops;
mod output;
mod pool;
mod sources;
mod values;
mod watchdog;

use std::{
    collections::HashMap,
    io::{self, Write},
    os::{fd::AsRawFd, unix::net::UnixStream},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

use control::{Event, RunControl};
use deno_core::{JsRuntime, v8};
use tokio::sync::mpsc;

use crate::{
    ENGINE, Engine, Limits, source,
    wire::{RunId, RunRequest, ToHost, ToKernel, frame},
};

/// What isolates may leave behind in the process before it asks to be replaced.
const MAX_LEFT_BEHIND_BYTES: usize = 384 << 20;

/// The child's own descriptor of the channel starts here, above the standard ones.
const FIRST_FREE_FD: i32 = 3;

/// What all threads share.
pub struct Host {
    pub limits: Limits,
    pool: pool::Pool,
    watchdog: watchdog::Watchdog,
    channel: Mutex<UnixStream>,
    runs: Mutex<HashMap<RunId, Arc<Ticket>>>,
    retiring: AtomicBool,
    left_behind_bytes: AtomicUsize,
    snapshot: OnceLock<&'static [u8]>,
    snapshot_begun: AtomicBool,
}

/// A block on its way to an isolate.
pub struct Job {
    request: RunRequest,
    ticket: Arc<Ticket>,
    events: mpsc::UnboundedReceiver<Event>,
}

/// Lets the main thread reach a run before and while it has an isolate.
pub struct Ticket {
    events: mpsc::UnboundedSender<Event>,
    control: OnceLock<Arc<RunControl>>,
    cancelled: AtomicBool,
}

impl Ticket {
    fn admit(&self, control: &Arc<RunControl>) {
        let _ = self.control.set(Arc::clone(control));
        if self.cancelled.load(Relaxed) {
            control.interrupt();
        }
    }

    fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
        if let Some(control) = self.control.get() {
            control.interrupt();
        }
    }
}

/// Serves blocks until the kernel closes the channel, then ends the process. To be called on the main thread before
/// any other thread exists.
pub fn serve() -> ! {
    let status = match serve_channel() {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("capsule host: {error}"));
            1
        }
    };
    exit_now(status)
}

fn serve_channel() -> io::Result<()> {
    let mut channel = take_channel()?;
    let pool = pool::Pool::new();
    let sandbox = confine::confine(channel.as_raw_fd());
    set_engine_flags();
    fatal::install();
    // The engine would read it from a file.
    v8::V8::set_entropy_source(|buffer: &mut [u8]| getrandom::fill(buffer).is_ok());
    JsRuntime::init_platform(None);
    let Some(ToHost::Limits(limits)) = next_message(&mut channel)? else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel did not begin with the limits"));
    };
    let host = Arc::new(Host {
        limits,
        pool,
        watchdog: watchdog::Watchdog::default(),
        channel: Mutex::new(channel.try_clone()?),
        runs: Mutex::default(),
        retiring: AtomicBool::new(false),
        left_behind_bytes: AtomicUsize::new(0),
        snapshot: OnceLock::new(),
        snapshot_begun: AtomicBool::new(false),
    });
    let watched = Arc::clone(&host);
    thread::Builder::new().name("watchdog".into()).spawn(move || watched.watchdog.run(&watched))?;
    host.send(&ToKernel::Ready { backend: ENGINE.to_string(), sandbox });
    host.pool.refill(&host);
    loop {
        match next_message(&mut channel)? {
            None | Some(ToHost::Shutdown) => return Ok(()),
            Some(message) => host.take(message)?,
        }
    }
}

/// To be called before the engine is initialised.
fn set_engine_flags() {
    /// Its pass drops the interrupt check of endless loops that call builtins, which then cannot be terminated.
    const NO_UNROLLING: &str = "--no-turboshaft-loop-unrolling";
    /// It aborts by a call that can be seen coming, not by an illegal instruction.
    const NO_HARD_ABORT: &str = "--no-hard-abort";
    if ENGINE == Engine::V8 {
        // The first is taken for the program's name.
        let unknown = deno_core::v8_set_flags(vec![String::new(), NO_UNROLLING.to_owned(), NO_HARD_ABORT.to_owned()]);
        for flag in unknown.iter().filter(|flag| !flag.is_empty()) {
            complain(&format!("capsule host: the engine does not know {flag}"));
        }
    }
}

impl Host {
    fn take(self: &Arc<Self>, message: ToHost) -> io::Result<()> {
        match message {
            ToHost::Run(request) => {
                let (sender, events) = mpsc::unbounded_channel();
                let ticket =
                    Arc::new(Ticket { events: sender, control: OnceLock::new(), cancelled: AtomicBool::new(false) });
                self.runs().insert(request.run, Arc::clone(&ticket));
                self.pool.submit(self, Job { request, ticket, events });
            }
            ToHost::Cancel(run) => {
                let ticket = self.runs().get(&run).cloned();
                if let Some(ticket) = ticket {
                    ticket.cancel();
                }
            }
            ToHost::ToolResult { run, call, result } => {
                if let Some(ticket) = self.runs().get(&run) {
                    // A run that has just ended takes no more results.
                    let _ = ticket.events.send(Event::ToolResult { call, result });
                }
            }
            ToHost::Bindings { run, bindings } => {
                if let Some(ticket) = self.runs().get(&run) {
                    let _ = ticket.events.send(Event::Bindings(bindings));
                }
            }
            ToHost::Describe { id, files } => {
                let host = Arc::clone(self);
                thread::Builder::new()
                    .name("tools".into())
                    .spawn(move || host.send(&ToKernel::Described { id, report: source::describe(&files) }))?;
            }
            ToHost::Limits(_) | ToHost::Shutdown => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the kernel sent limits twice"));
            }
        }
        Ok(())
    }

    /// Sends to the kernel. When that fails the kernel is gone, and so is the reason to live.
    pub fn send(&self, message: &ToKernel) {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = frame::write(&mut *channel, &message.encode()) {
            complain(&format!("capsule host: cannot write to the kernel: {error}"));
            exit_now(1);
        }
    }

    /// Asks the kernel, once, to replace this process.
    fn retire(&self, why: &str) {
        complain(&format!("capsule host: {why}: asking to be replaced"));
        if !self.retiring.swap(true, Relaxed) {
            self.send(&ToKernel::Retire);
        }
    }

    /// Notes what an isolate that is gone still holds of the process's memory.
    fn leave_behind(&self, bytes: usize) {
        let held = self.left_behind_bytes.fetch_add(bytes, Relaxed) + bytes;
        if held > MAX_LEFT_BEHIND_BYTES {
            self.retire(&format!("isolates that are gone hold {} MiB", held >> 20));
        }
    }

    /// Makes the snapshot that later isolates start from, on a thread of its own, once.
    fn snapshot_soon(self: &Arc<Self>) {
        if !pool::SNAPSHOTS || self.snapshot_begun.swap(true, Relaxed) {
            return;
        }
        let host = Arc::clone(self);
        let made = thread::Builder::new().name("snapshot".into()).spawn(move || match isolate::snapshot() {
            Ok(snapshot) => {
                // Made once, so the cell is empty.
                let _ = host.snapshot.set(snapshot);
                host.pool.refill(&host);
            }
            Err(error) => complain(&format!("no snapshot, isolates start slowly: {error}")),
        });
        if let Err(error) = made {
            complain(&format!("no thread for the snapshot, isolates start slowly: {error}"));
        }
    }

    fn forget(&self, run: RunId) {
        self.runs().remove(&run);
    }

    fn fail(&self, why: &str) -> ! {
        complain(&format!("capsule host: {why}"));
        exit_now(1)
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, Arc<Ticket>>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The channel arrives as standard input, which is nothing from then on.
fn take_channel() -> io::Result<UnixStream> {
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), FIRST_FREE_FD)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(channel))
}

fn next_message(channel: &mut UnixStream) -> io::Result<Option<ToHost>> {
    let Some(body) = frame::read(channel)? else { return Ok(None) };
    ToHost::decode(&body).map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Standard error belongs to the kernel, which shows it when the process dies.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "{what}");
}

/// Ends the process at once: isolates on other threads would be torn down under their feet by exit handlers.
fn exit_now(status: i32) -> ! {
    // SAFETY: `_exit` has no preconditions.
    unsafe { libc::_exit(status) }
}
