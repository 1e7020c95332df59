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
    carry::{self, Carried},
    clocks::Pause,
    control::{Event, RunControl, Settled},
    isolate::Isolate,
    ops::RunState,
    pool::ISOLATE_STACK_BYTES,
    values,
};
use crate::{
    Datum, ENGINE, Engine, Namespace, ToolError,
    bindings::Binding,
    source::{self, SOURCE_NAME, SourceError},
    stop::StopReason,
    wire::{CallId, RunRequest, ToKernel},
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
    let settled =
        start(executor, isolate, control, request, events).and_then(|()| drive(executor, isolate, control, events));
    control.set_cpu(thread_cpu().saturating_sub(cpu_before));
    if !is_stopped(isolate, control) {
        isolate.sample_heap();
    }
    let carried = isolate.op_state().borrow_mut().try_take::<RunState>().map(|run| run.carried).unwrap_or_default();
    control.report(settled.unwrap_or_else(|settled| settled), carried.into_kept());
}

/// Erases types, brings the tools and the names of earlier blocks into scope, and calls the block. Fails with what the
/// block settles to.
fn start(
    executor: &Runtime,
    isolate: &mut Isolate,
    control: &Arc<RunControl>,
    request: &RunRequest,
    events: &mut mpsc::UnboundedReceiver<Event>,
) -> Result<(), Settled> {
    let mut erased = source::erase(&request.source, ISOLATE_STACK_BYTES - STACK_IN_USE_BYTES)
        .map_err(|error| source_error(&error, &request.namespaces))?;
    let hint = scope_hint(&request.namespaces);
    isolate.set_block(std::mem::take(&mut erased.source_map), hint.clone());
    isolate.set_files(&request.files);
    let given = if request.has_bindings && !erased.names.free.is_empty() {
        let names = std::mem::take(&mut erased.names.free);
        executor.block_on(ask_for(control, names, events)).ok_or(Settled::Value(None))?
    } else {
        Vec::new()
    };
    prepare(isolate, &request.namespaces, &hint, control.host().limits.max_output_bytes)?;
    let carried = Carried::new(&mut erased, given, &request.namespaces);
    if !carried.is_empty() {
        if let Some(run) = isolate.op_state().borrow_mut().try_borrow_mut::<RunState>() {
            run.carried = carried;
        }
        carry::bring(isolate).map_err(|message| Settled::Error { message, code: None })?;
    }
    let block = isolate.runtime.execute_script(SOURCE_NAME, erased.code).map_err(|error| engine_error(&error))?;
    let run = isolate.front.run.clone();
    deno_core::scope!(scope, &mut isolate.runtime);
    let block = v8::Local::new(scope, block);
    // The front catches what a block throws: only a termination gets here.
    call(scope, &run, &[block]).ok_or(Settled::Value(None))
}

fn prepare(isolate: &mut Isolate, namespaces: &[Namespace], hint: &str, value_room: usize) -> Result<(), Settled> {
    let prepare = isolate.front.prepare.clone();
    let namespaces = namespaces_json(namespaces);
    deno_core::scope!(scope, &mut isolate.runtime);
    let room = v8::Number::new(scope, value_room as f64);
    v8::String::new(scope, &namespaces)
        .zip(v8::String::new(scope, hint))
        .and_then(|(namespaces, hint)| call(scope, &prepare, &[namespaces.into(), hint.into(), room.into()]))
        .ok_or(Settled::Value(None))
}

/// Asks the kernel for what earlier blocks have left under these names. `None` if the block is ended meanwhile.
async fn ask_for(
    control: &RunControl,
    names: Vec<String>,
    events: &mut mpsc::UnboundedReceiver<Event>,
) -> Option<Vec<(String, Arc<Binding>)>> {
    control.host().send(&ToKernel::Need { run: control.run, names });
    let mut aborted = false;
    let bindings = std::future::poll_fn(|cx| {
        control.waker.register(cx.waker());
        if control.terminated() {
            return Poll::Ready(None);
        }
        loop {
            match events.poll_recv(cx) {
                Poll::Ready(Some(Event::Bindings(bindings))) => return Poll::Ready(Some(bindings)),
                Poll::Ready(Some(Event::Abort)) => aborted = true,
                // No call has been made yet.
                Poll::Ready(Some(Event::ToolResult { .. })) => {}
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    if aborted {
        // Its signal would abort before the block could listen to it.
        return None;
    }
    bindings
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
        if is_stopped(isolate, control) {
            return Poll::Ready(Err(Settled::Value(None)));
        }
        let mut delivered = false;
        while let Poll::Ready(Some(event)) = events.poll_recv(cx) {
            take_event(isolate, event);
            delivered = true;
        }
        let polled = isolate.runtime.poll_event_loop(cx, PollEventLoopOptions::default());
        if is_stopped(isolate, control) {
            return Poll::Ready(Err(Settled::Value(None)));
        }
        if let Some(settled) = isolate.settled() {
            if is_too_large(&settled) {
                control.stop(StopReason::OutOfMemory);
                return Poll::Ready(Err(Settled::Value(None)));
            }
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

/// Whether the block's code must not run any further.
fn is_stopped(isolate: &Isolate, control: &RunControl) -> bool {
    if !control.terminated() && isolate.stopped_itself() {
        control.stop(StopReason::OutOfMemory);
    }
    control.terminated()
}

/// Whether the block has asked for a single object beyond its limit and did not catch what QuickJS throws then.
fn is_too_large(settled: &Settled) -> bool {
    const OUT_OF_MEMORY: &str = "InternalError: out of memory";
    ENGINE == Engine::QuickJs && matches!(settled, Settled::Error { message, .. } if message.starts_with(OUT_OF_MEMORY))
}

fn take_event(isolate: &mut Isolate, event: Event) {
    match event {
        Event::Abort => {
            let abort = isolate.front.abort.clone();
            deno_core::scope!(scope, &mut isolate.runtime);
            let _ = call(scope, &abort, &[]);
        }
        // Taken before the block began.
        Event::Bindings(_) => {}
        Event::ToolResult { call: id, result } => {
            if let Some(run) = isolate.op_state().borrow_mut().try_borrow_mut::<RunState>() {
                run.in_flight = run.in_flight.saturating_sub(1);
            }
            deliver(isolate, id, &result);
        }
    }
}

fn deliver(isolate: &mut Isolate, id: CallId, result: &Result<Datum, ToolError>) {
    let (deliver, bytes) = (isolate.front.deliver.clone(), isolate.front.bytes.clone());
    deno_core::scope!(scope, &mut isolate.runtime);
    let answer = match result {
        Ok(datum) => values::write(scope, &bytes, datum),
        Err(error) => values::write(scope, &bytes, &error_datum(error)),
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
pub(super) fn call<'s>(
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
