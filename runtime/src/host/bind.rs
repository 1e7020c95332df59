//! Binds Rust functions for the Luau half of the host (`luau/host.luau`), which raises what they answer.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

use mlua::{FromLuaMulti, Lua, MultiValue, Table, Value as LuaValue};

use super::{Host, Raised, library, verbs};
use crate::json;

/// A table of functions. Each answers its value, or nil, a code and a message; what befalls the VM itself is raised.
pub(super) struct Binder<'a> {
    lua: &'a Lua,
    host: &'a Arc<Host>,
    table: Table,
}

pub(crate) fn bind(lua: &Lua, host: &Arc<Host>) -> mlua::Result<Table> {
    json::install(lua)?;
    let binder = Binder { lua, host, table: lua.create_table()? };
    verbs::bind(&binder)?;
    library::bind(&binder)?;
    Ok(binder.table)
}

impl Binder<'_> {
    pub fn function<A, F>(&self, name: &str, function: F) -> mlua::Result<()>
    where
        A: FromLuaMulti,
        F: Fn(&Lua, &Arc<Host>, A) -> Result<LuaValue, Raised> + Send + 'static,
    {
        let host = Arc::clone(self.host);
        let bound = self.lua.create_function(move |lua, args: A| answer(lua, function(lua, &host, args)))?;
        self.table.raw_set(name, bound)
    }

    /// A function that suspends the coroutine that calls it. `NAME_here` waits on the VM's own thread instead, for callers
    /// that Luau cannot suspend: metamethods, and callbacks of `table.sort` and `string.gsub`.
    pub fn waiting<A, F, W>(&self, name: &str, function: F) -> mlua::Result<()>
    where
        A: FromLuaMulti,
        F: Fn(Lua, Arc<Host>, A) -> W + Clone + Send + 'static,
        W: Future<Output = Result<LuaValue, Raised>> + Send + 'static,
    {
        let (host, same) = (Arc::clone(self.host), function.clone());
        let suspending = self.lua.create_async_function(move |lua, args: A| {
            let work = same(lua.clone(), Arc::clone(&host), args);
            async move { answer(&lua, work.await) }
        })?;
        let host = Arc::clone(self.host);
        let here = self.lua.create_function(move |lua, args: A| {
            host.meter.suspended();
            let outcome = wait_here(function(lua.clone(), Arc::clone(&host), args));
            host.meter.resumed();
            answer(lua, outcome)
        })?;
        self.table.raw_set(name, suspending)?;
        self.table.raw_set(format!("{name}_here"), here)
    }

    pub fn lua(&self) -> &Lua {
        self.lua
    }

    pub fn purpose(&self) -> super::Purpose {
        self.host.purpose
    }

    pub fn value(&self, name: &str, value: impl mlua::IntoLua) -> mlua::Result<()> {
        self.table.raw_set(name, value)
    }
}

/// Parks this thread, which serves one VM alone, until `work` has settled.
fn wait_here<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // tokio would have this poll yield to its scheduler after some steps, which cannot happen inside of it.
    let mut work = pin!(tokio::task::unconstrained(work));
    loop {
        match work.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

fn answer(lua: &Lua, outcome: Result<LuaValue, Raised>) -> mlua::Result<MultiValue> {
    match outcome {
        Ok(value) => Ok(MultiValue::from_iter([value])),
        Err(Raised::Verb(error)) => Ok(MultiValue::from_iter([
            LuaValue::Nil,
            LuaValue::String(lua.create_string(error.code)?),
            LuaValue::String(lua.create_string(error.message)?),
        ])),
        Err(Raised::Vm(error)) => Err(error),
    }
}
