//! The thread that ends what does not end by itself.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Host,
    control::{RunControl, Settled, Verdict},
};

/// How long to sleep when nothing runs.
const IDLE: Duration = Duration::from_secs(3600);

#[derive(Default)]
pub struct Watchdog {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Default)]
struct Watched {
    runs: Vec<Arc<RunControl>>,
    look: bool,
}

impl Watchdog {
    pub fn watch(&self, run: Arc<RunControl>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.runs.push(run);
        watched.look = true;
        self.changed.notify_one();
    }

    /// Makes the watchdog look at all runs now.
    pub fn look(&self) {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).look = true;
        self.changed.notify_one();
    }

    /// The thread's body; never returns.
    pub fn run(&self, host: &Host) -> ! {
        loop {
            let runs = {
                let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                watched.look = false;
                watched.runs.clone()
            };
            // Not under the lock: stopping a run wants it.
            let now = Instant::now();
            let mut again = now + IDLE;
            for run in runs {
                match run.inspect(now) {
                    Verdict::LookAgain(at) => again = again.min(at),
                    Verdict::Over => self.forget(&run),
                    Verdict::GiveUp => {
                        // First, so that no other block comes here once this one is known to have ended.
                        host.retire("an isolate does not stop");
                        run.report(Settled::Value(None), Vec::new());
                        self.forget(&run);
                    }
                }
            }
            let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if !watched.look {
                let wait = again.saturating_duration_since(Instant::now());
                drop(self.changed.wait_timeout(watched, wait).unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Drops a run that has ended, and with it what it holds of the system.
    pub fn forget(&self, run: &Arc<RunControl>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.runs.retain(|watched| !Arc::ptr_eq(watched, run));
    }
}
