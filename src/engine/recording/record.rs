//! Recording, while another provider answers.

use std::{
    borrow::Cow,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axon_runtime::BoxFuture;
use serde_json::Value;

use super::attempt::{Attempt, Delta, End, ProviderName, VERSION};
use crate::engine::{
    fault::Fault,
    provider::{ModelCall, ModelEvent, ModelStream, Provider},
    telemetry::SessionFacts,
};

/// A recording that is being made. Clones write to one file; dropped without a line in it, it is removed.
#[derive(Clone)]
pub struct Recording(Arc<Mutex<Tape>>);

struct Tape {
    path: PathBuf,
    file: File,
    lines: u64,
    bytes: u64,
    /// What kept a line from being written. Nothing is written after it.
    failure: Option<io::Error>,
}

impl Recording {
    /// Begins a recording in a new file.
    ///
    /// # Errors
    /// As of the file system; [`io::ErrorKind::AlreadyExists`] for a file that is there, which is left as it is.
    pub fn create(path: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new().write(true).create_new(true).open(path);
        let file = match opened {
            // One that was begun by a process that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_empty(path) => {
                OpenOptions::new().write(true).open(path)?
            }
            opened => opened?,
        };
        Ok(Self(Arc::new(Mutex::new(Tape { path: path.to_owned(), file, lines: 0, bytes: 0, failure: None }))))
    }

    /// How many attempts are in the file: all that have ended.
    ///
    /// # Errors
    /// What kept one from being written. It is told once.
    pub fn finish(&self) -> io::Result<u64> {
        let mut tape = self.tape();
        tape.failure.take().map_or(Ok(tape.lines), Err)
    }

    fn write(&self, attempt: &Attempt, facts: &dyn SessionFacts) {
        let mut tape = self.tape();
        if tape.failure.is_some() {
            return;
        }
        let line = serde_json::to_value(whole(attempt, facts)).map(|mut line| {
            facts.hide_secrets(&mut line);
            format!("{line}\n")
        });
        let written = line
            .map_err(io::Error::from)
            .and_then(|line| tape.file.write_all(line.as_bytes()).map(|()| line.len() as u64));
        match written {
            Ok(bytes) => {
                tape.lines += 1;
                tape.bytes += bytes;
            }
            Err(error) => {
                tape.failure = Some(error);
                // What is whole can be replayed. Where this fails, too, a last line that is not whole is passed over.
                let _ = tape.file.set_len(tape.bytes);
            }
        }
    }

    fn tape(&self) -> MutexGuard<'_, Tape> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempt, its text in one piece if a secret was split over several.
fn whole<'a>(attempt: &'a Attempt, facts: &dyn SessionFacts) -> Cow<'a, Attempt> {
    let hidden = |text: String| {
        let mut json = Value::String(text);
        facts.hide_secrets(&mut json);
        json
    };
    let joined = |wanted: fn(&Delta) -> Option<&str>| attempt.answer.iter().filter_map(wanted).collect::<String>();
    let text: fn(&Delta) -> Option<&str> = |delta| match delta {
        Delta::Text(text) => Some(text),
        Delta::Reasoning(_) => None,
    };
    let reasoning: fn(&Delta) -> Option<&str> = |delta| match delta {
        Delta::Text(_) => None,
        Delta::Reasoning(text) => Some(text),
    };
    let is_split = |wanted| {
        let pieces = attempt.answer.iter().filter_map(wanted).map(|piece: &str| hidden(piece.to_owned()));
        let pieces: String = pieces.filter_map(|piece| piece.as_str().map(str::to_owned)).collect();
        hidden(joined(wanted)) != pieces
    };
    if !is_split(text) && !is_split(reasoning) {
        return Cow::Borrowed(attempt);
    }
    let mut answer = vec![Delta::Reasoning(joined(reasoning)), Delta::Text(joined(text))];
    answer.retain(|delta| !matches!(delta, Delta::Text(text) | Delta::Reasoning(text) if text.is_empty()));
    Cow::Owned(Attempt { answer, ..attempt.clone() })
}

impl Drop for Tape {
    fn drop(&mut self) {
        if self.lines == 0 && is_same(&self.file, &self.path) {
            // A file that stays is empty, which does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn is_empty(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() == 0)
}

/// Whether the file is still the one at this path: another process may have put its own there.
fn is_same(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let (Ok(ours), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
        (ours.dev(), ours.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        file.metadata().is_ok() && is_empty(path)
    }
}

/// A provider whose attempts are recorded.
pub(in crate::engine) struct RecordingProvider {
    inner: Arc<dyn Provider>,
    recording: Recording,
    facts: Arc<dyn SessionFacts>,
}

impl RecordingProvider {
    pub fn new(inner: Arc<dyn Provider>, recording: Recording, facts: Arc<dyn SessionFacts>) -> Self {
        Self { inner, recording, facts }
    }
}

impl Provider for RecordingProvider {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn sent(&self, call: &ModelCall) -> Option<Value> {
        self.inner.sent(call)
    }

    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async move {
            let mut taken = Taken {
                attempt: Some(Attempt {
                    v: VERSION,
                    provider: ProviderName { name: self.name().to_owned(), model: self.model().to_owned() },
                    sent: self.sent(&call),
                    request: call.clone(),
                    answer: Vec::new(),
                    end: End::GivenUp,
                }),
                recording: self.recording.clone(),
                facts: self.facts.clone(),
            };
            match self.inner.open(call).await {
                Ok(stream) => Ok(Box::new(RecordedStream { stream, taken }) as _),
                Err(fault) => {
                    taken.end(End::Fault(fault.clone()));
                    Err(fault)
                }
            }
        })
    }
}

/// An attempt under way. Dropped, it is recorded as one that was given up.
struct Taken {
    /// `None` once it is recorded.
    attempt: Option<Attempt>,
    recording: Recording,
    facts: Arc<dyn SessionFacts>,
}

impl Taken {
    fn delta(&mut self, delta: Delta) {
        if let Some(attempt) = &mut self.attempt {
            attempt.answer.push(delta);
        }
    }

    fn end(&mut self, end: End) {
        if let Some(attempt) = self.attempt.take() {
            self.recording.write(&Attempt { end, ..attempt }, &*self.facts);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.end(End::GivenUp);
    }
}

struct RecordedStream {
    stream: Box<dyn ModelStream>,
    taken: Taken,
}

impl ModelStream for RecordedStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async move {
            let event = self.stream.next().await;
            match &event {
                Ok(Some(ModelEvent::Text(piece))) => self.taken.delta(Delta::Text(piece.clone())),
                Ok(Some(ModelEvent::Reasoning(piece))) => self.taken.delta(Delta::Reasoning(piece.clone())),
                Ok(Some(ModelEvent::Finished { stop_reason, usage, model })) => self.taken.end(End::Finished {
                    stop_reason: stop_reason.clone(),
                    usage: *usage,
                    model: model.clone(),
                }),
                Ok(None) => {}
                Err(fault) => self.taken.end(End::Fault(fault.clone())),
            }
            event
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::engine::NoFacts;

    #[test]
    fn what_could_not_be_written_is_told_once() {
        let file = OpenOptions::new().write(true).open("/dev/full").expect("the full device");
        let path = std::env::temp_dir().join("axon-recording-that-is-not-there");
        let recording = Recording(Arc::new(Mutex::new(Tape { path, file, lines: 0, bytes: 0, failure: None })));
        let attempt = Attempt {
            v: VERSION,
            provider: ProviderName { name: "p".into(), model: "m".into() },
            request: ModelCall { model: "m".into(), messages: Vec::new(), max_tokens: None, temperature: None },
            sent: None,
            answer: Vec::new(),
            end: End::GivenUp,
        };
        recording.write(&attempt, &NoFacts);
        assert_eq!(recording.finish().expect_err("a full disk").kind(), io::ErrorKind::StorageFull);
        assert_eq!(recording.finish().expect("told"), 0);
    }
}
