//! Observers.

use axon::log::{Envelope, Lagged, Observer};
use std::sync::Arc;

use crate::support::{Sessions, content, counted, seqs, telemetry, text};

async fn next(observer: &mut Observer) -> Arc<Envelope> {
    loop {
        if let Ok(envelope) = observer.next().await.expect("the session goes on") {
            return envelope;
        }
    }
}

async fn rest(mut observer: Observer) -> (Vec<Envelope>, usize) {
    let (mut seen, mut lags) = (Vec::new(), 0);
    while let Some(next) = observer.next().await {
        match next {
            Ok(envelope) => seen.push((*envelope).clone()),
            Err(_) => lags += 1,
        }
    }
    (seen, lags)
}

#[tokio::test]
async fn an_observer_sees_what_was_and_what_comes_in_order_each_once() {
    let sessions = Sessions::new();
    let log = sessions.open();
    log.append(text("before")).unwrap();
    log.emit(telemetry(1));
    let mut observer = log.subscribe(None);
    log.emit(telemetry(2));
    log.append(text("after")).unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push((*next(&mut observer).await).clone());
    }
    assert_eq!(seqs(&seen), counted(5));
    assert_eq!(seen, sessions.envelopes());
}

#[tokio::test]
async fn an_observer_can_begin_after_a_seq_also_one_that_is_to_come() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let mut soon = log.subscribe(Some(1));
    let mut later = log.subscribe(Some(2));
    for n in 0..4 {
        log.append(text(n.to_string())).unwrap();
    }
    assert_eq!(next(&mut soon).await.time.seq, 2);
    assert_eq!(next(&mut later).await.time.seq, 3);
    assert_eq!(next(&mut later).await.time.seq, 4);
}

#[tokio::test]
async fn what_an_observer_sees_is_in_the_file() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let mut observer = log.subscribe(None);
    let writer = std::thread::spawn(move || {
        for n in 0..200 {
            log.emit(telemetry(n));
            log.append(text(n.to_string())).unwrap();
        }
    });
    for _ in 0..401 {
        let envelope = next(&mut observer).await;
        assert!(sessions.text().contains(&envelope.id));
    }
    writer.join().unwrap();
}

#[tokio::test]
async fn a_slow_observer_is_told_and_misses_nothing() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let mut slow = log.subscribe(None);
    // It has caught up once: from here on, falling behind is lagging.
    next(&mut slow).await;
    log.append(text("first")).unwrap();
    next(&mut slow).await;
    for n in 0..5_000 {
        log.append(text(n.to_string())).unwrap();
    }
    assert_eq!(slow.next().await, Some(Err(Lagged { missed_from: 2 })));
    log.close().await.unwrap();
    let (seen, lags) = rest(slow).await;
    assert_eq!(seqs(&seen), (2..5_003).collect::<Vec<_>>());
    assert_eq!(lags, 0);
}

#[tokio::test]
async fn a_slow_observer_may_leave_out_what_it_missed() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let mut slow = log.subscribe(None);
    for n in 0..3_000 {
        log.append(text(n.to_string())).unwrap();
    }
    assert_eq!(slow.skip(), 3_001);
    log.append(text("new")).unwrap();
    assert_eq!(content(&next(&mut slow).await.data), "new");
}

#[tokio::test]
async fn observers_end_with_the_session_after_they_saw_all() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let (early, idle) = (log.subscribe(None), log.subscribe(Some(100)));
    log.append(text("x")).unwrap();
    log.close().await.unwrap();
    let (seen, _) = rest(early).await;
    assert_eq!(seen.last().unwrap().kind, "axon:session:closed");
    assert!(rest(idle).await.0.is_empty());

    let log = sessions.open();
    let dropped = log.subscribe(None);
    drop(log);
    assert_eq!(rest(dropped).await.0.len(), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn observers_that_come_and_go_at_any_time_see_each_envelope_once() {
    let sessions = Sessions::new();
    let log = sessions.open();
    let writer = {
        let log = log.clone();
        std::thread::spawn(move || {
            for n in 0..3_000 {
                log.emit(telemetry(n));
                if n % 3 == 0 {
                    log.append(text(n.to_string())).unwrap();
                }
            }
        })
    };
    let mut observers = Vec::new();
    for _ in 0..20 {
        let after = log.last_seq();
        let observer = log.subscribe(after);
        observers.push(tokio::spawn(async move { (after, rest(observer).await.0) }));
        // One that leaves at once.
        let mut brief = log.subscribe(None);
        next(&mut brief).await;
        tokio::task::yield_now().await;
    }
    tokio::task::spawn_blocking(|| writer.join().unwrap()).await.unwrap();
    log.close().await.unwrap();
    let all = sessions.envelopes();
    assert_eq!(seqs(&all), counted(4_002));
    for observer in observers {
        let (after, seen) = observer.await.unwrap();
        let first = after.unwrap() as usize + 1;
        assert_eq!(seen, all[first..]);
    }
}
