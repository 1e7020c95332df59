//! A child process in a session of its own: what it starts ends with it.

use std::{
    collections::BTreeMap,
    env, io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::process::{CommandExt, ExitStatusExt},
    },
    path::PathBuf,
    process::{self, Command, Stdio},
    thread,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, fchdir, kill_process_group, setsid, waitid};

use crate::{
    policy::{Confinement, Program},
    tools::fault::{Failure, FaultKind},
};

/// What is added to a signal's number to make an exit code, as shells do it.
const SIGNALLED: i32 = 128;

pub(super) struct Start {
    pub program: Program,
    pub arguments: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// The agent folder without it.
    pub cwd: Option<OwnedFd>,
    pub agent: PathBuf,
    pub confinement: Option<Confinement>,
    /// Whether there is anything to read on its standard input.
    pub reads: bool,
}

/// A running child. Dropped, it is killed with its group and waited for.
pub(super) struct Child {
    group: Pid,
    /// `None` once it was waited for.
    process: Option<process::Child>,
}

pub(super) struct Pipes {
    pub stdin: Option<process::ChildStdin>,
    pub stdout: Option<process::ChildStdout>,
    pub stderr: Option<process::ChildStderr>,
}

impl Child {
    pub fn start(start: Start) -> Result<Self, Failure> {
        let Start { program, arguments, env, cwd, agent, confinement, reads } = start;
        let mut command = Command::new(&program.file);
        command
            .arg0(&program.called)
            .args(arguments)
            .env_clear()
            .envs(env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(env)
            .current_dir(agent)
            .stdin(if reads { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let prepare = move || {
            setsid()?;
            if let Some(cwd) = &cwd {
                fchdir(cwd)?;
            }
            confine(confinement.as_ref())?;
            close_inherited();
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(prepare) };
        let process = command.spawn().map_err(|error| not_started(&program, &error))?;
        Ok(Self { group: Pid::from_child(&process), process: Some(process) })
    }

    pub fn pipes(&mut self) -> Pipes {
        let mut process = self.process.as_mut();
        Pipes {
            stdin: process.as_mut().and_then(|process| process.stdin.take()),
            stdout: process.as_mut().and_then(|process| process.stdout.take()),
            stderr: process.as_mut().and_then(|process| process.stderr.take()),
        }
    }

    /// Waits for the end of the program, ends what it left behind, and gives its exit code.
    pub async fn ended(&mut self) -> io::Result<i32> {
        let id = WaitId::Pid(self.group);
        // Not reaped yet, so that the group's number still belongs to it.
        let over = tokio::task::spawn_blocking(move || waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT));
        over.await.map_err(io::Error::other)??;
        let _ = kill_process_group(self.group, Signal::KILL);
        let Some(mut process) = self.process.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let status = process.wait()?;
        Ok(status.code().unwrap_or_else(|| SIGNALLED + status.signal().unwrap_or_default()))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = kill_process_group(self.group, Signal::KILL);
            // Killed, it ends at once; a thread waits for it so that nobody else has to.
            thread::spawn(move || process.wait());
        }
    }
}

fn not_started(program: &Program, error: &io::Error) -> Failure {
    let file = program.file.display();
    FaultKind::NotStarted.because(format!("{file} could not be started: {error}")).into()
}

/// Puts the ruleset on, for this process and all that it starts.
#[cfg(target_os = "linux")]
fn confine(confinement: Option<&Confinement>) -> io::Result<()> {
    let Some(confinement) = confinement else { return Ok(()) };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the descriptor is a ruleset and open; the call takes no memory.
    let done = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, confinement.ruleset.as_raw_fd(), 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_os = "linux"))]
fn confine(_confinement: Option<&Confinement>) -> io::Result<()> {
    Ok(())
}

/// Marks every descriptor above the standard ones to be closed by `exec`, whoever opened it and how.
#[cfg(target_os = "linux")]
fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call takes no memory and closes nothing yet. Kernels without it leave what Rust marked itself.
    unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

#[cfg(not(target_os = "linux"))]
fn close_inherited() {}
