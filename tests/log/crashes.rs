//! Processes that are killed, and disks that are full.
//!
//! The child is this test binary again: it runs the one test that does the child's work and tells on its standard
//! output what was acknowledged.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use axon::log::{Fsync, LogError, Opened, SessionLog, SessionReader};

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

/// How often the next test kills its writer.
const KILLS: &str = "AXON_TEST_LOG_KILLS";

#[test]
fn a_writer_killed_at_random_moments_always_reopens_with_all_that_was_acknowledged() {
    let kills = env::var(KILLS).map_or(60, |kills| kills.parse::<usize>().unwrap());
    let mut sessions = Sessions::new();
    for kill in 0..kills {
        // Sessions grow over some rounds, not without end.
        if kill % 20 == 0 {
            sessions = Sessions::new();
        }
        let before = if sessions.path().exists() { sessions.envelopes() } else { Vec::new() };
        let mut running = Running::start(Command::new(env::current_exe().unwrap()), sessions.dir());
        // Anywhere from before the session is open to far into its work: the moment itself is what varies.
        let moment = uuid::Uuid::new_v4().as_u128() % 25_000;
        thread::sleep(Duration::from_micros(moment as u64));
        running.child.kill().unwrap();
        let mut acknowledged = Vec::new();
        while let Some(line) = running.hear("ACK ") {
            acknowledged.extend(line.parse::<usize>().ok());
        }
        running.child.wait().unwrap();

        let (log, _) = sessions.reopen();
        log.append(text("on")).unwrap();
        drop(log);
        let all = sessions.envelopes();
        assert_eq!(seqs(&all), counted(all.len()), "after kill {kill}");
        assert_eq!(all[..before.len()], before, "after kill {kill}");
        for seq in acknowledged {
            assert_eq!(all[seq].kind, "stimulus:text", "acknowledged before kill {kill}");
        }
        let stored = sessions.text();
        let last = stored.strip_suffix('\n').and_then(|stored| stored.rsplit('\n').next()).unwrap();
        assert!(last.starts_with("{\"v\":1,") && last.ends_with("\"data\":{\"content\":\"on\"}}"), "{last}");
    }
}

#[test]
fn a_reader_beside_a_writer_in_another_process_sees_only_whole_lines_in_order() {
    let sessions = Sessions::new();
    let mut running = Running::start(Command::new(env::current_exe().unwrap()), sessions.dir());
    running.hear("ACK ").unwrap();
    let mut reader = SessionReader::open(&sessions.path()).unwrap();
    // The child's acknowledgements are heard so that it is not held up.
    let mut told = running.told;
    let listener =
        thread::spawn(move || told.by_ref().map_while(Result::ok).filter(|line| line.contains("ACK ")).count());
    let mut seen = 0;
    while seen < 3_000 {
        // The reader ends where the file does for now, and goes on when asked again.
        for line in reader.by_ref() {
            let line = line.unwrap();
            assert_eq!((line.seq, line.number), (Some(seen), seen + 1));
            assert!(line.envelope().is_some());
            seen += 1;
        }
    }
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(listener.join().unwrap() > 0);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_really_full_takes_nothing_that_was_acknowledged_and_goes_on_once_there_is_space() {
    let disk = tempfile::TempDir::new().unwrap();
    let mount = |args: &[&str]| Command::new("mount").args(args).arg(disk.path()).output();
    // Who may not mount has no small disk to fill.
    if !mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).is_ok_and(|mounted| mounted.status.success()) {
        return;
    }
    let mounted = Unmounted(disk.path());
    let open = || SessionLog::open(disk.path(), id(), "agent", Fsync::Wake).unwrap().0;
    let log = open();
    let mut acknowledged = Vec::new();
    let error = loop {
        match log.append(text("x".repeat(1_000))) {
            Ok(envelope) => acknowledged.push((*envelope).clone()),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code(), "LOG_WRITE_FAILED");
    assert!(error.to_string().contains("No space left on device"), "{error}");
    assert!(acknowledged.len() > 100);
    let path = log.path().to_owned();
    drop(log);
    assert!(axon::log::check(&path).unwrap().is_sound());

    assert!(mount(&["-o", "remount,size=1m"]).unwrap().status.success());
    let log = open();
    let on = log.append(text("on")).unwrap();
    drop(log);
    let all = crate::support::envelopes(&path);
    assert_eq!(all[1..=acknowledged.len()], acknowledged);
    assert_eq!(seqs(&all), counted(all.len()));
    assert_eq!(all.last(), Some(&*on));
    drop(mounted);
}

/// Takes a disk away again, also when a test fails.
#[cfg(target_os = "linux")]
struct Unmounted<'a>(&'a Path);

#[cfg(target_os = "linux")]
impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
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
