//! The few ops that the front uses. A block cannot reach them.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, PoisonError},
};

use deno_core::{
    OpState,
    convert::{ByteString, Uint8Array},
    op2, v8,
};
use deno_error::JsErrorBox;
use sha2::Digest;

use super::{
    carry::Carried,
    control::{RunControl, Settled},
    native,
    output::{Value, Whole},
    values::{self, Reader, Unpassable},
};
use crate::{
    bindings::Reason,
    stop::StopReason,
    wire::{CallId, ToKernel},
};

/// What the run's thread and its ops share.
pub struct RunState {
    pub control: Arc<RunControl>,
    pub settled: Option<Settled>,
    /// Made so far; the number of the last one.
    pub calls: CallId,
    pub in_flight: usize,
    pub carried: Carried,
    /// Gives an array of so many bytes.
    pub make_bytes: v8::Global<v8::Function>,
}

deno_core::extension!(
    axon_capsule,
    deps = [deno_web],
    ops = [
        op_axon_btoa,
        op_axon_call,
        op_axon_cancel,
        op_axon_digest,
        op_axon_encode,
        op_axon_forget,
        op_axon_given,
        op_axon_keep_source,
        op_axon_keep_value,
        op_axon_look_at_memory,
        op_axon_nearest,
        op_axon_print,
        op_axon_random,
        op_axon_settle_error,
        op_axon_settle_value,
    ],
    lazy_loaded_js = [dir "src/host", "fetch.js"],
    middleware = |op| match op.name {
        "op_base64_btoa" => op.with_implementation_from(&op_axon_btoa()),
        "op_encode" => op.with_implementation_from(&op_axon_encode()),
        name if UNUSED_OPS.contains(&name) => op.disable(),
        _ => op,
    },
);

/// Ops of deno_core that nothing here needs. A block has no way to any op; these throw even if it finds one.
const UNUSED_OPS: &[&str] = &[
    "op_abort_wasm_streaming",
    "op_close",
    "op_compile_function",
    "op_eval_context",
    "op_import_sync",
    "op_import_sync_with_source",
    "op_is_terminal",
    "op_lazy_load_esm",
    "op_memory_usage",
    "op_op_names",
    "op_panic",
    "op_pipe",
    "op_print",
    "op_read",
    "op_read_all",
    "op_read_sync",
    "op_resources",
    "op_set_format_exception_callback",
    "op_set_promise_hooks",
    "op_set_wasm_streaming_callback",
    "op_shutdown",
    "op_try_close",
    "op_wasm_streaming_feed",
    "op_wasm_streaming_set_url",
    "op_write",
    "op_write_all",
    "op_write_sync",
    "op_write_type_error",
];

#[op2(fast)]
fn op_axon_print(state: &OpState, #[string] text: &str) {
    if let Some(run) = state.try_borrow::<RunState>() {
        run.control.output.lock().unwrap_or_else(PoisonError::into_inner).print(text);
    }
}

#[op2(fast)]
fn op_axon_settle_value(
    state: &mut OpState,
    #[smi] kind: u32,
    #[string] text: String,
    #[number] whole: u64,
    exactly: bool,
) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        let value = match kind {
            1 => Some(Value::Json(text)),
            2 => Some(Value::Text(text)),
            3 => {
                let whole = usize::try_from(whole).unwrap_or(usize::MAX);
                let whole = if exactly { Whole::Exactly(whole) } else { Whole::MoreThan(whole) };
                Some(Value::Beginning { text, whole })
            }
            _ => None,
        };
        // An error that came first (an unhandled rejection) is not undone by a value.
        run.settled.get_or_insert(Settled::Value(value));
    }
}

#[op2]
fn op_axon_settle_error(state: &mut OpState, #[string] message: String, #[string] code: Option<String>) {
    /// Longer ones are no codes.
    const MAX_CODE: usize = 64;
    let code = code.filter(|code| (1..=MAX_CODE).contains(&code.len()) && !code.chars().any(char::is_control));
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        if !matches!(run.settled, Some(Settled::Error { .. })) {
            run.settled = Some(Settled::Error { message, code });
        }
        run.control.waker.wake();
    }
}

/// In place of the op of deno_web, which hands the engine memory that no limit counts.
#[op2]
fn op_axon_btoa<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    #[scoped] text: ByteString,
) -> Result<v8::Local<'s, v8::String>, JsErrorBox> {
    let encoded = deno_web::forgiving_base64_encode(&text);
    v8::String::new_from_one_byte(scope, encoded.as_bytes(), v8::NewStringType::Normal)
        .ok_or_else(|| JsErrorBox::range_error("Invalid string length"))
}

/// In place of the op of deno_core, for the same reason.
#[op2(reentrant)]
fn op_axon_encode<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: Rc<RefCell<OpState>>,
    text: v8::Local<'s, v8::Value>,
) -> Result<v8::Local<'s, v8::Uint8Array>, JsErrorBox> {
    let text =
        v8::Local::<v8::String>::try_from(text).map_err(|_| JsErrorBox::type_error("only a string can be encoded"))?;
    let text = text.to_rust_string_lossy(scope);
    let make_bytes = state.borrow().try_borrow::<RunState>().map(|run| run.make_bytes.clone());
    make_bytes
        .and_then(|make_bytes| values::bytes(scope, &make_bytes, text.as_bytes()))
        .ok_or_else(|| JsErrorBox::range_error("Array buffer allocation failed"))
}

/// For blocks that take memory which neither the heap nor a buffer holds.
#[op2(fast, reentrant)]
fn op_axon_look_at_memory(scope: &mut v8::PinScope<'_, '_>, state: Rc<RefCell<OpState>>) {
    let control = match state.borrow().try_borrow::<RunState>() {
        Some(run) => Arc::clone(&run.control),
        None => return,
    };
    let limit = control.host().limits.memory_bytes;
    if native::is_over(limit) {
        // It may be held by garbage that weighs nothing in the heap.
        scope.low_memory_notification();
        if native::is_over(limit) {
            control.stop(StopReason::OutOfMemory);
        }
    }
}

#[op2(fast, reentrant)]
#[number]
fn op_axon_call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: Rc<RefCell<OpState>>,
    #[string] namespace: String,
    #[string] function: String,
    args: v8::Local<'s, v8::Array>,
) -> Result<u64, JsErrorBox> {
    let mut reader = Reader::new();
    let mut data = Vec::new();
    for index in 0..args.length() {
        let Some(arg) = args.get_index(scope, index) else { return Ok(0) };
        match reader.read(scope, arg, 0) {
            Ok(datum) => data.push(datum),
            Err(Unpassable::Threw) => return Ok(0),
            Err(Unpassable::Refused(what)) => {
                return Err(JsErrorBox::type_error(format!("{namespace}.{function}, argument {}: {what}", index + 1)));
            }
        }
    }
    let mut state = state.borrow_mut();
    let Some(run) = state.try_borrow_mut::<RunState>() else { return Ok(0) };
    run.calls += 1;
    run.in_flight += 1;
    let host = run.control.host();
    if run.calls > host.limits.max_tool_calls as u64 {
        run.control.stop(StopReason::TooManyToolCalls);
        return Ok(0);
    }
    host.send(&ToKernel::ToolCall { run: run.control.run, call: run.calls, namespace, function, args: data });
    Ok(run.calls)
}

/// Gives a call up; its answer still comes.
#[op2(fast)]
fn op_axon_cancel(state: &OpState, #[number] call: u64) {
    if let Some(run) = state.try_borrow::<RunState>() {
        run.control.host().send(&ToKernel::CancelCall { run: run.control.run, call });
    }
}

/// The serialised value of a name that earlier blocks have declared.
#[op2]
fn op_axon_given(state: &OpState, #[string] name: &str) -> Option<Uint8Array> {
    state.try_borrow::<RunState>().and_then(|run| run.carried.value(name)).map(Uint8Array::from)
}

#[op2(fast)]
fn op_axon_keep_value(state: &mut OpState, #[string] name: String, #[buffer] bytes: &[u8]) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        run.carried.keep_value(name, bytes);
    }
}

#[op2(fast)]
fn op_axon_keep_source(state: &mut OpState, #[string] name: String, #[string] code: String) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        run.carried.keep_source(name, code);
    }
}

/// Remembers why a name is not kept: for what it is, or for its size if there is one.
#[op2(fast)]
fn op_axon_forget(state: &mut OpState, #[string] name: String, #[string] what: String, #[number] bytes: u64) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        let reason = if bytes > 0 { Reason::TooLarge(bytes) } else { Reason::NoCopy(what) };
        run.carried.forget(name, reason);
    }
}

/// The candidate (one a line) that `name` was most likely meant to be.
#[op2]
#[string]
fn op_axon_nearest(#[string] name: String, #[string] candidates: String) -> Option<String> {
    nearest(&name, candidates.lines()).map(str::to_owned)
}

fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Shorter names are the beginning of too many others.
    const MIN_PREFIX: usize = 3;
    /// Comparing takes time with the product of the lengths.
    const MAX_NAME: usize = 100;
    if name.len() > MAX_NAME {
        return None;
    }
    let name = name.to_lowercase();
    let is_prefix = |of: &str, prefix: &str| prefix.len() >= MIN_PREFIX && of.starts_with(prefix);
    candidates
        .filter(|candidate| candidate.len() <= MAX_NAME)
        .filter_map(|candidate| {
            let lower = candidate.to_lowercase();
            let distance = strsim::osa_distance(&name, &lower);
            let close =
                distance <= 1 + name.chars().count() / 5 || is_prefix(&name, &lower) || is_prefix(&lower, &name);
            (close && name.chars().count() > 1).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[op2(fast)]
fn op_axon_random(#[buffer] bytes: &mut [u8]) -> Result<(), JsErrorBox> {
    getrandom::fill(bytes).map_err(|error| JsErrorBox::generic(format!("no random bytes from the system: {error}")))
}

/// `null` for an unknown algorithm.
#[op2]
fn op_axon_digest(state: &OpState, #[string] algorithm: String, #[buffer] data: &[u8]) -> Option<Uint8Array> {
    let terminated = || state.try_borrow::<RunState>().is_some_and(|run| run.control.terminated());
    let digest = match algorithm.to_ascii_uppercase().as_str() {
        "SHA-1" => digest::<sha1::Sha1>(data, terminated),
        "SHA-256" => digest::<sha2::Sha256>(data, terminated),
        "SHA-384" => digest::<sha2::Sha384>(data, terminated),
        "SHA-512" => digest::<sha2::Sha512>(data, terminated),
        _ => return None,
    };
    Some(digest.into())
}

/// Ends early, with a digest that nobody will see, when the block is terminated.
fn digest<D: Digest>(data: &[u8], terminated: impl Fn() -> bool) -> Vec<u8> {
    /// Takes a few milliseconds at most.
    const CHUNK_BYTES: usize = 64 << 10;
    let mut digest = D::new();
    for chunk in data.chunks(CHUNK_BYTES).take_while(|_| !terminated()) {
        digest.update(chunk);
    }
    digest.finalize().to_vec()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_name_is_one_that_was_probably_meant() {
        let names = ["read", "list", "write", "console", "undefined", "Promise", "atob"];
        let nearest = |name| nearest(name, names.into_iter());
        assert_eq!(nearest("raed"), Some("read"));
        assert_eq!(nearest("readFile"), Some("read"));
        assert_eq!(nearest("consol"), Some("console"));
        assert_eq!(nearest("promise"), Some("Promise"));
        for far in ["exists", "process", "undeclared", "a", "x"] {
            assert_eq!(nearest(far), None, "{far}");
        }
    }
}
