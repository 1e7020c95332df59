//! An agent folder: its configuration, and what follows from it.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use axon_capsule::{HOST_COMMAND, Launch};
use axon_runtime::Location;

use crate::{
    cognets::{self, CognetLookupError, Found},
    config::{
        self, CONFIG_FILE, Config, ConfigError, DOTENV_FILE, DotenvError, EngineConfig, PolicyConfig, ToolGrants,
    },
    engine::{Engine, EngineConfigError, EngineSpec, NoFacts, Recording, SessionFacts, Timeouts},
    files,
    policy::{self, Approver, Owner, Policy, PolicyError, PolicyRules},
    secrets::Secrets,
    tools::{OwnGrants, OwnSettings, OwnTools, OwnToolsError, ToolObserver, Toolbox, refuse_impossible},
};

/// The user's identity text.
const BOOT_FILE: &str = "boot.md";

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
    Dotenv(#[from] DotenvError),
    /// A rule of `[policy]` that cannot be held.
    #[error("{0}")]
    Policy(ConfigError),
    /// What `[tools.NAME]` grants cannot be granted.
    #[error("{0}")]
    Grants(ConfigError),
    #[error("{error}")]
    Tools {
        error: OwnToolsError,
        /// The line of the first problem.
        source_line: Option<String>,
    },
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
            Self::Grants(_) | Self::Tools { .. } => "TOOLS_INVALID",
            Self::NoProgram(_) => "NO_PROGRAM",
            Self::Engine(_) => "ENGINE_INVALID",
            Self::Cognet(error) => error.code(),
            Self::Unreadable { .. } => "UNREADABLE",
        }
    }

    /// Where it is to be mended, as far as that is known; the message says so too. Files of the agent folder are named by
    /// their path in it, an engine's by its own.
    pub fn place(&self) -> Option<Location> {
        let at = |file: String, line: usize| Location {
            file,
            line: u32::try_from(line).unwrap_or(u32::MAX),
            source_line: None,
        };
        match self {
            Self::Config(error) | Self::Policy(error) | Self::Grants(error) => {
                let place = error.problems.iter().find_map(|problem| problem.place.as_ref())?;
                let source_line = Some(place.text.trim().to_owned());
                Some(Location { source_line, ..at(CONFIG_FILE.to_owned(), place.line) })
            }
            Self::Dotenv(DotenvError::Line { line, .. }) => Some(at(DOTENV_FILE.to_owned(), *line)),
            Self::Tools { error: OwnToolsError::Problems(problems), source_line } => {
                let problem = problems.first()?;
                let at = at(format!("tools/{}", problem.path), problem.line);
                Some(Location { source_line: source_line.clone(), ..at })
            }
            Self::Engine(EngineConfigError::InvalidScript { path, line, source_line, .. }) => {
                Some(Location { source_line: source_line.clone(), ..at(path.display().to_string(), *line) })
            }
            Self::Engine(EngineConfigError::InvalidRecording { path, line, .. }) => {
                Some(at(path.display().to_string(), *line))
            }
            _ => None,
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
        let environment = config::read_dotenv(&dir.join(DOTENV_FILE))?;
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
        let path = self.dir.join(BOOT_FILE);
        match files::read_text(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(AgentError::Unreadable { path: BOOT_FILE.into(), source }),
        }
    }

    /// # Errors
    /// [`AgentError::Policy`] for a rule that cannot be held, or that names what can never be a tool.
    pub fn policy(&self) -> Result<Policy, AgentError> {
        let refused = |error: PolicyError| AgentError::Policy(self.told_where(&["policy"], &error));
        for (pattern, _) in &self.config.policy.tools {
            refuse_impossible(pattern).map_err(refused)?;
        }
        Policy::new(&self.dir, policy_rules(&self.config.policy)).map_err(refused)
    }

    /// The rules of `[policy.tools]` that name none of the tools there are. They hold once there is one of that name.
    pub(crate) fn idle_rules(&self, toolbox: &Toolbox) -> Vec<ConfigError> {
        let idle = self.config.policy.tools.iter().filter_map(|(pattern, _)| toolbox.idle_rule(pattern));
        idle.map(|error| self.told_where(&["policy"], &error)).collect()
    }

    /// What is wrong with a rule, with its place in `axon.toml`. `table` is the one that the rules stand in.
    fn told_where(&self, table: &[&str], error: &PolicyError) -> ConfigError {
        let mut keys = table.to_vec();
        keys.extend(error.key.split('.').skip(1));
        let PolicyError { value, problem, remedy, .. } = error;
        let message = format!("{}: \"{value}\" {problem}; {remedy}", keys.join("."));
        // The rules of tools are keys and not items of a list.
        if error.key == "policy.tools" {
            keys.push(value);
        }
        ConfigError::at(&self.dir, &keys, Some(value), message)
    }

    /// Everything that blocks can call: the built-in tools under the agent's policy, and those in `tools/`.
    pub async fn toolbox(
        &self,
        approver: Arc<dyn Approver>,
        observer: Arc<dyn ToolObserver>,
    ) -> Result<Toolbox, AgentError> {
        self.toolbox_keeping(self.secrets(), approver, observer).await
    }

    /// The same, with the secrets of the session that they are called in.
    pub(crate) async fn toolbox_keeping(
        &self,
        secrets: Secrets,
        approver: Arc<dyn Approver>,
        observer: Arc<dyn ToolObserver>,
    ) -> Result<Toolbox, AgentError> {
        let policy = self.policy()?;
        let settings = OwnSettings {
            agent_dir: self.dir.clone(),
            launch: launch()?,
            limits: self.block_limits(),
            grants: self
                .config
                .tools
                .iter()
                .map(|(name, grants)| (name.clone(), self.own_grants(name, grants)))
                .collect(),
        };
        let own = OwnTools::load(settings, approver.clone(), observer).await.map_err(|error| match error {
            OwnToolsError::Grants { name, source } => AgentError::Grants(self.told_where(&["tools", &name], &source)),
            OwnToolsError::NoFile(ref name) => {
                AgentError::Grants(ConfigError::at(&self.dir, &["tools", name], None, error.to_string()))
            }
            error => AgentError::Tools { source_line: self.line_of(&error), error },
        })?;
        Ok(Toolbox::with_own(policy, approver, own, secrets))
    }

    /// The line of the first problem, to be shown.
    fn line_of(&self, error: &OwnToolsError) -> Option<String> {
        let OwnToolsError::Problems(problems) = error else { return None };
        let problem = problems.first()?;
        let text = files::read_text(&self.dir.join("tools").join(&problem.path)).ok()?;
        Some(text.lines().nth(problem.line.checked_sub(1)?)?.trim().to_owned())
    }

    fn own_grants(&self, name: &str, grants: &ToolGrants) -> OwnGrants {
        OwnGrants {
            rules: PolicyRules {
                owner: Owner::Tool(name.to_owned()),
                fs_read: grants.fs.read.clone(),
                fs_write: grants.fs.write.clone(),
                net: grants.net.clone(),
                run: grants.run.clone(),
                tools: Vec::new(),
            },
            env: grants.env.iter().filter_map(|name| Some((name.clone(), self.variable(name)?))).collect(),
        }
    }

    /// What has to stay out of the log and out of a model's sight.
    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::new(self.secret_variables())
    }

    /// The engine's key and what tools are given, with their values.
    pub(crate) fn secret_variables(&self) -> impl Iterator<Item = (String, String)> {
        let engine = self.config.engine.api_key_env.iter();
        let tools = self.config.tools.values().flat_map(|grants| &grants.env);
        engine.chain(tools).filter_map(|name| Some((name.clone(), self.variable(name)?)))
    }

    /// The engine that is asked for (`--engine`), else the configured one; `None` when there is neither. Its calls are put
    /// down in `recording`, if there is to be one.
    pub(crate) fn engine(
        &self,
        asked: Option<&str>,
        recording: Option<&Recording>,
        facts: Arc<dyn SessionFacts>,
    ) -> Result<Option<Engine>, AgentError> {
        let mut spec = engine_spec(&self.config.engine);
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        let engine = match Engine::from_spec(spec, &self.dir, &|name| self.variable(name), facts.clone()) {
            Ok(engine) => engine,
            Err(EngineConfigError::NotConfigured) => return Ok(None),
            // A brain that never asks a model runs without the key.
            Err(error @ EngineConfigError::MissingKey { .. }) => Engine::unavailable(&error),
            Err(error) => return Err(error.into()),
        };
        Ok(Some(match recording {
            Some(recording) => engine.recorded(recording.clone(), facts),
            None => engine,
        }))
    }

    /// What the engine is called, once it is known that it can be made. A missing key is told, too.
    pub(crate) fn engine_name(&self, asked: Option<&str>) -> Result<Option<String>, AgentError> {
        let mut spec = engine_spec(&self.config.engine);
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        match Engine::from_spec(spec, &self.dir, &|name| self.variable(name), Arc::new(NoFacts)) {
            Ok(engine) => {
                let (provider, model) = engine.describe();
                // A script that names no model is called after its provider.
                Ok(Some(if provider == model { provider.to_owned() } else { format!("{provider}, model {model}") }))
            }
            Err(EngineConfigError::NotConfigured) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the engine's server is, if it asks one, and the file that it is made of, if it is made of one.
    pub(crate) fn engine_parts(&self, asked: Option<&str>) -> Result<(Option<String>, Option<PathBuf>), AgentError> {
        let mut spec = engine_spec(&self.config.engine);
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        Ok((spec.address().map(str::to_owned), spec.file(Path::new(""))))
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

    /// Whether everything that an engine is made of is as in `other`, but for its files.
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
        recording: config.recording.as_ref().map(PathBuf::from),
        timeouts: Timeouts {
            connect: Duration::from_millis(config.timeouts.connect_ms),
            first_token: Duration::from_millis(config.timeouts.first_token_ms),
            silence: Duration::from_millis(config.timeouts.silence_ms),
        },
        headers: config.headers.clone(),
    }
}

/// The file that the engine reads, as [`Agent::engine`] chooses it; `None` for one that reads none. What is wrong with the
/// configuration is for whoever opens the agent to tell.
pub(crate) fn engine_file(agent_dir: &Path, asked: Option<&str>) -> Option<PathBuf> {
    let config = Config::load(agent_dir).map(|config| config.engine).unwrap_or_default();
    let mut spec = engine_spec(&config);
    if let Some(asked) = asked {
        spec.override_with(asked).ok()?;
    }
    spec.file(agent_dir)
}

fn policy_rules(config: &PolicyConfig) -> PolicyRules {
    let rule = |rule| match rule {
        config::Rule::Allow => policy::Rule::Allow,
        config::Rule::Ask => policy::Rule::Ask,
        config::Rule::Deny => policy::Rule::Deny,
    };
    PolicyRules {
        owner: Owner::Agent,
        fs_read: config.fs.read.clone(),
        fs_write: config.fs.write.clone(),
        net: config.net.clone(),
        run: config.run.clone(),
        tools: config.tools.iter().map(|(pattern, named)| (pattern.clone(), rule(*named))).collect(),
    }
}
