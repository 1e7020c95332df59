//! Appending, emitting, reading back, one writer.

use std::{fs, thread, time::Duration};

use axon::log::{Event, Fsync, LogError, Opened, SessionId, SessionLog};
use serde_json::json;

use crate::support::{Sessions, content, counted, id, seqs, telemetry, text};

#[test]
fn a_new_session_begins_with_opened_and_seq_0() {
    let sessions = Sessions::new();
    let (log, opened) = sessions.reopen();
    assert_eq!(opened, Opened::Created);
    let envelope = log.append(text("hi").run("r").span("p")).unwrap();
    assert_eq!(envelope.time.seq, 1);
    let all = sessions.envelopes();
    assert_eq!(all[0].kind, "axon:session:opened");
    assert_eq!(all[0].context.run_id, None);
    assert_eq!(all[1], *envelope);
    assert_eq!((all[1].context.agent_id.as_str(), all[1].context.session_id.as_str()), ("agent", "s"));
    assert_eq!((all[1].context.run_id.as_deref(), all[1].context.span_id.as_deref()), (Some("r"), Some("p")));
    assert!(sessions.text().lines().nth(1).unwrap().starts_with(r#"{"v":1,"id":""#));
}

#[test]
fn an_append_is_in_the_file_when_it_returns_with_all_that_was_emitted_before_it() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..100 {
        log.emit(telemetry(n));
        log.emit(telemetry(n));
        let envelope = log.append(text(n.to_string())).unwrap();
        let all = sessions.envelopes();
        assert_eq!(all.last(), Some(&*envelope));
        assert_eq!(seqs(&all), counted(all.len()));
    }
}

#[test]
fn telemetry_reaches_the_file_without_an_append() {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.emit(telemetry(7));
    while sessions.envelopes().len() < 2 {
        thread::yield_now();
    }
    assert_eq!(sessions.envelopes()[1].data, json!({"value": 7}));
}

#[test]
fn dropping_the_last_handle_writes_what_was_emitted_and_lets_others_in() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let other = log.clone();
    drop(log);
    for n in 0..10_000 {
        other.emit(telemetry(n));
    }
    drop(other);
    assert_eq!(seqs(&sessions.envelopes()), counted(10_001));
    sessions.open();
}

#[test]
fn concurrent_appends_get_one_order_without_gaps() {
    let sessions = Sessions::new();
    let log = sessions.open();
    thread::scope(|scope| {
        for writer in 0..8 {
            let log = log.clone();
            scope.spawn(move || {
                let mut last = 0;
                for n in 0..200 {
                    log.emit(telemetry(n));
                    let seq = log.append(text(format!("{writer}:{n}"))).unwrap().time.seq;
                    assert!(seq > last);
                    last = seq;
                }
            });
        }
    });
    let all = sessions.envelopes();
    assert_eq!(seqs(&all), counted(1 + 8 * 200 * 2));
    for writer in 0..8 {
        let prefix = format!("{writer}:");
        let texts = all.iter().filter(|e| e.is_entry()).map(|e| content(&e.data)).filter(|t| t.starts_with(&prefix));
        assert!(texts.eq((0..200).map(|n| format!("{writer}:{n}"))));
    }
}

#[test]
fn entries_are_read_back_without_telemetry_and_without_context() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..5 {
        log.emit(telemetry(n));
        log.append(text(n.to_string())).unwrap();
    }
    let all = log.entries_after(None).unwrap();
    assert_eq!(all.iter().map(|entry| entry.time.seq).collect::<Vec<_>>(), [2, 4, 6, 8, 10]);
    assert_eq!(all[3].data, json!({"content": "3"}));
    assert_eq!(log.entries_after(Some(6)).unwrap(), all[3..]);
    assert_eq!(log.entries_after(Some(7)).unwrap(), all[3..]);
    assert!(log.entries_after(Some(10)).unwrap().is_empty());
    assert!(log.entries_after(Some(u64::MAX)).unwrap().is_empty());
    assert_eq!(log.last_seq(), Some(10));
}

#[test]
fn a_folder_without_entries_gives_none() {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.append(telemetry(1)).unwrap();
    assert!(log.entries_after(None).unwrap().is_empty());
    assert_eq!(log.latest("stimulus:text").unwrap(), None);
}

#[test]
fn the_newest_entry_of_a_type_is_found_also_after_resuming() {
    let sessions = Sessions::new();
    let log = sessions.open();
    for n in 0..3 {
        log.append(text(n.to_string())).unwrap();
        log.append(Event::new("cognet:action:result", json!({"content": n}))).unwrap();
    }
    log.append(telemetry(0)).unwrap();
    drop(log);
    let log = sessions.open();
    assert_eq!(content(&log.latest("stimulus:text").unwrap().unwrap().data), "2");
    assert_eq!(log.latest("cognet:action:result").unwrap().unwrap().data, json!({"content": 2}));
    assert_eq!(log.latest("cognet:log:info").unwrap(), None);
    log.append(text("new")).unwrap();
    assert_eq!(content(&log.latest("stimulus:text").unwrap().unwrap().data), "new");
}

#[test]
fn large_and_odd_contents_come_back_as_they_were() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let contents = ["x".repeat(2_000_000), "\0\n\r\u{2028}\u{2029}\u{feff}😀\"\\".to_owned(), String::new()];
    for content in &contents {
        log.append(text(content.as_str())).unwrap();
    }
    let entries = log.entries_after(None).unwrap();
    assert!(entries.iter().map(|entry| content(&entry.data)).eq(&contents));
    drop(log);
    assert_eq!(sessions.open().entries_after(None).unwrap(), entries);
}

#[test]
fn an_event_that_could_not_be_read_again_is_refused_and_costs_no_seq() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    log.append(Event::new("stimulus:field", nested(126))).unwrap();
    let error = log.append(Event::new("stimulus:field", nested(127))).unwrap_err();
    assert_eq!(error.code(), "LOG_EVENT_TOO_DEEP");
    log.emit(Event::new("cognet:log:info", nested(500)));
    assert_eq!(log.append(text("on")).unwrap().time.seq, 2);
    assert_eq!(log.entries_after(None).unwrap()[0].data, nested(126));
    drop(log);
    assert_eq!(sessions.open().entries_after(None).unwrap().len(), 2);
}

#[test]
fn a_resumed_session_goes_on_where_it_ended() {
    let sessions = Sessions::new();
    for opening in 0..5 {
        let (log, opened) = sessions.reopen();
        let expected = match opening {
            0 => Opened::Created,
            n => Opened::Restored { torn_bytes: 0, entries: n },
        };
        assert_eq!(opened, expected);
        log.append(text("again")).unwrap();
    }
    let all = sessions.envelopes();
    assert_eq!(seqs(&all), counted(10));
    assert_eq!(all[2].kind, "axon:session:restored");
    assert_eq!(all[2].data, json!({"tornBytes": 0}));
}

#[test]
fn a_second_writer_is_refused_with_the_holder_and_admitted_after_the_first() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let refused = SessionLog::open(sessions.dir(), id(), "agent", Fsync::Wake).err().unwrap();
    assert_eq!(refused.code(), "SESSION_HELD");
    assert!(refused.to_string().contains(&std::process::id().to_string()), "{refused}");
    // Another session of the same agent is another matter.
    SessionLog::open(sessions.dir(), SessionId::new(), "agent", Fsync::Wake).unwrap();
    drop(log);
    sessions.open();
}

#[tokio::test]
async fn a_closed_session_takes_nothing_more_and_can_be_resumed() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let other = log.clone();
    log.emit(telemetry(1));
    log.close().await.unwrap();
    assert!(matches!(other.append(text("late")), Err(LogError::Closed { .. })));
    other.emit(telemetry(2));
    assert!(matches!(other.clone().close().await, Err(LogError::Closed { .. })));
    let again = sessions.open();
    // The old handle is nobody's writer any more: dropping it must not take the new one's place.
    drop(other);
    let refused = SessionLog::open(sessions.dir(), id(), "agent", Fsync::Wake).err().unwrap();
    assert!(refused.to_string().contains("held by this process"), "{refused}");
    again.append(text("on")).unwrap();
    let kinds: Vec<_> = sessions.envelopes().into_iter().map(|envelope| envelope.kind).collect();
    assert_eq!(
        kinds,
        ["axon:session:opened", "cognet:log:info", "axon:session:closed", "axon:session:restored", "stimulus:text"]
    );
}

#[tokio::test]
async fn commits_settle_under_every_policy() {
    for fsync in [Fsync::Always, Fsync::Wake, Fsync::Never] {
        let sessions = Sessions::new();
        let (log, _) = SessionLog::open(sessions.dir(), id(), "agent", fsync).unwrap();
        let commits = (0..50).map(|n| {
            let log = log.clone();
            tokio::spawn(async move { log.commit(text(n.to_string())).await })
        });
        for commit in commits.collect::<Vec<_>>() {
            tokio::time::timeout(Duration::from_secs(60), commit).await.unwrap().unwrap().unwrap();
        }
        log.sync().await.unwrap();
        log.close().await.unwrap();
        assert_eq!(seqs(&sessions.envelopes()), counted(52));
    }
}

#[test]
fn a_session_that_could_not_be_opened_is_not_held() {
    let sessions = Sessions::new();
    fs::write(sessions.path(), "oops\noops\n").unwrap();
    // While others fork, a copy of the descriptor lives on for a moment in their children.
    let forking = thread::spawn(|| (0..50).for_each(|_| drop(std::process::Command::new("true").status())));
    while !forking.is_finished() {
        let error = SessionLog::open(sessions.dir(), id(), "agent", Fsync::Wake).err().unwrap();
        assert_eq!(error.code(), "LOG_CORRUPT");
    }
}

#[test]
fn nothing_but_the_session_is_left_in_the_folder() {
    let sessions = Sessions::new();
    drop(sessions.open());
    let names: Vec<_> = fs::read_dir(sessions.dir()).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(names, ["s.jsonl"]);
}
