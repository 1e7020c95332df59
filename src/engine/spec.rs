//! Which engine an agent uses: the configuration, checked.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

/// Providers that this build has, as `[engine] provider` and `--engine` name them.
pub(super) const PROVIDERS: &[&str] = &["openai", "replay", "script"];

/// How to reach a model. `[engine]` of `axon.toml`, then `--engine`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineSpec {
    /// One of the providers of this build. Absent, it follows from what else is set.
    pub provider: Option<String>,
    pub model: Option<String>,
    pub base_url: Option<String>,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// The script engine's file, relative to the agent folder.
    pub script: Option<PathBuf>,
    /// What the replay engine answers from, relative to the agent folder.
    pub recording: Option<PathBuf>,
    pub timeouts: Timeouts,
    /// Sent with every request.
    pub headers: BTreeMap<String, String>,
}

/// How long to wait for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// From the request to the first token of the answer.
    pub first_token: Duration,
    /// Between two pieces of the answer.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_token: Duration::from_secs(120),
            silence: Duration::from_secs(60),
        }
    }
}

/// A configuration that no engine can be made of. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum EngineConfigError {
    #[error(
        "no engine is configured: set `provider` and `model` under [engine] in axon.toml, or pass --engine \
         openai:MODEL or --engine script:FILE"
    )]
    NotConfigured,
    #[error("there is no engine provider \"{given}\"{} Accepted: {}", did_you_mean(.nearest), PROVIDERS.join(", "))]
    UnknownProvider { given: String, nearest: Option<&'static str> },
    #[error("the engine provider \"{provider}\" needs `{key}` under [engine] in axon.toml, or --engine {usage}")]
    Missing { provider: &'static str, key: &'static str, usage: &'static str },
    #[error(
        "the environment variable {variable} is not set, and {base_url} needs a key: export {variable}=…, or write it \
         into .env in the agent folder, or name another variable with `api_key_env` under [engine] in axon.toml"
    )]
    MissingKey { variable: String, base_url: String },
    #[error(
        "the environment variable {variable} holds a key that cannot be sent: it has characters that no HTTP header \
         may have, perhaps a line break"
    )]
    InvalidKey { variable: String },
    #[error("`base_url` under [engine] is not an http or https address: {given}: {reason}")]
    InvalidBaseUrl { given: String, reason: String },
    #[error("`headers` under [engine] has an entry that is no HTTP header: {name}")]
    InvalidHeader { name: String },
    #[error(
        "--engine takes PROVIDER or PROVIDER:ARGUMENT, as in openai:MODEL or script:FILE; it was given \"{given}\""
    )]
    InvalidOverride { given: String },
    #[error("cannot read the recording {}: {source}", path.display())]
    UnreadableRecording { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {message}", path.display())]
    InvalidRecording { path: PathBuf, line: usize, message: String },
    #[error("cannot read the engine's script {}: {source}", path.display())]
    UnreadableScript { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}:{column}: {message}", path.display())]
    InvalidScript {
        path: PathBuf,
        line: usize,
        column: usize,
        message: String,
        /// The line itself.
        source_line: Option<String>,
    },
}

fn did_you_mean(nearest: &Option<&'static str>) -> String {
    match nearest {
        Some(nearest) => format!(", did you mean \"{nearest}\"?"),
        None => ".".to_owned(),
    }
}

/// A provider that this build has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProviderKind {
    OpenAi,
    Replay,
    Script,
}

impl ProviderKind {
    pub fn parse(name: &str) -> Result<Self, EngineConfigError> {
        match name {
            "openai" => Ok(Self::OpenAi),
            "replay" => Ok(Self::Replay),
            "script" => Ok(Self::Script),
            _ => Err(EngineConfigError::UnknownProvider { given: name.to_owned(), nearest: nearest_provider(name) }),
        }
    }
}

/// The provider that `name` is probably meant to be.
fn nearest_provider(name: &str) -> Option<&'static str> {
    const MIN_SIMILARITY: f64 = 0.75;
    let name = name.to_lowercase();
    PROVIDERS
        .iter()
        .map(|provider| (strsim::jaro_winkler(&name, provider), *provider))
        .filter(|(similarity, _)| *similarity >= MIN_SIMILARITY)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, provider)| provider)
}

impl EngineSpec {
    /// Applies `--engine`: `PROVIDER`, or `PROVIDER:ARGUMENT` with the provider's model or file. A file is looked up
    /// in the current folder first, then in the agent folder.
    ///
    /// What was configured for another provider no longer applies.
    pub fn override_with(&mut self, cli_spec: &str) -> Result<(), EngineConfigError> {
        let (name, argument) = match cli_spec.split_once(':') {
            Some((name, argument)) if !argument.is_empty() => (name, Some(argument)),
            Some(_) => return Err(EngineConfigError::InvalidOverride { given: cli_spec.to_owned() }),
            None => (cli_spec, None),
        };
        let kind = ProviderKind::parse(name)?;
        if !matches!(self.kind(), Ok(None)) && self.kind().ok().flatten() != Some(kind) {
            *self = Self { timeouts: self.timeouts, ..Self::default() };
        }
        self.provider = Some(name.to_owned());
        match (kind, argument) {
            (ProviderKind::OpenAi, Some(model)) => self.model = Some(model.to_owned()),
            (ProviderKind::Replay, Some(file)) => self.recording = Some(here_or_in_agent(Path::new(file))),
            (ProviderKind::Script, Some(file)) => self.script = Some(here_or_in_agent(Path::new(file))),
            (_, None) => {}
        }
        Ok(())
    }

    /// The address of the server that the engine asks, if it asks one.
    pub(crate) fn address(&self) -> Option<&str> {
        let asks = self.kind().ok().flatten() == Some(ProviderKind::OpenAi);
        asks.then(|| self.base_url.as_deref().unwrap_or(super::openai::DEFAULT_BASE_URL))
    }

    /// The file that the engine is made of, if it is made of one.
    pub(crate) fn file(&self, agent_dir: &Path) -> Option<PathBuf> {
        let file = match self.kind().ok().flatten()? {
            ProviderKind::OpenAi => None,
            ProviderKind::Replay => self.recording.as_ref(),
            ProviderKind::Script => self.script.as_ref(),
        };
        file.map(|file| agent_dir.join(file))
    }

    /// The same, for a provider that cannot do without it; and what messages call it: as the other files of the agent are
    /// called, if it is one.
    pub(super) fn needed_file(
        &self,
        agent_dir: &Path,
        missing: EngineConfigError,
    ) -> Result<(PathBuf, PathBuf), EngineConfigError> {
        let path = self.file(agent_dir).ok_or(missing)?;
        let inside = path.strip_prefix(agent_dir).ok().filter(|inside| inside.components().next().is_some());
        let name = inside.unwrap_or(&path).to_owned();
        Ok((path, name))
    }

    /// The provider that is named, or else that the other keys are for.
    pub(super) fn kind(&self) -> Result<Option<ProviderKind>, EngineConfigError> {
        match &self.provider {
            Some(name) => ProviderKind::parse(name).map(Some),
            None if self.script.is_some() => Ok(Some(ProviderKind::Script)),
            None if self.recording.is_some() => Ok(Some(ProviderKind::Replay)),
            None if self.model.is_some() || self.base_url.is_some() => Ok(Some(ProviderKind::OpenAi)),
            None => Ok(None),
        }
    }
}

fn here_or_in_agent(file: &Path) -> PathBuf {
    match std::path::absolute(file) {
        Ok(here) if here.exists() => here,
        _ => file.to_owned(),
    }
}
