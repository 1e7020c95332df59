//! The kernel's own view of a run's clocks, in case the isolate process does not keep its word.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::Limits;

/// What the isolate process gets beyond a limit before it is killed.
const GRACE: Duration = Duration::from_millis(200);

/// How long a block may wait for its isolate.
const START_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug)]
pub struct RunClock(Mutex<State>);

#[derive(Debug)]
struct State {
    sent: Instant,
    started: Option<Instant>,
    own: Duration,
    running_since: Option<Instant>,
    interrupted: Option<Instant>,
}

/// What has run out beyond its grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Start,
    OwnTime,
    TotalTime,
    Interrupt,
}

impl Default for RunClock {
    fn default() -> Self {
        let state =
            State { sent: Instant::now(), started: None, own: Duration::ZERO, running_since: None, interrupted: None };
        Self(Mutex::new(state))
    }
}

impl RunClock {
    pub fn start(&self, now: Instant) {
        let mut state = self.state();
        if state.started.is_none() {
            state.started = Some(now);
            state.running_since = Some(now);
        }
    }

    /// When the block got its isolate.
    pub fn started(&self) -> Option<Instant> {
        self.state().started
    }

    /// The block waits for a tool.
    pub fn pause(&self, now: Instant) {
        let mut state = self.state();
        if let Some(since) = state.running_since.take() {
            state.own += now.saturating_duration_since(since);
        }
    }

    pub fn resume(&self, now: Instant) {
        let mut state = self.state();
        if state.started.is_some() && state.running_since.is_none() {
            state.running_since = Some(now);
        }
    }

    pub fn interrupt(&self, now: Instant) {
        self.state().interrupted.get_or_insert(now);
    }

    /// What is overdue, or when to look again at the latest.
    pub fn check(&self, now: Instant, limits: &Limits) -> Result<Instant, Overdue> {
        let state = self.state();
        if let Some(at) = state.interrupted {
            return if now >= at + GRACE { Err(Overdue::Interrupt) } else { Ok(at + GRACE) };
        }
        let Some(started) = state.started else {
            return if now >= state.sent + START_TIMEOUT { Err(Overdue::Start) } else { Ok(now + GRACE) };
        };
        let total = started + limits.total_timeout + GRACE;
        if now >= total {
            return Err(Overdue::TotalTime);
        }
        let running = state.running_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        let left = (limits.timeout + GRACE).saturating_sub(state.own + running);
        if left.is_zero() {
            return Err(Overdue::OwnTime);
        }
        Ok(total.min(now + left))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { timeout: Duration::from_secs(10), total_timeout: Duration::from_secs(100), ..Limits::default() }
    }

    #[test]
    fn waiting_for_tools_counts_towards_total_time_only() {
        let clock = RunClock::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        clock.start(start);
        clock.pause(at(5));
        assert!(clock.check(at(90), &limits()).is_ok());
        assert_eq!(clock.check(at(101), &limits()), Err(Overdue::TotalTime));
        clock.resume(at(60));
        assert!(clock.check(at(65), &limits()).is_ok());
        assert_eq!(clock.check(at(66), &limits()), Err(Overdue::OwnTime));
    }

    #[test]
    fn looking_again_comes_before_anything_can_be_overdue() {
        let clock = RunClock::default();
        let start = Instant::now();
        clock.start(start);
        let again = clock.check(start, &limits()).unwrap();
        assert_eq!(again, start + limits().timeout + GRACE);
        clock.interrupt(start);
        assert_eq!(clock.check(start, &limits()), Ok(start + GRACE));
        assert_eq!(clock.check(start + GRACE, &limits()), Err(Overdue::Interrupt));
    }

    #[test]
    fn a_run_that_never_gets_an_isolate_is_overdue() {
        let clock = RunClock::default();
        assert!(clock.check(Instant::now(), &limits()).is_ok());
        assert_eq!(clock.check(Instant::now() + START_TIMEOUT, &limits()), Err(Overdue::Start));
    }
}
