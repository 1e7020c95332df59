//! The sessions of an agent, from the first and last lines of their files.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use super::{
    Envelope, LogError, SessionId, SessionReader,
    file::{MAX_LINE_BYTES, read_exact_at},
    lock::is_held,
    scan::{self, Head},
};
use crate::files;

/// How much of a file's beginning and end is read at first, in bytes.
const GLANCE_BYTES: u64 = 64 * 1024;

/// How much of the first stimulus is told, in characters.
const TITLE_CHARS: usize = 80;

/// What the log has where a wake begins.
const WOKEN: &str = "kernel:run:start";

/// A session as its first and last lines show it.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    pub id: SessionId,
    pub path: PathBuf,
    pub bytes: u64,
    pub modified: SystemTime,
    /// When it began, in milliseconds since the Unix epoch; absent when its first line cannot be read.
    pub first_ms: Option<u64>,
    /// When it was last written, in milliseconds since the Unix epoch; absent when its last line cannot be read.
    pub last_ms: Option<u64>,
    /// The seq of its last line.
    pub last_seq: Option<u64>,
    /// The first text stimulus, cut to one line, if it comes early.
    pub title: Option<String>,
}

/// The file of a session in the folder `dir`.
pub fn session_path(dir: &Path, id: &SessionId) -> PathBuf {
    dir.join(format!("{id}.jsonl"))
}

/// All sessions in the folder `dir`, the newest last. A folder that is not there holds none; folders in it are none.
///
/// # Errors
/// [`LogError::Io`].
pub fn list_sessions(dir: &Path) -> Result<Vec<SessionInfo>, LogError> {
    let names = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|cause| LogError::io("list", dir, cause))?,
    };
    let mut sessions = Vec::new();
    for name in names {
        let path = name.map_err(|cause| LogError::io("list", dir, cause))?.path();
        let id = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".jsonl"));
        if let Some(Ok(id)) = id.map(SessionId::parse)
            && !path.is_dir()
        {
            match glance(id, &path) {
                Ok(session) => sessions.push(session),
                // Gone meanwhile, or no file at all.
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {}
                Err(cause) => return Err(LogError::io("read", &path, cause)),
            }
        }
    }
    sessions.sort_by_cached_key(|session| (session.newest_ms(), session.id.clone()));
    Ok(sessions)
}

/// The session in the folder `dir` that was written last, of those that are still open or in which something has happened:
/// one that ended before there was an entry or a wake, as when a cognet does not load, is taken only if there is no other.
pub fn last_session(dir: &Path) -> Option<SessionId> {
    last_of(dir, |path| !is_unused(path))
}

/// The same, of those in which there was a wake.
pub fn last_woken_session(dir: &Path) -> Option<SessionId> {
    last_of(dir, |path| {
        let lines = SessionReader::open(path).into_iter().flatten();
        lines.flatten().any(|line| line.kind.as_deref() == Some(WOKEN))
    })
}

/// The newest that is wanted, or else the newest.
fn last_of(dir: &Path, is_wanted: impl Fn(&Path) -> bool) -> Option<SessionId> {
    let mut sessions = list_sessions(dir).ok()?;
    let wanted = sessions.iter().rposition(|session| is_wanted(&session.path));
    match wanted {
        Some(last) => Some(sessions.swap_remove(last).id),
        None => sessions.pop().map(|session| session.id),
    }
}

/// Whether nothing happened in a session and nobody writes it.
fn is_unused(path: &Path) -> bool {
    let Ok(lines) = SessionReader::open(path) else { return false };
    for line in lines {
        // Damage is for whoever reads the session to tell.
        let Ok(line) = line else { return false };
        if line.is_entry() || line.kind.as_deref() == Some(WOKEN) {
            return false;
        }
    }
    !is_held(path)
}

impl SessionInfo {
    fn newest_ms(&self) -> u64 {
        let modified = || self.modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        self.last_ms.unwrap_or_else(modified)
    }
}

fn glance(id: SessionId, path: &Path) -> io::Result<SessionInfo> {
    let file = files::open_regular(path)?;
    let metadata = file.metadata()?;
    let bytes = metadata.len();
    let mut beginning = Vec::new();
    (&file).take(GLANCE_BYTES).read_to_end(&mut beginning)?;

    let mut info = SessionInfo {
        id,
        path: path.to_owned(),
        bytes,
        modified: metadata.modified()?,
        first_ms: None,
        last_ms: None,
        last_seq: None,
        title: None,
    };
    for line in beginning.split(|&byte| byte == b'\n') {
        let Ok(Head::Known { time, kind }) = scan::head(line) else { continue };
        info.first_ms.get_or_insert(time.ms);
        if kind == "stimulus:text" {
            info.title = title(line);
            break;
        }
    }
    if let Some(line) = last_line(&file, bytes)?
        && let Ok(Head::Known { time, .. }) = scan::head(&line)
    {
        info.last_ms = Some(time.ms);
        info.last_seq = Some(time.seq);
    }
    Ok(info)
}

fn title(line: &[u8]) -> Option<String> {
    let envelope: Envelope = serde_json::from_slice(line).ok()?;
    let text = envelope.data.get("content")?.as_str()?;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(words.chars().take(TITLE_CHARS).collect())
}

/// The last line that a newline ends.
fn last_line(file: &File, bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let mut glance = GLANCE_BYTES;
    loop {
        let start = bytes.saturating_sub(glance);
        let mut ending = vec![0; (bytes - start) as usize];
        read_exact_at(file, &mut ending, start)?;
        let Some(end) = ending.iter().rposition(|&byte| byte == b'\n') else {
            if start == 0 || glance > MAX_LINE_BYTES as u64 {
                return Ok(None);
            }
            glance *= 4;
            continue;
        };
        match ending[..end].iter().rposition(|&byte| byte == b'\n') {
            Some(newline) => return Ok(Some(ending[newline + 1..end].to_vec())),
            None if start == 0 => return Ok(Some(ending[..end].to_vec())),
            None if glance > MAX_LINE_BYTES as u64 => return Ok(None),
            None => glance *= 4,
        }
    }
}
