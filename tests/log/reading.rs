//! Reading without the lock: lists, readers, followers.

use std::{fs, io::Write, path::Path, time::Duration};

use axon::log::{Event, Follow, Fsync, LogError, SessionId, SessionLog, SessionReader, last_session, list_sessions};
use serde_json::json;

use crate::support::{Sessions, telemetry, text};

#[test]
fn sessions_are_listed_newest_last_with_what_they_began_with() {
    let sessions = Sessions::new();
    assert!(list_sessions(&sessions.dir().join("none")).unwrap().is_empty());
    assert_eq!(last_session(sessions.dir()), None);
    for name in ["b", "a", "c"] {
        let (log, _) = SessionLog::open(sessions.dir(), SessionId::parse(name).unwrap(), "x", Fsync::Never).unwrap();
        log.append(text(format!("  {name}\n asks {}", "x".repeat(100)))).unwrap();
        log.append(text("y".repeat(200_000))).unwrap();
        // The clock of the log counts milliseconds.
        let ms = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis();
        let now = ms();
        while ms() == now {
            std::thread::yield_now();
        }
    }
    fs::write(sessions.dir().join("notes.txt"), "").unwrap();
    fs::write(sessions.dir().join("a.jsonl.torn"), "").unwrap();
    let listed = list_sessions(sessions.dir()).unwrap();
    assert_eq!(listed.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!(last_session(sessions.dir()).unwrap().as_str(), "c");
    let first = &listed[0];
    assert_eq!(first.last_seq, Some(2));
    assert!(first.first_ms <= first.last_ms && first.bytes > 200_000);
    assert_eq!(first.title.as_ref().unwrap().chars().count(), 80);
    assert!(first.title.as_ref().unwrap().starts_with("b asks xx"));
}

#[test]
fn a_session_that_cannot_be_read_is_listed_all_the_same() {
    let sessions = Sessions::new();
    fs::write(sessions.path(), "garbage\nmore").unwrap();
    let listed = list_sessions(sessions.dir()).unwrap();
    assert_eq!((listed[0].first_ms, listed[0].last_seq, listed[0].bytes), (None, None, 12));
}

#[test]
fn a_reader_gives_lines_as_they_are_stored_and_stops_before_an_unfinished_one() {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.append(text("é")).unwrap();
    log.append(telemetry(1)).unwrap();
    let stored = sessions.text();
    fs::OpenOptions::new().append(true).open(sessions.path()).unwrap().write_all(b"{\"v\":1,").unwrap();
    let mut reader = SessionReader::open(&sessions.path()).unwrap();
    let lines: Vec<_> = reader.by_ref().map(Result::unwrap).collect();
    assert!(lines.iter().map(|line| line.text.as_str()).eq(stored.lines()));
    assert_eq!(lines.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(lines.iter().map(|line| line.is_entry()).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(reader.unfinished_bytes(), 7);
}

#[test]
fn a_reader_tells_a_corrupt_line_in_its_place_and_goes_on() {
    let sessions = Sessions::new();
    sessions.open().append(text("x")).unwrap();
    let good = sessions.text();
    let (first, second) = good.split_once('\n').unwrap();
    fs::write(sessions.path(), format!("{first}\noops\n{second}")).unwrap();
    let lines: Vec<_> = SessionReader::open(&sessions.path()).unwrap().collect();
    assert!(matches!(&lines[1], Err(LogError::Corrupt { line: 2, .. })));
    assert_eq!(lines[2].as_ref().unwrap().number, 3);
}

#[test]
fn a_reader_tells_a_gap_before_the_line_that_follows_it_unless_a_repair_has_noted_it() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..6 {
        log.append(telemetry(n)).unwrap();
    }
    drop(log);
    let mut lines: Vec<_> = sessions.text().lines().map(str::to_owned).collect();
    lines.drain(2..4);
    fs::write(sessions.path(), lines.join("\n") + "\n").unwrap();
    let read: Vec<_> = SessionReader::open(&sessions.path()).unwrap().collect();
    assert!(matches!(&read[2], Err(LogError::Corrupt { line: 3, .. })), "{:?}", read[2]);
    let opened = SessionLog::open(sessions.dir(), crate::support::id(), "agent", Fsync::Never).err().unwrap();
    assert_eq!(read[2].as_ref().unwrap_err().to_string(), opened.to_string(), "as opening tells it");
    let seqs: Vec<_> = read.iter().flatten().map(|line| line.seq.unwrap()).collect();
    assert_eq!(seqs, [0, 1, 4, 5, 6], "and the lines follow");
    // Before what is looked at, nothing is known to be missing.
    let size = sessions.text().len() as u64;
    let (near_end, is_whole) = SessionReader::open_near_end(&sessions.path(), size / 2).unwrap();
    assert!(!is_whole && near_end.map(Result::unwrap).count() >= 2);

    axon::log::repair(&sessions.path()).unwrap();
    let read: Vec<_> = SessionReader::open(&sessions.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(read.len(), 6);
}

#[test]
fn a_broken_last_line_is_left_out_until_another_follows_it() {
    let sessions = Sessions::new();
    drop(sessions.open());
    let good = sessions.text();
    fs::write(sessions.path(), format!("{good}oops\n")).unwrap();
    let mut reader = SessionReader::open(&sessions.path()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count(), 1);
    assert_eq!(reader.unfinished_bytes(), 5);
    fs::write(sessions.path(), format!("{good}oops\nmore")).unwrap();
    assert!(matches!(reader.next(), Some(Err(LogError::Corrupt { line: 2, .. }))));
    assert!(reader.next().is_none());
}

#[test]
fn the_last_session_is_the_newest_in_which_something_happened_or_that_is_open() {
    let sessions = Sessions::new();
    let open =
        |name: &str| SessionLog::open(sessions.dir(), SessionId::parse(name).unwrap(), "x", Fsync::Never).unwrap().0;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let last = || last_session(sessions.dir()).map(|id| id.to_string());
    let end = |log: SessionLog| runtime.block_on(log.close()).unwrap();
    // Names in the order of time, which decides among sessions of one millisecond.
    let unused = open("a");
    unused.append(Event::new("cognet:load:failed", json!({}))).unwrap();
    end(unused);
    assert_eq!(last().as_deref(), Some("a"), "there is no other");
    let spoken = open("b");
    spoken.append(text("x")).unwrap();
    end(spoken);
    end(open("c"));
    assert_eq!(last().as_deref(), Some("b"));
    let woken = open("d");
    woken.append(Event::new("kernel:run:start", json!({}))).unwrap();
    end(woken);
    end(open("e"));
    assert_eq!(last().as_deref(), Some("d"));
    let opened = open("f");
    assert_eq!(last().as_deref(), Some("f"));
    end(opened);
    fs::write(sessions.dir().join("g.jsonl"), "").unwrap();
    assert_eq!(last().as_deref(), Some("d"), "nothing happened in an empty file");
    fs::write(sessions.dir().join("h.jsonl"), "garbage\nmore\n").unwrap();
    assert_eq!(last().as_deref(), Some("h"), "damage is not hidden");
}

#[test]
fn a_session_that_is_not_there_is_named() {
    let error = SessionReader::open(Path::new("/nowhere/abc.jsonl")).err().unwrap();
    assert_eq!(error.code(), "SESSION_NOT_FOUND");
    assert_eq!(error.to_string(), "there is no session abc in /nowhere");
}

#[tokio::test]
async fn a_follower_sees_lines_that_are_written_later_and_only_whole_ones() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let mut follow = Follow::open(&sessions.path()).unwrap();
    assert_eq!(follow.next().await.unwrap().seq, Some(0));
    let waiting = tokio::spawn(async move {
        let next = follow.next().await.unwrap();
        (next, follow)
    });
    let envelope = log.append(text("later")).unwrap();
    let (line, mut follow) = waiting.await.unwrap();
    assert_eq!(line.envelope().as_ref(), Some(&*envelope));

    drop(log);
    let whole = sessions.text().lines().nth(1).unwrap().replace("\"seq\":1", "\"seq\":2");
    let (half, other) = whole.split_at(30);
    let mut file = fs::OpenOptions::new().append(true).open(sessions.path()).unwrap();
    file.write_all(half.as_bytes()).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(120), follow.next()).await.is_err());
    file.write_all(format!("{other}\n").as_bytes()).unwrap();
    assert_eq!(follow.next().await.unwrap().text, whole);
}
