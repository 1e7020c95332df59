//! Processes that are killed, and disks that are full.
//!
//! The child is this test binary again: it runs the one test that does the child's work and tells on its standard
//! output what was acknowledged.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use axon::log::{Fsync, LogError, Opened, SessionLog};

use crate::support::{Sessions, counted, id, seqs, telemetry, text};

const CHILD_TEST: &str = "crashes::the_work_of_a_child";
const CHILD_DIR: &str = "AXON_TEST_LOG_CHILD_DIR";

/// Not a test of its own: without the variable there is nothing to do.
#[test]
fn the_work_of_a_child() {
    let Ok(dir) = env::var(CHILD_DIR) else { return };
    let mut told = std::io::stdout();
    let (log, _) = SessionLog::open(Path::new(&dir), id(), "agent", Fsync::Wake).unwrap();
    for n in 0.. {
        log.emit(telemetry(n));
        match log.append(text("x".repeat(n as usize % 700))) {
            Ok(envelope) => writeln!(told, "ACK {}", envelope.time.seq).unwrap(),
            Err(error) => {
                assert!(matches!(error, LogError::Broken { .. }));
                writeln!(told, "FAIL {error}").unwrap();
                break;
            }
        }
    }
    // What failed once fails from then on, also for small events that would fit.
    log.emit(telemetry(0));
    assert!(matches!(log.append(text("")), Err(LogError::Broken { .. })));
    writeln!(told, "REFUSED {}", log.last_seq().unwrap()).unwrap();
}

struct Running {
    child: Child,
    told: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(mut command: Command, dir: &Path) -> Self {
        let mut child = command
            .args([CHILD_TEST, "--exact", "--nocapture"])
            .env(CHILD_DIR, dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let told = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, told }
    }

    /// What the child says next after the word, if it says it before it ends.
    fn hear(&mut self, word: &str) -> Option<String> {
        self.told.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once(word)?.1.trim().to_owned()))
    }
}

#[test]
fn a_killed_writer_loses_nothing_that_was_acknowledged_and_frees_the_session() {
    let sessions = Sessions::new();
    let mut seq = 0;
    for appends in [1, 7, 50, 333, 2_000] {
        let mut running = Running::start(Command::new(env::current_exe().unwrap()), sessions.dir());
        for _ in 0..appends {
            seq = running.hear("ACK ").unwrap().parse::<u64>().unwrap();
        }
        let held = SessionLog::open(sessions.dir(), id(), "agent", Fsync::Wake).err().unwrap();
        assert_eq!(
            held.to_string().split(". ").next(),
            Some(&*format!("session s is held by process {}", running.child.id()))
        );
        running.child.kill().unwrap();
        // What it had said before it died was acknowledged as well.
        while let Some(later) = running.hear("ACK ") {
            seq = later.parse().unwrap_or(seq);
        }
        running.child.wait().unwrap();

        let (log, opened) = sessions.reopen();
        assert!(matches!(opened, Opened::Restored { .. }));
        assert!(log.last_seq().unwrap() > seq);
        drop(log);
        let all = sessions.envelopes();
        assert_eq!(seqs(&all), counted(all.len()));
        assert_eq!(all[seq as usize].kind, "stimulus:text");
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_fails_the_append_keeps_the_log_whole_and_refuses_what_follows() {
    let sessions = Sessions::new();
    let mut shell = Command::new("sh");
    // A limit on the size of files stands for the full disk. Unheeded, its signal would end the process.
    shell.args(["-c", "trap '' XFSZ; ulimit -f 100; exec \"$0\" \"$@\""]).arg(env::current_exe().unwrap());
    let mut running = Running::start(shell, sessions.dir());
    let mut seq = 0;
    let failure = loop {
        let line = running.told.next().unwrap().unwrap();
        if let Some((_, acknowledged)) = line.split_once("ACK ") {
            seq = acknowledged.parse().unwrap();
        } else if let Some((_, failure)) = line.split_once("FAIL ") {
            break failure.to_owned();
        }
    };
    assert!(failure.contains("session s cannot go on: writing") && failure.contains("File too large"), "{failure}");
    let last: u64 = running.hear("REFUSED ").unwrap().parse().unwrap();
    assert!(running.child.wait().unwrap().success());

    let all = sessions.envelopes();
    assert_eq!(seqs(&all), counted(last as usize + 1), "only whole lines are left");
    assert!(last >= seq && all[seq as usize].kind == "stimulus:text");
    let (log, opened) = sessions.reopen();
    assert!(matches!(opened, Opened::Restored { torn_bytes: 0, .. }));
    assert_eq!(log.append(text("on")).unwrap().time.seq, last + 2);
}
