//! Ctrl-C: the first ends the wake, the second the program.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use axon_runtime::AbortController;

use super::{chat::terminal, failure::Exit};

/// The reason that an interrupted wake records.
pub(super) const USER: &str = "interrupted by the user";

/// Turns SIGINT and SIGTERM into an abort of the work under way.
#[derive(Clone, Default)]
pub(super) struct Interrupts(Arc<State>);

#[derive(Default)]
struct State {
    current: Mutex<Option<AbortController>>,
    interrupted: AtomicBool,
}

impl Interrupts {
    /// Begins to listen. Must be called inside the async runtime.
    pub(super) fn listen() -> std::io::Result<Self> {
        let interrupts = Self::default();
        let state = interrupts.0.clone();
        #[cfg(unix)]
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
        tokio::spawn(async move {
            loop {
                #[cfg(unix)]
                tokio::select! {
                    result = tokio::signal::ctrl_c() => if result.is_err() { return },
                    _ = terminate.recv() => {}
                }
                #[cfg(not(unix))]
                if tokio::signal::ctrl_c().await.is_err() {
                    return;
                }
                state.signal();
            }
        });
        Ok(interrupts)
    }

    /// What the next Ctrl-C aborts. Outside such work it ends the program.
    pub(super) fn guard(&self) -> AbortController {
        let controller = AbortController::new();
        *self.current() = Some(controller.clone());
        controller
    }

    /// The work is over: the next Ctrl-C ends the program.
    pub(super) fn release(&self) {
        *self.current() = None;
        self.0.interrupted.store(false, Ordering::SeqCst);
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<AbortController>> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn signal(&self) {
        let second = self.interrupted.swap(true, Ordering::SeqCst);
        match &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(controller) if !second => controller.abort(USER),
            _ => {
                terminal::restore();
                std::process::exit(Exit::Interrupted as i32)
            }
        }
    }
}
