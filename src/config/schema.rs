//! The configuration with its defaults.

use std::{collections::BTreeMap, path::Path};

use crate::log::Fsync;

/// All of `axon.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub agent: AgentConfig,
    pub cognet: CognetConfig,
    pub engine: EngineConfig,
    pub capsule: CapsuleConfig,
    pub policy: PolicyConfig,
    /// What `tools/NAME.ts` may do, by `NAME`.
    pub tools: BTreeMap<String, ToolGrants>,
    pub session: SessionConfig,
}

/// `[agent]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentConfig {
    pub name: String,
    /// Absent: the only cognet in `cognets/` if there is exactly one, else `@axon/zero`.
    pub cognet: Option<String>,
}

/// `[cognet]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CognetConfig {
    pub memory_mb: u64,
    /// CPU between two waits.
    pub cpu_ms: u64,
    /// The period of a continuous cognet.
    pub tick_ms: u64,
    /// Overrides the cognet's own `wakeOn`.
    pub wake_on: Option<Vec<String>>,
}

/// `[engine]`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineConfig {
    pub provider: Option<Provider>,
    pub model: Option<String>,
    pub base_url: Option<String>,
    /// The name of the variable that holds the key.
    pub api_key_env: Option<String>,
    /// The script of the script engine, relative to the agent folder.
    pub script: Option<String>,
    /// The recording of the replay engine, relative to the agent folder.
    pub recording: Option<String>,
    pub timeouts: EngineTimeouts,
    pub headers: BTreeMap<String, String>,
    pub price: Option<Price>,
}

/// `[engine] timeout_ms`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineTimeouts {
    pub connect_ms: u64,
    pub first_token_ms: u64,
    /// The longest silence between two pieces of an answer.
    pub silence_ms: u64,
}

/// `[engine] price`, for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
}

/// `[engine] provider`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    OpenAi,
    Replay,
    Script,
}

/// `[capsule]`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapsuleConfig {
    /// A block's own time.
    pub timeout_ms: u64,
    /// A block's time with all that it waits for.
    pub total_timeout_ms: u64,
    pub memory_mb: u64,
    pub max_output_bytes: u64,
    pub max_source_bytes: u64,
    pub max_concurrent_blocks: u64,
    pub max_tool_calls: u64,
}

/// `[policy]`: nothing is allowed that is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyConfig {
    /// Hosts as `name`, `*.name` or `name:port`.
    pub net: Vec<String>,
    /// Programs.
    pub run: Vec<String>,
    pub fs: FsPolicy,
    /// Patterns of tools and their rules, in the order of the file.
    pub tools: Vec<(String, Rule)>,
}

/// `[policy.fs]`: roots as they are written, relative to the agent folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FsPolicy {
    pub read: Vec<String>,
    pub write: Vec<String>,
}

/// What becomes of a call of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Allow,
    Ask,
    Deny,
}

/// `[tools.NAME]`: what a tool of the user's may do beyond computing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolGrants {
    pub net: Vec<String>,
    pub run: Vec<String>,
    pub fs: FsPolicy,
    /// The names of variables that it sees as `env`.
    pub env: Vec<String>,
}

/// `[session]`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionConfig {
    pub fsync: Fsync,
}

impl Config {
    /// The configuration of an agent folder without `axon.toml`.
    pub fn defaults(agent_dir: &Path) -> Self {
        Self {
            agent: AgentConfig { name: folder_name(agent_dir), cognet: None },
            cognet: CognetConfig::default(),
            engine: EngineConfig::default(),
            capsule: CapsuleConfig::default(),
            policy: PolicyConfig::default(),
            tools: BTreeMap::new(),
            session: SessionConfig::default(),
        }
    }
}

fn folder_name(dir: &Path) -> String {
    let whole = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    whole.file_name().map_or_else(|| "agent".to_owned(), |name| name.to_string_lossy().into_owned())
}

impl Default for CognetConfig {
    fn default() -> Self {
        Self { memory_mb: 256, cpu_ms: 5_000, tick_ms: 1_000, wake_on: None }
    }
}

impl Default for EngineTimeouts {
    fn default() -> Self {
        Self { connect_ms: 10_000, first_token_ms: 120_000, silence_ms: 60_000 }
    }
}

impl Default for CapsuleConfig {
    fn default() -> Self {
        Self {
            timeout_ms: 30_000,
            total_timeout_ms: 300_000,
            memory_mb: 256,
            max_output_bytes: 65_536,
            max_source_bytes: 1_048_576,
            max_concurrent_blocks: 8,
            max_tool_calls: 1_000,
        }
    }
}

/// A value that is spelled as one of some words.
pub(super) trait Words: Copy + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl Words for Provider {
    const WORDS: &'static [(&'static str, Self)] =
        &[("openai", Self::OpenAi), ("replay", Self::Replay), ("script", Self::Script)];
}

impl Words for Rule {
    const WORDS: &'static [(&'static str, Self)] = &[("allow", Self::Allow), ("ask", Self::Ask), ("deny", Self::Deny)];
}

impl Words for Fsync {
    const WORDS: &'static [(&'static str, Self)] =
        &[("always", Self::Always), ("wake", Self::Wake), ("never", Self::Never)];
}

impl Provider {
    /// The provider of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(word, _)| *word == name).map(|&(_, provider)| provider)
    }

    /// As it is spelled in `axon.toml`.
    pub fn as_str(self) -> &'static str {
        Self::WORDS.iter().find(|(_, provider)| *provider == self).map_or("", |(word, _)| word)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|(word, _)| *word)
    }
}
