//! The engine of an agent: the way to its model.

use std::{fmt, path::Path, sync::Arc};

use axon_runtime::{AbortSignal, BoxFuture, EventStream, StreamRequest};

use super::{
    fault::{Fault, FaultCode},
    inference::Inference,
    openai::OpenAiProvider,
    provider::{ModelCall, ModelStream, Provider},
    recording::{Recording, RecordingProvider, ReplayProvider},
    script::ScriptProvider,
    spec::{EngineConfigError, EngineSpec, ProviderKind},
    telemetry::{SessionFacts, Telemetry},
};

/// Makes inferences with one provider. Clones share it, and with it the position in a script.
#[derive(Clone)]
pub struct Engine {
    provider: Arc<dyn Provider>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (provider, model) = self.describe();
        f.debug_struct("Engine").field("provider", &provider).field("model", &model).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine as `spec` describes it. Nothing is sent before the first call.
    ///
    /// `env` looks environment variables up, those of the agent's `.env` included; `facts` is what a script may quote and a replay has to know.
    pub fn from_spec(
        spec: EngineSpec,
        agent_dir: &Path,
        env: &dyn Fn(&str) -> Option<String>,
        facts: Arc<dyn SessionFacts>,
    ) -> Result<Self, EngineConfigError> {
        let provider: Arc<dyn Provider> = match spec.kind()?.ok_or(EngineConfigError::NotConfigured)? {
            ProviderKind::OpenAi => Arc::new(OpenAiProvider::from_spec(&spec, env)?),
            ProviderKind::Replay => Arc::new(ReplayProvider::from_spec(&spec, agent_dir, facts)?),
            ProviderKind::Script => Arc::new(ScriptProvider::from_spec(&spec, agent_dir, facts)?),
        };
        Ok(Self::with_provider(provider))
    }

    /// An engine with a provider of the embedder's own.
    pub fn with_provider(provider: Arc<dyn Provider>) -> Self {
        Self { provider }
    }

    /// The same engine, with each attempt put down in `recording`, secrets of the session hidden.
    pub fn recorded(self, recording: Recording, facts: Arc<dyn SessionFacts>) -> Self {
        Self::with_provider(Arc::new(RecordingProvider::new(self.provider, recording, facts)))
    }

    /// An engine that fails each call with `error`, for cognets that may never ask for a model.
    pub fn unavailable(error: &EngineConfigError) -> Self {
        Self::with_provider(Arc::new(Unavailable::new(error)))
    }

    /// The names of the provider and of the model that answers by default.
    pub fn describe(&self) -> (&str, &str) {
        (self.provider.name(), self.provider.model())
    }

    /// Begins an inference. Dropping the stream cancels it.
    ///
    /// The stream raises `ENGINE_FAILED` when the last attempt failed, or any once an event had been handed over, and
    /// `INTERRUPTED` soon after `signal` was aborted. It is driven by whoever reads it and needs a Tokio runtime.
    pub fn stream(
        &self,
        request: StreamRequest,
        signal: AbortSignal,
        telemetry: Arc<dyn Telemetry>,
    ) -> Box<dyn EventStream> {
        Box::new(Inference::new(self.provider.clone(), request, signal, telemetry))
    }
}

/// Stands in for a provider that could not be configured.
struct Unavailable {
    code: FaultCode,
    message: String,
}

impl Unavailable {
    const NAME: &str = "unconfigured";

    fn new(error: &EngineConfigError) -> Self {
        let code = match error {
            EngineConfigError::MissingKey { .. } | EngineConfigError::InvalidKey { .. } => FaultCode::Auth,
            _ => FaultCode::InvalidRequest,
        };
        Self { code, message: error.to_string() }
    }
}

impl Provider for Unavailable {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn model(&self) -> &str {
        Self::NAME
    }

    fn open(&self, _: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async { Err(Fault::new(self.code, Self::NAME, &self.message)) })
    }
}
