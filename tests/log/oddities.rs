//! Files that no writer of ours would leave, each as docs/log.md says.

use std::fs;

use axon::log::{Event, Fsync, LogError, Opened, SessionLog, SessionReader, check, list_sessions, repair};
use serde_json::json;

use crate::support::{Sessions, content, counted, id, seqs, telemetry, text};

fn refused(sessions: &Sessions) -> LogError {
    SessionLog::open(sessions.dir(), id(), "agent", Fsync::Never).err().expect("it is refused")
}

/// A session of four lines: opened, "one", telemetry, "two".
fn session() -> (Sessions, String) {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.append(text("one")).unwrap();
    log.append(telemetry(1)).unwrap();
    log.append(text("two")).unwrap();
    drop(log);
    let stored = sessions.text();
    (sessions, stored)
}

fn said(log: &SessionLog) -> Vec<String> {
    log.entries_after(None).unwrap().iter().map(|entry| content(&entry.data).to_owned()).collect()
}

#[test]
fn lines_that_end_as_on_windows_are_read_and_kept() {
    let (sessions, stored) = session();
    let foreign = stored.replace('\n', "\r\n");
    fs::write(sessions.path(), &foreign).unwrap();
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 0, entries: 2 });
    log.append(text("three")).unwrap();
    assert_eq!(said(&log), ["one", "two", "three"]);
    drop(log);
    assert!(sessions.text().starts_with(&foreign));
    assert_eq!(seqs(&sessions.envelopes()), counted(6));
}

#[test]
fn a_byte_order_mark_is_refused_by_its_name_and_a_repair_helps() {
    let (sessions, stored) = session();
    fs::write(sessions.path(), format!("\u{feff}{stored}")).unwrap();
    let error = refused(&sessions);
    assert_eq!(error.code(), "LOG_CORRUPT");
    assert!(error.to_string().contains("s.jsonl:1: it begins with a byte order mark"), "{error}");
    repair(&sessions.path()).unwrap();
    assert_eq!(said(&sessions.open()), ["one", "two"]);
}

#[test]
fn nul_bytes_in_the_middle_are_corrupt_and_at_the_end_torn() {
    let (sessions, stored) = session();
    let (first, rest) = stored.split_once('\n').unwrap();
    fs::write(sessions.path(), format!("{first}\n\0\0\0\n{rest}")).unwrap();
    let error = refused(&sessions);
    assert!(error.to_string().contains("s.jsonl:2: not an envelope"), "{error}");
    // As a file system leaves it that had grown the file and lost the bytes.
    fs::write(sessions.path(), format!("{stored}{}", "\0".repeat(4096))).unwrap();
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 4096, entries: 2 });
    assert_eq!(said(&log), ["one", "two"]);
}

#[test]
fn unknown_types_and_versions_are_kept_and_passed_over() {
    let (sessions, stored) = session();
    let foreign = "{\"v\":7,\"time\":{\"seq\":4},\"anything\":[1]}\n";
    fs::write(sessions.path(), format!("{stored}{foreign}")).unwrap();
    let log = sessions.open();
    log.append(Event::new("stimulus:smell", json!({ "of": "coffee" }))).unwrap();
    log.append(Event::new("weather:changed", json!(null))).unwrap();
    drop(log);
    let report = check(&sessions.path()).unwrap();
    assert!(report.is_sound());
    assert_eq!((report.lines, report.entries, report.foreign), (8, 3, 1));
    let lines: Vec<_> = SessionReader::open(&sessions.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!((lines[4].text.as_str(), lines[4].envelope()), (foreign.trim_end(), None));
    assert_eq!(sessions.open().entries_after(Some(4)).unwrap()[0].data, json!({ "of": "coffee" }));
}

#[test]
fn an_entry_without_data_is_one_whose_data_is_null() {
    let (sessions, stored) = session();
    let without = stored.replace(",\"data\":{\"content\":\"one\"}", "");
    assert_ne!(without, stored);
    fs::write(sessions.path(), without).unwrap();
    assert_eq!(sessions.open().entries_after(None).unwrap()[0].data, json!(null));
    assert_eq!(sessions.envelopes()[1].data, json!(null));
}

#[test]
fn a_line_of_fifty_mebibytes_is_a_line_like_any_other() {
    let sessions = Sessions::new();
    let large = "0123456789abcdef".repeat(50 * 1024 * 1024 / 16);
    let log = sessions.open();
    log.append(text(large.as_str())).unwrap();
    log.append(text("after")).unwrap();
    drop(log);
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 0, entries: 2 });
    let entries = log.entries_after(None).unwrap();
    assert!(content(&entries[0].data) == large && content(&entries[1].data) == "after");
    drop(log);
    assert_eq!(list_sessions(sessions.dir()).unwrap()[0].last_seq, Some(3));
}

#[test]
fn an_empty_file_is_a_new_session() {
    let sessions = Sessions::new();
    fs::write(sessions.path(), "").unwrap();
    assert_eq!(SessionReader::open(&sessions.path()).unwrap().count(), 0);
    assert!(check(&sessions.path()).unwrap().is_sound());
    assert_eq!(list_sessions(sessions.dir()).unwrap()[0].last_seq, None);
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Created);
    assert_eq!(log.append(text("one")).unwrap().time.seq, 1);
}

#[test]
fn a_folder_in_a_sessions_place_is_refused_and_not_listed() {
    let sessions = Sessions::new();
    fs::create_dir(sessions.path()).unwrap();
    let error = refused(&sessions);
    assert_eq!(error.code(), "LOG_IO");
    assert!(error.to_string().contains("cannot open ") && error.to_string().contains("s.jsonl: "), "{error}");
    assert!(list_sessions(sessions.dir()).unwrap().is_empty());
    assert!(sessions.path().is_dir());
}

#[cfg(unix)]
mod read_only {
    use std::{
        env,
        os::unix::{fs::PermissionsExt, process::CommandExt},
        path::Path,
        process::Command,
    };

    use super::*;

    const CHILD_TEST: &str = "oddities::read_only::the_look_of_a_child";
    const CHILD_DIR: &str = "AXON_TEST_LOG_READ_ONLY_DIR";
    /// Who may do nothing here, where the test runs as root and may do everything.
    const NOBODY: u32 = 65_534;

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Not a test of its own: without the variable there is nothing to do.
    #[test]
    fn the_look_of_a_child() {
        let Ok(dir) = env::var(CHILD_DIR) else { return };
        let dir = Path::new(&dir);
        let open = |name: &str| {
            let id = axon::log::SessionId::parse(name).unwrap();
            SessionLog::open(dir, id, "agent", Fsync::Never).err().expect("it is refused").to_string()
        };
        let (fresh, old) = (open("fresh"), open("s"));
        assert!(fresh.contains("cannot create ") && fresh.contains("ermission denied"), "{fresh}");
        assert!(old.contains("cannot open ") && old.contains("ermission denied"), "{old}");
        assert_eq!(crate::support::envelopes(&dir.join("s.jsonl")).len(), 4, "it can be read");
        assert!(check(&dir.join("s.jsonl")).unwrap().is_sound());
        assert_eq!(list_sessions(dir).unwrap().len(), 1);
    }

    #[test]
    fn a_folder_that_may_not_be_written_is_refused_and_can_be_read() {
        let (sessions, _) = session();
        // Where everybody reaches it.
        let program = tempfile::TempDir::new().unwrap();
        let copy = program.path().join("test");
        fs::copy(env::current_exe().unwrap(), &copy).unwrap();
        allow(program.path(), 0o755);
        allow(&copy, 0o755);
        allow(&sessions.path(), 0o444);
        allow(sessions.dir(), 0o555);
        let mut child = Command::new(&copy);
        child.args([CHILD_TEST, "--exact", "--nocapture"]).env(CHILD_DIR, sessions.dir());
        if rustix::process::geteuid().is_root() {
            child.uid(NOBODY);
        }
        let status = child.status().unwrap();
        allow(sessions.dir(), 0o755);
        assert!(status.success());
    }
}
