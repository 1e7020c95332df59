//! A kernel without a session: for checking that a cognet loads.

use std::sync::Arc;

use axon_runtime::{AbortSignal, BoxFuture, Entries, EventStream, Kernel, RunResult, Scope, StreamRequest, VerbError};
use serde_json::Value;

/// An empty session, an empty store, and nothing that is written anywhere.
pub(crate) struct DryKernel {
    base: String,
    scope: Scope,
}

impl DryKernel {
    pub(crate) fn new(base: String, scope: Scope) -> Arc<Self> {
        Arc::new(Self { base, scope })
    }
}

fn outside_wake(verb: &str) -> VerbError {
    VerbError::new("SYSCALL_OUTSIDE_WAKE", format!("kernel.{verb} works during a wake only"))
}

impl Kernel for DryKernel {
    fn output(&self, _kind: String, _data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async { Err(outside_wake("output")) })
    }

    fn stream(
        &self,
        _request: StreamRequest,
        _signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        Box::pin(async { Err(outside_wake("stream")) })
    }

    fn run(&self, _blocks: Vec<String>, _signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        Box::pin(async { Err(outside_wake("run")) })
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async { Ok(self.scope.clone()) })
    }

    fn base(&self) -> String {
        self.base.clone()
    }

    fn emit(&self, kind: &str, _data: Option<Value>) -> Result<(), VerbError> {
        super::emit::check(kind)
    }

    fn session_get(&self, _after: Option<u64>) -> Result<Entries<'_>, VerbError> {
        Ok(Box::new(std::iter::empty()))
    }

    fn store_get(&self, _key: &str) -> Result<Option<Value>, VerbError> {
        Ok(None)
    }

    fn store_set(&self, _key: String, _value: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async { Ok(()) })
    }
}
