//! An agent folder: its configuration, and what follows from it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use crate::{
    cognets::{self, CognetLookupError, Found},
    config::{self, Config, ConfigError},
    engine::{Engine, EngineConfigError, EngineSpec, SessionFacts},
    policy::{Policy, PolicyError},
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
    Engine(#[from] EngineConfigError),
    #[error(transparent)]
    Cognet(#[from] CognetLookupError),
    #[error("{} could not be read: {source}", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
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

    /// The configured name, else the folder's.
    pub fn name(&self) -> String {
        match &self.config.agent.name {
            Some(name) => name.clone(),
            None => self.dir.file_name().map_or_else(|| "agent".into(), |name| name.to_string_lossy().into_owned()),
        }
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
        match fs::read_to_string(&path) {
            Ok(text) => Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(source) => Err(AgentError::Unreadable { path, source }),
        }
    }

    pub fn policy(&self) -> Result<Policy, AgentError> {
        Ok(Policy::new(&self.dir, self.config.policy.clone().into())?)
    }

    /// The engine that is asked for (`--engine`), else the configured one; `None` when there is neither.
    pub(crate) fn engine(
        &self,
        asked: Option<&str>,
        facts: std::sync::Arc<dyn SessionFacts>,
    ) -> Result<Option<Engine>, AgentError> {
        let mut spec: EngineSpec = self.config.engine.clone().into();
        if let Some(asked) = asked {
            spec.override_with(asked)?;
        }
        if spec.provider.is_none() {
            return Ok(None);
        }
        Ok(Some(Engine::from_spec(spec, &self.dir, &|name| self.variable(name), facts)?))
    }

    /// A variable of the environment, else of `.env`.
    pub fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().or_else(|| self.environment.get(name).cloned())
    }
}
