//! The child process: how it starts, how it is killed, what it leaves behind.

use std::{
    collections::VecDeque,
    ffi::OsString,
    io::{self, Read},
    os::{
        fd::OwnedFd,
        unix::{
            net::UnixStream,
            process::{CommandExt, ExitStatusExt},
        },
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::oneshot;

use crate::Launch;

/// What is kept of the child's standard error, in bytes: the end of it.
const STDERR_TAIL_BYTES: usize = 4096;

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub signal: Option<i32>,
    pub status: Option<i32>,
    /// The end of what it said on standard error.
    pub stderr: String,
}

/// A running child. Its own thread waits for it, so that it never becomes a zombie.
pub struct Process {
    pid: u32,
    /// `None` once the child is gone and its id may belong to another process.
    alive: Arc<Mutex<Option<Pid>>>,
}

/// Starts the child and gives the kernel's end of the channel.
///
/// The thread that starts it also waits for it: the child asks to die with the thread that is its parent, and this
/// thread lives as long as the child does.
pub async fn spawn(launch: &Launch) -> io::Result<(Process, UnixStream, oneshot::Receiver<Exit>)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(&launch.program);
    command
        .args(&launch.args)
        // A Ctrl-C at the terminal is for the kernel, which ends the blocks in its own way.
        .process_group(0)
        .env_clear()
        .envs(time_zone().map(|zone| ("TZ", zone)))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let (started, start) = oneshot::channel();
    let (ended, end) = oneshot::channel();
    thread::Builder::new().name("capsule".into()).spawn(move || {
        let spawned = command.spawn();
        // Holds the child's end of the channel: while it lived here, the child's death would go unnoticed.
        drop(command);
        match spawned {
            Ok(child) => attend(child, started, ended),
            // A caller that has gone needs no answer.
            Err(error) => drop(started.send(Err(error))),
        }
    })?;
    let process = start.await.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it is gone")))?;
    Ok((process, ours, end))
}

/// A block's dates are in the user's time zone, which the child cannot look up for itself.
fn time_zone() -> Option<OsString> {
    const DATABASE: &str = "zoneinfo/";
    std::env::var_os("TZ").or_else(|| {
        let file = std::fs::read_link("/etc/localtime").ok()?.into_os_string().into_string().ok()?;
        let (_, zone) = file.split_once(DATABASE)?;
        Some(zone.into())
    })
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills the child if it still lives.
    pub fn kill(&self) {
        if let Some(pid) = *self.alive.lock().unwrap_or_else(PoisonError::into_inner) {
            // It cannot be reaped while the lock is held, so the id is still its own.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The body of the child's thread.
fn attend(mut child: Child, started: oneshot::Sender<io::Result<Process>>, ended: oneshot::Sender<Exit>) {
    let pid = Pid::from_child(&child);
    let alive = Arc::new(Mutex::new(Some(pid)));
    let process = Process { pid: child.id(), alive: Arc::clone(&alive) };
    // If nobody waits for the process any more, it is dropped here, which kills the child.
    drop(started.send(Ok(process)));
    let stderr = child.stderr.take().map(tail).unwrap_or_default();
    // Waits without reaping, then reaps under the lock: `kill` never meets another process with the same id.
    let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    let mut alive = alive.lock().unwrap_or_else(PoisonError::into_inner);
    *alive = None;
    let status = child.wait().unwrap_or_else(|_| ExitStatus::from_raw(0));
    drop(alive);
    let exit = Exit { signal: status.signal(), status: status.code(), stderr };
    drop(ended.send(exit));
}

/// Reads to the end and keeps the last bytes as text.
fn tail(mut from: impl Read) -> String {
    let mut kept = VecDeque::with_capacity(STDERR_TAIL_BYTES * 2);
    let mut buffer = [0; STDERR_TAIL_BYTES];
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => {
                kept.extend(&buffer[..count]);
                kept.drain(..kept.len().saturating_sub(STDERR_TAIL_BYTES));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(kept.make_contiguous()).trim().to_owned()
}
