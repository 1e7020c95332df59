//! Memory that the engine takes from the C library, past its own heap and past the buffers that a budget counts: above all
//! the data of `Intl` objects.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// What the engine needs of it for itself: isolates that are warm, compilers at work.
const OWN_BYTES: usize = 128 << 20;

/// What the C library may keep back after a block that took much.
const KEPT_BACK_BYTES: usize = 32 << 20;

/// Held by the buffers of all blocks, which come from the C library too.
static BUFFERS: AtomicUsize = AtomicUsize::new(0);
/// Whether a block has taken so much that it was looked at.
static LOOKED: AtomicBool = AtomicBool::new(false);

pub fn buffer_taken(bytes: usize) {
    BUFFERS.fetch_add(bytes, Relaxed);
}

pub fn buffer_given_back(bytes: usize) {
    BUFFERS.fetch_sub(bytes, Relaxed);
}

/// Whether the process holds more of this memory than blocks with this limit should make it hold. Which block it is, it does not
/// tell: the one is asked about that takes more.
pub fn is_over(limit: usize) -> bool {
    LOOKED.store(true, Relaxed);
    let buffers = BUFFERS.load(Relaxed);
    c_library::in_use().saturating_sub(buffers) > limit.saturating_add(OWN_BYTES)
}

/// Gives back to the system what a block has left, if any has taken much.
pub fn give_back() {
    if LOOKED.swap(false, Relaxed) {
        c_library::trim(KEPT_BACK_BYTES);
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod c_library {
    pub fn in_use() -> usize {
        // SAFETY: it has no preconditions.
        let info = unsafe { libc::mallinfo2() };
        info.uordblks + info.hblkhd
    }

    pub fn trim(kept: usize) {
        // SAFETY: it has no preconditions.
        unsafe { libc::malloc_trim(kept) };
    }
}

/// Elsewhere nothing tells.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod c_library {
    pub fn in_use() -> usize {
        0
    }

    pub fn trim(_kept: usize) {}
}
