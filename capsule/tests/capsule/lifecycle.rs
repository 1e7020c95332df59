//! The process: when it starts, how it ends, what happens when it dies.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use axon_capsule::BlockErrorKind;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, TestHost, bench, kind_and_code, tight_limits};

crate::trials![
    nothing_starts_before_the_first_block,
    a_killed_process_fails_the_running_block_and_the_next_block_runs_in_a_new_one,
    a_process_killed_while_idle_is_replaced_without_a_failed_block,
    three_deaths_in_a_row_keep_it_down_until_the_next_wake,
    shutdown_leaves_no_process_behind,
    dropping_the_last_handle_ends_the_process,
    events_tell_the_life_of_process_and_blocks,
    a_program_that_is_no_host_fails_the_block,
    a_block_whose_future_is_dropped_is_ended,
    the_process_dies_with_a_kernel_that_was_killed,
];

/// Waits until the process has ended. Whether it was reaped does not matter here.
async fn ended(pid: Pid) {
    let running = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| !state.is_empty() && !state.starts_with(['Z', 'X']))
    };
    let wait = async {
        while running() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait).await.expect("the process is still there");
}

async fn nothing_starts_before_the_first_block() {
    let bench = bench();
    assert_eq!(bench.capsule.pid(), None);
    assert!(bench.host.event_kinds().is_empty());
    bench.assert_works().await;
    assert!(bench.capsule.pid().is_some());
}

async fn kill_during_block(bench: &Bench) {
    let calls = bench.host.calls.lock().unwrap().len();
    let running = bench.run("slow.wait(); await null; for (;;) {}");
    let kill = async {
        bench.host.until(|host| host.calls.lock().unwrap().len() > calls).await;
        kill_process(bench.pid(), Signal::KILL).unwrap();
    };
    let (outcome, ()) = tokio::join!(running, kill);
    let error = outcome.result.unwrap_err();
    assert_eq!(kind_and_code(&error), (BlockErrorKind::Exception, Some("CAPSULE_CRASHED")), "{error:?}");
}

async fn a_killed_process_fails_the_running_block_and_the_next_block_runs_in_a_new_one() {
    let bench = bench();
    kill_during_block(&bench).await;
    bench.assert_works().await;
    let crash = bench.host.event_data("capsule:crash").unwrap();
    assert_eq!(crash["signal"], 9);
    assert_eq!(crash["incarnation"], 1);
    assert_eq!(bench.host.event_data("capsule:restart").unwrap()["incarnation"], 2);
}

async fn a_process_killed_while_idle_is_replaced_without_a_failed_block() {
    let bench = bench();
    for _ in 0..2 {
        bench.assert_works().await;
        kill_process(bench.pid(), Signal::KILL).unwrap();
        // At once, whether or not the death has been noticed.
    }
    bench.assert_works().await;
}

async fn three_deaths_in_a_row_keep_it_down_until_the_next_wake() {
    let bench = bench();
    let count = |host: &TestHost, kind: &str| host.event_kinds().iter().filter(|told| **told == kind).count();
    for death in 1..=3 {
        bench.capsule.prewarm();
        bench.host.until(|host| count(host, "capsule:boot") == death).await;
        while bench.capsule.pid().is_none() {
            tokio::task::yield_now().await;
        }
        kill_process(bench.pid(), Signal::KILL).unwrap();
        bench.host.until(|host| count(host, "capsule:crash") == death).await;
    }
    let error = bench.error("1 + 1").await;
    assert_eq!(kind_and_code(&error), (BlockErrorKind::Exception, Some("CAPSULE_CRASHED")), "{error:?}");
    assert!(error.message.contains("stays down until the next wake"), "{error:?}");
    bench.capsule.begin_wake();
    bench.assert_works().await;
}

async fn shutdown_leaves_no_process_behind() {
    let bench = bench();
    bench.assert_works().await;
    let pid = bench.pid();
    bench.capsule.shutdown().await;
    assert_eq!(bench.capsule.pid(), None);
    assert!(test_kill_process(pid).is_err(), "neither running nor a zombie");
    assert!(bench.host.event_kinds().contains(&"capsule:exit"));
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"));
    bench.assert_works().await;
}

async fn dropping_the_last_handle_ends_the_process() {
    let bench = bench();
    bench.assert_works().await;
    let pid = bench.pid();
    drop(bench);
    ended(pid).await;
}

async fn events_tell_the_life_of_process_and_blocks() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    bench.assert_works().await;
    bench.error("throw new Error('x')").await;
    assert_eq!(
        bench.host.event_kinds(),
        [
            "capsule:block:start",
            "capsule:boot",
            "capsule:block:complete",
            "capsule:block:start",
            "capsule:block:failed"
        ]
    );
    let boot = bench.host.event_data("capsule:boot").unwrap();
    assert_eq!(boot["pid"], bench.capsule.pid().unwrap());
    assert_eq!(boot["backend"], axon_capsule::ENGINE.to_string());
    let complete = bench.host.event_data("capsule:block:complete").unwrap();
    assert_eq!(complete["id"], "block-1");
    assert!(complete["durationMs"].is_number() && complete["cpuMs"].is_number(), "{complete:?}");
    assert!(complete["peakBytes"].as_u64().unwrap() > 0, "{complete:?}");
}

async fn a_program_that_is_no_host_fails_the_block() {
    let launch = axon_capsule::Launch { program: "/bin/false".into(), args: Vec::new() };
    let bench = bench();
    let capsule = axon_capsule::Capsule::new(launch, tight_limits(), bench.host.clone());
    let error = capsule.run(bench.block("1"), CancellationToken::new()).await.result.unwrap_err();
    assert_eq!(kind_and_code(&error), (BlockErrorKind::Exception, Some("CAPSULE_CRASHED")), "{error:?}");
    assert!(error.message.contains("status 1"), "{error:?}");
}

async fn a_block_whose_future_is_dropped_is_ended() {
    let (told, mut cancelled) = tokio::sync::mpsc::unbounded_channel();
    let host = TestHost::default().answering("slow.wait", move |_, cancel| {
        let told = told.clone();
        async move {
            cancel.cancelled().await;
            told.send(()).unwrap();
            Ok(axon_capsule::Datum::Undefined)
        }
    });
    let bench = Bench::new(host, axon_capsule::Limits { max_concurrent_blocks: 1, ..axon_capsule::Limits::default() });
    tokio::select! {
        outcome = bench.run("slow.wait(); for (;;) { await null }") => panic!("{outcome:?}"),
        () = bench.host.until(|host| !host.calls.lock().unwrap().is_empty()) => {}
    }
    assert_eq!(cancelled.recv().await, Some(()));
    bench.assert_works().await;
}

/// The argument that makes this test binary a kernel with a busy capsule.
pub const KERNEL: &str = "kernel-to-be-killed";

/// Runs a block without end, and says the id of the process that it runs in.
pub async fn kernel_to_be_killed() {
    let bench = bench();
    let say = async {
        bench.host.until(|host| !host.calls.lock().unwrap().is_empty()).await;
        println!("{}", bench.pid());
    };
    tokio::join!(bench.run("slow.wait(); await null; for (;;) {}"), say);
}

async fn the_process_dies_with_a_kernel_that_was_killed() {
    let mut kernel = Command::new(std::env::current_exe().unwrap()).arg(KERNEL).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(kernel.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
    kernel.kill().unwrap();
    kernel.wait().unwrap();
    ended(pid).await;
}
