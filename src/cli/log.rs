//! `axon log`: sessions as people read them.

use std::{io, path::PathBuf, time::Duration};

use super::{
    args::{Common, Filter, LogCommand},
    console::Console,
    failure::{Exit, Failure},
    interrupt::Interrupts,
    run::no_session,
    timeline::Timeline,
};
use crate::{
    agent::Agent,
    log::{self, Envelope, SessionId, SessionReader},
};

/// How often a followed session is looked at again.
const POLL: Duration = Duration::from_millis(100);

pub(super) async fn log(common: &Common, command: LogCommand) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    match command {
        LogCommand::List => list(common, &agent),
        LogCommand::Show { id, filter } => show(common, &agent, id, &filter),
        LogCommand::Tail { id, filter } => tail(common, &agent, id, &filter).await,
    }
}

fn list(common: &Common, agent: &Agent) -> Result<(), Failure> {
    let mut console = Console::stdout();
    let sessions = log::list_sessions(&agent.sessions_dir())?;
    if sessions.is_empty() && common.json.is_none() {
        return Err(no_session(agent));
    }
    for session in sessions {
        if common.json.is_some() {
            let json = serde_json::to_string(&session).map_err(io::Error::other)?;
            console.line(&json)?;
        } else {
            console.line(&session.to_string())?;
        }
    }
    Ok(())
}

fn show(common: &Common, agent: &Agent, id: Option<String>, filter: &Filter) -> Result<(), Failure> {
    let reader = SessionReader::open(&path_of(common, agent, id)?)?;
    let mut shown = Shown::new(common, filter);
    for envelope in reader {
        shown.show(&envelope?)?;
    }
    shown.finish()
}

async fn tail(common: &Common, agent: &Agent, id: Option<String>, filter: &Filter) -> Result<(), Failure> {
    let mut reader = SessionReader::open(&path_of(common, agent, id)?)?;
    let interrupts = Interrupts::listen()?;
    let abort = interrupts.guard();
    let mut shown = Shown::new(common, filter);
    loop {
        while let Some(envelope) = reader.next() {
            let envelope = envelope?;
            shown.show(&envelope)?;
            if envelope.kind == "axon:session:closed" {
                shown.finish()?;
            }
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = abort.signal().cancelled() => return shown.finish(),
        }
    }
}

/// The file of the named session, else of the last one.
fn path_of(common: &Common, agent: &Agent, id: Option<String>) -> Result<PathBuf, Failure> {
    let dir = agent.sessions_dir();
    let id = match id.as_ref().or(common.session.as_ref()) {
        Some(id) => SessionId::parse(id)?,
        None => log::last_session(&dir)?.ok_or_else(|| no_session(agent))?,
    };
    let path = id.path_in(&dir);
    if !path.exists() {
        let message = format!("there is no session {id} in {}", dir.display());
        return Err(Failure::new(Exit::Usage, "SESSION_NOT_FOUND", message).hint("`axon log list` lists them"));
    }
    Ok(path)
}

/// What passes the filter, in the form that is asked for.
struct Shown<'a> {
    filter: &'a Filter,
    json: bool,
    console: Console,
    timeline: Timeline,
}

impl<'a> Shown<'a> {
    fn new(common: &Common, filter: &'a Filter) -> Self {
        Self { filter, json: common.json.is_some(), console: Console::stdout(), timeline: Timeline::new() }
    }

    fn show(&mut self, envelope: &Envelope) -> Result<(), Failure> {
        if !self.filter.takes(&envelope.kind, envelope.is_entry()) {
            return Ok(());
        }
        if self.json {
            let line = serde_json::to_string(envelope).map_err(io::Error::other)?;
            self.console.raw(&format!("{line}\n"))?;
        } else {
            let text = self.timeline.next(envelope);
            self.console.raw(&text)?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        let rest = self.timeline.finish();
        Ok(self.console.raw(&rest)?)
    }
}
