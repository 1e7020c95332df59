//! Reading a session's file from its beginning, without a lock.

use std::{
    io,
    path::{Path, PathBuf},
};

use super::{
    Envelope, LogError,
    file::Lines,
    is_entry_type,
    scan::{self, Order, REPAIRED, Sequence},
};
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
/// What keeps a session from being opened is an error in its place, and the lines after it follow: a broken line, a seq that
/// goes back, and lines that are missing before the next one, unless a repair has noted them. An unfinished or broken last line
/// is left out: somebody may be writing it, or opening moves it aside. Asked again, the reader goes on with what was written since.
pub struct SessionReader {
    path: PathBuf,
    lines: Lines,
    sequence: Sequence,
    /// The line after a gap, which has been told.
    after_gap: Option<Line>,
    /// What repairs of this file have noted as missing; not looked for before there is a gap.
    repaired: Option<Vec<(u64, u64)>>,
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
        Ok(Self {
            path: path.to_owned(),
            lines: Lines::new(file),
            sequence: Sequence::default(),
            after_gap: None,
            repaired: None,
            unfinished_bytes: 0,
        })
    }

    /// Begins with the first line that starts within the last `bytes` of the file. Returns also whether that is the
    /// file's first line: if not, line numbers count from where it began, and what is missing before is not told.
    ///
    /// # Errors
    /// As [`SessionReader::open`].
    pub fn open_near_end(path: &Path, bytes: u64) -> Result<(Self, bool), LogError> {
        let mut reader = Self::open(path)?;
        let is_whole = reader.lines.skip_to_last(bytes).map_err(|cause| LogError::io("read", path, cause))?;
        if !is_whole {
            reader.sequence = Sequence::from_anywhere();
        }
        Ok((reader, is_whole))
    }

    /// The size of an unfinished or broken last line, once the end was reached.
    pub fn unfinished_bytes(&self) -> u64 {
        self.unfinished_bytes
    }

    fn read(&mut self) -> Result<Option<Line>, LogError> {
        if let Some(line) = self.after_gap.take() {
            return Ok(Some(line));
        }
        let io = |cause| LogError::io("read", &self.path, cause);
        let Some(raw) = self.lines.next().map_err(io)? else {
            self.unfinished_bytes = 0;
            return Ok(None);
        };
        let bytes = raw.bytes.len() as u64 + u64::from(raw.terminated);
        if !raw.terminated {
            self.unfinished_bytes = bytes;
            self.lines.unread().map_err(io)?;
            return Ok(None);
        }
        let line = match scan::head(raw.bytes) {
            Ok(head) => Line {
                number: raw.number,
                text: String::from_utf8_lossy(raw.bytes).into_owned(),
                kind: Some(head.kind()).filter(|kind| !kind.is_empty()).map(str::to_owned),
                seq: head.seq(),
            },
            Err(why) => {
                let number = raw.number;
                if !self.lines.at_end().map_err(io)? {
                    return Err(corrupt(&self.path, number, why));
                }
                self.unfinished_bytes = bytes;
                self.lines.unread().map_err(io)?;
                return Ok(None);
            }
        };
        let expected = self.sequence.next();
        match self.sequence.follow(line.seq) {
            Order::Next => Ok(Some(line)),
            Order::Backwards => {
                let seq = line.seq.unwrap_or_default();
                Err(corrupt(&self.path, line.number, scan::backwards(seq, expected)))
            }
            Order::Gap { from, to } if self.is_repaired(from, to)? => Ok(Some(line)),
            Order::Gap { from, to } => {
                let error = corrupt(&self.path, line.number, scan::missing(from, to));
                self.after_gap = Some(line);
                Err(error)
            }
        }
    }

    /// Whether a repair has noted that these are missing. It may have done so anywhere further down.
    fn is_repaired(&mut self, from: u64, to: u64) -> Result<bool, LogError> {
        let gaps = match self.repaired.take() {
            Some(gaps) => gaps,
            None => repaired_gaps(&self.path).map_err(|cause| LogError::io("read", &self.path, cause))?,
        };
        Ok(self.repaired.insert(gaps).contains(&(from, to)))
    }
}

fn corrupt(path: &Path, line: u64, why: String) -> LogError {
    LogError::Corrupt { path: path.to_owned(), line, why }
}

fn repaired_gaps(path: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut lines = Lines::new(files::open_regular(path)?);
    let mut gaps = Vec::new();
    while let Some(line) = lines.next()? {
        let may_note = std::str::from_utf8(line.bytes).is_ok_and(|text| text.contains(REPAIRED));
        if may_note && scan::head(line.bytes).is_ok_and(|head| head.kind() == REPAIRED) {
            gaps.extend(scan::repaired_gaps(line.bytes));
        }
    }
    Ok(gaps)
}

impl Iterator for SessionReader {
    type Item = Result<Line, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
