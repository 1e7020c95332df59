//! One line of a recording.

use axon_runtime::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::{fault::Fault, provider::ModelCall};

/// The version of the format, which every line names.
pub(super) const VERSION: u32 = 1;

/// An attempt at a call. Nothing in it is a key: headers are left out, and granted secrets are hidden.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Attempt {
    pub v: u32,
    pub provider: ProviderName,
    pub request: ModelCall,
    /// The request as it went out, for people: `{url, body}` of a provider that is reached by HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Value>,
    /// Delta by delta.
    pub answer: Vec<Delta>,
    pub end: End,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderName {
    pub name: String,
    /// The model that answers when a call names none.
    pub model: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Delta {
    Text(String),
    Reasoning(String),
}

/// How an attempt ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum End {
    #[serde(rename_all = "camelCase")]
    Finished {
        stop_reason: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    Fault(Fault),
    /// Whoever asked did not read on, as after an abort.
    GivenUp,
}
