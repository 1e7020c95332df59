//! `axon log prune`: removes old sessions, or tells which it would.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{
    args::Limits,
    list::{Columns, as_json},
};
use crate::{
    agent::Agent,
    cli::{args::Common, console::Console, failure::Failure},
    log::{self, LogError, SessionInfo},
};

pub(super) fn prune(common: &Common, agent: &Agent, limits: &Limits, delete: bool) -> Result<(), Failure> {
    let sessions = log::list_sessions(&agent.sessions_dir())?;
    let chosen = superfluous(&sessions, limits, SystemTime::now());
    let columns = Columns::of(&sessions);
    let mut console = Console::stdout();
    let (mut count, mut bytes) = (0u64, 0);
    for session in chosen {
        let removed = match delete {
            false => Ok(()),
            true => log::remove_session(&session.path),
        };
        let outcome = match removed {
            Ok(()) => {
                count += 1;
                bytes += session.bytes;
                if delete { "removed" } else { "would be removed" }
            }
            Err(LogError::Held { .. }) => "kept: somebody writes it",
            Err(error) => return Err(error.into()),
        };
        if common.json.is_some() {
            let mut told = as_json(session);
            told["outcome"] = json!(outcome);
            console.line(&told.to_string())?;
        } else {
            console.line(&format!("{}  {outcome}", columns.line(session)))?;
        }
    }
    if common.json.is_none() {
        let done = if delete { "removed" } else { "would be removed; --delete removes them" };
        console.line(&format!("{count} of {} sessions, {bytes} bytes, {done}", sessions.len()))?;
    }
    Ok(())
}

/// Which sessions are beyond the limits. `sessions` are the newest last.
fn superfluous<'a>(sessions: &'a [SessionInfo], limits: &Limits, now: SystemTime) -> Vec<&'a SessionInfo> {
    let is_old = |session: &SessionInfo| {
        let written = session.last_ms.map_or(session.modified, |ms| UNIX_EPOCH + Duration::from_millis(ms));
        limits.older_than.is_some_and(|limit| now.duration_since(written).is_ok_and(|age| age > limit))
    };
    let mut kept_bytes = 0;
    let mut is_full = false;
    let mut chosen = Vec::new();
    for session in sessions.iter().rev() {
        if is_old(session) {
            chosen.push(session);
            continue;
        }
        is_full |= limits.max_size.is_some_and(|limit| kept_bytes + session.bytes > limit);
        if is_full {
            chosen.push(session);
        } else {
            kept_bytes += session.bytes;
        }
    }
    chosen.reverse();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::SessionId;

    #[test]
    fn what_is_too_old_or_beyond_the_size_is_chosen_oldest_first() {
        let now = UNIX_EPOCH + Duration::from_secs(1_000);
        let session = |name: &str, age: u64, bytes| SessionInfo {
            id: SessionId::parse(name).unwrap(),
            path: name.into(),
            bytes,
            modified: now,
            first_ms: None,
            last_ms: Some((1_000 - age) * 1_000),
            last_seq: None,
            title: None,
        };
        let sessions = [session("a", 900, 10), session("b", 500, 10), session("c", 100, 10), session("d", 1, 10)];
        let chosen = |older_than: Option<u64>, max_size| {
            let limits = Limits { older_than: older_than.map(Duration::from_secs), max_size };
            superfluous(&sessions, &limits, now).iter().map(|session| session.id.to_string()).collect::<String>()
        };
        assert_eq!(chosen(Some(400), None), "ab");
        assert_eq!(chosen(Some(500), None), "a");
        assert_eq!(chosen(None, Some(25)), "ab");
        assert_eq!(chosen(Some(50), Some(100)), "abc");
        assert_eq!(chosen(None, Some(0)), "abcd");
        assert_eq!(chosen(Some(10_000), Some(40)), "");
    }
}
