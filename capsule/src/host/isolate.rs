//! One isolate, made for one block.

use std::{
    borrow::Cow,
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::{Arc, OnceLock},
};

use deno_core::{
    JsRuntime, ModuleLoadOptions, ModuleLoadReferrer, ModuleLoadResponse, ModuleLoader, ModuleResolveResponse,
    ModuleSpecifier, OpState, ResolutionKind, RuntimeOptions, v8,
};
use deno_error::JsErrorBox;
use deno_web::{BlobStore, InMemoryBroadcastChannel};

use super::{
    control::{RunControl, Settled},
    memory::{self, Budget},
    oom, ops,
};
use crate::{source::SOURCE_NAME, stop::StopReason};

/// What the heap may grow beyond its limit while a block that is out of memory is being stopped.
const UNWIND_HEADROOM_BYTES: usize = 16 << 20;

const FRONT: &str = include_str!("front.js");

/// Set when a block gets the isolate.
type Tenant = Arc<OnceLock<Arc<RunControl>>>;

pub struct Isolate {
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
    pub deliver: v8::Global<v8::Function>,
    pub abort: v8::Global<v8::Function>,
}

#[derive(Debug, thiserror::Error)]
pub enum IsolateError {
    #[error("the runtime does not start: {0}")]
    Runtime(#[from] deno_core::error::CoreError),
    #[error("the front does not run: {0}")]
    Front(#[from] Box<deno_core::error::JsError>),
    #[error("the front lacks `{0}`")]
    Missing(&'static str),
}

impl Isolate {
    pub fn new(memory_bytes: usize) -> Result<Self, IsolateError> {
        let tenant = Tenant::default();
        let budget = Budget::new(memory_bytes, out_of_memory(&tenant));
        let loader = Rc::new(Loader::default());
        let params = v8::CreateParams::default()
            .heap_limits(0, memory_bytes)
            .array_buffer_allocator(memory::allocator(&budget).make_shared());
        let mut runtime = JsRuntime::try_new(RuntimeOptions {
            module_loader: Some(loader.clone()),
            extensions: vec![
                deno_webidl::deno_webidl::init(),
                deno_web::deno_web::init(Arc::<BlobStore>::default(), None, false, InMemoryBroadcastChannel::default()),
                ops::axon_capsule::init(),
            ],
            create_params: Some(params),
            ..RuntimeOptions::default()
        })?;
        let front = Front::install(&mut runtime)?;
        let on_limit = out_of_memory(&tenant);
        runtime.add_near_heap_limit_callback(move |current, _initial| {
            on_limit();
            current + UNWIND_HEADROOM_BYTES
        });
        runtime.v8_isolate().set_oom_error_handler(oom::on_out_of_memory);
        let handle = runtime.v8_isolate().thread_safe_handle();
        Ok(Self { runtime, handle, budget, front, loader, tenant })
    }

    /// Gives the isolate to a run: from here its limits apply.
    pub fn let_to(&mut self, control: &Arc<RunControl>) {
        // An isolate serves one run, so the cell is empty.
        let _ = self.tenant.set(Arc::clone(control));
        let state = ops::RunState { control: Arc::clone(control), settled: None, calls: 0, in_flight: 0 };
        self.op_state().borrow_mut().put(state);
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

    /// Notes the heap's size in the budget.
    pub fn sample_heap(&mut self) {
        let used = self.runtime.v8_isolate().get_heap_statistics().used_heap_size();
        self.budget.heap_is(used);
    }
}

fn out_of_memory(tenant: &Tenant) -> memory::OnExhausted {
    let tenant = Arc::clone(tenant);
    Box::new(move || {
        if let Some(run) = tenant.get() {
            run.stop(StopReason::OutOfMemory);
        }
    })
}

impl Front {
    fn install(runtime: &mut JsRuntime) -> Result<Self, IsolateError> {
        let table = runtime.execute_script("ext:axon_capsule/front.js", FRONT)?;
        deno_core::scope!(scope, runtime);
        let table = v8::Local::new(scope, table);
        let table = v8::Local::<v8::Object>::try_from(table).map_err(|_| IsolateError::Missing("its table"))?;
        let function = |name: &'static str| -> Result<_, IsolateError> {
            let key = v8::String::new(scope, name).ok_or(IsolateError::Missing(name))?;
            let value = table.get(scope, key.into()).ok_or(IsolateError::Missing(name))?;
            let function = v8::Local::<v8::Function>::try_from(value).map_err(|_| IsolateError::Missing(name))?;
            Ok(v8::Global::new(scope, function))
        };
        Ok(Self {
            prepare: function("prepare")?,
            run: function("run")?,
            deliver: function("deliver")?,
            abort: function("abort")?,
        })
    }
}

/// Loads nothing; knows the block's source map.
#[derive(Default)]
struct Loader {
    block: OnceCell<LoaderBlock>,
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
    fn resolve(&self, specifier: &str, _referrer: &str, _kind: ResolutionKind) -> ModuleResolveResponse {
        Err(self.refuse(specifier))
    }

    fn load(
        &self,
        specifier: &ModuleSpecifier,
        _referrer: Option<&ModuleLoadReferrer>,
        _options: ModuleLoadOptions,
    ) -> ModuleLoadResponse {
        ModuleLoadResponse::Sync(Err(self.refuse(specifier.as_str())))
    }

    fn get_source_map(&self, file_name: &str) -> Option<Cow<'_, [u8]>> {
        if file_name == SOURCE_NAME {
            self.block.get().map(|block| Cow::Borrowed(block.source_map.as_slice()))
        } else {
            None
        }
    }
}
