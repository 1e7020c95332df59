//! The few ops that the front uses. A block cannot reach them.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, PoisonError},
};

use deno_core::{OpState, convert::Uint8Array, op2, v8};
use deno_error::JsErrorBox;
use sha2::Digest;

use super::{
    control::{RunControl, Settled},
    output::Value,
    values::{Reader, Unpassable},
};
use crate::{
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
}

deno_core::extension!(
    axon_capsule,
    deps = [deno_web],
    ops = [
        op_axon_call,
        op_axon_digest,
        op_axon_nearest,
        op_axon_print,
        op_axon_random,
        op_axon_settle_error,
        op_axon_settle_value,
    ],
);

#[op2(fast)]
fn op_axon_print(state: &OpState, #[string] text: &str) {
    if let Some(run) = state.try_borrow::<RunState>() {
        run.control.output.lock().unwrap_or_else(PoisonError::into_inner).print(text);
    }
}

#[op2(fast)]
fn op_axon_settle_value(state: &mut OpState, #[smi] kind: u32, #[string] text: String) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        let value = match kind {
            1 => Some(Value::Json(text)),
            2 => Some(Value::Text(text)),
            _ => None,
        };
        // An error that came first (an unhandled rejection) is not undone by a value.
        run.settled.get_or_insert(Settled::Value(value));
    }
}

#[op2]
fn op_axon_settle_error(state: &mut OpState, #[string] message: String, #[string] code: Option<String>) {
    if let Some(run) = state.try_borrow_mut::<RunState>() {
        if !matches!(run.settled, Some(Settled::Error { .. })) {
            run.settled = Some(Settled::Error { message, code });
        }
        run.control.waker.wake();
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

/// The candidate (one a line) that `name` was most likely meant to be.
#[op2]
#[string]
fn op_axon_nearest(#[string] name: String, #[string] candidates: String) -> Option<String> {
    /// Less alike is no help.
    const SIMILAR: f64 = 0.75;
    candidates
        .lines()
        .filter(|candidate| *candidate != name)
        .map(|candidate| (strsim::jaro_winkler(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(similarity, _)| *similarity >= SIMILAR)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate.to_owned())
}

#[op2(fast)]
fn op_axon_random(#[buffer] bytes: &mut [u8]) -> Result<(), JsErrorBox> {
    getrandom::fill(bytes).map_err(|error| JsErrorBox::generic(format!("no random bytes from the system: {error}")))
}

/// `null` for an unknown algorithm.
#[op2]
fn op_axon_digest(#[string] algorithm: String, #[buffer] data: &[u8]) -> Option<Uint8Array> {
    let digest = match algorithm.to_ascii_uppercase().as_str() {
        "SHA-1" => sha1::Sha1::digest(data).to_vec(),
        "SHA-256" => sha2::Sha256::digest(data).to_vec(),
        "SHA-384" => sha2::Sha384::digest(data).to_vec(),
        "SHA-512" => sha2::Sha512::digest(data).to_vec(),
        _ => return None,
    };
    Some(digest.into())
}
