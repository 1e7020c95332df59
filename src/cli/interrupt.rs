//! Ctrl-C: the first ends the wake, the second the program.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use axon_runtime::AbortController;
use tokio::sync::oneshot;

use super::{chat::terminal, failure::Exit};
use crate::log::leave_held_sessions;

/// The reason that an interrupted wake records.
pub(super) const USER: &str = "interrupted by the user";

/// Ends the program at once, whatever it does.
pub(super) fn leave(code: i32) -> ! {
    leave_held_sessions();
    std::process::exit(code)
}

/// Turns SIGINT and SIGTERM into an abort of the work under way.
#[derive(Clone, Default)]
pub(super) struct Interrupts(Arc<State>);

#[derive(Default)]
struct State {
    current: Mutex<Option<AbortController>>,
    interrupted: AtomicBool,
    /// A question that is open: Ctrl-C says no to it.
    question: Mutex<Option<oneshot::Sender<()>>>,
}

impl Interrupts {
    /// Begins to listen: no signal is lost from here on. Must be called inside the async runtime.
    pub(super) fn listen() -> std::io::Result<Self> {
        let interrupts = Self::default();
        let state = interrupts.0.clone();
        // Registered here and once, not in the task: what arrives before it runs, or between two turns of its loop, counts.
        #[cfg(unix)]
        let (mut interrupt, mut terminate) = {
            use tokio::signal::unix::{SignalKind, signal};
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        #[cfg(windows)]
        let (mut interrupt, mut terminate) = (tokio::signal::windows::ctrl_c()?, tokio::signal::windows::ctrl_close()?);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    Some(()) = interrupt.recv() => {
                        if state.refuse() {
                            continue;
                        }
                    }
                    Some(()) = terminate.recv() => {}
                    else => return,
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

    /// Opens a question. What is returned is ready once Ctrl-C has said no to it; dropped, the question is over.
    pub(super) fn question(&self) -> impl Future<Output = ()> + Send + use<> {
        let (refuse, refused) = oneshot::channel();
        *self.0.question.lock().unwrap_or_else(PoisonError::into_inner) = Some(refuse);
        async move {
            if refused.await.is_err() {
                // Another question took its place.
                std::future::pending::<()>().await;
            }
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Option<AbortController>> {
        self.0.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Says no to the question that is open, if one is.
    fn refuse(&self) -> bool {
        let question = self.question.lock().unwrap_or_else(PoisonError::into_inner).take();
        question.is_some_and(|question| question.send(()).is_ok())
    }

    fn signal(&self) {
        let second = self.interrupted.swap(true, Ordering::SeqCst);
        match &*self.current.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(controller) if !second => controller.abort(USER),
            _ => {
                terminal::restore();
                leave(Exit::Interrupted as i32)
            }
        }
    }
}
