//! Any bytes as a session's file: reading never panics, checking and opening agree, a repair always helps, and what was
//! whole before is whole after.

#![no_main]

use std::fs;

use axon::log::{Event, Fsync, SessionId, SessionLog, SessionReader, check, repair};
use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tempfile::TempDir;

fuzz_target!(|bytes: &[u8]| {
    let dir = TempDir::new().expect("a folder");
    let path = dir.path().join("s.jsonl");
    fs::write(&path, bytes).expect("a file");
    let lines = || SessionReader::open(&path).expect("a file").filter_map(Result::ok);
    let readable = lines().filter(|line| line.envelope().is_some()).count();

    let sound = check(&path).expect("readable").is_sound();
    let id = SessionId::parse("s").expect("a name");
    let open = || SessionLog::open(dir.path(), id.clone(), "fuzz", Fsync::Never);
    if sound {
        drop(open().expect("a sound session opens"));
        assert!(lines().count() > readable, "opening keeps what can be read and adds a line");
    } else {
        assert!(open().is_err(), "a damaged session is refused");
        repair(&path).expect("a repair works");
    }
    let (log, _) = open().expect("it opens after that");
    let appended = log.append(Event::new("stimulus:text", json!({ "content": "on" }))).expect("it goes on");
    let last = log.entries_after(None).expect("readable").pop();
    assert_eq!(last, Some(appended.to_entry()));
    drop(log);
    assert!(check(&path).expect("readable").is_sound());
    assert!(SessionReader::open(&path).expect("a file").all(|line| line.is_ok()));
});
