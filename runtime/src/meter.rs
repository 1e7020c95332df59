//! Deadlines of a running VM: CPU between two waits, and the end after an abort.
//!
//! Luau calls its interrupt at every safepoint once one is set, which costs about 100 ns each time. So none is set until a
//! deadline has passed on the clock; then the interrupt, which runs on the VM's own thread, looks at the CPU time and
//! decides.

use std::{
    ffi::c_void,
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use mlua::{Lua, VmState, ffi};

use crate::{
    Limits,
    clock::thread_cpu,
    limits::{ABANDON_GRACE, PATIENCE, REARM_PERIOD},
};

/// Why a VM was stopped at a safepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    #[error("the CPU limit was reached")]
    Cpu,
    #[error("the wake went on after its abort")]
    Forced,
}

/// What the one who waits for a VM does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    AgainIn(Duration),
    /// No safepoint has come for [`ABANDON_GRACE`] after one was asked for.
    Lost,
}

#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    epoch: Instant,
    /// CPU that the VM has until it waits, in nanoseconds.
    cpu: AtomicU64,
    /// When the VM was last resumed, see [`Meter::now`]; 0 while it waits.
    running_since: AtomicU64,
    /// Thread CPU time at that moment, in nanoseconds.
    cpu_at_resume: AtomicU64,
    /// 0 while the signal is not aborted.
    aborted_at: AtomicU64,
    /// When a safepoint was asked for that has not come yet; 0 for none.
    asked_at: AtomicU64,
    /// Nobody waits for the VM any more: it ends at the next safepoint.
    orphaned: AtomicBool,
    /// How often the VM was told to end in this turn.
    refusals: AtomicU32,
    /// Why it was told so first.
    told: Mutex<Option<Ended>>,
    trigger: Mutex<Option<Trigger>>,
}

impl Meter {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            epoch: Instant::now(),
            cpu: AtomicU64::new(nanoseconds(limits.top_level_cpu.min(limits.cpu))),
            running_since: AtomicU64::new(0),
            cpu_at_resume: AtomicU64::new(0),
            aborted_at: AtomicU64::new(0),
            asked_at: AtomicU64::new(0),
            orphaned: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
            told: Mutex::new(None),
            trigger: Mutex::new(None),
        }
    }

    /// Takes the VM's interrupt over. [`Meter::disconnect`] must be called before the VM is closed.
    pub fn connect(self: &std::sync::Arc<Self>, lua: &Lua) -> mlua::Result<()> {
        let meter = std::sync::Arc::downgrade(self);
        lua.set_interrupt(move |_| match meter.upgrade().map(|meter| meter.safepoint()) {
            Some(Err(ended)) => Err(mlua::Error::external(ended)),
            Some(Ok(())) | None => Ok(VmState::Continue),
        });
        *self.trigger() = Trigger::take(lua)?;
        Ok(())
    }

    /// The top level of the cognet's files has run: from here on it has all the CPU that it is allowed.
    pub fn loaded(&self) {
        self.cpu.store(nanoseconds(self.limits.cpu), Ordering::Relaxed);
        self.resumed();
    }

    /// CPU that the VM has until it waits.
    pub fn cpu_limit(&self) -> Duration {
        Duration::from_nanos(self.cpu.load(Ordering::Relaxed))
    }

    pub fn disconnect(&self) {
        *self.trigger() = None;
    }

    /// Before a load, a wake or a shutdown.
    pub fn reset(&self) {
        self.running_since.store(0, Ordering::Relaxed);
        self.aborted_at.store(0, Ordering::Relaxed);
        self.asked_at.store(0, Ordering::Relaxed);
        self.orphaned.store(false, Ordering::Relaxed);
        self.refusals.store(0, Ordering::Relaxed);
        *self.told() = None;
        self.arm(false);
    }

    /// The VM goes on, or begins a new stretch between two waits.
    pub fn resumed(&self) {
        self.cpu_at_resume.store(nanoseconds(thread_cpu()), Ordering::Relaxed);
        self.asked_at.store(0, Ordering::Relaxed);
        self.running_since.store(self.now(), Ordering::Relaxed);
    }

    pub fn suspended(&self) {
        self.running_since.store(0, Ordering::Relaxed);
        self.asked_at.store(0, Ordering::Relaxed);
    }

    /// Runs what is the kernel's time and not the cognet's.
    pub fn outside<T>(&self, work: impl FnOnce() -> T) -> T {
        let (running, left) = (self.running_since.load(Ordering::Relaxed), self.now());
        self.suspended();
        let outcome = work();
        if running != 0 {
            // The clock goes on where it stood: a loop of such calls must not begin anew with each.
            self.running_since.store(running + (self.now() - left), Ordering::Relaxed);
        }
        outcome
    }

    /// The wake's signal was aborted.
    pub fn aborted(&self) {
        self.aborted_at.store(self.now(), Ordering::Relaxed);
    }

    /// Whoever waited is gone: the VM is to end at once.
    pub fn orphan(&self) {
        self.orphaned.store(true, Ordering::Relaxed);
        self.arm(true);
    }

    /// Asks for a safepoint if a deadline has passed.
    pub fn look(&self) -> Look {
        let now = self.now();
        let running = self.running_since.load(Ordering::Relaxed);
        let mut deadline = if running == 0 { now } else { running } + self.cpu.load(Ordering::Relaxed);
        let aborted = self.aborted_at.load(Ordering::Relaxed);
        if aborted != 0 {
            deadline = deadline.min(aborted + nanoseconds(self.limits.forced_end));
        }
        if now < deadline {
            return Look::AgainIn(Duration::from_nanos(deadline - now));
        }
        if running != 0 {
            self.arm(true);
            let asked = self.asked_at.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
            if asked.is_err_and(|asked| now.saturating_sub(asked) >= nanoseconds(ABANDON_GRACE)) {
                return Look::Lost;
            }
        }
        Look::AgainIn(REARM_PERIOD)
    }

    /// The interrupt, on the VM's thread.
    fn safepoint(&self) -> Result<(), Ended> {
        if self.orphaned.load(Ordering::Relaxed) {
            return Err(Ended::Forced);
        }
        self.asked_at.store(0, Ordering::Relaxed);
        let Some(ended) = self.verdict() else {
            self.arm(false);
            return Ok(());
        };
        self.told().get_or_insert(ended);
        // The handlers of the host may tell what happened; a script that goes on regardless ends at every safepoint.
        if self.refusals.fetch_add(1, Ordering::Relaxed) < PATIENCE {
            self.arm(false);
        }
        Err(ended)
    }

    /// Why the VM was told to end in this turn, if it was.
    pub fn told_to_end(&self) -> Option<Ended> {
        *self.told()
    }

    fn told(&self) -> MutexGuard<'_, Option<Ended>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether, and why, the VM is to end now.
    fn verdict(&self) -> Option<Ended> {
        let aborted = self.aborted_at.load(Ordering::Relaxed);
        if aborted != 0 && self.now().saturating_sub(aborted) >= nanoseconds(self.limits.forced_end) {
            return Some(Ended::Forced);
        }
        let used = nanoseconds(thread_cpu()).saturating_sub(self.cpu_at_resume.load(Ordering::Relaxed));
        (used >= self.cpu.load(Ordering::Relaxed)).then_some(Ended::Cpu)
    }

    fn arm(&self, armed: bool) {
        if let Some(trigger) = self.trigger().as_ref() {
            trigger.set(armed);
        }
    }

    fn trigger(&self) -> MutexGuard<'_, Option<Trigger>> {
        self.trigger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the meter was made, at least 1.
    fn now(&self) -> u64 {
        nanoseconds(self.epoch.elapsed()).max(1)
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 2)
}

/// The place where Luau keeps its interrupt. mlua can set and remove it only with the VM's lock, which a running VM holds.
#[derive(Debug)]
struct Trigger {
    slot: *mut *mut c_void,
    handler: *mut c_void,
}

// SAFETY: Luau permits any thread to set the interrupt (lua.h, `lua_Callbacks`); the slot is written atomically and only
// while the VM is open (see `Meter::disconnect`).
unsafe impl Send for Trigger {}

impl Trigger {
    /// Unsets the interrupt that mlua installed and remembers it.
    fn take(lua: &Lua) -> mlua::Result<Option<Self>> {
        let mut trigger = None;
        // SAFETY: the callbacks live as long as the VM; a function pointer and `Option` of one have the size of a pointer.
        unsafe {
            lua.exec_raw::<()>((), |state| {
                let interrupt = &raw mut (*ffi::lua_callbacks(state)).interrupt;
                if let Some(handler) = *interrupt {
                    trigger = Some(Self { slot: interrupt.cast(), handler: handler as *mut c_void });
                }
                *interrupt = None;
            })?;
        }
        Ok(trigger)
    }

    fn set(&self, armed: bool) {
        let handler = if armed { self.handler } else { ptr::null_mut() };
        // SAFETY: the slot is aligned, lives (see `Meter::disconnect`) and is written by nothing else while the VM runs.
        unsafe { AtomicPtr::from_ptr(self.slot) }.store(handler, Ordering::Relaxed);
    }
}
