//! When the engine gives up it would take the process down, and every other block with it.
//!
//! Its thread is parked instead, for good; its block is reported, and the process is replaced once its other blocks have
//! ended.

use std::{cell::RefCell, ffi::c_char, panic, sync::Arc, thread, time::Duration};

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

/// To be called once, before there are isolates.
pub fn install() {
    let say = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        say(info);
        // Between the engine's frames nothing could unwind anyway.
        park(StopReason::EngineFailed, "a panic in the middle of a block");
    }));
    #[cfg(all(feature = "v8", target_os = "linux"))]
    abort::install();
}

/// Called by the engine when it has no memory for an isolate. It aborts the process if this returns.
pub unsafe extern "C" fn on_out_of_memory(_location: *const c_char, _details: &v8::OomDetails) {
    park(StopReason::OutOfMemory, "the engine found no memory for an isolate");
}

/// Returns only if the thread has no run.
fn park(reason: StopReason, why: &str) {
    let Some(control) = CURRENT.try_with(RefCell::take).ok().flatten() else { return };
    control.abandon(reason);
    // First, so that no other block comes here once this one is known to have ended.
    control.host().retire(why);
    control.report(Settled::Value(None), Vec::new());
    loop {
        thread::sleep(Duration::from_secs(3600));
    }
}

/// An object larger than the engine can describe: it has no callback for that, says so on standard error, and aborts.
#[cfg(all(feature = "v8", target_os = "linux"))]
mod abort {
    use std::{
        cell::Cell,
        ffi::{c_int, c_void},
        ptr, slice,
    };

    use super::{StopReason, c_char, park};

    /// How the engine begins what it says before it aborts for a reason that leaves its memory as it was. Whatever else aborts
    /// (a failed check, an allocator that finds its heap broken) ends the process.
    const HARMLESS: [&[u8]; 2] = [b"Fatal error with no security impact", b"out of memory"];

    thread_local! {
        static SAID_HARMLESS: Cell<bool> = const { Cell::new(false) };
    }

    #[repr(C)]
    struct StreamFunctions {
        read: Option<unsafe extern "C" fn(*mut c_void, *mut c_char, usize) -> isize>,
        write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> isize>,
        seek: Option<unsafe extern "C" fn(*mut c_void, *mut i64, c_int) -> c_int>,
        close: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    }

    unsafe extern "C" {
        fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: StreamFunctions) -> *mut libc::FILE;
        static mut stderr: *mut libc::FILE;
    }

    pub fn install() {
        let functions = StreamFunctions { read: None, write: Some(listen), seek: None, close: None };
        // SAFETY: called before there are other threads, so nothing uses the stream that is replaced, nor the signal.
        unsafe {
            let stream = fopencookie(ptr::null_mut(), c"w".as_ptr(), functions);
            if !stream.is_null() {
                stderr = stream;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_abort as *const () as usize;
            libc::sigaction(libc::SIGABRT, &action, ptr::null_mut());
        }
    }

    /// Passes on what the engine says.
    unsafe extern "C" fn listen(_cookie: *mut c_void, text: *const c_char, len: usize) -> isize {
        // SAFETY: the C library passes the bytes to write.
        let text = unsafe { slice::from_raw_parts(text.cast::<u8>(), len) };
        if HARMLESS.iter().any(|mark| text.windows(mark.len()).any(|part| part == *mark)) {
            SAID_HARMLESS.set(true);
        }
        // SAFETY: as above.
        unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), len) };
        len.cast_signed()
    }

    /// Runs on the thread that aborts, at the place where the engine calls for it. The process ends if it returns.
    extern "C" fn on_abort(_signal: c_int) {
        if SAID_HARMLESS.get() {
            park(StopReason::OutOfMemory, "the engine met an object that it cannot describe");
        }
    }
}
