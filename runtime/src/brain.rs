//! A loaded cognet.

use std::sync::Arc;

use mlua::Value as LuaValue;
use tokio_util::sync::CancellationToken;

use crate::{
    AbortSignal, CognetConfig, CognetError, CognetSource, DryKernel, Entry, Kernel, Limits, WakeFailure,
    error::code,
    host::{ActiveWake, Host, Purpose, Raised, entries_to_lua},
    source::{FileError, Files},
    turn::{TurnError, take_turn},
    vm::{Call, Vm},
};

/// A cognet that is loaded and can be woken, any number of times.
///
/// Its futures need a tokio runtime with I/O and time. While one of them runs, the VM has an OS thread of its own, so a
/// script that never waits holds up nobody else. A future that is dropped ends what the VM does.
pub struct Brain {
    vm: Arc<Vm>,
    config: CognetConfig,
    source: CognetSource,
    kernel: Arc<dyn Kernel>,
    limits: Limits,
}

/// What a wake came to that has converged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakeReport {
    pub ticks: u32,
}

impl Brain {
    /// Loads a cognet: its config, its plugins by file name, its main file, then the `boot` hooks.
    ///
    /// # Errors
    /// `COGNET_NOT_FOUND`, `COGNET_INVALID`, `COGNET_ABI_MISMATCH` (before any of its main runs), `COGNET_SYNTAX`,
    /// `COGNET_NO_LOOP`, `COGNET_LOOP_TWICE`, `COGNET_RUNTIME`, `COGNET_MEMORY`, `COGNET_CPU`, or the code of a verb that
    /// failed.
    pub async fn load(source: &CognetSource, kernel: Arc<dyn Kernel>, limits: Limits) -> Result<Self, CognetError> {
        let host = Host::new(Arc::clone(&kernel), Files::open(source)?, limits, Purpose::Serve);
        let plan = Plan::of(&host.files)?;
        let vm = Arc::new(Vm::new(host)?);
        turn(&vm, Call::Load, (plan.config, plan.plugins, plan.main)).await?;
        let config = vm.host.config().ok_or_else(|| undefined(&vm))?;
        Ok(Self { vm, config, source: source.clone(), kernel, limits })
    }

    pub fn config(&self) -> &CognetConfig {
        &self.config
    }

    /// Wakes the cognet: its body is called, tick after tick, until it stops.
    ///
    /// # Errors
    /// [`WakeFailure::Interrupted`] when `signal` was aborted before the wake had ended, else [`WakeFailure::Failed`]. The
    /// brain stays loaded; one whose VM could not be stopped is loaded anew by the next wake.
    pub async fn wake(&mut self, stimuli: Vec<Entry>, signal: AbortSignal) -> Result<WakeReport, WakeFailure> {
        if self.vm.lost() {
            let loaded = Self::load(&self.source, Arc::clone(&self.kernel), self.limits).await;
            *self = loaded.map_err(|error| WakeFailure::Failed { error, ticks: 0 })?;
        }
        let gone = CancellationToken::new();
        let wake = Arc::new(ActiveWake::new(signal.clone(), gone.clone()));
        let work = wake_up(Arc::clone(&self.vm), Arc::clone(&wake), stimuli, self.config.max_ticks_per_wake);
        let outcome = match take_turn(&self.vm, signal.clone(), gone, work).await {
            Ok(outcome) => outcome,
            Err(TurnError::Lost) => Err(self.vm.host.cpu_error()),
            Err(TurnError::Failed(error)) => Err(error),
        };
        let ticks = wake.ticks();
        match outcome {
            _ if signal.aborted() => Err(WakeFailure::Interrupted { reason: wake.reason(), ticks }),
            Ok(()) => Ok(WakeReport { ticks }),
            Err(error) => Err(WakeFailure::Failed { error, ticks }),
        }
    }

    /// Runs the `shutdown` hooks, all of them, and drops the VM.
    ///
    /// # Errors
    /// The first error that a hook raised.
    pub async fn shutdown(self) -> Result<(), CognetError> {
        if self.vm.lost() {
            return Ok(());
        }
        turn(&self.vm, Call::Shutdown, ()).await
    }

    /// What the VM's heap holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // The thread of a lost VM holds its lock.
        if self.vm.lost() { 0 } else { self.vm.lua.used_memory() }
    }
}

/// Reads what a cognet says of itself, without running its main file any further than `defineCognet`, and without a kernel.
/// The ABI is not compared.
///
/// # Errors
/// Those of [`Brain::load`] that concern the files and the config.
pub async fn read_config(source: &CognetSource, limits: Limits) -> Result<CognetConfig, CognetError> {
    let host = Host::new(Arc::new(DryKernel::default()), Files::open(source)?, limits, Purpose::Identify);
    let plan = Plan::of(&host.files)?;
    let vm = Arc::new(Vm::new(host)?);
    let key = plan.config.unwrap_or(plan.main);
    let outcome = turn(&vm, Call::Load, (None::<String>, Vec::<String>::new(), key)).await;
    match (vm.host.config(), outcome) {
        (Some(config), _) => Ok(config),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(undefined(&vm)),
    }
}

/// Which files are run, in order.
struct Plan {
    config: Option<String>,
    plugins: Vec<String>,
    main: String,
}

impl Plan {
    fn of(files: &Files) -> Result<Self, CognetError> {
        if let Some(key) = files.single() {
            return Ok(Self { config: None, plugins: Vec::new(), main: key.to_owned() });
        }
        let wanted = |stem: &str| {
            files
                .find(stem)?
                .ok_or_else(|| CognetError::new(code::NOT_FOUND, format!("{} has no {stem}.lua", files.place())))
        };
        Ok(Self { config: Some(wanted("cognet.config")?), plugins: files.plugins()?, main: wanted("src/main")? })
    }
}

impl From<FileError> for CognetError {
    fn from(error: FileError) -> Self {
        Self::new(code::INVALID, error.to_string())
    }
}

fn undefined(vm: &Vm) -> CognetError {
    CognetError::new(code::INVALID, format!("{} never calls defineCognet", vm.host.files.place()))
}

/// A turn outside a wake.
async fn turn(vm: &Arc<Vm>, call: Call, args: impl mlua::IntoLuaMulti + Send + 'static) -> Result<(), CognetError> {
    let running = Arc::clone(vm);
    let work = async move { running.call(call, args).await };
    match take_turn(vm, AbortSignal::default(), CancellationToken::new(), work).await {
        Ok(outcome) => outcome,
        Err(TurnError::Lost) => Err(vm.host.cpu_error()),
        Err(TurnError::Failed(error)) => Err(error),
    }
}

async fn wake_up(vm: Arc<Vm>, wake: Arc<ActiveWake>, stimuli: Vec<Entry>, max_ticks: u32) -> Result<(), CognetError> {
    let stimuli = entries_to_lua(&vm.lua, stimuli.into_iter().map(Ok)).map_err(|error| match error {
        Raised::Verb(error) => CognetError::new(&error.code, error.message),
        Raised::Vm(error) => vm.raised(&error),
    })?;
    let signal = wake.signal.clone();
    let state = vm.lua.create_function(move |lua, ()| {
        let reason = signal.reason().map(|reason| lua.create_string(reason)).transpose()?;
        Ok((signal.aborted(), reason))
    });
    let state = match state {
        Ok(state) => LuaValue::Function(state),
        Err(error) => return Err(vm.raised(&error)),
    };
    vm.host.begin(wake);
    let outcome = vm.call(Call::Wake, (stimuli, state, max_ticks)).await;
    vm.host.end();
    outcome
}
