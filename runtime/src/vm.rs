//! A sandboxed Luau VM with one cognet in it.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value as LuaValue};

use crate::{
    CognetError,
    error::code,
    host::{self, Host, flatten},
    meter::Meter,
    own::OwnFile,
};

/// What tracebacks call all of the host's files; they leave it out.
pub(crate) const HOST_CHUNK: &str = "=@axon/host";

/// The Luau half of the host, and the files that it loads as parts.
static HOST_SCRIPT: OwnFile = OwnFile::new(HOST_CHUNK, include_str!("../luau/host.luau"));
static PARTS: [(&str, OwnFile); 5] = [
    ("show", OwnFile::new(HOST_CHUNK, include_str!("../luau/show.luau"))),
    ("errors", OwnFile::new(HOST_CHUNK, include_str!("../luau/errors.luau"))),
    ("verbs", OwnFile::new(HOST_CHUNK, include_str!("../luau/verbs.luau"))),
    ("modules", OwnFile::new(HOST_CHUNK, include_str!("../luau/modules.luau"))),
    ("world", OwnFile::new(HOST_CHUNK, include_str!("../luau/world.luau"))),
];

/// The VM, the state that its functions share, and its ways in.
pub(crate) struct Vm {
    pub lua: Lua,
    pub host: Arc<Host>,
    /// One after another: a wake that nobody waits for any more may still be ending.
    pub turn: Arc<tokio::sync::Mutex<()>>,
    lost: AtomicBool,
    entry: Entry,
}

/// The functions of `luau/host.luau` that Rust calls.
struct Entry {
    protect: Function,
    load: Function,
    wake: Function,
    shutdown: Function,
}

/// What a VM is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Load,
    Wake,
    Shutdown,
}

impl Vm {
    pub fn new(host: Host) -> Result<Self, CognetError> {
        Self::build(Arc::new(host)).map_err(|error| CognetError::new(code::RUNTIME, flatten::text(&error)))
    }

    fn build(host: Arc<Host>) -> mlua::Result<Self> {
        let lua = Lua::new();
        // Machine code takes longer to make than most brains run: a file asks for it, see `library`.
        lua.enable_jit(false);
        let bound = host::bind(&lua, &host)?;
        let part = lua.create_function(|lua, name: String| {
            let part = PARTS.iter().find(|(own, _)| *own == name);
            part.ok_or_else(|| mlua::Error::runtime("the host has no such part"))?.1.load(lua)
        })?;
        let script = HOST_SCRIPT.load(&lua)?;
        let entry: Table = script.call((bound, lua.globals(), part))?;
        let entry = Entry {
            protect: entry.get("protect")?,
            load: entry.get("load")?,
            wake: entry.get("wake")?,
            shutdown: entry.get("shutdown")?,
        };
        lua.sandbox(true)?;
        lua.set_memory_limit(host.limits.memory_bytes)?;
        host.meter.connect(&lua)?;
        Ok(Self { lua, host, turn: Arc::default(), lost: AtomicBool::new(false), entry })
    }

    /// Calls into the VM. Errors come back flat, with the cognet's own place.
    pub async fn call(&self, call: Call, args: impl IntoLuaMulti) -> Result<(), CognetError> {
        let outcome = self.enter(call, args).await.map_err(|error| self.explained(error));
        if self.host.relaxed.swap(false, Ordering::Relaxed) {
            // Garbage first: the limit below what is in use would fail the next allocation.
            let restored =
                self.lua.gc_collect().and_then(|()| self.lua.set_memory_limit(self.host.limits.memory_bytes));
            if let Err(error) = restored {
                tracing::warn!(%error, "the memory limit could not be restored");
            }
        }
        outcome
    }

    /// On a busy machine the end may come in the middle of what tells of it: the error is then one of the host's handlers.
    fn explained(&self, error: CognetError) -> CognetError {
        let ended = self.host.meter.told_to_end().filter(|_| error.code == code::RUNTIME);
        match ended {
            Some(ended) => {
                let flat = flatten::flatten(&self.host, &mlua::Error::external(ended));
                CognetError { code: flat.code.to_owned(), message: flat.message, ..error }
            }
            None => error,
        }
    }

    async fn enter(&self, call: Call, args: impl IntoLuaMulti) -> Result<(), CognetError> {
        let function = match call {
            Call::Load => &self.entry.load,
            Call::Wake => &self.entry.wake,
            Call::Shutdown => &self.entry.shutdown,
        };
        let mut all = args.into_lua_multi(&self.lua).map_err(|error| self.raised(&error))?;
        all.push_front(LuaValue::Function(function.clone()));
        let running = Box::pin(self.entry.protect.call_async::<MultiValue>(all));
        let mut answer = Metered { meter: Arc::clone(&self.host.meter), inner: running }
            .await
            .map_err(|error| self.raised(&error))?;
        match (answer.pop_front(), answer.pop_front()) {
            (Some(LuaValue::Boolean(true)), _) => Ok(()),
            (_, Some(LuaValue::Table(described))) => {
                Err(self.described(&described).map_err(|error| self.raised(&error))?)
            }
            _ => Err(CognetError::new(code::RUNTIME, "the cognet's host has answered nothing")),
        }
    }

    /// An error that even the handlers in the VM could not take, for want of memory for example.
    pub fn raised(&self, error: &mlua::Error) -> CognetError {
        let flat = flatten::flatten(&self.host, error);
        CognetError::new(flat.code, flat.message)
    }

    fn described(&self, table: &Table) -> mlua::Result<CognetError> {
        let mut error = CognetError::new(&table.get::<String>("code")?, lossy(&table.get("message")?));
        let place = (table.get::<Option<String>>("key")?, table.get::<Option<u32>>("line")?);
        if let (Some(key), Some(line)) = place {
            error = error.at(self.host.location(&key, line));
        }
        error.traceback = table.get("traceback")?;
        error.phase = table.get("phase")?;
        error.tick = table.get("tick")?;
        Ok(error)
    }

    /// The VM cannot be used any more: it did not stop when it was asked to, and its thread, which was left behind, holds its
    /// lock; or the thread has panicked.
    pub fn lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        self.host.meter.disconnect();
    }
}

fn lossy(value: &LuaValue) -> String {
    match value {
        LuaValue::String(text) => text.to_string_lossy(),
        other => other.to_string().unwrap_or_default(),
    }
}

/// Tells the meter when the VM runs.
struct Metered<F> {
    meter: Arc<Meter>,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.meter.resumed();
        let polled = self.inner.as_mut().poll(context);
        self.meter.suspended();
        polled
    }
}
