//! What one cognet may use.

use std::time::Duration;

/// How long a VM that no safepoint stops is waited for before its thread is left behind. On a busy machine a thread may not run
/// for a second.
pub(crate) const ABANDON_GRACE: Duration = Duration::from_secs(3);

/// How often a VM that is past its deadline is asked to stop.
pub(crate) const REARM_PERIOD: Duration = Duration::from_millis(50);

/// How often a VM may go on for [`REARM_PERIOD`] after it was told to end.
pub(crate) const PATIENCE: u32 = 3;

/// The stack of the thread that runs a VM, in bytes: Luau's parser and compiler recurse by up to 1000 levels.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// What one value may come to when it leaves the VM as JSON, in bytes. One table may stand in many places of another, so
/// the VM's own limit bounds nothing here.
pub(crate) const MAX_VALUE_BYTES: usize = 64 << 20;

/// What `json.decode` reads at once, in bytes; parsed, it may be many times as much.
pub(crate) const MAX_JSON_TEXT_BYTES: usize = 16 << 20;

/// The longest name that is compared with those that would have been right, in bytes.
pub(crate) const MAX_NEAR_NAME_BYTES: usize = 64;

/// What a VM over its memory limit may still allocate to tell where that happened, in bytes.
pub(crate) const MEMORY_RESERVE_BYTES: usize = 1 << 20;

/// The limits of one cognet's VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The VM's heap, in bytes. More is `COGNET_MEMORY`.
    pub memory_bytes: usize,
    /// CPU time between two waits. More is `COGNET_CPU`.
    pub cpu: Duration,
    /// The same while the top level of its files runs, if that is less: files define what hooks and loops do later.
    pub top_level_cpu: Duration,
    /// How long a wake may go on after its signal was aborted before it is ended by force.
    pub forced_end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            cpu: Duration::from_secs(5),
            top_level_cpu: Duration::MAX,
            forced_end: Duration::from_secs(2),
        }
    }
}
