//! Reading a session's file from its beginning, without a lock.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{Envelope, LogError, file::Lines, is_entry_type, scan};
use crate::files;

/// A line of a session, checked but not parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// In the file, from 1.
    pub number: u64,
    /// As it is stored, without the newline.
    pub text: String,
    /// Absent when the line is an envelope of another version.
    pub kind: Option<String>,
    pub seq: Option<u64>,
}

impl Line {
    /// Whether cognets and users see it.
    pub fn is_entry(&self) -> bool {
        self.kind.as_deref().is_some_and(is_entry_type)
    }

    /// The envelope; `None` for one of another version.
    pub fn envelope(&self) -> Option<Envelope> {
        // The line was checked when it was read: what does not parse is of another version.
        self.kind.as_ref().and_then(|_| serde_json::from_str(&self.text).ok())
    }
}

/// The lines of a session in the order of the file.
///
/// A broken line is an error in its place, and the lines after it follow. An unfinished last line is left out: somebody
/// may be writing it. Asked again, the reader goes on with what was written since.
pub struct SessionReader {
    path: PathBuf,
    lines: Lines,
    unfinished_bytes: u64,
}

impl SessionReader {
    /// # Errors
    /// [`LogError::NotFound`], [`LogError::Io`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let file = files::open_regular(path).map_err(|cause| match cause.kind() {
            io::ErrorKind::NotFound => LogError::not_found(path),
            _ => LogError::io("open", path, cause),
        })?;
        Ok(Self { path: path.to_owned(), lines: Lines::new(file), unfinished_bytes: 0 })
    }

    /// Begins with the first line that starts within the last `bytes` of the file. Returns also whether that is the
    /// file's first line: if not, line numbers count from where it began.
    ///
    /// # Errors
    /// As [`SessionReader::open`].
    pub fn open_near_end(path: &Path, bytes: u64) -> Result<(Self, bool), LogError> {
        let mut reader = Self::open(path)?;
        let is_whole = reader.lines.skip_to_last(bytes).map_err(|cause| LogError::io("read", path, cause))?;
        Ok((reader, is_whole))
    }

    /// The size of an unfinished last line, once the end was reached.
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes
    }

    fn read(&mut self) -> Result<Option<Line>, LogError> {
        let io = |cause| LogError::io("read", &self.path, cause);
        let Some(line) = self.lines.next().map_err(io)? else {
            self.unfinished_bytes = 0;
            return Ok(None);
        };
        if !line.terminated {
            self.unfinished_bytes = line.bytes.len() as u64;
            self.lines.unread().map_err(io)?;
            return Ok(None);
        }
        let head = scan::head(line.bytes).map_err(|why| LogError::Corrupt {
            path: self.path.clone(),
            line: line.number,
            why,
        })?;
        Ok(Some(Line {
            number: line.number,
            text: String::from_utf8_lossy(line.bytes).into_owned(),
            kind: Some(head.kind()).filter(|kind| !kind.is_empty()).map(str::to_owned),
            seq: head.seq(),
        }))
    }
}

impl Iterator for SessionReader {
    type Item = Result<Line, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
