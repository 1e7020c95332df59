//! `axon log list`: the sessions of an agent.

use serde_json::{Value, json};

use crate::{
    agent::Agent,
    cli::{
        args::Common,
        console::{Console, harmless, timestamp},
        failure::Failure,
        run::no_session,
    },
    log::{self, SessionInfo},
};

pub(super) fn list(common: &Common, agent: &Agent) -> Result<(), Failure> {
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

pub(super) fn as_json(session: &SessionInfo) -> Value {
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
pub(super) fn as_line(session: &SessionInfo) -> String {
    let when = session.last_ms.map_or_else(|| "unreadable".to_owned(), timestamp);
    let lines = session.last_seq.map_or(0, |seq| seq + 1);
    let title = session.title.as_deref().unwrap_or("-");
    format!("{:<36}  {when}  {lines:>6} lines  {}", session.id.as_str(), harmless(title))
}
