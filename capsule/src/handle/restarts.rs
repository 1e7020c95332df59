//! When a process that keeps dying is left down.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// So many deaths within [`WINDOW`] and the capsule stays down until the next wake.
pub const MAX_DEATHS: usize = 3;
pub const WINDOW: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Restarts {
    deaths: VecDeque<Instant>,
    down: bool,
}

impl Restarts {
    pub fn death(&mut self, now: Instant) {
        self.deaths.push_back(now);
        while self.deaths.front().is_some_and(|death| now.saturating_duration_since(*death) > WINDOW) {
            self.deaths.pop_front();
        }
        self.down |= self.deaths.len() >= MAX_DEATHS;
    }

    pub fn may_start(&self) -> bool {
        !self.down
    }

    /// A capsule that is down may try again, with a clean record.
    pub fn forgive(&mut self) {
        if self.down {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_deaths_within_the_window_keep_it_down_until_it_is_forgiven() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        restarts.death(start);
        restarts.death(start + WINDOW / 4);
        assert!(restarts.may_start());
        restarts.death(start + WINDOW / 2);
        assert!(!restarts.may_start());
        restarts.forgive();
        assert!(restarts.may_start());
    }

    #[test]
    fn deaths_far_apart_do_not_add_up() {
        let start = Instant::now();
        let mut restarts = Restarts::default();
        for count in 0..10 {
            restarts.death(start + WINDOW * count);
        }
        assert!(restarts.may_start());
    }
}
