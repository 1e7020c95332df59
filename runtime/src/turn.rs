//! Runs a VM on a thread of its own and keeps its time.
//!
//! A VM that is awake has an OS thread; one that is asleep has none. So a script that loops without end holds up no task of
//! the embedder's runtime, not even on a single thread, and one that no safepoint stops can be left behind. Verbs that wait
//! park the thread; their I/O and timers are the runtime's.

use std::{future::Future, sync::Arc};

use tokio::{runtime::Handle, sync::oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    AbortSignal, CognetError,
    error::code,
    limits::STACK_BYTES,
    meter::{Look, Meter},
    vm::Vm,
};

/// Why a turn has no outcome.
pub(crate) enum TurnError {
    /// The VM could not be stopped and its thread was left behind.
    Lost,
    /// The turn never began, or its thread is gone.
    Failed(CognetError),
}

/// Ends the VM's turn when the one who waits goes away.
struct Attendance {
    meter: Option<Arc<Meter>>,
    _gone: DropGuard,
}

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(meter) = self.meter.take() {
            meter.orphan();
        }
    }
}

/// Runs `work`, which resumes `vm`, and waits for it. `gone` is cancelled when nobody waits any more.
pub(crate) async fn take_turn<T: Send + 'static>(
    vm: &Arc<Vm>,
    signal: AbortSignal,
    gone: CancellationToken,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, TurnError> {
    let failed = |what: String| TurnError::Failed(CognetError::new(code::RUNTIME, what));
    let runtime = Handle::try_current().map_err(|_| failed("a cognet needs a tokio runtime around it".to_owned()))?;
    let meter = Arc::clone(&vm.host.meter);
    let turn = tokio::select! {
        biased;
        turn = Arc::clone(&vm.turn).lock_owned() => turn,
        () = signal.cancelled() => {
            let message = "aborted while the turn before was ending";
            return Err(TurnError::Failed(CognetError::new(code::INTERRUPTED, message)));
        }
    };
    meter.reset();
    let (sender, mut receiver) = oneshot::channel();
    let mut attendance = Attendance { meter: Some(Arc::clone(&meter)), _gone: gone.drop_guard() };
    std::thread::Builder::new()
        .name("axon-cognet".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let outcome = runtime.block_on(work);
            drop(turn);
            // Nobody may wait any more.
            let _ = sender.send(outcome);
        })
        .map_err(|error| failed(format!("no thread for the cognet: {error}")))?;

    let mut aborted = false;
    loop {
        let next = match meter.look() {
            Look::AgainIn(next) => next,
            Look::Lost => {
                vm.lose();
                return Err(TurnError::Lost);
            }
        };
        tokio::select! {
            biased;
            outcome = &mut receiver => {
                attendance.meter = None;
                return outcome.map_err(|_| {
                    vm.lose();
                    failed("the cognet's thread has panicked".to_owned())
                });
            }
            () = signal.cancelled(), if !aborted => {
                aborted = true;
                meter.aborted();
            }
            () = tokio::time::sleep(next) => {}
        }
    }
}
