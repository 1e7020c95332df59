//! What the tests share.

use std::{
    fs,
    path::{Path, PathBuf},
};

use axon::log::{Envelope, Event, Fsync, Opened, SessionId, SessionLog, SessionReader};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder of sessions that is removed after the test.
pub struct Sessions(TempDir);

impl Sessions {
    pub fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    pub fn path(&self) -> PathBuf {
        self.dir().join("s.jsonl")
    }

    pub fn open(&self) -> SessionLog {
        self.reopen().0
    }

    /// Without syncs, which only a loss of power could tell from their absence.
    pub fn reopen(&self) -> (SessionLog, Opened) {
        SessionLog::open(self.dir(), id(), "agent", Fsync::Never).unwrap()
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// Every line, each of which must be whole.
    pub fn envelopes(&self) -> Vec<Envelope> {
        envelopes(&self.path())
    }
}

pub fn id() -> SessionId {
    SessionId::parse("s").unwrap()
}

pub fn envelopes(path: &Path) -> Vec<Envelope> {
    SessionReader::open(path).unwrap().map(|line| line.unwrap().envelope().unwrap()).collect()
}

pub fn text(content: impl Into<Value>) -> Event {
    Event::new("stimulus:text", json!({ "content": content.into() }))
}

pub fn telemetry(n: u64) -> Event {
    Event::new("cognet:log:info", json!({ "value": n }))
}

pub fn content(data: &Value) -> &str {
    data["content"].as_str().unwrap()
}

pub fn seqs(envelopes: &[Envelope]) -> Vec<u64> {
    envelopes.iter().map(|envelope| envelope.time.seq).collect()
}

/// `0..n`, which is what the seqs of a whole log are.
pub fn counted(n: usize) -> Vec<u64> {
    (0..n as u64).collect()
}
