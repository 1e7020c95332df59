//! Hot reload: another brain is loaded beside the one that serves, and takes its place between two wakes, or not at all.
//!
//! A [`Reloader`] looks at the agent folder and loads, whatever the session does meanwhile; the [`Candidate`] that it answers
//! is put to service by [`Session::adopt`]. Policy alone does not wait: what a person takes away is gone from the next
//! tool call on.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axon_runtime::{Brain, CognetError, Limits};
use serde_json::{Value, json};

use super::{Asked, Session, Survey, load, millis, unload};
use crate::{
    agent::{Agent, AgentError},
    cognets::Found,
    config::{CONFIG_FILE, Config, ConfigError},
    engine::Engine,
    kernel::{Actions, CognetKernel, Recorder},
    log::LogError,
    store::Store,
    tools::Toolbox,
};

/// What the top level of a cognet's files may take while it is reloaded, in CPU time: an endless loop there is told of soon.
/// Boot hooks have what `cpu_ms` gives.
const TOP_LEVEL_CPU: Duration = Duration::from_millis(250);

/// The code of the notice that tells a brain that it is new.
const RELOADED: &str = "COGNET_RELOADED";

/// Loads brains for one session, one at a time, as the agent folder changes.
pub struct Reloader {
    dir: PathBuf,
    asked: Asked,
    recorder: Recorder,
    actions: Arc<Actions>,
    toolbox: Toolbox,
    service: Arc<Mutex<Service>>,
    /// What the last attempt has seen.
    tried: Survey,
}

/// What the session runs on.
struct Service {
    survey: Survey,
    agent: Agent,
    found: Found,
    engine: Option<Engine>,
    generation: u32,
    /// The configuration whose rights are in place, and the files of the tools that are: they may be newer than the brain.
    rights: Config,
    tools: Survey,
}

/// When there is something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// If the content of a file has changed that concerns the brain.
    IfChanged,
    Always,
}

/// What became of a look at the agent folder.
pub enum Reload {
    /// There is nothing to do: the brain in service, or the failure told last, is of these very files.
    Unchanged,
    /// The files are again those of the brain in service, after others.
    Restored,
    /// A brain that may take over.
    Ready(Box<Candidate>),
    /// The brain in service stays. It is in the log.
    Failed(ReloadError),
}

/// A brain that is loaded and does not serve yet.
pub struct Candidate {
    brain: Brain,
    kernel: Arc<CognetKernel>,
    found: Found,
    agent: Agent,
    survey: Survey,
    changed: Vec<String>,
    took: Duration,
    service: Arc<Mutex<Service>>,
}

/// A reload that has taken place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    pub generation: u32,
    /// The files that are not as they were, by their path in the agent folder.
    pub changed: Vec<String>,
    /// Reading, loading, and taking over; waiting for a wake to end does not count.
    pub took: Duration,
    /// Keys of `axon.toml` that have changed and hold from the next start on.
    pub at_next_start: Vec<&'static str>,
    /// Rules of `[policy.tools]` that name no tool as things are, where the files that say so have changed.
    pub idle_rules: Vec<ConfigError>,
    /// What the old brain's shutdown hooks raised.
    pub unload_error: Option<Box<CognetError>>,
}

/// Why a brain was not reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Cognet(#[from] Box<CognetError>),
}

impl Session {
    /// Loads brains for this session. `survey` was taken before the session was opened: what has changed since will be seen.
    ///
    /// # Errors
    /// The agent folder can no longer be read.
    pub fn reloader(&self, agent: Agent, survey: Survey) -> Reloader {
        let service = Service {
            survey: survey.clone(),
            found: self.found.clone(),
            engine: self.kernel.engine().cloned(),
            generation: self.generation,
            rights: agent.config().clone(),
            tools: survey.clone(),
            agent,
        };
        Reloader {
            dir: service.agent.dir().to_owned(),
            asked: self.asked.clone(),
            recorder: self.bench.recorder.another(),
            actions: self.bench.actions.clone(),
            toolbox: self.bench.toolbox.clone(),
            service: Arc::new(Mutex::new(service)),
            tried: survey,
        }
    }

    /// Puts a brain to service: the old one's shutdown hooks run, and its VM is gone when this returns.
    pub async fn adopt(&mut self, candidate: Box<Candidate>) -> Result<Reloaded, LogError> {
        let started = Instant::now();
        let Candidate { brain, kernel, found, agent, survey, changed, took, service } = *candidate;
        let generation = self.generation + 1;
        let config = &agent.config().cognet;
        self.wake_on = config.wake_on.clone().or_else(|| brain.config().wake_on.clone());
        self.period = Duration::from_millis(config.tick_ms);
        let old_brain = std::mem::replace(&mut self.brain, brain);
        let old_kernel = std::mem::replace(&mut self.kernel, kernel);
        let old_generation = std::mem::replace(&mut self.generation, generation);
        self.found = found;
        let unloaded = unload(old_brain, &old_kernel, old_generation).await;

        let idle_rules = agent.idle_rules(&self.bench.toolbox);
        let at_next_start = {
            let mut service = lock(&service);
            let at_next_start = at_next_start(service.agent.config(), agent.config());
            service.engine = self.kernel.engine().cloned();
            service.found = self.found.clone();
            service.survey = survey;
            service.agent = agent;
            service.generation = generation;
            at_next_start
        };
        let of_rules = |file: &String| file == CONFIG_FILE || file.starts_with("tools/");
        let idle_rules = if changed.iter().any(of_rules) { idle_rules } else { Vec::new() };
        let took = took + started.elapsed();
        let message = format!("the cognet was reloaded (generation {generation}); changed: {}", listed(&changed));
        self.bench.recorder.commit("system:notice", json!({ "code": RELOADED, "message": message })).await?;
        let data = json!({ "generation": generation, "changed": changed, "durationMs": millis(took) });
        self.bench.recorder.emit("axon:reload:complete", data);
        Ok(Reloaded {
            generation,
            changed,
            took,
            at_next_start,
            idle_rules,
            unload_error: unloaded.err().map(Box::new),
        })
    }
}

impl Reloader {
    /// Loads what is in the agent folder, of which `survey` was just taken. Whoever drops the future gives the attempt up, and
    /// the next one begins anew.
    pub async fn reload(&mut self, survey: Survey, demand: Demand) -> Reload {
        match demand {
            Demand::Always => self.load(survey, Instant::now(), demand).await,
            Demand::IfChanged if survey == self.tried => Reload::Unchanged,
            Demand::IfChanged => self.attempt(survey).await,
        }
    }

    async fn attempt(&mut self, survey: Survey) -> Reload {
        let started = Instant::now();
        let (changed, same_engine, of_cognet) = {
            let Service { survey: before, found, .. } = &*lock(&self.service);
            (survey.changed_since(before), survey.has_engine_file_of(before), found.clone())
        };
        let concerns = |file: &String| !file.starts_with("cognets/") || is_of(&of_cognet, file);
        if !changed.iter().any(concerns) && same_engine && self.chooses(&of_cognet) {
            // Files that failed may have brought rights that these have not.
            if let Ok(agent) = self.open_agent()
                && let Err(error) = self.put_rights(&agent, &survey, Demand::IfChanged).await
            {
                return self.failed(survey, &changed, started, error.into());
            }
            self.tried = survey.clone();
            lock(&self.service).survey = survey;
            return if changed.is_empty() { Reload::Restored } else { Reload::Unchanged };
        }
        self.load(survey, started, Demand::IfChanged).await
    }

    /// The cognet that is to serve. One of the agent's own that nobody has named stays chosen: a file that is gone for a
    /// moment, while it is saved, must not bring another brain to service.
    fn choose(&self, agent: &Agent, in_service: &Found) -> Result<Found, AgentError> {
        let named = self.asked.cognet.as_deref().or(agent.config().agent.cognet.as_deref());
        let own = (!in_service.is_bundled()).then_some(in_service.name.as_str());
        Ok(agent.cognet(named.or(own))?)
    }

    /// Whether this cognet would be chosen now.
    fn chooses(&self, found: &Found) -> bool {
        self.choose(&lock(&self.service).agent, found)
            .is_ok_and(|now| now.name == found.name && now.source == found.source)
    }

    /// The agent folder as it is now. Its secrets are kept from here on, by whatever was made before them too and whatever
    /// becomes of the reload.
    fn open_agent(&self) -> Result<Agent, AgentError> {
        let agent = Agent::open(&self.dir)?;
        self.recorder.secrets().learn(agent.secret_variables());
        Ok(agent)
    }

    /// Puts in place what blocks may call, as far as it has changed: first the policy, which holds whatever becomes of the rest.
    async fn put_rights(&self, agent: &Agent, survey: &Survey, demand: Demand) -> Result<(), AgentError> {
        let policy = agent.policy()?;
        let new = agent.config();
        let (policy_changed, tools_changed) = {
            let service = lock(&self.service);
            let always = demand == Demand::Always;
            let of_tools = |file: &String| file.starts_with("tools/") || file == ".env";
            let files_changed = survey.changed_since(&service.tools).iter().any(of_tools);
            (
                always || service.rights.policy != new.policy,
                always || service.rights.tools != new.tools || files_changed,
            )
        };
        if policy_changed {
            self.toolbox.replace_policy(policy);
            lock(&self.service).rights.policy = new.policy.clone();
        }
        if tools_changed {
            let secrets = self.recorder.secrets().clone();
            let observer = Arc::new(self.recorder.another());
            let toolbox = agent.toolbox_keeping(secrets, self.asked.approver.clone(), observer).await?;
            self.toolbox.replace_with(&toolbox);
            let mut service = lock(&self.service);
            service.rights.tools = new.tools.clone();
            service.tools = survey.clone();
        }
        Ok(())
    }

    async fn load(&mut self, survey: Survey, started: Instant, demand: Demand) -> Reload {
        let (changed, generation) = {
            let service = lock(&self.service);
            (survey.changed_since(&service.survey), service.generation + 1)
        };
        match self.build(generation, &survey, demand).await {
            Ok((brain, kernel, found, agent)) => {
                self.tried = survey.clone();
                let took = started.elapsed();
                let service = self.service.clone();
                Reload::Ready(Box::new(Candidate { brain, kernel, found, agent, survey, changed, took, service }))
            }
            Err(error) => self.failed(survey, &changed, started, error),
        }
    }

    fn failed(&mut self, survey: Survey, changed: &[String], started: Instant, error: ReloadError) -> Reload {
        self.tried = survey;
        let data = json!({
            "generation": lock(&self.service).generation + 1,
            "changed": changed,
            "durationMs": millis(started.elapsed()),
            "error": described(&self.dir, &error),
        });
        self.recorder.emit("axon:reload:failed", data);
        Reload::Failed(error)
    }

    async fn build(
        &self,
        generation: u32,
        survey: &Survey,
        demand: Demand,
    ) -> Result<(Brain, Arc<CognetKernel>, Found, Agent), ReloadError> {
        let agent = self.open_agent()?;
        self.put_rights(&agent, survey, demand).await?;
        let in_service = lock(&self.service).found.clone();
        let found = self.choose(&agent, &in_service)?;
        let recorder = self.recorder.another();
        let engine = {
            let service = lock(&self.service);
            // An engine that stays keeps its place, as in a script.
            let same = service.agent.has_engine_of(&agent) && survey.has_engine_file_of(&service.survey);
            same.then(|| service.engine.clone())
        };
        let engine = match engine {
            Some(engine) => engine,
            None => {
                let (asked, recording) = (self.asked.engine.as_deref(), self.asked.recording.as_ref());
                agent.engine(asked, recording, Arc::new(recorder.clone()))?
            }
        };
        let kernel = Arc::new(CognetKernel::new(
            recorder,
            self.actions.clone(),
            engine,
            self.toolbox.clone(),
            Store::of_cognet(&agent.state_dir(), found.state_name()),
            &agent.base()?,
        ));
        let limits = Limits { top_level_cpu: TOP_LEVEL_CPU, ..agent.brain_limits() };
        let brain = load(&kernel, &found, generation, limits).await?;
        Ok((brain, kernel, found, agent))
    }
}

impl Candidate {
    /// The files that are not as those of the brain in service.
    pub fn changed(&self) -> &[String] {
        &self.changed
    }
}

/// Whether a file below `cognets/` belongs to a cognet.
fn is_of(found: &Found, file: &str) -> bool {
    let Some(inner) = file.strip_prefix("cognets/") else { return false };
    let name = inner.split('/').next().unwrap_or(inner);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    found.name == name || found.name == stem
}

/// What of the configuration a session cannot change while it is open.
fn at_next_start(before: &Config, after: &Config) -> Vec<&'static str> {
    let mut keys = Vec::new();
    if before.agent.name != after.agent.name {
        keys.push("[agent] name");
    }
    if before.capsule != after.capsule {
        keys.push("[capsule]");
    }
    if before.session != after.session {
        keys.push("[session]");
    }
    keys
}

fn described(dir: &Path, error: &ReloadError) -> Value {
    match error {
        ReloadError::Cognet(error) => json!(error),
        ReloadError::Agent(error) => {
            let mut data = json!({ "code": error.code(), "message": error.to_string() });
            if let Some(mut place) = error.place() {
                if let Ok(inside) = Path::new(&place.file).strip_prefix(dir) {
                    place.file = inside.display().to_string();
                }
                data["at"] = json!(place);
            }
            data
        }
    }
}

fn listed(changed: &[String]) -> String {
    if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") }
}

fn lock(service: &Mutex<Service>) -> MutexGuard<'_, Service> {
    service.lock().unwrap_or_else(PoisonError::into_inner)
}
