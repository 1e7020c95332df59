//! When a failed attempt is made again, and after how long.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use super::fault::Fault;

/// Attempts at one call, the first included.
pub(super) const MAX_ATTEMPTS: u32 = 3;
/// The wait after the first failed attempt, the second, and so on.
const BACKOFF: [Duration; MAX_ATTEMPTS as usize - 1] = [Duration::from_millis(100), Duration::from_millis(300)];
/// A server that asks for a longer wait is asked again after this one.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);
/// A wait is longer by up to this part of itself, so that agents that failed together do not come back together.
const JITTER: f64 = 0.25;

/// How long to wait after attempt number `attempt` (from 1) failed with `fault`; `None` when the failure is final.
pub(super) fn delay(attempt: u32, fault: &Fault) -> Option<Duration> {
    let backoff = BACKOFF.get(usize::try_from(attempt).ok()?.checked_sub(1)?)?;
    if !fault.retryable {
        return None;
    }
    let wait = fault.retry_after_ms.map_or(*backoff, Duration::from_millis).min(MAX_RETRY_AFTER);
    Some(wait.mul_f64(1.0 + JITTER * random_fraction()))
}

/// A number from 0 to 1. The standard library's hash keys are random enough to spread retries.
fn random_fraction() -> f64 {
    let bits = RandomState::new().hash_one(0_u8) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::FaultCode;

    fn within(delay: Option<Duration>, low: u64, high: u64) -> bool {
        delay.is_some_and(|delay| delay >= Duration::from_millis(low) && delay <= Duration::from_millis(high))
    }

    #[test]
    fn a_retryable_fault_is_tried_three_times_with_growing_waits() {
        let fault = Fault::new(FaultCode::Transport, "test", "down");
        assert!(within(delay(1, &fault), 100, 125));
        assert!(within(delay(2, &fault), 300, 375));
        assert_eq!(delay(3, &fault), None);
    }

    #[test]
    fn a_server_decides_how_long_to_wait_up_to_five_seconds() {
        let asked =
            |wait| Fault::new(FaultCode::RateLimit, "test", "slow").retry_after(Some(Duration::from_millis(wait)));
        assert!(within(delay(1, &asked(5)), 5, 7));
        assert!(within(delay(1, &asked(2_000)), 2_000, 2_500));
        assert!(within(delay(1, &asked(60_000)), 5_000, 6_250));
    }

    #[test]
    fn what_would_fail_again_is_not_tried_again() {
        assert_eq!(delay(1, &Fault::new(FaultCode::Auth, "test", "no")), None);
    }
}
