//! Runs one block in its isolate.

use std::{
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use deno_core::{PollEventLoopOptions, error::JsError, v8};
use rustix::time::{ClockId, clock_gettime};
use tokio::{runtime::Runtime, sync::mpsc};

use super::{
    clocks::Pause,
    control::{Event, RunControl, Settled},
    isolate::Isolate,
    ops::RunState,
    pool::ISOLATE_STACK_BYTES,
    values,
};
use crate::{
    Datum, Namespace, ToolError,
    source::{self, SOURCE_NAME, SourceError},
    stop::StopReason,
    wire::{CallId, RunRequest},
};

/// Stack that the engine may have used before a source is parsed on the same thread.
const STACK_IN_USE_BYTES: usize = 2 << 20;

/// Runs the block to its end and reports it. The isolate is of no use afterwards.
pub fn run(
    executor: &Runtime,
    isolate: &mut Isolate,
    control: &Arc<RunControl>,
    request: &RunRequest,
    events: &mut mpsc::UnboundedReceiver<Event>,
) {
    let cpu_before = thread_cpu();
    isolate.let_to(control);
    let settled = start(isolate, request, control.host().limits.max_output_bytes)
        .and_then(|()| drive(executor, isolate, control, events));
    control.set_cpu(thread_cpu().saturating_sub(cpu_before));
    if !control.terminated() {
        isolate.sample_heap();
    }
    control.report(settled.unwrap_or_else(|settled| settled));
}

/// Erases types, brings the tools into scope and calls the block. Fails with what the block settles to.
fn start(isolate: &mut Isolate, request: &RunRequest, value_room: usize) -> Result<(), Settled> {
    let erased = source::erase(&request.source, ISOLATE_STACK_BYTES - STACK_IN_USE_BYTES)
        .map_err(|error| source_error(&error, &request.namespaces))?;
    let hint = scope_hint(&request.namespaces);
    isolate.set_block(erased.source_map, hint.clone());
    isolate.set_files(&request.files);
    let block = isolate.runtime.execute_script(SOURCE_NAME, erased.code).map_err(|error| engine_error(&error))?;
    let namespaces = namespaces_json(&request.namespaces);
    deno_core::scope!(scope, &mut isolate.runtime);
    let block = v8::Local::new(scope, block);
    let room = v8::Number::new(scope, value_room as f64);
    let called = v8::String::new(scope, &namespaces)
        .zip(v8::String::new(scope, &hint))
        .and_then(|(namespaces, hint)| {
            call(scope, &isolate.front.prepare, &[namespaces.into(), hint.into(), room.into()])
        })
        .and_then(|()| call(scope, &isolate.front.run, &[block]));
    // The front catches what a block throws: only a termination gets here.
    called.ok_or(Settled::Value(None))
}

/// Polls the isolate's event loop until the block has settled or is stopped.
fn drive(
    executor: &Runtime,
    isolate: &mut Isolate,
    control: &Arc<RunControl>,
    events: &mut mpsc::UnboundedReceiver<Event>,
) -> Result<Settled, Settled> {
    let mut pause: Option<Pause<'_>> = None;
    executor.block_on(std::future::poll_fn(|cx| {
        drop(pause.take());
        control.waker.register(cx.waker());
        let polled = poll(isolate, control, events, cx);
        if polled.is_pending() && calls_in_flight(isolate) {
            pause = Some(control.clocks.pause());
        }
        polled
    }))
}

fn poll(
    isolate: &mut Isolate,
    control: &RunControl,
    events: &mut mpsc::UnboundedReceiver<Event>,
    cx: &mut Context<'_>,
) -> Poll<Result<Settled, Settled>> {
    loop {
        if control.terminated() {
            return Poll::Ready(Err(Settled::Value(None)));
        }
        let mut delivered = false;
        while let Poll::Ready(Some(event)) = events.poll_recv(cx) {
            take_event(isolate, event);
            delivered = true;
        }
        let polled = isolate.runtime.poll_event_loop(cx, PollEventLoopOptions::default());
        if control.terminated() {
            return Poll::Ready(Err(Settled::Value(None)));
        }
        if let Some(settled) = isolate.settled() {
            return Poll::Ready(Ok(settled));
        }
        match polled {
            Poll::Ready(Err(error)) => {
                return Poll::Ready(Ok(Settled::Error { message: error.to_string(), code: None }));
            }
            Poll::Ready(Ok(())) if calls_in_flight(isolate) => {}
            Poll::Ready(Ok(())) if delivered => continue,
            Poll::Ready(Ok(())) => {
                control.stop(StopReason::NeverSettles);
                return Poll::Ready(Err(Settled::Value(None)));
            }
            Poll::Pending => {}
        }
        return Poll::Pending;
    }
}

fn take_event(isolate: &mut Isolate, event: Event) {
    match event {
        Event::Abort => {
            let abort = isolate.front.abort.clone();
            deno_core::scope!(scope, &mut isolate.runtime);
            let _ = call(scope, &abort, &[]);
        }
        Event::ToolResult { call: id, result } => {
            if let Some(run) = isolate.op_state().borrow_mut().try_borrow_mut::<RunState>() {
                run.in_flight = run.in_flight.saturating_sub(1);
            }
            deliver(isolate, id, &result);
        }
    }
}

fn deliver(isolate: &mut Isolate, id: CallId, result: &Result<Datum, ToolError>) {
    let deliver = isolate.front.deliver.clone();
    deno_core::scope!(scope, &mut isolate.runtime);
    let answer = match result {
        Ok(datum) => values::write(scope, datum),
        Err(error) => values::write(scope, &error_datum(error)),
    };
    // Without an answer the engine has no memory left, and the block is being stopped for it.
    if let Some(answer) = answer {
        let id = v8::Number::new(scope, id as f64).into();
        let ok = v8::Boolean::new(scope, result.is_ok()).into();
        let _ = call(scope, &deliver, &[id, ok, answer]);
    }
}

fn error_datum(error: &ToolError) -> Datum {
    Datum::Object(vec![
        ("name".into(), Datum::String(error.name.clone())),
        ("message".into(), Datum::String(error.message.clone())),
        ("code".into(), error.code.clone().map_or(Datum::Null, Datum::String)),
    ])
}

/// Calls a function of the front; `None` if it threw or was terminated.
fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    function: &v8::Global<v8::Function>,
    args: &[v8::Local<'s, v8::Value>],
) -> Option<()> {
    v8::tc_scope!(let scope, scope);
    let function = v8::Local::new(scope, function);
    let this = v8::undefined(scope).into();
    function.call(scope, this, args).map(|_| ())
}

fn calls_in_flight(isolate: &Isolate) -> bool {
    isolate.op_state().borrow().try_borrow::<RunState>().is_some_and(|run| run.in_flight > 0)
}

fn namespaces_json(namespaces: &[Namespace]) -> String {
    let list =
        namespaces.iter().map(|namespace| serde_json::json!({ "name": namespace.name, "members": namespace.members }));
    serde_json::Value::Array(list.collect()).to_string()
}

/// What a block can use instead of modules, in words for the model.
fn scope_hint(namespaces: &[Namespace]) -> String {
    let names: Vec<&str> = namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
    match names.as_slice() {
        [] => "No tool namespaces are in scope.".to_owned(),
        names => format!("Tool namespaces in scope: {}.", names.join(", ")),
    }
}

fn source_error(error: &SourceError, namespaces: &[Namespace]) -> Settled {
    let mut message = error.to_string();
    if matches!(error, SourceError::Import { .. }) {
        message.push('\n');
        message.push_str(&scope_hint(namespaces));
    }
    Settled::Error { message, code: None }
}

/// What the engine found wrong with a source that the parser had let through.
fn engine_error(error: &JsError) -> Settled {
    let at = error
        .frames
        .first()
        .and_then(|frame| Some(format!("\n    at {SOURCE_NAME}:{}:{}", frame.line_number?, frame.column_number?)));
    let message = error.exception_message.trim_start_matches("Uncaught ").to_owned();
    Settled::Error { message: message + &at.unwrap_or_default(), code: None }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
