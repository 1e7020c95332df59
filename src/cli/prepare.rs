//! `axon prepare`: check everything without a model, and write types for editors.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axon_runtime::{Brain, DryKernel, Scope};

use super::{
    args::Common,
    console::{Console, YELLOW, harmless},
    failure::{Exit, Failure},
    types,
};
use crate::{
    agent::Agent,
    cognets::{self, Found},
    kernel::may_emit,
    policy::Unattended,
    tools::Unobserved,
};

pub(super) async fn prepare(common: &Common) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let mut report = Report { console: Console::stdout(), quiet: common.json.is_some() };
    report.good("axon.toml", "holds")?;
    agent.policy()?;
    let toolbox = agent.toolbox(Arc::new(Unattended), Arc::new(Unobserved)).await?;
    let scope = toolbox.scope();
    let idle = agent.idle_rules(&toolbox);
    toolbox.shutdown().await;
    for warning in idle {
        warn(&warning.to_string())?;
    }
    report.good("policy", &format!("grants {}", granted(&scope)))?;

    match agent.engine_name(common.engine.as_deref())? {
        Some(name) => report.good("engine", &name)?,
        None => report.good("engine", "none, so only brains that ask no model work")?,
    }

    let chosen = agent.cognet(common.cognet.as_deref())?;
    let mut all = cognets::installed(&agent.cognets_dir())?;
    if common.cognet.is_some() {
        all.clear();
    }
    if !all.iter().any(|found| found.name == chosen.name) {
        all.push(chosen);
    }
    let mut failures = Vec::new();
    for found in &all {
        match check(&agent, found, &scope).await {
            Ok(identity) => report.good(&format!("cognet {}", found.name), &identity)?,
            Err(failure) => failures.push(failure),
        }
    }
    types::write(agent.dir(), &scope)?;
    report.good("types", "written to .axon/")?;

    // The program reports the last one as it ends.
    let last = failures.pop();
    for failure in failures {
        failure.report(common.json.is_some());
    }
    last.map_or(Ok(()), Err)
}

/// Loads a cognet for real, with nothing behind its verbs.
async fn check(agent: &Agent, found: &Found, scope: &Scope) -> Result<String, Failure> {
    let kernel = Arc::new(DryKernel { base: agent.base()?, scope: scope.clone(), may_emit });
    let failed = |error| Failure::cognet(Exit::Usage, error);
    let brain = Brain::load(&found.source, kernel, agent.brain_limits()).await.map_err(failed)?;
    let config = brain.config();
    let identity = format!("loads: {} {}, ABI {}", config.name, config.version, config.abi);
    brain.shutdown().await.map_err(failed)?;
    Ok(identity)
}

fn granted(scope: &Scope) -> String {
    let members: Vec<_> = scope
        .modules
        .iter()
        .flat_map(|module| module.members.iter().map(move |member| format!("{}.{}", module.name, member.name)))
        .collect();
    if members.is_empty() { "no tool".to_owned() } else { members.join(", ") }
}

/// Something that holds and is perhaps not what was meant.
fn warn(what: &str) -> io::Result<()> {
    let what = harmless(what);
    writeln!(anstream::stderr().lock(), "{YELLOW}warning:{YELLOW:#} {what}")
}

struct Report {
    console: Console,
    quiet: bool,
}

impl Report {
    fn good(&mut self, what: &str, how: &str) -> io::Result<()> {
        if self.quiet { Ok(()) } else { self.console.line(&format!("ok  {what}: {how}")) }
    }
}
