//! `axon log`: sessions as people read them.

use std::{io, path::PathBuf};

use serde_json::{Value, json};

use super::{
    args::{Common, Filter, LogCommand},
    console::{Console, harmless, timestamp},
    failure::{Exit, Failure},
    interrupt::Interrupts,
    run::no_session,
    timeline::Timeline,
};
use crate::{
    agent::Agent,
    log::{self, Envelope, Follow, SessionId, SessionInfo, SessionReader},
};

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
            console.line(&as_json(&session).to_string())?;
        } else {
            console.line(&as_line(&session))?;
        }
    }
    Ok(())
}

fn as_json(session: &SessionInfo) -> Value {
    json!({
        "id": session.id.as_str(),
        "bytes": session.bytes,
        "firstMs": session.first_ms,
        "lastMs": session.last_ms,
        "lastSeq": session.last_seq,
        "title": session.title,
    })
}

/// Id, when it was last written, how many lines, and what began it.
fn as_line(session: &SessionInfo) -> String {
    let when = session.last_ms.map_or_else(|| "unreadable".to_owned(), timestamp);
    let lines = session.last_seq.map_or(0, |seq| seq + 1);
    let title = session.title.as_deref().unwrap_or("-");
    format!("{:<36}  {when}  {lines:>6} lines  {}", session.id.as_str(), harmless(title))
}

fn show(common: &Common, agent: &Agent, id: Option<String>, filter: &Filter) -> Result<(), Failure> {
    let reader = SessionReader::open(&path_of(common, agent, id)?)?;
    let mut shown = Shown::new(common, filter);
    for line in reader {
        if let Some(envelope) = line?.envelope() {
            shown.show(&envelope)?;
        }
    }
    shown.finish()
}

async fn tail(common: &Common, agent: &Agent, id: Option<String>, filter: &Filter) -> Result<(), Failure> {
    let mut session = Follow::open(&path_of(common, agent, id)?)?;
    let interrupts = Interrupts::listen()?;
    let signal = interrupts.guard().signal();
    let mut shown = Shown::new(common, filter);
    loop {
        tokio::select! {
            line = session.next() => {
                let Some(envelope) = line?.envelope() else { continue };
                shown.show(&envelope)?;
                if envelope.kind == "axon:session:closed" {
                    shown.finish()?;
                }
            }
            () = signal.cancelled() => return shown.finish(),
        }
    }
}

/// The file of the named session, else of the last one.
fn path_of(common: &Common, agent: &Agent, id: Option<String>) -> Result<PathBuf, Failure> {
    let dir = agent.sessions_dir();
    let id = match id.as_ref().or(common.session.as_ref()) {
        Some(id) => SessionId::parse(id)?,
        None => log::last_session(&dir).ok_or_else(|| no_session(agent))?,
    };
    let path = log::session_path(&dir, &id);
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
