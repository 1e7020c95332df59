//! The CPU time of the thread that asks.

use std::time::Duration;

/// CPU time that this thread has used.
#[cfg(unix)]
pub(crate) fn thread_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Where a thread's CPU time cannot be asked for, time that passed stands in: it is never less.
#[cfg(not(unix))]
pub(crate) fn thread_cpu() -> Duration {
    use std::{sync::OnceLock, time::Instant};
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}
