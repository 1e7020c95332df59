//! Checking and repairing a session's file.

use std::{
    collections::HashSet,
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

use serde_json::json;
use uuid::Uuid;

use super::{
    Context, ENVELOPE_VERSION, Envelope, LogError, SessionId, Time,
    file::{Lines, beside, sync_dir},
    lock::LockedFile,
    open::{keep_aside, keep_torn},
    scan::{self, Order, REPAIRED, Sequence},
    writer::now_ms,
};
use crate::files;

/// What a check found in a session's file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub bytes: u64,
    /// Good lines.
    pub lines: u64,
    /// Those that cognets and users see.
    pub entries: u64,
    /// Those of another version, kept and passed over.
    pub foreign: u64,
    /// What keeps the session from being opened.
    pub faults: Vec<Fault>,
    /// An unfinished or broken last line. Opening moves it aside by itself.
    pub torn_bytes: u64,
    next_seq: u64,
}

impl Report {
    /// Whether the session can be opened.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// Something that keeps a session from being opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1.
    pub line: u64,
    pub kind: FaultKind,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// The line is no envelope. A repair moves it aside.
    #[error("{0}")]
    Broken(String),
    /// The line does not belong there. A repair moves it aside.
    #[error("seq {seq} is out of order")]
    OutOfOrder { seq: u64 },
    /// Lines are missing before this one. A repair notes it in the log.
    #[error("seq {from} to {to} missing before this line")]
    Gap { from: u64, to: u64 },
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Good lines kept.
    pub kept: u64,
    /// Bad lines moved to `<file>.bad`.
    pub moved: u64,
    /// Bytes moved to `<file>.torn`.
    pub torn_bytes: u64,
    /// Pairs of first and last seq that are missing now, noted in the log as `axon:log:repaired`.
    pub gaps: Vec<(u64, u64)>,
}

/// Checks every line of a session's file and changes nothing.
///
/// # Errors
/// [`LogError::NotFound`], [`LogError::Io`].
pub fn check(path: &Path) -> Result<Report, LogError> {
    let file = files::open_regular(path).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => LogError::not_found(path),
        _ => LogError::io("open", path, cause),
    })?;
    examine(&file, path)
}

/// Keeps the good lines of a session's file, moves the bad ones to files beside it and notes in the log what is
/// missing. A file without faults is left as it is.
///
/// # Errors
/// [`LogError::Held`] while somebody writes it, [`LogError::NotFound`], [`LogError::Io`].
pub fn repair(path: &Path) -> Result<Repair, LogError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let session = SessionId::parse(&stem)?;
    let locked = LockedFile::open(path, &session, false)?;
    let repaired = repair_held(&locked.file, path, &session);
    locked.release();
    repaired
}

fn repair_held(file: &File, path: &Path, session: &SessionId) -> Result<Repair, LogError> {
    let report = examine(file, path)?;
    let mut repair = Repair { kept: report.lines, torn_bytes: report.torn_bytes, ..Repair::default() };
    if report.is_sound() && report.torn_bytes == 0 {
        return Ok(repair);
    }
    let mut bad = HashSet::new();
    for fault in &report.faults {
        match fault.kind {
            FaultKind::Gap { from, to } => repair.gaps.push((from, to)),
            FaultKind::Broken(_) | FaultKind::OutOfOrder { .. } => drop(bad.insert(fault.line)),
        }
    }
    repair.moved = bad.len() as u64;

    let end = report.bytes - report.torn_bytes;
    let fresh = beside(path, "repair");
    let moved = write_good(file, path, &fresh, end, &bad, |context| Envelope {
        v: ENVELOPE_VERSION,
        id: Uuid::now_v7().to_string(),
        kind: REPAIRED.to_owned(),
        time: Time { ms: now_ms(), seq: report.next_seq },
        context: context.unwrap_or_else(|| Context {
            agent_id: String::new(),
            session_id: session.to_string(),
            run_id: None,
            span_id: None,
        }),
        data: json!({ "kept": repair.kept, "moved": repair.moved, "tornBytes": repair.torn_bytes, "gaps": repair.gaps }),
    })
    .map_err(|cause| LogError::io("write", &fresh, cause))?;

    if !moved.is_empty() {
        keep_aside(&beside(path, "bad"), &moved)?;
    }
    if report.torn_bytes > 0 {
        keep_torn(file, path, end, report.torn_bytes)?;
    }
    fs::rename(&fresh, path).map_err(|cause| LogError::io("replace", path, cause))?;
    if let Some(dir) = path.parent() {
        sync_dir(dir).map_err(|cause| LogError::io("sync", dir, cause))?;
    }
    Ok(repair)
}

/// Writes the good lines before `end` and the note to a new file. Returns the bad ones.
fn write_good(
    file: &File,
    path: &Path,
    fresh: &Path,
    end: u64,
    bad: &HashSet<u64>,
    note: impl FnOnce(Option<Context>) -> Envelope,
) -> io::Result<Vec<u8>> {
    let mut lines = Lines::new(files::open_regular(path)?);
    let mut good = BufWriter::new(File::create(fresh)?);
    good.get_ref().set_permissions(file.metadata()?.permissions())?;
    let mut moved = Vec::new();
    let mut context = None;
    while let Some(line) = lines.next()? {
        if line.offset >= end {
            break;
        }
        if bad.contains(&line.number) {
            moved.extend_from_slice(line.bytes);
            moved.push(b'\n');
            continue;
        }
        if context.is_none() {
            context = serde_json::from_slice::<Envelope>(line.bytes).ok().map(|envelope| envelope.context);
        }
        good.write_all(line.bytes)?;
        good.write_all(b"\n")?;
    }
    let context = context.map(|context| Context { run_id: None, span_id: None, ..context });
    serde_json::to_writer(&mut good, &note(context))?;
    good.write_all(b"\n")?;
    good.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(moved)
}

/// A line that is an envelope.
struct Good {
    line: u64,
    seq: Option<u64>,
    is_entry: bool,
    is_foreign: bool,
}

fn examine(file: &File, path: &Path) -> Result<Report, LogError> {
    let io = |cause| LogError::io("read", path, cause);
    let mut report = Report::default();
    let mut lines = Lines::new(file.try_clone().map_err(io)?);
    let mut good = Vec::new();
    let mut repaired = Vec::new();
    let mut last_bad = None;
    while let Some(line) = lines.next().map_err(io)? {
        report.faults.extend(last_bad.take());
        let bytes = line.bytes.len() as u64 + u64::from(line.terminated);
        report.bytes += bytes;
        report.torn_bytes = 0;
        if !line.terminated {
            report.torn_bytes = bytes;
            continue;
        }
        match scan::head(line.bytes) {
            Ok(head) => {
                if head.kind() == REPAIRED {
                    repaired.extend(scan::repaired_gaps(line.bytes));
                }
                let is_foreign = head.kind().is_empty();
                good.push(Good { line: line.number, seq: head.seq(), is_entry: head.is_entry(), is_foreign });
            }
            Err(why) => {
                last_bad = Some(Fault { line: line.number, kind: FaultKind::Broken(why) });
                report.torn_bytes = bytes;
            }
        }
    }

    let ordered = longest_rise(&good);
    let mut sequence = Sequence::default();
    for (line, in_order) in good.iter().zip(ordered) {
        let fault = |kind| Fault { line: line.line, kind };
        if !in_order {
            report.faults.push(fault(FaultKind::OutOfOrder { seq: line.seq.unwrap_or_default() }));
            continue;
        }
        report.lines += 1;
        report.entries += u64::from(line.is_entry);
        report.foreign += u64::from(line.is_foreign);
        if let Order::Gap { from, to } = sequence.follow(line.seq)
            && !repaired.contains(&(from, to))
        {
            report.faults.push(fault(FaultKind::Gap { from, to }));
        }
    }
    report.next_seq = sequence.next();
    report.faults.sort_by_key(|fault| fault.line);
    Ok(report)
}

/// Which lines belong to a longest run of rising seqs, so that one wild seq does not condemn all that follow it.
fn longest_rise(lines: &[Good]) -> Vec<bool> {
    // tails[n]: the line with the least seq that ends a run of n + 1.
    let mut tails: Vec<(u64, usize)> = Vec::new();
    let mut before = vec![None; lines.len()];
    let mut belongs: Vec<bool> = lines.iter().map(|line| line.seq.is_none()).collect();
    for (position, line) in lines.iter().enumerate() {
        let Some(seq) = line.seq else { continue };
        let run = tails.partition_point(|&(tail, _)| tail < seq);
        before[position] = run.checked_sub(1).map(|shorter| tails[shorter].1);
        match tails.get_mut(run) {
            // Of lines with one seq the first belongs, as opening has it.
            Some(tail) if tail.0 == seq => {}
            Some(tail) => *tail = (seq, position),
            None => tails.push((seq, position)),
        }
    }
    let mut next = tails.last().map(|&(_, position)| position);
    while let Some(position) = next {
        belongs[position] = true;
        next = before[position];
    }
    belongs
}
