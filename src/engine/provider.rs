//! What an engine needs of a provider of models: one attempt at one call.

use axon_runtime::{BoxFuture, Message, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fault::Fault;

/// A call as a provider is handed it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelCall {
    pub model: String,
    pub messages: Vec<Message>,
    /// Tokens that the answer may have at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

/// What a model sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelEvent {
    /// The next piece of the message.
    Text(String),
    /// The next piece of what the model thinks. It never crosses to a cognet.
    Reasoning(String),
    /// Always last. `stop_reason` is `"length"` when the model was cut off at its limit of tokens.
    Finished { stop_reason: String, usage: Option<Usage>, model: Option<String> },
}

/// A way to reach models. It makes single attempts: retries, decoding and telemetry are the engine's.
pub trait Provider: Send + Sync + 'static {
    /// The name in `[engine] provider`.
    fn name(&self) -> &str;

    /// The model that answers when a call names none.
    fn model(&self) -> &str;

    /// The request for a call as it goes out, without keys and headers; `None` where there is no such thing. For recordings.
    fn sent(&self, _call: &ModelCall) -> Option<Value> {
        None
    }

    /// Makes one attempt. Dropping the future, or the stream that it gives, gives the attempt up.
    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>>;
}

/// The answer to one attempt.
pub trait ModelStream: Send {
    /// The next event; `None` after [`ModelEvent::Finished`]. A stream that ends without it is a fault.
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>>;
}
