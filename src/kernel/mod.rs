//! The kernel: implements the seven verbs for one cognet instance, in ring 0.
//!
//! What a cognet asks for is checked here; nothing that it hands over is trusted.

mod actions;
mod bindings;
mod bridge;
mod emit;
mod output;
mod recorder;

use std::sync::{Arc, RwLock};

use axon_runtime::{AbortSignal, BoxFuture, Entries, EventStream, Kernel, RunResult, Scope, StreamRequest, VerbError};
use serde_json::Value;

use crate::{
    engine::Engine,
    log::{LogError, SessionLog},
    store::{Store, StoreError},
    tools::Toolbox,
};
pub(crate) use actions::{Actions, text_of};
pub(crate) use bindings::BindingsFile;
pub(crate) use bridge::CapsuleBridge;
pub(crate) use emit::check as may_emit;
pub(crate) use output::check as may_output;
pub(crate) use recorder::Recorder;

/// What stands behind the verbs of one cognet instance.
pub(crate) struct CognetKernel {
    recorder: Recorder,
    actions: Arc<Actions>,
    engine: Option<Engine>,
    toolbox: Toolbox,
    store: Store,
    base: RwLock<Arc<str>>,
}

impl CognetKernel {
    pub(crate) fn new(
        recorder: Recorder,
        actions: Arc<Actions>,
        engine: Option<Engine>,
        toolbox: Toolbox,
        store: Store,
        base: &str,
    ) -> Self {
        Self { recorder, actions, engine, toolbox, store, base: RwLock::new(base.into()) }
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn log(&self) -> &SessionLog {
        self.recorder.log()
    }
}

impl Kernel for CognetKernel {
    fn output(&self, kind: String, data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move {
            output::check(&kind, &data)?;
            self.recorder.commit(&kind, data).await?;
            Ok(())
        })
    }

    fn stream(
        &self,
        request: StreamRequest,
        signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        Box::pin(async move {
            let engine = self.engine.as_ref().ok_or_else(no_engine)?;
            Ok(engine.stream(request, signal, Arc::new(self.recorder.clone())))
        })
    }

    fn run(&self, blocks: Vec<String>, signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        Box::pin(self.actions.run(blocks, signal))
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async move { Ok(self.toolbox.scope()) })
    }

    fn base(&self) -> String {
        self.base.read().unwrap_or_else(std::sync::PoisonError::into_inner).to_string()
    }

    fn emit(&self, kind: &str, data: Option<Value>) -> Result<(), VerbError> {
        emit::check(kind)?;
        self.recorder.emit(kind, data.unwrap_or_else(|| Value::Object(Default::default())));
        Ok(())
    }

    fn session_get(&self, after: Option<u64>) -> Result<Entries<'_>, VerbError> {
        Ok(Box::new(self.log().entries(after).map(|entry| Ok(entry?))))
    }

    fn store_get(&self, key: &str) -> Result<Option<Value>, VerbError> {
        Ok(self.store.get(key)?)
    }

    fn store_set(&self, key: String, value: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move { Ok(self.store.set(&key, value).await?) })
    }
}

impl From<LogError> for VerbError {
    fn from(error: LogError) -> Self {
        VerbError::new("SESSION_LOG_FAILED", error.to_string())
    }
}

impl From<StoreError> for VerbError {
    fn from(error: StoreError) -> Self {
        VerbError::new(error.code(), error.to_string())
    }
}

fn no_engine() -> VerbError {
    VerbError::new(
        "ENGINE_NOT_CONFIGURED",
        "no engine is configured, so there is no model to ask; set `[engine] provider` and `model` in axon.toml, \
         or pass --engine, for example --engine openai:MODEL or --engine script:model.json",
    )
}
