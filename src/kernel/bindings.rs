//! The bindings of a session's blocks, kept in a file: a cache beside the log, which may be deleted at any time.
//!
//! The bytes are the capsule's; the kernel does not look into them.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use axon_capsule::{Bindings, Capsule, ENGINE, MAX_BINDINGS_BYTES, Rebinding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;

use super::Recorder;
use crate::{
    files,
    log::{Event, LogError, SessionLog},
};

/// No cognet's state has this name: theirs have no `@`.
const FOLDER: &str = "@bindings";

/// The first line of a file; it names the engine, for no engine reads what another has written.
fn heading() -> String {
    format!("axon bindings 1 {ENGINE}\n")
}

/// A session's file of bindings.
#[derive(Clone)]
pub(crate) struct BindingsFile {
    path: PathBuf,
    /// Held while it is written, so that the newest bindings are the last ones written.
    writing: Arc<Mutex<()>>,
}

/// The telemetry of changed bindings. A log that has it and no file has lost them.
const CHANGED: &str = "capsule:bindings";

/// What there was to load.
#[derive(Debug)]
enum Loaded {
    Bindings(Bindings),
    Nothing,
    /// There is a file that cannot be used, and why.
    Unusable(String),
}

impl BindingsFile {
    /// The file of a session under `data/state`.
    pub(crate) fn of_session(state: &Path, session: &str) -> Self {
        Self { path: state.join(FOLDER).join(session), writing: Arc::default() }
    }

    /// Hands the capsule what earlier processes of this session have kept, or says in the log that it is lost.
    pub(crate) fn restore(&self, capsule: &Capsule, log: &SessionLog) -> Result<(), LogError> {
        let why = match self.load() {
            Loaded::Bindings(bindings) => {
                capsule.restore(bindings);
                return Ok(());
            }
            Loaded::Nothing if log.newest_seq(CHANGED).is_none() => return Ok(()),
            Loaded::Nothing => "their file is gone".to_owned(),
            Loaded::Unusable(why) => format!("their file cannot be used: {why}"),
        };
        let message = format!(
            "What earlier blocks of this session declared is lost ({why}). Declare again what is needed; nothing else \
             is affected."
        );
        log.append(Event::new("system:notice", json!({ "code": "BINDINGS_LOST", "message": message })))?;
        // Said once; where it cannot be written it is said again the next time.
        let _ = self.save(&Bindings::default());
        Ok(())
    }

    fn load(&self) -> Loaded {
        let bytes = match fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Nothing,
            Err(error) => return Loaded::Unusable(error.to_string()),
        };
        let heading = heading();
        let Some(rest) = bytes.strip_prefix(heading.as_bytes()) else {
            return Loaded::Unusable("it was written by another version or engine".to_owned());
        };
        let Some((sum, body)) = rest.split_first_chunk::<32>() else {
            return Loaded::Unusable("it is damaged".to_owned());
        };
        if Sha256::digest(body)[..] != sum[..] {
            return Loaded::Unusable("it is damaged".to_owned());
        }
        match Bindings::decode(body) {
            Ok(bindings) => Loaded::Bindings(bindings),
            Err(error) => Loaded::Unusable(error.to_string()),
        }
    }

    /// Writes the capsule's bindings as they are now, after a block has changed them.
    pub(super) async fn keep(&self, capsule: &Capsule, recorder: &Recorder, rebinding: &Rebinding) {
        let _writing = self.writing.lock().await;
        let bindings = capsule.bindings();
        let mut data = json!({
            "kept": rebinding.kept,
            "forgotten": rebinding.forgotten,
            "dropped": rebinding.dropped.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            "bytes": bindings.bytes(),
        });
        let file = self.clone();
        let saved = tokio::task::spawn_blocking(move || file.save(&bindings)).await;
        if let Err(error) = saved.map_err(io::Error::other).and_then(|saved| saved) {
            data["notSaved"] = error.to_string().into();
        }
        recorder.emit(CHANGED, data);
    }

    /// Replaces the file as a whole. It survives the death of this process; what the machine loses with its power is
    /// told when the session is opened again.
    fn save(&self, bindings: &Bindings) -> io::Result<()> {
        let body = bindings.encode();
        let mut bytes = heading().into_bytes();
        bytes.extend_from_slice(&Sha256::digest(&body));
        bytes.extend_from_slice(&body);
        files::replace(&self.path, &bytes)
    }
}

/// What the model should know of bindings that were dropped.
pub(super) fn dropped_notice(rebinding: &Rebinding) -> Option<Value> {
    if rebinding.dropped.is_empty() {
        return None;
    }
    let size = |bytes: u64| match usize::try_from(bytes).unwrap_or(usize::MAX) {
        // It was measured no further.
        MAX_BINDINGS_BYTES.. => format!("over {} MiB", MAX_BINDINGS_BYTES >> 20),
        _ => format!("{} KiB", bytes >> 10),
    };
    let names: Vec<_> = rebinding.dropped.iter().map(|(name, bytes)| format!("{name} ({})", size(*bytes))).collect();
    let message = format!(
        "Declarations hold at most {} MiB together, so the largest were dropped: {}. Later blocks do not have them.",
        MAX_BINDINGS_BYTES >> 20,
        names.join(", ")
    );
    Some(json!({ "code": "BINDINGS_DROPPED", "message": message }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_in_any_byte_is_unusable_and_never_loaded() {
        let dir = tempfile::tempdir().unwrap();
        let file = BindingsFile::of_session(dir.path(), "session");
        assert!(matches!(file.load(), Loaded::Nothing));
        file.save(&Bindings::default()).unwrap();
        assert!(matches!(file.load(), Loaded::Bindings(bindings) if bindings.is_empty()));
        let whole = fs::read(&file.path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(&file.path, &damaged).unwrap();
            assert!(matches!(file.load(), Loaded::Unusable(_)), "byte {at}");
            fs::write(&file.path, &whole[..at]).unwrap();
            assert!(matches!(file.load(), Loaded::Unusable(_)), "{at} bytes");
        }
    }
}
