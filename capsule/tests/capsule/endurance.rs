//! Many blocks, many deaths, many agents.
//!
//! The whole counts take minutes: `AXON_ENDURANCE=1` asks for them.

use std::time::{Duration, Instant};

use axon_capsule::{BlockErrorKind, ENGINE, Engine, Limits};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Bench, TestHost, bench, kind_and_code};

crate::trials![
    deaths_at_any_moment_lose_no_binding_and_leave_no_block_without_an_end,
    memory_and_descriptors_are_flat_over_many_blocks,
    agents_at_once_make_progress_evenly,
];

fn count(short: usize, whole: usize) -> usize {
    if std::env::var_os("AXON_ENDURANCE").is_some() { whole } else { short }
}

async fn deaths_at_any_moment_lose_no_binding_and_leave_no_block_without_an_end() {
    let deaths = count(12, 200);
    let bench = bench();
    bench.value("let n = 0; const fixed = [1, 2]; function sum() { return fixed[0] + fixed[1] }").await;
    let mut acknowledged = 0;
    let mut processes = Vec::new();
    for death in 0..deaths {
        // A block first, so that there is a process; then a few under which it dies.
        assert_eq!(value_in_some_wake(&bench, "sum()").await, Some(json!(3)));
        let pid = bench.pid();
        processes.push(pid);
        // Spread over the life of a block, from its start to its end and beyond, and never the same twice.
        let after = Duration::from_micros((death as u64 * 7_919) % 20_000);
        let signal = if death % 2 == 0 { Signal::KILL } else { Signal::SEGV };
        let kill = async {
            tokio::time::sleep(after).await;
            // It may have gone already.
            let _ = kill_process(pid, signal);
        };
        let busy = bench.run("let busy = 0; for (let i = 0; i < 3e5; i++) busy += i; n += 1; n");
        let waiting = bench.run("await new Promise((r) => setTimeout(r, 5)); await fs.read('x'); 7");
        let ((), counted, waited) = tokio::join!(kill, busy, waiting);
        for result in [&counted.result, &waited.result] {
            if let Err(error) = result {
                assert_eq!(kind_and_code(error), (BlockErrorKind::Exception, Some("CAPSULE_CRASHED")), "{error:?}");
            }
        }
        if let Ok(value) = counted.result {
            acknowledged += 1;
            assert_eq!(value, Some(json!(acknowledged)), "after {death} deaths");
        }
        let kept = value_in_some_wake(&bench, "[n, sum()]").await;
        assert_eq!(kept, Some(json!([acknowledged, 3])), "after {death} deaths");
    }
    bench.capsule.shutdown().await;
    for pid in processes {
        let orphan = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!orphan.contains(axon_capsule::HOST_COMMAND), "{pid} is still there: {orphan}");
    }
}

/// The value of a block that changes nothing, run again in a new wake as long as it meets deaths of the process.
async fn value_in_some_wake(bench: &Bench, source: &str) -> Option<serde_json::Value> {
    loop {
        bench.capsule.begin_wake();
        match bench.run(source).await.result {
            Ok(value) => return value,
            Err(error) => assert_eq!(error.code.as_deref(), Some("CAPSULE_CRASHED"), "{error:?}"),
        }
    }
}

fn open_descriptors(pid: impl std::fmt::Display) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Resident memory of a process, in KiB.
fn resident(pid: impl std::fmt::Display) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

/// The process that serves, also when one has just been replaced and no block has asked for another.
async fn serving(bench: &Bench) -> Pid {
    while bench.capsule.pid().is_none() {
        bench.value("0").await;
    }
    bench.pid()
}

async fn memory_and_descriptors_are_flat_over_many_blocks() {
    let blocks = count(600, 10_000);
    let warm_up = blocks / 20 + 200;
    let bench = bench();
    bench.value("let n = 0; const text = 'x'.repeat(1e5)").await;
    let mut first = (0, 0);
    let mut descriptors = 0;
    for block in 0..blocks {
        bench.value("n += 1; const list = Array.from({ length: 1000 }, (_, i) => text + i); list.length").await;
        if block == warm_up {
            first = (resident(serving(&bench).await), resident("self"));
            descriptors = open_descriptors(serving(&bench).await);
        }
    }
    let last = (resident(serving(&bench).await), resident("self"));
    assert_eq!(bench.value("n").await, Some(json!(blocks)));
    println!(
        "{blocks} blocks: the capsule {} KiB, then {} KiB; the kernel {} KiB, then {} KiB",
        first.0, last.0, first.1, last.1
    );
    // What an allocator may keep back is not what a leak of one isolate in ten would take.
    const SLACK_KIB: u64 = 64 << 10;
    if ENGINE == Engine::QuickJs {
        // An isolate leaves much of its memory behind there, until the process is replaced.
        const MOST_KIB: u64 = 512 << 10;
        assert!(first.0 <= MOST_KIB && last.0 <= MOST_KIB, "the capsule had {} KiB, then {} KiB", first.0, last.0);
        assert!(bench.host.event_data("capsule:exit").is_some(), "the process was replaced");
        assert_eq!(bench.host.event_data("capsule:crash"), None);
        return;
    }
    assert!(last.0 <= first.0 + SLACK_KIB, "the capsule grew from {} to {} KiB", first.0, last.0);
    // Each isolate that is warm or on its way has a few.
    const SLACK_DESCRIPTORS: usize = 30;
    let last = open_descriptors(bench.pid());
    assert!(last <= descriptors + SLACK_DESCRIPTORS, "the capsule had {descriptors} descriptors open, then {last}");
    let ends = ["capsule:crash", "capsule:exit"].map(|kind| bench.host.event_data(kind));
    assert_eq!(ends, [None, None], "one process ran all of it");
}

async fn agents_at_once_make_progress_evenly() {
    const AGENTS: usize = 8;
    let limits = Limits { max_concurrent_blocks: 4, ..Limits::default() };
    // All on one capsule, then each with a capsule of its own.
    for capsules in [1, AGENTS] {
        let benches: Vec<Bench> =
            std::iter::repeat_with(|| Bench::new(TestHost::default(), limits.clone())).take(capsules).collect();
        for bench in &benches {
            bench.assert_works().await;
        }
        let until = Instant::now() + Duration::from_secs(2);
        let agents = (0..AGENTS).map(|agent| {
            let bench = &benches[agent % capsules];
            async move {
                let mut done = 0;
                while Instant::now() < until {
                    bench.value("let s = 0; for (let i = 0; i < 1e5; i++) s += i; s").await;
                    done += 1;
                }
                done
            }
        });
        let done: Vec<u32> = deno_core::futures::future::join_all(agents).await;
        let (fewest, most) = (*done.iter().min().unwrap(), *done.iter().max().unwrap());
        assert!(fewest > 0 && most <= 2 * fewest + 2, "{capsules} capsules: {done:?}");
    }
}
