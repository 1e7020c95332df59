//! One writer for each session.
//!
//! The lock is an advisory one on the session's file itself, so that the system frees it whatever becomes of the
//! process and no stale file can stand for a lock. Who holds it is written beside, for the error text only.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    LogError, SessionId,
    error::Holder,
    file::{beside, sync_dir},
};
use crate::files;

/// A process that was killed may have been forking: for the moment until its child executes another program, the lock lives
/// on in the copy of a descriptor.
const ORPHANED_LOCK: Duration = Duration::from_secs(1);
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// A session's file, held for writing until it is released or dropped.
pub(super) struct LockedFile {
    pub file: File,
    pid_path: PathBuf,
    released: AtomicBool,
}

/// The files of this process that say who holds a session.
static PID_FILES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn pid_files() -> MutexGuard<'static, Vec<PathBuf>> {
    PID_FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// For a process that ends with sessions open: the system frees the locks, and this is what it does not remove.
pub(crate) fn leave_held_sessions() {
    for path in pid_files().drain(..) {
        let _ = fs::remove_file(path);
    }
}

impl LockedFile {
    /// Opens or creates the file and takes the lock.
    pub fn open(path: &Path, session: &SessionId, create: bool) -> Result<Self, LogError> {
        let began = Instant::now();
        loop {
            let file = open(path, create)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(&beside(path, "pid"));
                    if is_gone(holder) && began.elapsed() < ORPHANED_LOCK {
                        thread::sleep(BETWEEN_TRIES);
                        continue;
                    }
                    return Err(LogError::Held { session: session.clone(), holder });
                }
                Err(TryLockError::Error(cause)) => return Err(LogError::io("lock", path, cause)),
            }
            // A repair may have put another file in its place between the two calls.
            if still_at(&file, path) {
                let locked = Self { file, pid_path: beside(path, "pid"), released: AtomicBool::new(false) };
                pid_files().push(locked.pid_path.clone());
                if fs::write(&locked.pid_path, std::process::id().to_string()).is_err() {
                    // No name is better than that of an earlier holder.
                    let _ = fs::remove_file(&locked.pid_path);
                }
                return Ok(locked);
            }
        }
    }

    /// Lets others write the session. The file stays readable.
    pub fn release(&self) {
        if self.released.swap(true, Ordering::AcqRel) {
            return;
        }
        // Closing alone would not do: a child that is just being forked holds a copy of the descriptor. Both calls are
        // for others' sake, a failure changes nothing for the session.
        let mut files = pid_files();
        if let Some(mine) = files.iter().position(|path| *path == self.pid_path) {
            files.swap_remove(mine);
            let _ = fs::remove_file(&self.pid_path);
        }
        drop(files);
        let _ = self.file.unlock();
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        self.release();
    }
}

/// Whether somebody writes the session. Asks for the lock, and holds it no longer than that takes.
pub(super) fn is_held(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let file = files::regular(options.read(true), path);
    file.is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

fn open(path: &Path, create: bool) -> Result<File, LogError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match files::regular(&mut options, path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(LogError::not_found(path));
        }
        result => return result.map_err(|cause| LogError::io("open", path, cause)),
    }
    let file = options.create(true).truncate(false).open(path).map_err(|cause| LogError::io("create", path, cause))?;
    if let Some(dir) = path.parent() {
        sync_dir(dir).map_err(|cause| LogError::io("sync", dir, cause))?;
    }
    Ok(file)
}

fn holder(pid_path: &Path) -> Holder {
    match fs::read_to_string(pid_path).ok().and_then(|pid| pid.trim().parse().ok()) {
        Some(pid) if pid == std::process::id() => Holder::ThisProcess,
        Some(pid) => Holder::Process(pid),
        None => Holder::Unknown,
    }
}

#[cfg(unix)]
fn is_gone(holder: Holder) -> bool {
    let Holder::Process(pid) = holder else { return false };
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_gone(_holder: Holder) -> bool {
    false
}

#[cfg(unix)]
fn still_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(named)) => held.dev() == named.dev() && held.ino() == named.ino(),
        _ => false,
    }
}

/// A file that is open cannot be replaced here.
#[cfg(not(unix))]
fn still_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_outlives_its_dead_holder_for_a_moment_is_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.jsonl");
        let session = SessionId::parse("s").expect("a name");
        let copy = open(&path, true).expect("a file");
        copy.try_lock().expect("nobody holds it");
        let mut dead = std::process::Command::new("true").spawn().expect("it starts");
        dead.wait().expect("it ends");
        fs::write(beside(&path, "pid"), dead.id().to_string()).expect("it can be written");
        let letting_go = thread::spawn(move || {
            thread::sleep(20 * BETWEEN_TRIES);
            drop(copy);
        });
        let opened = LockedFile::open(&path, &session, false);
        letting_go.join().expect("it ends");
        assert!(opened.is_ok(), "{:?}", opened.err());
    }

    #[test]
    fn a_lock_of_a_process_that_lives_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s.jsonl");
        let session = SessionId::parse("s").expect("a name");
        let held = LockedFile::open(&path, &session, true).expect("nobody holds it");
        // The process with the number 1 always lives, and may belong to somebody else.
        fs::write(beside(&path, "pid"), "1").expect("it can be written");
        let began = Instant::now();
        let refused = LockedFile::open(&path, &session, false).err().expect("it is held");
        assert!(began.elapsed() < ORPHANED_LOCK, "{:?}", began.elapsed());
        assert!(refused.to_string().contains("held by process 1"), "{refused}");
        drop(held);
    }
}
