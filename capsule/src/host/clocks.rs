//! When a block is stopped, and the cell for why.

use std::{
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use crate::{Limits, stop::StopReason};

/// After an interrupt a block may still notice its signal and end by itself for this long.
pub const INTERRUPT_GRACE: Duration = Duration::from_millis(80);

/// A terminated isolate that has not come back after this long is given up: its block is settled without it.
pub const TERMINATION_GRACE: Duration = Duration::from_millis(100);

/// As [`TERMINATION_GRACE`], for a block that is out of memory.
pub const COLLECTION_GRACE: Duration = Duration::from_secs(1);

/// The reason, once there is one.
#[derive(Debug, Default)]
pub struct StopCell(OnceLock<StopReason>);

impl StopCell {
    /// Whether `reason` is the one: the first counts.
    pub fn set(&self, reason: StopReason) -> bool {
        self.0.set(reason).is_ok()
    }

    pub fn get(&self) -> Option<StopReason> {
        self.0.get().copied()
    }
}

/// The two clocks of a block.
#[derive(Debug)]
pub struct Clocks {
    timeout: Duration,
    total_deadline: Instant,
    own: Mutex<OwnTime>,
}

#[derive(Debug)]
struct OwnTime {
    spent: Duration,
    running_since: Option<Instant>,
}

/// The own-time clock stands still while this lives.
#[must_use]
pub struct Pause<'a>(&'a Clocks);

impl Clocks {
    pub fn start(limits: &Limits) -> Self {
        let now = Instant::now();
        Self {
            timeout: limits.timeout,
            total_deadline: now + limits.total_timeout,
            own: Mutex::new(OwnTime { spent: Duration::ZERO, running_since: Some(now) }),
        }
    }

    pub fn pause(&self) -> Pause<'_> {
        let mut own = self.own();
        if let Some(since) = own.running_since.take() {
            own.spent += since.elapsed();
        }
        Pause(self)
    }

    /// What has run out, or else when to look again at the latest.
    pub fn check(&self, now: Instant) -> Result<Instant, StopReason> {
        if now >= self.total_deadline {
            return Err(StopReason::TotalTime);
        }
        let own = self.own();
        let running = own.running_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let left = self.timeout.saturating_sub(own.spent + running);
        if left.is_zero() {
            return Err(StopReason::OwnTime);
        }
        // A clock that stands still now cannot run out before this either.
        Ok(self.total_deadline.min(now + left))
    }

    fn own(&self) -> MutexGuard<'_, OwnTime> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.own().running_since = Some(Instant::now());
    }
}
