//! A kernel with nothing behind it.

use serde_json::Value;

use crate::{
    AbortSignal, BoxFuture, Entries, EventStream, Kernel, RunResult, Scope, StreamRequest, VerbError, error::code,
};

/// An empty session, an empty store, and nothing that is written anywhere: for asking a cognet who it is, and for checking
/// that it loads. There is no wake, so that the verbs which need one are refused.
#[derive(Clone, Debug)]
pub struct DryKernel {
    /// What `kernel.base` returns.
    pub base: String,
    /// What `kernel.scope` returns.
    pub scope: Scope,
    /// Says of a type whether it may be emitted; what is emitted goes nowhere.
    pub may_emit: fn(&str) -> Result<(), VerbError>,
}

impl Default for DryKernel {
    fn default() -> Self {
        Self { base: String::new(), scope: Scope::default(), may_emit: |_| Ok(()) }
    }
}

fn outside_wake<T>(verb: &str) -> BoxFuture<'static, Result<T, VerbError>>
where
    T: Send + 'static,
{
    let message = format!("kernel.{verb} works during a wake only, and here is none");
    Box::pin(async { Err(VerbError::new(code::OUTSIDE_WAKE, message)) })
}

impl Kernel for DryKernel {
    fn output(&self, _kind: String, _data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        outside_wake("output")
    }

    fn stream(
        &self,
        _request: StreamRequest,
        _signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        outside_wake("stream")
    }

    fn run(&self, _blocks: Vec<String>, _signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        outside_wake("run")
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async { Ok(self.scope.clone()) })
    }

    fn base(&self) -> String {
        self.base.clone()
    }

    fn emit(&self, kind: &str, _data: Option<Value>) -> Result<(), VerbError> {
        (self.may_emit)(kind)
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
