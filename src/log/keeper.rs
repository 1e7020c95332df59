//! The keeper: the background thread of an open session. It writes queued telemetry and syncs the file, many appends
//! sharing one sync.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::writer::{Shared, lock};

/// How long telemetry may wait for its write.
const FLUSH_DELAY: Duration = Duration::from_millis(2);

/// How long an append may wait for its sync under [`Fsync::Wake`]. The rule is 50 ms; the sync itself takes time too.
const SYNC_DELAY: Duration = Duration::from_millis(40);

/// The thread runs two system calls and no recursion.
const STACK_BYTES: usize = 128 * 1024;

/// When the file is synced to the disk. Appends are with the operating system in any case: only a loss of power or of
/// the system itself can take what was not synced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before each append is acknowledged.
    Always,
    /// Before a wake ends, before a tool with effects outside is called, and at most 50 ms after any append.
    #[default]
    Wake,
    /// Left to the operating system.
    Never,
}

/// What the session and its background thread tell each other.
pub(super) struct Keeper {
    fsync: Fsync,
    wanted: Mutex<Wanted>,
    changed: Condvar,
    durable: watch::Sender<Durable>,
}

#[derive(Default)]
struct Wanted {
    /// Since when telemetry waits for its write.
    queued: Option<Instant>,
    /// Since when bytes wait for their sync.
    unsynced: Option<Instant>,
    /// Bytes in the file.
    written: u64,
    /// Somebody waits until that many bytes are durable.
    demanded: u64,
    stop: bool,
}

#[derive(Clone, Copy)]
struct Durable {
    bytes: u64,
    broken: bool,
}

impl Keeper {
    pub fn new(fsync: Fsync, written: u64) -> Self {
        let wanted = Wanted { written, ..Wanted::default() };
        // What an earlier process wrote may not be synced yet: it is with the first sync.
        let durable = Durable { bytes: 0, broken: false };
        Self { fsync, wanted: Mutex::new(wanted), changed: Condvar::new(), durable: watch::Sender::new(durable) }
    }

    pub fn fsync(&self) -> Fsync {
        self.fsync
    }

    /// Telemetry waits for its write.
    pub fn queued(&self) {
        self.note(|wanted| &mut wanted.queued);
    }

    /// The file has grown to `end` bytes.
    pub fn wrote(&self, end: u64) {
        self.note(|wanted| {
            wanted.written = end;
            &mut wanted.unsynced
        });
    }

    /// Settles once all that is written now is durable. Returns whether it is.
    pub async fn durable(&self) -> bool {
        let mut durable = self.durable.subscribe();
        let demanded = {
            let mut wanted = lock(&self.wanted);
            wanted.demanded = wanted.written;
            wanted.demanded
        };
        if durable.borrow().bytes < demanded {
            self.changed.notify_one();
        }
        // The sender lives as long as `self`: waiting cannot fail.
        durable.wait_for(|durable| durable.broken || durable.bytes >= demanded).await.is_ok_and(|d| !d.broken)
    }

    pub fn broken(&self) {
        self.durable.send_modify(|durable| durable.broken = true);
    }

    /// Ends the thread after it has written and synced what there is.
    pub fn stop(&self) {
        lock(&self.wanted).stop = true;
        self.changed.notify_one();
    }

    pub fn spawn(shared: &Arc<Shared>) -> std::io::Result<thread::JoinHandle<()>> {
        let shared = shared.clone();
        thread::Builder::new().name("axon-log".into()).stack_size(STACK_BYTES).spawn(move || shared.keeper.run(&shared))
    }

    fn run(&self, shared: &Shared) {
        loop {
            let (flush, sync, stop) = self.wait();
            if flush {
                // Failures are told to whoever appends next.
                let _ = shared.flush();
            }
            if sync && self.sync_delay().is_some() {
                self.sync(shared);
            }
            if stop {
                return;
            }
        }
    }

    fn sync_delay(&self) -> Option<Duration> {
        match self.fsync {
            Fsync::Always => Some(Duration::ZERO),
            Fsync::Wake => Some(SYNC_DELAY),
            Fsync::Never => None,
        }
    }

    /// Waits until there is something to do: whether to write, to sync and to end.
    fn wait(&self) -> (bool, bool, bool) {
        let mut wanted = lock(&self.wanted);
        loop {
            let now = Instant::now();
            let flush_at = wanted.queued.map(|since| since + FLUSH_DELAY);
            let sync_at = wanted.unsynced.zip(self.sync_delay()).map(|(since, delay)| since + delay);
            let flush = wanted.stop || flush_at.is_some_and(|at| at <= now);
            let durable = *self.durable.borrow();
            let demanded = wanted.demanded > durable.bytes && !durable.broken;
            let sync = wanted.stop || demanded || sync_at.is_some_and(|at| at <= now);
            if flush {
                wanted.queued = None;
            }
            if sync {
                wanted.unsynced = None;
            }
            if flush || sync {
                return (flush, sync, wanted.stop);
            }
            wanted = match flush_at.into_iter().chain(sync_at).min() {
                None => self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner),
                Some(at) => self.changed.wait_timeout(wanted, at - now).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
    }

    fn sync(&self, shared: &Shared) {
        let written = lock(&self.wanted).written;
        let durable = *self.durable.borrow();
        if durable.broken || durable.bytes >= written {
            return;
        }
        match shared.sync_file() {
            Ok(()) => self.durable.send_modify(|durable| durable.bytes = written),
            // After a failed sync nobody knows what reached the disk: the session must not go on.
            Err(cause) => drop(shared.break_off(cause)),
        }
    }

    fn note(&self, since: impl FnOnce(&mut Wanted) -> &mut Option<Instant>) {
        let mut wanted = lock(&self.wanted);
        let since = since(&mut wanted);
        if since.is_none() {
            *since = Some(Instant::now());
            drop(wanted);
            self.changed.notify_one();
        }
    }
}
