//! What a crash leaves of a last line, at any byte.

use std::{fs, path::PathBuf};

use axon::log::{Fsync, Opened, SessionLog, check};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Sessions, content, counted, id, seqs, telemetry, text};

#[derive(Clone, Debug)]
enum Step {
    Append(String),
    Emit(u64),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => "\\PC{0,40}".prop_map(Step::Append),
        4 => any::<u32>().prop_map(|n| Step::Emit(n.into())),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_torn_at_any_byte_holds_all_before_it_and_goes_on_without_a_gap(
        steps in prop::collection::vec(step(), 0..30),
        cut in any::<prop::sample::Index>(),
        garbage in prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
    ) {
        let sessions = Sessions::new();
        let mut log = sessions.open();
        for step in steps {
            match step {
                Step::Append(content) => drop(log.append(text(content)).unwrap()),
                Step::Emit(n) => assert!(log.emit(telemetry(n)).is_some()),
                Step::Reopen => {
                    drop(log);
                    log = sessions.open();
                }
            }
        }
        drop(log);
        let whole = sessions.envelopes();
        let bytes = fs::read(sessions.path()).unwrap();
        prop_assert_eq!(seqs(&whole), counted(whole.len()));

        // Garbage without a newline is one torn line however it looks.
        let garbage: Vec<u8> = garbage.unwrap_or_default().into_iter().filter(|&byte| byte != b'\n').collect();
        let cut = cut.index(bytes.len() + 1);
        let torn = [&bytes[..cut], garbage.as_slice()].concat();
        fs::write(sessions.path(), &torn).unwrap();

        let kept = bytes[..cut].iter().filter(|&&byte| byte == b'\n').count();
        let kept_bytes = bytes[..cut].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        prop_assert_eq!(check(&sessions.path()).unwrap().torn_bytes, (torn.len() - kept_bytes) as u64);
        let (log, opened) = sessions.reopen();
        let entries = log.entries_after(None).unwrap();
        log.append(text("on")).unwrap();
        drop(log);

        let all = sessions.envelopes();
        prop_assert_eq!(&all[..kept], &whole[..kept]);
        prop_assert_eq!(seqs(&all), counted(kept + 2));
        prop_assert!(entries.iter().eq(&whole[..kept].iter().filter(|e| e.is_entry()).map(|e| e.to_entry()).collect::<Vec<_>>()));
        if torn.len() > kept_bytes {
            let torn_bytes = (torn.len() - kept_bytes) as u64;
            prop_assert_eq!(opened, Opened::Restored { torn_bytes, entries: entries.len() });
            prop_assert_eq!(&all[kept].data, &json!({ "tornBytes": torn_bytes }));
            let aside = fs::read(aside(&sessions)).unwrap();
            prop_assert_eq!(&aside[..aside.len() - 1], &torn[kept_bytes..]);
        } else {
            prop_assert!(!aside(&sessions).exists());
        }
    }
}

#[test]
fn a_tail_lost_at_any_byte_of_the_last_two_lines_costs_no_line_before_it() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..3 {
        log.append(text(n.to_string())).unwrap();
    }
    log.append(telemetry(9)).unwrap();
    log.append(text("é😀\n")).unwrap();
    drop(log);
    let whole = sessions.envelopes();
    let bytes = fs::read(sessions.path()).unwrap();
    let ends: Vec<usize> = (1..=bytes.len()).filter(|&end| bytes[end - 1] == b'\n').collect();
    for cut in ends[ends.len() - 3]..=bytes.len() {
        fs::write(sessions.path(), &bytes[..cut]).unwrap();
        let kept = ends.iter().filter(|&&end| end <= cut).count();
        let (log, opened) = sessions.reopen();
        let torn_bytes = (cut - ends[kept - 1]) as u64;
        assert!(matches!(opened, Opened::Restored { torn_bytes: torn, .. } if torn == torn_bytes), "cut at {cut}");
        let next = log.append(text("next")).unwrap();
        drop(log);
        let all = sessions.envelopes();
        assert_eq!(all[..kept], whole[..kept], "cut at {cut}");
        assert_eq!(seqs(&all), counted(kept + 2), "cut at {cut}");
        assert_eq!(all.last(), Some(&*next), "on a line of its own, cut at {cut}");
    }
}

fn aside(sessions: &Sessions) -> PathBuf {
    sessions.dir().join("s.jsonl.torn")
}

#[test]
fn torn_tails_are_kept_one_after_another() {
    let sessions = Sessions::new();
    for torn in ["{\"v\":1", "{\"v\":1,\"id\""] {
        drop(sessions.open());
        fs::write(sessions.path(), sessions.text() + torn).unwrap();
        sessions.open();
    }
    assert_eq!(fs::read_to_string(aside(&sessions)).unwrap(), "{\"v\":1\n{\"v\":1,\"id\"\n");
}

#[test]
fn a_broken_last_line_is_torn_also_with_its_newline() {
    let sessions = Sessions::new();
    sessions.open().append(text("kept")).unwrap();
    fs::write(sessions.path(), sessions.text() + "\0\0\0\0\n").unwrap();
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 5, entries: 1 });
    assert_eq!(content(&log.entries_after(None).unwrap()[0].data), "kept");
}

#[test]
fn a_corrupt_line_in_the_middle_is_an_error_with_its_number_and_the_way_out() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..5 {
        log.append(text(n.to_string())).unwrap();
    }
    drop(log);
    let good = sessions.text();
    let lines: Vec<&str> = good.lines().collect();
    let damaged = |number: usize, line: &str| {
        let mut lines = lines.clone();
        lines[number - 1] = line;
        lines.join("\n") + "\n"
    };
    let without = |number: usize| [&lines[..number - 1], &lines[number..]].concat().join("\n") + "\n";
    for (text, number, why) in [
        (damaged(3, &lines[2][..20]), 3, "not an envelope"),
        (damaged(4, ""), 4, "not an envelope"),
        (damaged(1, "{\"v\":1,\"time\":{\"seq\":0}}"), 1, "missing field"),
        (damaged(5, lines[2]), 5, "seq 2 where 4 belongs"),
        (without(4), 4, "a line is missing before it: seq 3 to 3"),
        (without(1), 1, "a line is missing before it: seq 0 to 0"),
    ] {
        fs::write(sessions.path(), &text).unwrap();
        let error = SessionLog::open(sessions.dir(), id(), "agent", Fsync::Wake).err().unwrap();
        assert_eq!(error.code(), "LOG_CORRUPT");
        let message = error.to_string();
        assert!(message.contains(&format!("s.jsonl:{number}: ")) && message.contains(why), "{message}");
        assert!(message.contains("axon log check --repair s"), "{message}");
        assert_eq!(sessions.text(), text, "a refused file is left as it was");
    }
}

#[tokio::test]
async fn lines_of_another_version_and_unknown_types_are_kept_and_passed_over() {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.append(text("one")).unwrap();
    drop(log);
    let foreign = "{\"v\":9,\"when\":\"tomorrow\"}\n{\"v\":2,\"time\":{\"seq\":3},\"type\":\"stimulus:text\"}\n";
    let before = sessions.text() + foreign;
    fs::write(sessions.path(), &before).unwrap();

    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Restored { torn_bytes: 0, entries: 1 });
    assert_eq!(log.append(axon::log::Event::new("new:kind:of", json!(null))).unwrap().time.seq, 5);
    log.append(text("two")).unwrap();
    assert_eq!(log.entries_after(None).unwrap().len(), 2);
    assert_eq!(log.entries_after(Some(1)).unwrap().len(), 1);
    let mut observer = log.subscribe(None);
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(observer.next().await.unwrap().unwrap().time.seq);
    }
    assert_eq!(seen, [0, 1, 4, 5, 6]);
    assert!(sessions.text().starts_with(&before));
}
