//! One run, as every thread of the isolate process may touch it.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use deno_core::{futures::task::AtomicWaker, v8};
use tokio::sync::mpsc;

use super::{
    Host,
    clocks::{COLLECTION_GRACE, Clocks, INTERRUPT_GRACE, StopCell, TERMINATION_GRACE},
    memory::Budget,
    output::{Output, Value},
};
use crate::{
    BlockError, BlockErrorKind, Datum, ToolError,
    bindings::Binding,
    stop::{StopReason, code},
    wire::{CallId, RunId, RunReport, ToKernel},
};

/// What the kernel has for a running block.
pub enum Event {
    ToolResult { call: CallId, result: Result<Datum, ToolError> },
    Bindings(Vec<(String, Arc<Binding>)>),
    Abort,
}

/// What a block came to by itself.
#[derive(Clone, Debug)]
pub enum Settled {
    Value(Option<Value>),
    Error { message: String, code: Option<String> },
}

pub struct RunControl {
    pub run: RunId,
    pub clocks: Clocks,
    pub output: Mutex<Output>,
    /// Woken when the run's thread should look at [`stopped`](Self::stopped) again.
    pub waker: AtomicWaker,
    host: Arc<Host>,
    isolate: v8::IsolateHandle,
    budget: Arc<Budget>,
    events: mpsc::UnboundedSender<Event>,
    stop: StopCell,
    ending: Mutex<Ending>,
    reported: AtomicBool,
    cpu_micros: AtomicU64,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    No,
    /// The block's signal has aborted.
    Interrupted(Instant),
    Terminated(Instant),
}

/// What the watchdog has to do about a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    LookAgain(Instant),
    Over,
    GiveUp,
}

impl RunControl {
    pub fn new(
        run: RunId,
        host: Arc<Host>,
        isolate: v8::IsolateHandle,
        budget: Arc<Budget>,
        events: mpsc::UnboundedSender<Event>,
    ) -> Self {
        Self {
            run,
            clocks: Clocks::start(&host.limits),
            output: Mutex::new(Output::new(host.limits.max_output_bytes)),
            waker: AtomicWaker::new(),
            host,
            isolate,
            budget,
            events,
            stop: StopCell::default(),
            ending: Mutex::new(Ending::No),
            reported: AtomicBool::new(false),
            cpu_micros: AtomicU64::new(0),
        }
    }

    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Why the block is being stopped, if it is.
    pub fn stopped(&self) -> Option<StopReason> {
        self.stop.get()
    }

    /// Whether the block's code must not run any further.
    pub fn terminated(&self) -> bool {
        matches!(*self.ending(), Ending::Terminated(_))
    }

    /// Stops the block now. The first reason counts.
    pub fn stop(&self, reason: StopReason) {
        self.stop.set(reason);
        self.terminate();
    }

    /// Stops the block soon. For callbacks of the engine, which must not call back into it: the watchdog terminates from
    /// its own thread.
    pub fn stop_soon(&self, reason: StopReason) {
        if self.stop.set(reason) {
            self.host.watchdog.look();
        }
    }

    /// Aborts the block's signal; it is terminated if it has not ended a moment later.
    pub fn interrupt(&self) {
        if self.stop.set(StopReason::Interrupt) {
            let mut ending = self.ending();
            if matches!(*ending, Ending::No) {
                *ending = Ending::Interrupted(Instant::now());
            }
            drop(ending);
            // The receiver is gone only when the run is over.
            let _ = self.events.send(Event::Abort);
            self.host.watchdog.look();
        }
    }

    /// Notes the reason without touching the isolate, which is in no state to be touched.
    pub fn abandon(&self, reason: StopReason) {
        self.stop.set(reason);
    }

    fn terminate(&self) {
        let mut ending = self.ending();
        if !matches!(*ending, Ending::Terminated(_)) {
            *ending = Ending::Terminated(Instant::now());
            drop(ending);
            self.isolate.terminate_execution();
            self.waker.wake();
            self.host.watchdog.look();
        }
    }

    /// The watchdog's look at the run.
    pub fn inspect(&self, now: Instant) -> Verdict {
        if self.reported.load(Relaxed) {
            return Verdict::Over;
        }
        let ending = *self.ending();
        match ending {
            Ending::No if self.stopped().is_some() => {
                self.terminate();
                Verdict::LookAgain(now + TERMINATION_GRACE)
            }
            Ending::No => match self.clocks.check(now) {
                Ok(again) => Verdict::LookAgain(again),
                Err(reason) => {
                    self.stop(reason);
                    Verdict::LookAgain(now + TERMINATION_GRACE)
                }
            },
            Ending::Interrupted(at) if now < at + INTERRUPT_GRACE => Verdict::LookAgain(at + INTERRUPT_GRACE),
            Ending::Interrupted(_) => {
                self.terminate();
                Verdict::LookAgain(now + TERMINATION_GRACE)
            }
            Ending::Terminated(at) => self.inspect_terminated(now, at),
        }
    }

    fn inspect_terminated(&self, now: Instant, at: Instant) -> Verdict {
        // Out of memory is found in the middle of a collection of a full heap, and that takes its time. The time limits
        // go on to count.
        let grace = match self.stopped() {
            Some(StopReason::OutOfMemory) if self.clocks.check(now).is_ok() => COLLECTION_GRACE,
            _ => TERMINATION_GRACE,
        };
        if now >= at + grace { Verdict::GiveUp } else { Verdict::LookAgain(now + TERMINATION_GRACE) }
    }

    pub fn set_cpu(&self, cpu: Duration) {
        self.cpu_micros.store(u64::try_from(cpu.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// Reports the run to the kernel, once; later calls do nothing. A reason to stop outweighs what the block settled.
    ///
    /// What the block has declared lives on only if it ended well.
    pub fn report(&self, settled: Settled, bindings: Vec<(String, Binding)>) {
        if self.reported.swap(true, Relaxed) {
            return;
        }
        let result = match (self.stopped(), settled) {
            (Some(reason), _) => Err(reason.into_error(&self.host.limits)),
            (None, Settled::Value(value)) => Ok(value),
            (None, Settled::Error { message, code }) => {
                let code = code.filter(|code| !code::is_reserved(code));
                Err(BlockError { kind: BlockErrorKind::Exception, message: self.bounded(message), code })
            }
        };
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, error) = match result {
            Ok(value) => (value, None),
            Err(error) => (None, Some(error)),
        };
        let finished = output.finish(value);
        drop(output);
        self.host.send(&ToKernel::Done(RunReport {
            run: self.run,
            bindings: if error.is_none() { bindings } else { Vec::new() },
            result: error.map_or(Ok(finished.value), Err),
            stdout: finished.lines,
            truncated: finished.truncated,
            cpu: Duration::from_micros(self.cpu_micros.load(Relaxed)),
            peak_bytes: self.budget.peak() as u64,
        }));
    }

    fn bounded(&self, mut message: String) -> String {
        let limit = self.host.limits.max_output_bytes;
        if message.len() > limit {
            let left_out = message.len() - limit;
            message.truncate(message.floor_char_boundary(limit));
            message.push_str(&format!("… [message cut: {left_out} bytes left out]"));
        }
        message
    }

    fn ending(&self) -> std::sync::MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
