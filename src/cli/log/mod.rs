//! `axon log`: sessions as people read and keep them. One file a command.

mod args;
mod check;
mod export;
mod flame;
mod list;
mod markdown;
mod prune;
mod show;
mod tail;
mod timeline;
mod turns;

use std::path::{Path, PathBuf};

use super::{
    args::Common,
    failure::{Exit, Failure},
    run::no_session,
};
use crate::{
    agent::Agent,
    log::{self, LogError, SessionId, SessionReader},
};

pub(super) use args::LogCommand;

/// What happened in a session so far, as `axon log show` tells it.
pub(super) fn conversation(path: &Path) -> Result<String, LogError> {
    let mut timeline = timeline::Timeline::default();
    let mut text = String::new();
    for line in SessionReader::open(path)? {
        if let Some(envelope) = line?.envelope()
            && envelope.is_entry()
        {
            text.push_str(&timeline.next(&envelope));
        }
    }
    text.push_str(&timeline.finish());
    Ok(text)
}

pub(super) async fn log(common: &Common, command: LogCommand) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let path = |id: Option<String>| path_of(common, &agent, id, log::last_session);
    match command {
        LogCommand::List => list::list(common, &agent),
        LogCommand::Show { id, filter, turns, expand } => {
            show::show(common, &path(id)?, &filter.with(common.json), turns, expand)
        }
        LogCommand::Tail { id, filter, turns } => {
            tail::tail(common, &path(id)?, &filter.with(common.json), turns).await
        }
        LogCommand::Export { id, selection, entries, markdown, expand } => {
            let path = path(id)?;
            if markdown {
                export::markdown(&path, &selection)
            } else {
                export::envelopes(&path, &selection, entries, expand)
            }
        }
        LogCommand::Check { id, repair } => check::check(common, &path(id)?, repair),
        LogCommand::Flame { id, run, all, output } => {
            let path = path_of(common, &agent, id, log::last_woken_session)?;
            flame::flame(&path, &flame::Wakes::chosen(run, all), output.as_deref())
        }
        LogCommand::Prune { limits, delete, dry_run: _ } => prune::prune(common, &agent, &limits, delete),
    }
}

/// The file of the named session, else of the last one.
pub(super) fn path_of(
    common: &Common,
    agent: &Agent,
    id: Option<String>,
    last: fn(&Path) -> Option<SessionId>,
) -> Result<PathBuf, Failure> {
    let dir = agent.sessions_dir();
    let id = match id.as_ref().or(common.session.as_ref()) {
        Some(id) => SessionId::parse(id)?,
        None => last(&dir).ok_or_else(|| no_session(agent))?,
    };
    let path = log::session_path(&dir, &id);
    if !path.exists() {
        let dir = dir.strip_prefix(agent.dir()).unwrap_or(&dir);
        let message = format!("there is no session {id} in {}", dir.display());
        return Err(Failure::new(Exit::Usage, "SESSION_NOT_FOUND", message).hint("`axon log list` lists them"));
    }
    Ok(path)
}
