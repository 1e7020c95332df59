//! What the isolate process cannot do, seen from outside and tried from inside.

use std::{
    io::Read,
    process::{Command, Stdio},
};

use rustix::process::{Signal, kill_process};

use crate::support::{Bench, TestHost, bench, tight_limits};

crate::trials![the_process_has_given_up_what_it_says, a_block_opens_no_file_makes_no_socket_and_runs_no_program,];

/// The value of a line of `/proc/PID/status`.
fn status(bench: &Bench, key: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", bench.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim_start_matches(':').trim().to_owned()
}

async fn the_process_has_given_up_what_it_says() {
    let bench = bench();
    bench.assert_works().await;
    let boot = bench.host.event_data("capsule:boot").unwrap();
    let sandbox = boot["sandbox"].as_object().unwrap();
    for layer in [
        "diesWithParent",
        "coreDumpsOff",
        "descriptorsClosed",
        "noNewPrivileges",
        "landlock",
        "seccomp",
        "environmentCleared",
    ] {
        assert!(sandbox.contains_key(layer), "{sandbox:?}");
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    assert_eq!(status(&bench, "NoNewPrivs"), if sandbox["noNewPrivileges"] == true { "1" } else { "0" });
    assert_eq!(status(&bench, "Seccomp"), if sandbox["seccomp"] == true { "2" } else { "0" });
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", bench.pid())).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().nth(4), Some("0"), "{core}");
    let environment = std::fs::read(format!("/proc/{}/environ", bench.pid())).unwrap();
    assert!(environment.is_empty() || environment.starts_with(b"TZ="));
    // Its channel, its standard streams, and what its event loops wait on: no file, no directory, no device.
    for entry in std::fs::read_dir(format!("/proc/{}/fd", bench.pid())).unwrap() {
        let Ok(target) = std::fs::read_link(entry.unwrap().path()) else { continue };
        let target = target.to_string_lossy().into_owned();
        let known = ["socket:", "pipe:", "anon_inode:", "/dev/null"].iter().any(|known| target.starts_with(known));
        assert!(known, "{target}");
    }
}

/// Blocks that would like to get out.
const CURIOUS: &[&str] = &[
    "await import('node:fs').catch((e) => e.message)",
    "[1].constructor.constructor('return typeof Deno + typeof process + typeof require')()",
    "new Intl.DateTimeFormat('de', { timeZone: 'Asia/Tokyo', dateStyle: 'full', timeStyle: 'full' }).format(new Date())",
    "new Date().toString()",
    "crypto.randomUUID()",
    "console.log(new Error('x').stack); console.table([{ a: 1 }])",
    "const all = []; for (;;) all.push(new Uint8Array(1 << 20))",
    "await new Promise((r) => setTimeout(r, 20)); structuredClone(new Map([[1, 2]]))",
    "let n = 0; for (let i = 0; i < 1e6; i++) n += i; n",
    "[...'ab'].sort(new Intl.Collator('sv').compare); 'x'.normalize('NFKD').localeCompare('y')",
    "typeof Temporal === 'undefined' ? 0 : Temporal.Now.zonedDateTimeISO().toString()",
    "throw new Error('e')",
];

async fn a_block_opens_no_file_makes_no_socket_and_runs_no_program() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    bench.assert_works().await;
    let trace = Trace::of(bench.pid());
    for source in CURIOUS {
        // How it ends is not the matter here.
        let _ = bench.run(source).await;
    }
    let Some(calls) = trace.and_then(Trace::end) else { return };
    assert!(calls.is_empty(), "a block made the process call:\n{calls}");
}

/// `strace` over a process, where there is one and it may.
struct Trace(std::process::Child);

impl Trace {
    fn of(pid: rustix::process::Pid) -> Option<Self> {
        let mut child = Command::new("strace")
            .args(["-f", "-q", "-e", "trace=%file,socket,socketpair,connect,bind,execve,execveat,fork,vfork", "-e"])
            .args(["signal=none", "-p", &pid.to_string()])
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        let traced = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            !status.contains("TracerPid:\t0\n")
        };
        while !traced() {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return None;
            }
            std::thread::yield_now();
        }
        Some(Self(child))
    }

    /// What it saw.
    fn end(mut self) -> Option<String> {
        let pid = rustix::process::Pid::from_child(&self.0);
        kill_process(pid, Signal::INT).ok()?;
        let mut seen = String::new();
        self.0.stderr.take()?.read_to_string(&mut seen).ok()?;
        self.0.wait().ok()?;
        let calls = seen.lines().filter(|line| line.contains('(') && line.contains(" = ") && !line.contains(" = -1 E"));
        Some(calls.collect::<Vec<_>>().join("\n"))
    }
}
