//! Warm isolates, each on a thread of its own and each for one block.

use std::{
    collections::VecDeque,
    num::NonZero,
    sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc},
    thread,
};

use super::{
    Host, block,
    control::RunControl,
    isolate::{Isolate, Last},
};
use crate::{
    ENGINE, Engine,
    wire::{RunRequest, ToKernel},
};

use super::Job;

/// Stack of an isolate's thread: the engine's own limit, and the parser's need for all but the deepest sources.
/// Reserved, not used, until it is needed.
pub const ISOLATE_STACK_BYTES: usize = 32 << 20;

/// Whether the engine can start isolates from a snapshot.
pub const SNAPSHOTS: bool = matches!(ENGINE, Engine::V8);

/// Isolates made at the same time at most, however many blocks wait.
const MAX_STARTING: usize = 2;

pub struct Pool {
    cores: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ready: Vec<mpsc::Sender<Job>>,
    waiting: VecDeque<Job>,
    starting: usize,
}

impl Pool {
    /// To be made while files may still be opened: the system tells of its cores in some.
    pub fn new() -> Self {
        Self { cores: thread::available_parallelism().map_or(1, NonZero::get), state: Mutex::default() }
    }

    /// One for each core, and one for the block that comes while those are taken: each costs memory while nothing runs.
    fn warm(&self, max_concurrent_blocks: usize) -> usize {
        max_concurrent_blocks.min(self.cores + 1).max(1)
    }

    /// Gives a job to a warm isolate, or to the next that gets ready.
    pub fn submit(&self, host: &Arc<Host>, job: Job) {
        let mut state = self.state();
        let mut job = Some(job);
        while let Some(ready) = state.ready.pop()
            && let Some(next) = job.take()
        {
            // A thread that is gone gives the job back.
            job = ready.send(next).err().map(|returned| returned.0);
            if job.is_none() {
                break;
            }
        }
        state.waiting.extend(job);
        drop(state);
        self.refill(host);
    }

    /// Starts isolates until as many are ready, or about to be, as blocks can run at once.
    pub fn refill(&self, host: &Arc<Host>) {
        let mut state = self.state();
        // Isolates that would be ready sooner from the snapshot wait for it, unless a block waits for them.
        let warm =
            if host.snapshot.get().is_some() || !SNAPSHOTS { self.warm(host.limits.max_concurrent_blocks) } else { 1 };
        let wanted = warm + state.waiting.len();
        while state.starting < MAX_STARTING && state.ready.len() + state.starting < wanted {
            let host = Arc::clone(host);
            let spawned = thread::Builder::new()
                .name("isolate".into())
                .stack_size(ISOLATE_STACK_BYTES)
                .spawn(move || serve_one(&host));
            match spawned {
                Ok(_) => state.starting += 1,
                // No thread to be had: those that are there go on, and the next job tries again.
                Err(error) => {
                    super::complain(&format!("no thread for an isolate: {error}"));
                    break;
                }
            }
        }
    }

    /// An isolate is ready: the job that it is to run, once there is one.
    fn check_in(&self) -> Option<Job> {
        let (sender, receiver) = mpsc::channel();
        {
            let mut state = self.state();
            state.starting -= 1;
            if let Some(job) = state.waiting.pop_front() {
                return Some(job);
            }
            state.ready.push(sender);
        }
        receiver.recv().ok()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an isolate's thread.
fn serve_one(host: &Arc<Host>) {
    // Without isolates the process is of no use; the kernel learns why from its standard error.
    let executor = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(executor) => executor,
        Err(error) => host.fail(&format!("no event loop: {error}")),
    };
    // The engine posts its delayed tasks to the executor that it was made in.
    let _entered = executor.enter();
    let mut isolate = match Isolate::new(host.limits.memory_bytes, host.snapshot.get().copied()) {
        Ok(isolate) => isolate,
        Err(error) => host.fail(&format!("no isolate: {error}")),
    };
    host.snapshot_soon();
    let Some(Job { request, ticket, mut events }) = host.pool.check_in() else { return };
    host.pool.refill(host);
    let RunRequest { run, .. } = request;
    let control = Arc::new(RunControl::new(
        run,
        Arc::clone(host),
        isolate.handle.clone(),
        Arc::clone(&isolate.budget),
        ticket.events.clone(),
    ));
    host.send(&ToKernel::Started(run));
    host.watchdog.watch(Arc::clone(&control));
    ticket.admit(&control);
    super::fatal::guard(&control);
    block::run(&executor, &mut isolate, &control, &request, &mut events);
    host.forget(run);
    host.watchdog.forget(&control);
    let last = if control.terminated() { Last::Terminated } else { Last::Ended };
    host.leave_behind(isolate.dispose(last));
    super::native::give_back();
}
