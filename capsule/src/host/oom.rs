//! When the engine itself finds no memory it would take the process down, and every other block with it.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
    sync::Arc,
    thread,
    time::Duration,
};

use deno_core::v8;

use super::control::{RunControl, Settled};
use crate::stop::StopReason;

thread_local! {
    static CURRENT: RefCell<Option<Arc<RunControl>>> = const { RefCell::new(None) };
}

/// Names the run that this thread works for from now on.
pub fn guard(control: &Arc<RunControl>) {
    CURRENT.set(Some(Arc::clone(control)));
}

/// Called by the engine when it has no memory for an isolate. It aborts the process if this returns.
pub unsafe extern "C" fn on_out_of_memory(_location: *const c_char, _details: &v8::OomDetails) {
    abandon_run();
}

/// Called by the engine on any fatal error. It aborts the process if this returns.
fn on_fatal_error(_file: &str, _line: c_int, message: &str) {
    /// The one that a block can bring about at will: an object larger than the engine can describe.
    const TOO_LARGE: &str = "Fatal JavaScript invalid size error";
    if message.starts_with(TOO_LARGE) {
        abandon_run();
    }
}

/// To be called once, before there are isolates.
pub fn install_fatal_error_handler() {
    v8::V8::set_fatal_error_handler(on_fatal_error);
}

/// Reports the thread's run as out of memory and parks the thread. The process is replaced once its other runs have
/// ended. Returns only if the thread has no run.
fn abandon_run() {
    let Some(control) = CURRENT.take() else { return };
    control.abandon(StopReason::OutOfMemory);
    control.report(Settled::Value(None), Vec::new());
    control.host().retire("the engine found no memory for an isolate");
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
