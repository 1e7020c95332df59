//! The log on a disk that fails.

use std::{
    fs::File,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::{
    Envelope, Event, Fsync, LogError, SessionId, SessionLog, SessionReader, check,
    disk::{Disk, SystemDisk},
    session_path,
};

/// What goes wrong from a moment on.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The disk is full: as many bytes of the write still fit.
    Full { fitting: usize, cut_fails: bool },
    /// Writes fail.
    Write,
    /// Writes arrive and syncs fail.
    Sync,
}

#[derive(Clone)]
struct FailingDisk {
    fault: Fault,
    failing: Arc<AtomicBool>,
}

impl FailingDisk {
    fn fails(&self) -> bool {
        self.failing.load(Ordering::SeqCst)
    }
}

impl Disk for FailingDisk {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.fault {
            Fault::Full { fitting, .. } if self.fails() => {
                SystemDisk.write_all_at(file, &bytes[..fitting.min(bytes.len() - 1)], offset)?;
                Err(io::ErrorKind::StorageFull.into())
            }
            Fault::Write if self.fails() => Err(io::Error::other("input/output error")),
            _ => SystemDisk.write_all_at(file, bytes, offset),
        }
    }

    fn cut(&self, file: &File, end: u64) -> io::Result<()> {
        match self.fault {
            Fault::Full { cut_fails: true, .. } => Err(io::Error::other("input/output error")),
            _ => SystemDisk.cut(file, end),
        }
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        match self.fault {
            Fault::Sync if self.fails() => Err(io::Error::other("input/output error")),
            _ => SystemDisk.sync(file),
        }
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        (0..600usize, any::<bool>()).prop_map(|(fitting, cut_fails)| Fault::Full { fitting, cut_fails }),
        Just(Fault::Write),
        Just(Fault::Sync),
    ]
}

fn text(content: impl Into<String>) -> Event {
    Event::new("stimulus:text", json!({ "content": content.into() }))
}

fn telemetry(n: usize) -> Event {
    Event::new("cognet:log:info", json!({ "value": n }))
}

fn stored(dir: &TempDir, id: &SessionId) -> Vec<Envelope> {
    let lines = SessionReader::open(&session_path(dir.path(), id)).unwrap();
    lines.map(|line| line.unwrap().envelope().unwrap()).collect()
}

/// Runs a log until its disk fails, and looks at what is left.
fn go_on_until(fault: Fault, before: usize, emitted: usize, policy: Fsync) -> Result<(), TestCaseError> {
    let dir = TempDir::new().unwrap();
    let id = SessionId::parse("s").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let disk = FailingDisk { fault, failing: Arc::default() };
    let (log, _) = SessionLog::open_on(Box::new(disk.clone()), dir.path(), id.clone(), "agent", policy).unwrap();
    let mut observer = log.subscribe(None);
    let mut acknowledged = Vec::new();
    for n in 0..before {
        log.emit(telemetry(n));
        acknowledged.push((*log.append(text("x".repeat(n * 7 % 90))).unwrap()).clone());
    }
    runtime.block_on(log.sync()).unwrap();
    disk.failing.store(true, Ordering::SeqCst);
    for n in 0..emitted {
        log.emit(telemetry(n));
    }
    let failed = runtime.block_on(async {
        log.append(text("fails"))?;
        log.sync().await
    });
    let error = failed.unwrap_err();
    prop_assert!(matches!(error, LogError::Broken { .. }), "{error}");
    prop_assert!(error.to_string().contains("session s cannot go on: writing "), "{error}");

    // Space that returns does not heal what was refused: seqs were given out.
    disk.failing.store(false, Ordering::SeqCst);
    prop_assert!(matches!(log.append(text("late")), Err(LogError::Broken { .. })), "it goes on in silence");
    prop_assert_eq!(log.emit(telemetry(0)), None);

    let left = stored(&dir, &id);
    prop_assert!(left.iter().map(|envelope| envelope.time.seq).eq(0..left.len() as u64));
    prop_assert!(acknowledged.iter().all(|envelope| left.contains(envelope)), "an acknowledged entry is lost");
    // What could not be cut off may hold whole lines that nobody was told of: the disk may be ahead, memory never.
    let known = log.last_seq().map_or(0, |seq| seq as usize + 1);
    prop_assert!(known <= left.len(), "memory is ahead of the disk");
    let could_not_cut = matches!(fault, Fault::Full { cut_fails: true, .. });
    prop_assert!(known == left.len() || could_not_cut, "the disk holds lines that memory does not know");
    let entries_of = |envelopes: &[Envelope]| -> Vec<_> {
        envelopes.iter().filter(|envelope| envelope.is_entry()).map(Envelope::to_entry).collect()
    };
    prop_assert_eq!(log.entries_after(None).unwrap(), entries_of(&left[..known]));
    let mut seen = Vec::new();
    while let Some(next) = runtime.block_on(observer.next()) {
        seen.extend(next.ok().map(|envelope| (*envelope).clone()));
    }
    prop_assert_eq!(&seen, &left[..known]);
    prop_assert!(check(log.path()).unwrap().is_sound());
    drop(log);

    let (log, _) = SessionLog::open(dir.path(), id.clone(), "agent", policy).unwrap();
    prop_assert_eq!(log.entries_after(None).unwrap(), entries_of(&left));
    log.append(text("on")).unwrap();
    drop(log);
    let all = stored(&dir, &id);
    prop_assert_eq!(&all[..left.len()], &left);
    prop_assert!(all.iter().map(|envelope| envelope.time.seq).eq(0..left.len() as u64 + 2));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whenever_the_disk_fails_the_verb_fails_the_file_stays_valid_and_a_new_run_continues(
        fault in fault(),
        before in 0..6usize,
        emitted in 0..4usize,
        always in any::<bool>(),
    ) {
        go_on_until(fault, before, emitted, if always { Fsync::Always } else { Fsync::Wake })?;
    }
}
