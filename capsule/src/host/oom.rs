//! When the engine itself finds no memory it would take the process down, and every other block with it.

use std::{cell::RefCell, ffi::c_char, sync::Arc, thread, time::Duration};

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

/// Reports the thread's run as out of memory and parks the thread: the engine would abort the process if this returned.
/// The process is replaced once its other runs have ended.
pub unsafe extern "C" fn on_out_of_memory(_location: *const c_char, _details: &v8::OomDetails) {
    let Some(control) = CURRENT.take() else { return };
    control.abandon(StopReason::OutOfMemory);
    control.report(Settled::Value(None));
    control.host().retire("the engine found no memory for an isolate");
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}
