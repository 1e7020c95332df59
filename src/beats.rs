//! The beats of a continuous cognet.

use std::time::Duration;

use tokio::time::Instant;

/// One beat every period, the first at once. A beat that nobody waits for, because a wake still runs, is missed and
/// counted, never made up for.
#[derive(Debug)]
pub struct Beats {
    period: Duration,
    /// `None` before the first.
    next: Option<Instant>,
}

impl Beats {
    /// A period of no length is taken as one of a millisecond.
    pub fn new(period: Duration) -> Self {
        Self { period: period.max(Duration::from_millis(1)), next: None }
    }

    /// Waits for the next beat and answers how many were missed since the last. Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> u64 {
        let now = Instant::now();
        let (at, missed) = self.next.map_or((now, 0), |next| due(next, now, self.period));
        tokio::time::sleep_until(at).await;
        self.next = Some(at + self.period);
        missed
    }
}

/// The first beat from `now` on, where `next` was expected, and how many have passed before it.
fn due(next: Instant, now: Instant, period: Duration) -> (Instant, u64) {
    let missed = now.saturating_duration_since(next).as_nanos().div_ceil(period.as_nanos());
    let ahead = u64::try_from(period.as_nanos() * missed).unwrap_or(u64::MAX);
    (next + Duration::from_nanos(ahead), u64::try_from(missed).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(1);

    /// How long after the expected beat the next one is, for one who comes `late`, and how many were missed.
    fn late_by(late: Duration) -> (Duration, u64) {
        let next = Instant::now();
        let (at, missed) = due(next, next + late, PERIOD);
        (at - next, missed)
    }

    #[test]
    fn whoever_waits_in_time_misses_nothing() {
        assert_eq!(late_by(Duration::ZERO), (Duration::ZERO, 0));
    }

    #[test]
    fn beats_that_pass_during_a_wake_are_counted_and_not_made_up_for() {
        assert_eq!(late_by(Duration::from_millis(1)), (PERIOD, 1));
        assert_eq!(late_by(Duration::from_millis(3_500)), (4 * PERIOD, 4));
        assert_eq!(late_by(Duration::from_secs(3)), (3 * PERIOD, 3), "the beat of this very moment is not missed");
    }

    #[tokio::test]
    async fn the_first_beat_is_at_once_and_a_wait_that_is_given_up_loses_none() {
        let mut beats = Beats::new(Duration::from_secs(3_600));
        assert_eq!(beats.next().await, 0);
        let before = beats.next;
        assert!(tokio::time::timeout(Duration::ZERO, beats.next()).await.is_err());
        assert_eq!(beats.next, before);
    }
}
