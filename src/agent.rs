//! An agent folder: its configuration, and what follows from it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axon_capsule::{HOST_COMMAND, Launch};

use crate::{
    cognets::{self, CognetLookupError, Found},
    config::{self, Config, ConfigError, EngineConfig, PolicyConfig, ToolGrants},
    engine::{Engine, EngineConfigError, EngineSpec, SessionFacts, Timeouts},
    files,
    policy::{self, Approver, Policy, PolicyError, PolicyRules},
    secrets::Secrets,
    tools::{OwnGrants, OwnSettings, OwnTools, OwnToolsError, ToolObserver, Toolbox},
};

/// An agent folder that was read. Every part of the folder is optional.
#[derive(Debug)]
pub struct Agent {
    dir: PathBuf,
    config: Config,
    environment: BTreeMap<String, String>,
}

/// Why an agent folder could not be read.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error("there is no agent folder {}: {source}", .path.display())]
    NoFolder { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Dotenv(#[from] config::DotenvError),
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error(transparent)]
    Tools(#[from] OwnToolsError),
    #[error("the program's own file cannot be found, so no capsule can be started: {0}")]
    NoProgram(io::Error),
    #[error(transparent)]
    Engine(#[from] EngineConfigError),
    #[error(transparent)]
    Cognet(#[from] CognetLookupError),
    #[error("{} could not be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

impl AgentError {
    /// What kind of failure it is, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoFolder { .. } => "AGENT_NOT_FOUND",
            Self::Config(_) => "CONFIG_INVALID",
            Self::Dotenv(_) => "DOTENV_INVALID",
            Self::Policy(_) => "POLICY_INVALID",
            Self::Tools(_) => "TOOLS_INVALID",
            Self::NoProgram(_) => "NO_PROGRAM",
            Self::Engine(_) => "ENGINE_INVALID",
            Self::Cognet(error) => error.code(),
            Self::Unreadable { .. } => "UNREADABLE",
        }
    }
}

impl Agent {
    /// Reads `axon.toml` and `.env` of the folder.
    pub fn open(dir: &Path) -> Result<Self, AgentError> {
        let no_folder = |source| AgentError::NoFolder { path: dir.to_owned(), source };
        let dir = dir.canonicalize().map_err(no_folder)?;
        if !dir.is_dir() {
            return Err(no_folder(io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let config = Config::load(&dir)?;
        let environment = config::read_dotenv(&dir.join(".env"))?;
        Ok(Self { dir, config, environment })
    }

    /// The folder, absolute.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn name(&self) -> &str {
        &self.config.agent.name
    }

    pub fn cognets_dir(&self) -> PathBuf {
        self.dir.join("cognets")
    }

    pub fn sessions_dir(&self) -> PathBuf {
        self.dir.join("data").join("sessions")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.dir.join("data").join("state")
    }

    /// The cognet that is asked for, else the configured one, else the default.
    pub fn cognet(&self, asked: Option<&str>) -> Result<Found, CognetLookupError> {
        match asked.or(self.config.agent.cognet.as_deref()) {
            Some(name) => cognets::find(&self.cognets_dir(), name),
            None => cognets::default_for(&self.cognets_dir()),
        }
    }

    /// The user's identity text, `""` without `boot.md`.
    pub fn base(&self) -> Result<String, AgentError> {
        let path = self.dir.join("boot.md");
        match files::read_text(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(AgentError::Unreadable { path, source }),
        }
    }

    pub fn policy(&self) -> Result<Policy, AgentError> {
        Ok(Policy::new(&self.dir, policy_rules(&self.config.policy))?)
    }

    /// Everything that blocks can call: the built-in tools under the agent's policy, and those in `tools/`.
    pub async fn toolbox(
        &self,
        approver: Arc<dyn Approver>,
        observer: Arc<dyn ToolObserver>,
    ) -> Result<Toolbox, AgentError> {
        let policy = self.policy()?;
        let settings = OwnSettings {
            agent_dir: self.dir.clone(),
            launch: launch()?,
            limits: self.block_limits(),
            grants: self.config.tools.iter().map(|(name, grants)| (name.clone(), self.own_grants(grants))).collect(),
        };
        let own = OwnTools::load(settings, approver.clone(), observer).await?;
        Ok(Toolbox::with_own(policy, approver, own, self.secrets()))
    }

    fn own_grants(&self, grants: &ToolGrants) -> OwnGrants {
        OwnGrants {
            rules: PolicyRules {
                fs_read: grants.fs.read.clone(),
                fs_write: grants.fs.write.clone(),
                net: grants.net.clone(),
                run: grants.run.clone(),
                tools: Vec::new(),
            },
            env: grants.env.iter().filter_map(|name| Some((name.clone(), self.variable(name)?))).collect(),
        }
    }

    /// What has to stay out of the log and out of a model's sight: the engine's key and what tools are given.
    pub(crate) fn secrets(&self) -> Secrets {
        let engine = self.config.engine.api_key_env.iter();
        let tools = self.config.tools.values().flat_map(|grants| &grants.env);
        Secrets::new(engine.chain(tools).filter_map(|name| Some((name.clone(), self.variable(name)?))))
    }

    /// The engine that is asked for (`--engine`), else the configured one; `None` when there is neither.
    pub(crate) fn engine(
        &self,
        asked: Option<&str>,
        facts: Arc<dyn SessionFacts>,
    ) -> Result<Option<Engine>, AgentError> {
        let mut spec = engine_spec(&self.config.engine);
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        match Engine::from_spec(spec, &self.dir, &|name| self.variable(name), facts) {
            Ok(engine) => Ok(Some(engine)),
            Err(EngineConfigError::NotConfigured) => Ok(None),
            // A brain that never asks a model runs without the key.
            Err(error @ EngineConfigError::MissingKey { .. }) => Ok(Some(Engine::unavailable(&error))),
            Err(error) => Err(error.into()),
        }
    }

    /// What the engine is called, once it is known that it can be made. A missing key is told, too.
    pub(crate) fn engine_name(&self, asked: Option<&str>) -> Result<Option<String>, AgentError> {
        struct NoFacts;
        impl SessionFacts for NoFacts {
            fn last_result(&self) -> Option<String> {
                None
            }
            fn last_stimulus(&self) -> Option<String> {
                None
            }
        }
        let mut spec = engine_spec(&self.config.engine);
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        match Engine::from_spec(spec, &self.dir, &|name| self.variable(name), Arc::new(NoFacts)) {
            Ok(engine) => {
                let (provider, model) = engine.describe();
                Ok(Some(format!("{provider}, model {model}")))
            }
            Err(EngineConfigError::NotConfigured) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The limits of the agent's brain.
    pub(crate) fn brain_limits(&self) -> axon_runtime::Limits {
        let config = &self.config.cognet;
        axon_runtime::Limits {
            memory_bytes: mebibytes(config.memory_mb),
            cpu: Duration::from_millis(config.cpu_ms),
            ..Default::default()
        }
    }

    /// The limits of each of the agent's blocks.
    pub(crate) fn block_limits(&self) -> axon_capsule::Limits {
        let config = &self.config.capsule;
        axon_capsule::Limits {
            timeout: Duration::from_millis(config.timeout_ms),
            total_timeout: Duration::from_millis(config.total_timeout_ms),
            memory_bytes: mebibytes(config.memory_mb),
            max_output_bytes: count(config.max_output_bytes),
            max_source_bytes: count(config.max_source_bytes),
            max_concurrent_blocks: count(config.max_concurrent_blocks),
            max_tool_calls: count(config.max_tool_calls),
        }
    }

    /// Whether everything that an engine is made of is as in `other`.
    pub(crate) fn has_engine_of(&self, other: &Self) -> bool {
        self.config.engine == other.config.engine && self.environment == other.environment
    }

    /// A variable of the environment, else of `.env`.
    pub fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().or_else(|| self.environment.get(name).cloned())
    }
}

/// How a capsule's process is started.
pub(crate) fn launch() -> Result<Launch, AgentError> {
    let program = std::env::current_exe().map_err(AgentError::NoProgram)?;
    Ok(Launch { program, args: vec![HOST_COMMAND.to_owned()] })
}

/// Configured numbers are bounded when they are read; more than fits is as good as no limit.
fn count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn mebibytes(number: u64) -> usize {
    count(number.saturating_mul(1 << 20))
}

fn engine_spec(config: &EngineConfig) -> EngineSpec {
    EngineSpec {
        provider: config.provider.map(|provider| provider.as_str().to_owned()),
        model: config.model.clone(),
        base_url: config.base_url.clone(),
        api_key_env: config.api_key_env.clone(),
        script: config.script.as_ref().map(PathBuf::from),
        timeouts: Timeouts {
            connect: Duration::from_millis(config.timeouts.connect_ms),
            first_token: Duration::from_millis(config.timeouts.first_token_ms),
            silence: Duration::from_millis(config.timeouts.silence_ms),
        },
        headers: config.headers.clone(),
    }
}

fn policy_rules(config: &PolicyConfig) -> PolicyRules {
    let rule = |rule| match rule {
        config::Rule::Allow => policy::Rule::Allow,
        config::Rule::Ask => policy::Rule::Ask,
        config::Rule::Deny => policy::Rule::Deny,
    };
    PolicyRules {
        fs_read: config.fs.read.clone(),
        fs_write: config.fs.write.clone(),
        net: config.net.clone(),
        run: config.run.clone(),
        tools: config.tools.iter().map(|(pattern, named)| (pattern.clone(), rule(*named))).collect(),
    }
}
