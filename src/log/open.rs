//! Opening a session's file: what is in it, and what a crash left of a last line.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::Path,
};

use super::{
    LogError,
    file::{Lines, beside, read_exact_at},
    index::{Index, LineClass, LineRef},
    scan::{self, Head, Order, REPAIRED, Sequence},
};

/// What was found at opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// A new session.
    Created,
    /// A session that was there. `torn_bytes` of an unfinished last line were moved aside.
    Restored { torn_bytes: u64, entries: usize },
}

/// What a file holds.
pub(super) struct Scanned {
    pub index: Index,
    pub next_seq: u64,
    /// Where the good lines end, in bytes.
    pub end: u64,
    /// What follows them, in bytes.
    pub torn_bytes: u64,
}

/// Reads a whole file and checks each line.
///
/// A last line that is cut off or broken is torn and left out. Anything wrong before it is an error.
pub(super) fn scan(file: &File, path: &Path) -> Result<Scanned, LogError> {
    let io = |cause: io::Error| LogError::io("read", path, cause);
    let corrupt = |line: u64, why: String| LogError::Corrupt { path: path.to_owned(), line, why };
    let mut lines = Lines::new(file.try_clone().map_err(io)?);
    let mut index = Index::default();
    let mut sequence = Sequence::default();
    let (mut end, mut size) = (0, 0);
    let mut bad: Option<(u64, String)> = None;
    let mut gaps: Vec<(u64, (u64, u64))> = Vec::new();
    let mut repaired = Vec::new();

    while let Some(line) = lines.next().map_err(io)? {
        if let Some((number, why)) = bad {
            return Err(corrupt(number, why));
        }
        size = line.offset + line.bytes.len() as u64 + u64::from(line.terminated);
        if !line.terminated {
            break;
        }
        let head = match scan::head(line.bytes) {
            Ok(head) => head,
            Err(why) => {
                bad = Some((line.number, why));
                continue;
            }
        };
        let expected = sequence.next();
        match sequence.follow(head.seq()) {
            Order::Next => {}
            Order::Gap { from, to } => gaps.push((line.number, (from, to))),
            Order::Backwards => {
                let seq = head.seq().unwrap_or_default();
                return Err(corrupt(line.number, scan::backwards(seq, expected)));
            }
        }
        if matches!(&head, Head::Known { kind, .. } if kind == REPAIRED) {
            repaired.extend(scan::repaired_gaps(line.bytes));
        }
        index.push(line_ref(&line, &head, expected), head.kind());
        end = size;
    }
    for (line, (from, to)) in gaps {
        if !repaired.contains(&(from, to)) {
            return Err(corrupt(line, scan::missing(from, to)));
        }
    }
    Ok(Scanned { index, next_seq: sequence.next(), end, torn_bytes: size - end })
}

/// Moves what follows the good lines to `<file>.torn` and cuts it off.
pub(super) fn cut_torn(file: &File, path: &Path, scan: &Scanned) -> Result<(), LogError> {
    if scan.torn_bytes == 0 {
        return Ok(());
    }
    keep_torn(file, path, scan.end, scan.torn_bytes)?;
    file.set_len(scan.end).and_then(|()| file.sync_all()).map_err(|cause| LogError::io("cut", path, cause))
}

/// Copies the torn bytes at `start` to `<file>.torn`, ended by a newline.
pub(super) fn keep_torn(file: &File, path: &Path, start: u64, bytes: u64) -> Result<(), LogError> {
    let mut torn = vec![0; bytes as usize];
    read_exact_at(file, &mut torn, start).map_err(|cause| LogError::io("read", path, cause))?;
    if !torn.ends_with(b"\n") {
        torn.push(b'\n');
    }
    keep_aside(&beside(path, "torn"), &torn)
}

/// Adds lines to a file beside the session's, durably.
pub(super) fn keep_aside(path: &Path, bytes: &[u8]) -> Result<(), LogError> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .map_err(|cause| LogError::io("write", path, cause))
}

/// Makes the folder of the sessions.
pub(super) fn make_dir(dir: &Path) -> Result<(), LogError> {
    fs::create_dir_all(dir).map_err(|cause| LogError::io("create", dir, cause))
}

fn line_ref(line: &super::file::RawLine<'_>, head: &Head<'_>, expected: u64) -> LineRef {
    let class = match head {
        Head::Foreign { .. } => LineClass::Foreign,
        Head::Known { .. } if head.is_entry() => LineClass::Entry,
        Head::Known { .. } => LineClass::Telemetry,
    };
    let seq = head.seq().unwrap_or(expected.saturating_sub(1));
    LineRef { offset: line.offset, seq, len: line.bytes.len() as u32, class }
}
