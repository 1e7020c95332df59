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
    let columns = Columns::of(&sessions);
    for session in &sessions {
        if common.json.is_some() {
            console.line(&as_json(session).to_string())?;
        } else {
            console.line(&columns.line(session))?;
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

/// The widest id that has its column; a longer one has a row of its own. Ids are ASCII.
const MAX_ID_COLUMNS: usize = 40;

/// In place of a time, of a session whose last line is cut off or broken: `axon log check` says more.
const TORN: &str = "torn last line";

/// Columns that a time takes.
const TIME_COLUMNS: usize = "2026-08-01T12:00:00Z".len();

/// How wide the columns of a list are.
pub(super) struct Columns {
    id: usize,
    lines: usize,
}

impl Columns {
    pub(super) fn of(sessions: &[SessionInfo]) -> Self {
        let ids = sessions.iter().map(|session| session.id.as_str().len()).filter(|len| *len <= MAX_ID_COLUMNS);
        let lines = sessions.iter().map(|session| lines_of(session).to_string().len());
        Self { id: ids.max().unwrap_or(0), lines: lines.max().unwrap_or(0) }
    }

    /// Id, when it was last written, how many lines, and what began it.
    pub(super) fn line(&self, session: &SessionInfo) -> String {
        let Self { id: id_columns, lines: line_columns } = *self;
        let id = session.id.as_str();
        let id = if id.len() > id_columns { format!("{id}\n{:id_columns$}", "") } else { format!("{id:<id_columns$}") };
        let when = session.last_ms.map_or_else(|| TORN.to_owned(), timestamp);
        let lines = lines_of(session);
        let title = harmless(session.title.as_deref().unwrap_or("-"));
        format!("{id}  {when:<TIME_COLUMNS$}  {lines:>line_columns$} lines  {title}")
    }
}

fn lines_of(session: &SessionInfo) -> u64 {
    session.last_seq.map_or(0, |seq| seq + 1)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::log::SessionId;

    #[test]
    fn whatever_the_ids_and_sizes_the_columns_stand_below_each_other() {
        let session = |id: &str, last_seq, last_ms| SessionInfo {
            id: SessionId::parse(id).unwrap(),
            path: id.into(),
            bytes: 1,
            modified: UNIX_EPOCH,
            first_ms: None,
            last_ms,
            last_seq,
            title: Some("漢字 and more".into()),
        };
        let sessions = [
            session("s", Some(9), Some(0)),
            session(&"a".repeat(36), Some(12_345_678), None),
            session(&"b".repeat(200), None, Some(1)),
        ];
        let columns = Columns::of(&sessions);
        let list: Vec<_> = sessions.iter().map(|session| columns.line(session)).collect();
        let rows: Vec<_> = list.iter().map(|line| line.lines().last().unwrap()).collect();
        let at = |row: &str, what: &str| row.find(what).unwrap_or_else(|| panic!("{what} in {row}"));
        assert!(rows.iter().all(|row| at(row, " lines  漢字") == at(rows[0], " lines  漢字")), "{rows:#?}");
        assert!(rows[0].starts_with("s ") && at(rows[0], "1970") == at(rows[2], "1970"), "{rows:#?}");
        assert!(list[2].starts_with(&format!("{}\n", "b".repeat(200))), "an id is never cut");
    }
}
