//! `check` and `repair`.

use std::fs;

use axon::log::{Fault, FaultKind, LogError, Opened, SessionReader, check, repair};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Sessions, content, telemetry, text};

/// A session with lines 1 (opened), 2 to `n` + 1.
fn session(n: u64) -> (Sessions, Vec<String>) {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..n {
        log.append(if n % 2 == 0 { text(n.to_string()) } else { telemetry(n) }).unwrap();
    }
    drop(log);
    let lines = sessions.text().lines().map(str::to_owned).collect();
    (sessions, lines)
}

fn write(sessions: &Sessions, lines: &[String]) {
    fs::write(sessions.path(), lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>()).unwrap();
}

#[test]
fn a_sound_session_has_no_faults_and_a_repair_leaves_it_alone() {
    let (sessions, lines) = session(10);
    let before = sessions.text();
    let report = check(&sessions.path()).unwrap();
    assert!(report.is_sound());
    assert_eq!((report.lines, report.entries, report.foreign, report.torn_bytes), (11, 5, 0, 0));
    assert_eq!(report.bytes, before.len() as u64);
    let repaired = repair(&sessions.path()).unwrap();
    assert_eq!((repaired.kept, repaired.moved), (lines.len() as u64, 0));
    assert_eq!(sessions.text(), before);
}

#[test]
fn a_repair_keeps_good_lines_moves_bad_ones_and_notes_what_is_missing() {
    let (sessions, mut lines) = session(10);
    let torn = "{\"v\":1,\"id";
    lines[3] = "damaged".into();
    let second = lines[7].replace("\"seq\":7", "\"seq\":700");
    lines[7] = second.clone();
    write(&sessions, &lines);
    fs::write(sessions.path(), sessions.text() + torn).unwrap();

    let report = check(&sessions.path()).unwrap();
    let fault = |line, kind| Fault { line, kind };
    assert_eq!(
        report.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(),
        [4, 5, 8, 9],
        "bad lines, and those after which something is missing"
    );
    assert!(report.faults.contains(&fault(8, FaultKind::OutOfOrder { seq: 700 })));
    assert!(report.faults.contains(&fault(5, FaultKind::Gap { from: 3, to: 3 })));
    assert!(report.faults.contains(&fault(9, FaultKind::Gap { from: 7, to: 7 })));
    assert_eq!(report.torn_bytes, torn.len() as u64);

    let repaired = repair(&sessions.path()).unwrap();
    assert_eq!((repaired.kept, repaired.moved, repaired.torn_bytes), (9, 2, torn.len() as u64));
    assert_eq!(repaired.gaps, [(3, 3), (7, 7)]);
    let aside = |suffix: &str| fs::read_to_string(sessions.dir().join(format!("s.jsonl.{suffix}"))).unwrap();
    assert_eq!(aside("bad"), format!("damaged\n{second}\n"));
    assert_eq!(aside("torn"), format!("{torn}\n"));

    assert!(check(&sessions.path()).unwrap().is_sound());
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 0, entries: 3 });
    assert_eq!(log.append(text("on")).unwrap().time.seq, 13);
    let contents: Vec<_> = log.entries_after(Some(2)).unwrap().iter().map(|e| content(&e.data).to_owned()).collect();
    assert_eq!(contents, ["4", "8", "on"]);
    let note = &sessions.envelopes()[9];
    assert_eq!((note.kind.as_str(), note.time.seq, note.context.agent_id.as_str()), ("axon:log:repaired", 11, "agent"));
    assert_eq!(note.data["gaps"], json!([[3, 3], [7, 7]]));
}

#[test]
fn a_session_that_is_being_written_cannot_be_repaired() {
    let sessions = Sessions::new();
    let log = sessions.open();
    assert!(matches!(repair(&sessions.path()), Err(LogError::Held { .. })));
    drop(log);
    repair(&sessions.path()).unwrap();
    assert!(matches!(repair(&sessions.dir().join("none.jsonl")), Err(LogError::NotFound { .. })));
    assert!(!sessions.dir().join("none.jsonl").exists());
}

#[derive(Clone, Debug)]
enum Damage {
    Remove,
    Overwrite(u8, usize),
    Duplicate,
    Swap,
    Blank,
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Remove),
        (any::<u8>(), any::<usize>()).prop_map(|(byte, at)| Damage::Overwrite(byte, at)),
        Just(Damage::Duplicate),
        Just(Damage::Swap),
        Just(Damage::Blank),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_damaged_all_tell_the_same_and_a_repaired_session_opens_and_keeps_each_untouched_line(
        damages in prop::collection::vec((any::<prop::sample::Index>(), damage()), 1..4),
    ) {
        let (sessions, lines) = session(12);
        let mut damaged: Vec<Vec<u8>> = lines.iter().map(|line| line.clone().into_bytes()).collect();
        for (at, damage) in damages {
            if damaged.is_empty() {
                break;
            }
            let at = at.index(damaged.len());
            match damage {
                Damage::Remove => drop(damaged.remove(at)),
                Damage::Overwrite(byte, position) => {
                    let position = position % damaged[at].len().max(1);
                    if let Some(old) = damaged[at].get_mut(position) {
                        *old = byte;
                    }
                }
                Damage::Duplicate => damaged.insert(at, damaged[at].clone()),
                Damage::Swap => {
                    let other = (at + 1) % damaged.len();
                    damaged.swap(at, other);
                }
                Damage::Blank => damaged[at].clear(),
            }
        }
        fs::write(sessions.path(), damaged.iter().flat_map(|line| [line.as_slice(), b"\n"]).collect::<Vec<_>>().concat()).unwrap();
        let before = check(&sessions.path()).unwrap();
        let reads = SessionReader::open(&sessions.path()).unwrap().all(|line| line.is_ok());
        prop_assert_eq!(before.is_sound(), reads, "{:?}", before);
        let opens = axon::log::SessionLog::open(sessions.dir(), crate::support::id(), "agent", axon::log::Fsync::Never).is_ok();
        prop_assert_eq!(before.is_sound(), opens, "{:?}", before);
        let repaired = repair(&sessions.path()).unwrap();
        prop_assert!(check(&sessions.path()).unwrap().is_sound());
        prop_assert!(SessionReader::open(&sessions.path()).unwrap().all(|line| line.is_ok()));
        let log = sessions.open();
        log.append(text("on")).unwrap();
        drop(log);
        let seqs = crate::support::seqs(&sessions.envelopes());
        prop_assert!(seqs.is_sorted_by(|a, b| a < b), "{:?}", seqs);
        prop_assert!(repaired.kept + repaired.moved + 1 >= before.lines);
    }
}
