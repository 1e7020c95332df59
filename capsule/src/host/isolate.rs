//! One isolate, made for one block.

use std::{
    borrow::Cow,
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::{Arc, OnceLock, Weak},
};

use deno_core::{
    Extension, JsRuntime, JsRuntimeForSnapshot, ModuleLoadOptions, ModuleLoadReferrer, ModuleLoadResponse,
    ModuleLoader, ModuleResolveResponse, ModuleSpecifier, OpState, ResolutionKind, RuntimeOptions, v8,
};
use deno_error::JsErrorBox;
use deno_web::{BlobStore, InMemoryBroadcastChannel};

use super::{
    carry::Carried,
    control::{RunControl, Settled},
    fatal,
    files::Files,
    memory::{self, Budget},
    ops, sources,
};
use crate::{ENGINE, Engine, ToolFile, source::SOURCE_NAME, stop::StopReason};

/// What the heap may grow beyond its limit while a block that is out of memory is being stopped.
const UNWIND_HEADROOM_BYTES: usize = 16 << 20;

/// The same on QuickJS, at first: twice as much each time that it is not enough, and this much in all. Nobody gets to use
/// it for longer than it takes to stop.
const QUICKJS_HEADROOM_BYTES: usize = 1 << 20;
const QUICKJS_MAX_HEADROOM_BYTES: usize = 64 << 20;

/// The front takes what the first script gives.
const FRONT: &str = concat!("globalThis.__carry = ", include_str!("carry.js"), include_str!("front.js"));
const FRONT_NAME: &str = "ext:axon_capsule/front.js";

/// The global that carries the front's functions through a snapshot.
const TABLE: &str = "__axon";
const TAKE_TABLE: &str = "(() => { const table = globalThis.__axon; delete globalThis.__axon; return table; })()";

/// Set when a block gets the isolate. The run holds the budget that tells it of its end, so it must not be held by it.
type Tenant = Arc<OnceLock<Weak<RunControl>>>;

pub struct Isolate {
    // Dropped before the budget, which the engine refers to.
    pub runtime: JsRuntime,
    pub handle: v8::IsolateHandle,
    pub budget: Arc<Budget>,
    pub front: Front,
    loader: Rc<Loader>,
    tenant: Tenant,
}

/// The functions that `front.js` gives to the host.
pub struct Front {
    pub prepare: v8::Global<v8::Function>,
    pub run: v8::Global<v8::Function>,
    pub carry: v8::Global<v8::Function>,
    pub carried: v8::Global<v8::Function>,
    pub deliver: v8::Global<v8::Function>,
    pub abort: v8::Global<v8::Function>,
    pub bytes: v8::Global<v8::Function>,
}

/// How the last code that an isolate ran has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    Ended,
    Terminated,
}

#[derive(Debug, thiserror::Error)]
pub enum IsolateError {
    #[error("there is no event loop for it: {0}")]
    Executor(#[from] std::io::Error),
    #[error("the runtime does not start: {0}")]
    Runtime(#[from] deno_core::error::CoreError),
    #[error("the front does not run: {0}")]
    Front(#[from] Box<deno_core::error::JsError>),
    #[error("the front lacks `{0}`")]
    Missing(&'static str),
    #[error("the front's `{0}` throws")]
    Threw(&'static str),
}

impl Isolate {
    /// An isolate with this bound on its memory, from a snapshot where there is one.
    ///
    /// To be called within the executor that is to run it.
    pub fn new(memory_bytes: usize, snapshot: Option<&'static [u8]>) -> Result<Self, IsolateError> {
        let tenant = Tenant::default();
        let budget = Budget::new(memory_bytes, out_of_memory(&tenant));
        let loader = Rc::new(Loader::default());
        let params = v8::CreateParams::default().heap_limits(0, memory::engine_heap_limit(memory_bytes));
        let params = match ENGINE {
            Engine::V8 => params.array_buffer_allocator(memory::allocator(&budget).make_shared()),
            // Counts array buffers with its heap, if it allocates them itself.
            Engine::QuickJs => params,
        };
        let mut runtime = JsRuntime::try_new(RuntimeOptions {
            module_loader: Some(loader.clone()),
            extensions: if snapshot.is_some() { extensions() } else { embedded_extensions() },
            create_params: Some(params),
            startup_snapshot: snapshot,
            ..RuntimeOptions::default()
        })?;
        let front = Front::install(&mut runtime, snapshot.is_some())?;
        let handle = runtime.v8_isolate().thread_safe_handle();
        runtime.add_near_heap_limit_callback(near_limit(out_of_memory(&tenant), handle.clone()));
        if ENGINE == Engine::V8 {
            memory::watch_heap(runtime.v8_isolate(), &budget);
            runtime.v8_isolate().set_oom_error_handler(fatal::on_out_of_memory);
        }
        Ok(Self { runtime, handle, budget, front, loader, tenant })
    }

    /// Gives the isolate to a run: from here its limits apply.
    pub fn let_to(&mut self, control: &Arc<RunControl>) {
        // An isolate serves one run, so the cell is empty.
        let _ = self.tenant.set(Arc::downgrade(control));
        let state = ops::RunState {
            control: Arc::clone(control),
            settled: None,
            calls: 0,
            in_flight: 0,
            carried: Carried::default(),
            make_bytes: self.front.bytes.clone(),
        };
        self.op_state().borrow_mut().put(state);
    }

    /// Makes files of `tools/` known to the loader.
    pub fn set_files(&self, files: &[ToolFile]) {
        self.loader.files.set(files);
    }

    /// Tells the loader of the block's positions and of what it can use instead of modules.
    pub fn set_block(&self, source_map: String, scope_hint: String) {
        // An isolate serves one block, so the cell is empty.
        let _ = self.loader.block.set(LoaderBlock { source_map: source_map.into_bytes(), scope_hint });
    }

    pub fn op_state(&self) -> Rc<RefCell<OpState>> {
        JsRuntime::op_state(&self.runtime)
    }

    /// What the block has settled, if it has.
    pub fn settled(&self) -> Option<Settled> {
        self.op_state().borrow().try_borrow::<ops::RunState>().and_then(|run| run.settled.clone())
    }

    /// Notes the heap's size in the budget. What is over the limit must be garbage: a block that never met a collection may hold
    /// more than it should.
    pub fn sample_heap(&mut self) {
        let isolate = self.runtime.v8_isolate();
        if !self.budget.heap_is(isolate.get_heap_statistics().used_heap_size()) {
            isolate.low_memory_notification();
        }
    }

    /// Whether the engine has stopped the block of its own accord: QuickJS does when the block is over its limit.
    pub fn stopped_itself(&self) -> bool {
        ENGINE == Engine::QuickJs && self.handle.is_execution_terminating()
    }

    /// Gives the isolate back to the engine. How much of it stays in the process all the same, in bytes.
    pub fn dispose(mut self, last: Last) -> usize {
        match ENGINE {
            Engine::V8 => 0,
            // Frees little of a heap, and may never come back from freeing one whose code was terminated, with a lock held
            // that new isolates need.
            Engine::QuickJs => {
                let held = self.runtime.v8_isolate().get_heap_statistics().total_heap_size();
                if last == Last::Terminated {
                    std::mem::forget(self);
                }
                held
            }
        }
    }
}

fn out_of_memory(tenant: &Tenant) -> memory::OnExhausted {
    let tenant = Arc::clone(tenant);
    Box::new(move || {
        if let Some(run) = tenant.get().and_then(Weak::upgrade) {
            run.stop_soon(StopReason::OutOfMemory);
        }
    })
}

/// What the engine is to do when its own limit is near.
fn near_limit(on_limit: memory::OnExhausted, handle: v8::IsolateHandle) -> impl FnMut(usize, usize) -> usize {
    let mut headroom = QUICKJS_HEADROOM_BYTES;
    move |current, _initial| match ENGINE {
        Engine::V8 => {
            on_limit();
            current + UNWIND_HEADROOM_BYTES
        }
        Engine::QuickJs => {
            on_limit();
            handle.terminate_execution();
            // Code goes on until the engine looks whether it was stopped, which is after some thousand calls. Meanwhile large
            // allocations may fail and small ones must not: one that fails while an error is being made takes the process
            // down.
            let more = headroom.min(QUICKJS_MAX_HEADROOM_BYTES - headroom);
            headroom += more;
            current + more
        }
    }
}

fn embedded_extensions() -> Vec<Extension> {
    extensions().into_iter().map(sources::embed).collect()
}

fn extensions() -> Vec<Extension> {
    let blobs = Arc::<BlobStore>::default();
    vec![
        deno_webidl::deno_webidl::init(),
        deno_web::deno_web::init(blobs, None, false, InMemoryBroadcastChannel::default()),
        ops::axon_capsule::init(),
    ]
}

/// A snapshot of an isolate with its front, everything loaded. Isolates from it are ready several times sooner.
///
/// It lives as long as the process, which makes one.
pub fn snapshot() -> Result<&'static [u8], IsolateError> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = executor.enter();
    let options = RuntimeOptions { extensions: embedded_extensions(), ..RuntimeOptions::default() };
    let mut runtime = JsRuntimeForSnapshot::try_new(options)?;
    let table = runtime.execute_script(FRONT_NAME, FRONT)?;
    {
        deno_core::scope!(scope, &mut runtime);
        let table = v8::Local::new(scope, table);
        call(scope, table, "preload")?;
        let key = v8::String::new(scope, TABLE).ok_or(IsolateError::Missing(TABLE))?;
        let global = scope.get_current_context().global(scope);
        global.set(scope, key.into(), table).ok_or(IsolateError::Missing(TABLE))?;
    }
    Ok(Box::leak(runtime.snapshot()))
}

impl Front {
    fn install(runtime: &mut JsRuntime, from_snapshot: bool) -> Result<Self, IsolateError> {
        let table = if from_snapshot {
            runtime.execute_script(FRONT_NAME, TAKE_TABLE)?
        } else {
            runtime.execute_script(FRONT_NAME, FRONT)?
        };
        deno_core::scope!(scope, runtime);
        let table = v8::Local::new(scope, table);
        call(scope, table, "seal")?;
        let mut global = |name| function(scope, table, name).map(|function| v8::Global::new(scope, function));
        Ok(Self {
            prepare: global("prepare")?,
            run: global("run")?,
            carry: global("carry")?,
            carried: global("carried")?,
            deliver: global("deliver")?,
            abort: global("abort")?,
            bytes: global("bytes")?,
        })
    }
}

fn function<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    table: v8::Local<'s, v8::Value>,
    name: &'static str,
) -> Result<v8::Local<'s, v8::Function>, IsolateError> {
    let missing = IsolateError::Missing(name);
    let Ok(table) = v8::Local::<v8::Object>::try_from(table) else { return Err(missing) };
    let Some(key) = v8::String::new(scope, name) else { return Err(missing) };
    let Some(value) = table.get(scope, key.into()) else { return Err(missing) };
    v8::Local::<v8::Function>::try_from(value).map_err(|_| missing)
}

fn call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    table: v8::Local<'s, v8::Value>,
    name: &'static str,
) -> Result<(), IsolateError> {
    let function = function(scope, table, name)?;
    function.call(scope, table, &[]).map(|_| ()).ok_or(IsolateError::Threw(name))
}

/// Loads nothing but files of `tools/`, where there are any; knows the source maps.
#[derive(Default)]
struct Loader {
    block: OnceCell<LoaderBlock>,
    files: Files,
}

struct LoaderBlock {
    source_map: Vec<u8>,
    scope_hint: String,
}

impl Loader {
    fn refuse(&self, specifier: &str) -> JsErrorBox {
        let hint = self.block.get().map_or("", |block| block.scope_hint.as_str());
        JsErrorBox::type_error(format!("modules cannot be imported here ({specifier:?}). {hint}"))
    }
}

impl ModuleLoader for Loader {
    fn resolve(&self, specifier: &str, referrer: &str, _kind: ResolutionKind) -> ModuleResolveResponse {
        self.files.resolve(specifier, referrer).unwrap_or_else(|| Err(self.refuse(specifier)))
    }

    fn load(
        &self,
        specifier: &ModuleSpecifier,
        _referrer: Option<&ModuleLoadReferrer>,
        _options: ModuleLoadOptions,
    ) -> ModuleLoadResponse {
        ModuleLoadResponse::Sync(self.files.load(specifier).unwrap_or_else(|| Err(self.refuse(specifier.as_str()))))
    }

    fn get_source_map(&self, file_name: &str) -> Option<Cow<'_, [u8]>> {
        if file_name == SOURCE_NAME {
            self.block.get().map(|block| Cow::Borrowed(block.source_map.as_slice()))
        } else {
            self.files.source_map(file_name).map(Cow::Owned)
        }
    }
}
