//! The kernel as a cognet's host sees it: the trait of the seven verbs.
//!
//! `axon-runtime` declares the trait and knows nothing of what stands behind it; the kernel implements it in ring 0
//! and checks there whatever it does not trust the cognet with.

use std::{future::Future, pin::Pin};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::AbortSignal;

/// The version of the contract between cognets and the kernel. A cognet that names another is not loaded.
pub const ABI_VERSION: &str = "9";

/// A future that the host polls from whichever thread runs the cognet.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Entries in order, made as they are taken: a long session is never in memory twice.
pub type Entries<'a> = Box<dyn Iterator<Item = Result<Entry, VerbError>> + 'a>;

/// What a verb raises in the cognet: a value with `code` and `message`, `tostring(e)` is `CODE: message`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct VerbError {
    pub code: String,
    pub message: String,
}

impl VerbError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }
}

/// The seven verbs. One value serves one cognet instance.
///
/// The host calls `output`, `stream` and `run` only during a wake and hands them the wake's signal; an implementation
/// settles them with `INTERRUPTED` soon after the signal is aborted.
pub trait Kernel: Send + Sync + 'static {
    /// `kernel.output`: settles once the entry is in the log. `OUTPUT_INVALID` for an unknown type or payload.
    fn output(&self, kind: String, data: Value) -> BoxFuture<'_, Result<(), VerbError>>;

    /// `kernel.stream`: opens one inference. Faults before the first event may come from here or from the stream.
    fn stream(
        &self,
        request: StreamRequest,
        signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>>;

    /// `kernel.run`: all blocks at once, results in the order of `blocks`. What a block did is in its result.
    fn run(&self, blocks: Vec<String>, signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>>;

    /// `kernel.scope`: what the capsule can execute now.
    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>>;

    /// `kernel.base`: the user's identity text, `""` when there is none.
    fn base(&self) -> String;

    /// `kernel.emit`: queues telemetry and returns at once. Only `COGNET_EMIT_FORBIDDEN` is ever reported.
    fn emit(&self, kind: &str, data: Option<Value>) -> Result<(), VerbError>;

    /// `kernel.store.session.get`: entries with `seq > after` in order, all of them for `None`.
    fn session_get(&self, after: Option<u64>) -> Result<Entries<'_>, VerbError>;

    /// `kernel.store.get`: `None` when absent or unreadable. `STORE_KEY_INVALID` for a key that cannot exist.
    fn store_get(&self, key: &str) -> Result<Option<Value>, VerbError>;

    /// `kernel.store.set`: settles once durable; last write wins.
    fn store_set(&self, key: String, value: Value) -> BoxFuture<'_, Result<(), VerbError>>;
}

/// The events of one inference, in order. Dropping the stream cancels the inference.
pub trait EventStream: Send {
    /// The next event; `None` after [`EngineEvent::Done`].
    fn next(&mut self) -> BoxFuture<'_, Result<Option<EngineEvent>, VerbError>>;
}

/// What a cognet asks an engine for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StreamRequest {
    pub messages: Vec<Message>,
    #[serde(default)]
    pub format: Format,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub role: Role,
    pub content: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    System,
    User,
    Assistant,
}

/// How the model's text is decoded: the cognet's choice, never the kernel's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    #[default]
    Air,
    Fenced,
    Raw,
}

/// What a cognet sees of one inference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum EngineEvent {
    /// Text as it arrives. Transient: the deltas of a block concatenate to its [`EngineEvent::Text`].
    #[serde(rename = "engine:text:delta")]
    TextDelta { content: String },
    #[serde(rename = "engine:text")]
    Text { content: String },
    #[serde(rename = "engine:typescript")]
    TypeScript { content: String },
    /// The model broke the format.
    #[serde(rename = "engine:output:error")]
    OutputError {
        code: String,
        message: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        excerpt: Option<String>,
    },
    /// The model said that it is done.
    #[serde(rename = "engine:stop")]
    Stop,
    /// Always last, once.
    #[serde(rename = "engine:done")]
    Done(Done),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Done {
    pub text: String,
    pub stop_reason: String,
    pub model: String,
    pub provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    pub duration_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token_ms: Option<u64>,
}

/// Tokens. What a provider did not report is absent, not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<u64>,
}

/// What one block came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    pub ok: bool,
    /// Absent when the block had no value (or `undefined`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
    /// Lines as the block printed them.
    pub stdout: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RunError>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunError {
    pub kind: RunErrorKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunErrorKind {
    Timeout,
    Interrupt,
    Exception,
}

/// What the capsule can execute: one decision about membership in two spellings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    /// For a cognet to render.
    pub modules: Vec<ScopeModule>,
    /// The same as a `.d.ts` that `tsc` accepts.
    pub dts: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScopeModule {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The members are globals and not properties of a namespace.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flat: bool,
    pub members: Vec<ScopeMember>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ambient_types: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeMember {
    pub name: String,
    /// As it stands inside the namespace, for example `function read(path: string): Promise<string>`.
    pub declaration: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jsdoc: Option<String>,
}

/// An entry of the session as a cognet is handed it: no agent, session or run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub time: EntryTime,
    #[serde(default)]
    pub data: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryTime {
    /// Milliseconds since the Unix epoch.
    pub ms: u64,
    /// The only order there is.
    pub seq: u64,
}
