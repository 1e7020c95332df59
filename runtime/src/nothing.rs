//! The kernel of a cognet that is only asked who it is.

use serde_json::Value;

use crate::{
    AbortSignal, BoxFuture, Entries, EventStream, Kernel, RunResult, Scope, StreamRequest, VerbError, error::code,
};

/// Knows nothing and keeps nothing.
pub(crate) struct NoKernel;

fn outside() -> VerbError {
    VerbError::new(code::OUTSIDE_WAKE, "the cognet is only asked who it is")
}

impl Kernel for NoKernel {
    fn output(&self, _kind: String, _data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async { Err(outside()) })
    }

    fn stream(
        &self,
        _request: StreamRequest,
        _signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        Box::pin(async { Err(outside()) })
    }

    fn run(&self, _blocks: Vec<String>, _signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        Box::pin(async { Err(outside()) })
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async { Ok(Scope::default()) })
    }

    fn base(&self) -> String {
        String::new()
    }

    fn emit(&self, _kind: &str, _data: Option<Value>) -> Result<(), VerbError> {
        Ok(())
    }

    fn session_get(&self, _after: Option<u64>) -> Result<Entries<'_>, VerbError> {
        Ok(Box::new(std::iter::empty()))
    }

    fn store_get(&self, _key: &str) -> Result<Option<Value>, VerbError> {
        Ok(None)
    }

    fn store_set(&self, _key: String, _value: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async { Err(outside()) })
    }
}
