//! Blocks that do not want to end, or want too much.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axon_capsule::{BlockErrorKind, BlockErrorKind::*, Datum, Limits};
use rustix::process::{Signal, kill_process};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, TestHost, kind_and_code, tight_limits};

crate::trials![
    every_hostile_block_ends_within_its_limit_and_the_next_block_runs,
    a_storm_of_printed_lines_is_cut_and_counted,
    an_abort_ends_a_tight_loop,
    an_abort_ends_a_wait_for_a_tool_and_cancels_the_call_first,
    an_abort_before_the_block_begins_ends_it_and_harms_nothing,
    the_signal_aborts_before_the_block_is_ended,
    a_runaway_does_not_hold_up_the_blocks_beside_it,
    waiting_for_tools_does_not_count_as_own_time,
    total_time_counts_everything,
    too_many_tool_calls_cannot_be_caught,
    a_block_in_a_process_that_does_not_react_ends_within_its_limit,
    a_process_with_an_isolate_that_cannot_be_stopped_is_replaced_and_its_other_blocks_end_well,
];

/// What the contract gives beyond a limit.
const GRACE: Duration = Duration::from_millis(250);

struct Case {
    name: &'static str,
    source: String,
    expect: &'static [(BlockErrorKind, Option<&'static str>)],
}

fn case(
    name: &'static str,
    source: impl Into<String>,
    expect: &'static [(BlockErrorKind, Option<&'static str>)],
) -> Case {
    Case { name, source: source.into(), expect }
}

const TIMEOUT: &[(BlockErrorKind, Option<&str>)] = &[(Timeout, None)];
const EXCEPTION: &[(BlockErrorKind, Option<&str>)] = &[(Exception, None)];
const MEMORY: &[(BlockErrorKind, Option<&str>)] = &[(Exception, Some("OUT_OF_MEMORY"))];
/// Where it depends on the speed of the machine which limit is met first.
const EITHER: &[(BlockErrorKind, Option<&str>)] =
    &[(Timeout, None), (Exception, Some("OUT_OF_MEMORY")), (Exception, None)];

fn cases() -> Vec<Case> {
    vec![
        case("tight loop", "for (;;) {}", TIMEOUT),
        case(
            "microtask loop",
            "const f = () => { Promise.resolve().then(f) }; f(); await new Promise(() => {})",
            TIMEOUT,
        ),
        case("chain of promises", "const f = () => Promise.resolve().then(f); await f()", EITHER),
        case("queueMicrotask loop", "const f = () => queueMicrotask(f); f(); await new Promise(() => {})", TIMEOUT),
        case("timer loop", "setInterval(() => {}, 0); await new Promise(() => {})", TIMEOUT),
        case("catastrophic regular expression", "/^(a+)+$/.test('a'.repeat(40) + 'b')", TIMEOUT),
        case("catch-all around a loop", "for (;;) { try { for (;;) {} } catch {} finally { continue } }", TIMEOUT),
        case("proxy trap", "new Proxy({}, { get() { for (;;) {} } }).x", TIMEOUT),
        case("proxy as value", "new Proxy({}, { get() { for (;;) {} }, ownKeys() { for (;;) {} } })", EITHER),
        case(
            "getter as value",
            "({ toString() { for (;;) {} }, get [Symbol.toStringTag]() { for (;;) {} } })",
            TIMEOUT,
        ),
        case("thrown getter bomb", "throw { get message() { for (;;) {} }, name: 'x', stack: 'y' }", TIMEOUT),
        case("thenable that never settles", "({ then() {} })", TIMEOUT),
        case("promise that never settles", "await new Promise(() => {})", TIMEOUT),
        case("generator loop", "function* g() { for (;;) yield 1 } for (const x of g()) {}", TIMEOUT),
        case("sort comparator", "[3, 1, 2].sort(() => { for (;;) {} })", TIMEOUT),
        case("recursion", "const f = (): number => f() + 1; f()", EXCEPTION),
        case("mutual recursion through getters", "const a = { get b() { return a.b } }; a.b", EXCEPTION),
        case("heap bomb", "const all = []; for (;;) all.push(new Array(1000).fill({}))", MEMORY),
        case(
            "caught heap bomb",
            "const all = []; for (;;) { try { all.push(new Array(1e5).fill(1.5)) } catch {} }",
            MEMORY,
        ),
        case("string bomb", "let s = 'x'; for (;;) { s += s + Math.random(); }", EITHER),
        case("flat string bomb", "const all = []; for (;;) all.push(JSON.stringify('y'.repeat(1e6)))", MEMORY),
        case("array buffer bomb", "const all = []; for (;;) all.push(new Uint8Array(1 << 20))", MEMORY),
        case(
            "caught array buffer bomb",
            "const all = []; for (;;) try { all.push(new ArrayBuffer(1 << 24)) } catch {}",
            MEMORY,
        ),
        case("huge array buffer", "new ArrayBuffer(2 ** 33)", MEMORY),
        case("sparse join", "Array(2 ** 32 - 2).join('x')", EITHER),
        case("optimised loop around builtins", "let x; for (;;) { x = new Array(100).fill(1) }", TIMEOUT),
        case("sparse sort", "const a = []; a.length = 2 ** 32 - 1; a.sort()", EITHER),
        case(
            "unknown name without end",
            "throw new ReferenceError('x'.repeat(4_000_000) + ' is not defined')",
            EXCEPTION,
        ),
        case("sparse fill", "Array(2 ** 32 - 2).fill(0)", EITHER),
        case("huge string", "'x'.repeat(2 ** 29 - 24).split('')", EITHER),
        case("too long a string", "'x'.repeat(2 ** 30)", EXCEPTION),
        case("map bomb", "const m = new Map(); for (let i = 0; ; i++) m.set(i, 'v' + i)", EITHER),
        case("bigint bomb", "let n = 2n; for (;;) n = n ** 3n", EITHER),
        case("deep brackets", "(".repeat(100_000), EXCEPTION),
        case("deep arrays", "[".repeat(50_000) + &"]".repeat(50_000), EXCEPTION),
        case("deep unary", "!".repeat(200_000) + "1", EXCEPTION),
        case("deep template", "`${".repeat(30_000), EXCEPTION),
        case("deep else", "if (0) {} else ".repeat(30_000) + "{}", EXCEPTION),
        case("deep addition", "1+".repeat(200_000) + "1", EXCEPTION),
    ]
}

async fn every_hostile_block_ends_within_its_limit_and_the_next_block_runs() {
    let short = Bench::new(TestHost::default(), tight_limits());
    // Where memory is to run out, a slow machine gets the time for it.
    let long = Bench::new(TestHost::default(), Limits { timeout: Duration::from_secs(20), ..tight_limits() });
    let mut failures = Vec::new();
    for Case { name, source, expect } in cases() {
        let bench = if expect == MEMORY { &long } else { &short };
        bench.assert_works().await;
        bench.capsule.begin_wake();
        let outcome = bench.run(&source).await;
        let failed = bench.host.take_event("capsule:block:failed").unwrap_or_default();
        let took = failed.get("durationMs").and_then(|ms| ms.as_f64()).unwrap_or_default();
        if let Some(crash) = bench.host.take_event("capsule:crash") {
            failures.push(format!("{name}: took the process down: {crash:?}"));
        }
        match &outcome.result {
            Ok(value) => failures.push(format!("{name}: gave {value:?}")),
            Err(error) if !expect.contains(&kind_and_code(error)) => {
                failures.push(format!("{name}: {error:?}"));
            }
            Err(_) => {}
        }
        // Whatever stopped it, no block may outlive its own time by more than the grace.
        if took > (bench.limits.timeout + GRACE).as_secs_f64() * 1_000.0 {
            failures.push(format!("{name}: took {took} ms"));
        }
        let next = bench.run("1 + 1").await.result;
        if next != Ok(Some(2.into())) {
            failures.push(format!("{name}: the next block gave {next:?}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn a_storm_of_printed_lines_is_cut_and_counted() {
    let bench = Bench::new(TestHost::default(), Limits { max_output_bytes: 2_000, ..tight_limits() });
    let outcome = bench.run("for (let i = 0; ; i++) console.log('line', i)").await;
    assert_eq!(outcome.result.map_err(|error| error.kind), Err(Timeout));
    assert!(outcome.truncated);
    let bytes: usize = outcome.stdout.iter().map(|line| line.len() + 1).sum();
    assert!(bytes <= bench.limits.max_output_bytes + 200, "{bytes}");
    assert_eq!(outcome.stdout[0], "line 0");
    let marker = outcome.stdout.last().unwrap();
    assert!(marker.starts_with("[output cut: ") && marker.contains(" lines left out"), "{marker}");
    bench.assert_works().await;
}

async fn an_abort_ends_a_tight_loop() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    let cancel = CancellationToken::new();
    let running = bench.capsule.run(bench.block("slow.wait(); await null; for (;;) {}"), cancel.clone());
    let abort = async {
        bench.host.until(|host| !host.calls.lock().unwrap().is_empty()).await;
        cancel.cancel();
        Instant::now()
    };
    let (outcome, aborted) = tokio::join!(running, abort);
    assert!(aborted.elapsed() <= GRACE, "{:?}", aborted.elapsed());
    assert_eq!(outcome.result.map_err(|error| error.kind), Err(Interrupt));
    bench.assert_works().await;
}

async fn an_abort_ends_a_wait_for_a_tool_and_cancels_the_call_first() {
    let (told, mut cancelled) = tokio::sync::mpsc::unbounded_channel();
    let host = TestHost::default().answering("slow.wait", move |_, cancel| {
        let told = told.clone();
        async move {
            cancel.cancelled().await;
            told.send(Instant::now()).unwrap();
            Ok(Datum::Undefined)
        }
    });
    let bench = Bench::new(host, tight_limits());
    let cancel = CancellationToken::new();
    let running = bench.capsule.run(bench.block("await slow.wait()"), cancel.clone());
    let abort = async {
        bench.host.until(|host| !host.calls.lock().unwrap().is_empty()).await;
        cancel.cancel();
        Instant::now()
    };
    let (outcome, aborted) = tokio::join!(running, abort);
    let ended = Instant::now();
    assert!(ended - aborted <= GRACE, "{:?}", ended - aborted);
    assert!(cancelled.recv().await.unwrap() <= ended);
    assert_eq!(outcome.result.map_err(|error| error.kind), Err(Interrupt));
    bench.assert_works().await;
}

async fn an_abort_before_the_block_begins_ends_it_and_harms_nothing() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    for warm in [false, true] {
        if warm {
            bench.assert_works().await;
        }
        let cancel = CancellationToken::new();
        let running = bench.capsule.run(bench.block("for (;;) {}"), cancel.clone());
        let abort = async {
            bench.host.until(|host| host.event_kinds().last() == Some(&"capsule:block:start")).await;
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(running, abort);
        assert_eq!(outcome.result.map_err(|error| error.kind), Err(Interrupt));
    }
    bench.assert_works().await;
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"));
}

async fn the_signal_aborts_before_the_block_is_ended() {
    let bench = Bench::new(
        TestHost::default().answering("slow.wait", |_, cancel| async move {
            cancel.cancelled().await;
            Ok(Datum::Undefined)
        }),
        tight_limits(),
    );
    let cancel = CancellationToken::new();
    let source = "signal.addEventListener('abort', () => console.log('aborted', signal.aborted)); await slow.wait()";
    let running = bench.capsule.run(bench.block(source), cancel.clone());
    let abort = async {
        bench.host.until(|host| !host.calls.lock().unwrap().is_empty()).await;
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(running, abort);
    assert_eq!(outcome.stdout, ["aborted true"]);
    assert_eq!(outcome.result.map_err(|error| error.kind), Err(Interrupt));
}

async fn a_runaway_does_not_hold_up_the_blocks_beside_it() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    bench.assert_works().await;
    let sources = ["for (;;) {}", "1", "const all = []; for (;;) all.push(new Uint8Array(1 << 20))", "2"];
    let blocks = sources.map(|source| bench.block(source)).to_vec();
    let outcomes = bench.capsule.run_all(blocks, CancellationToken::new()).await;
    assert_eq!(outcomes[1].result, Ok(Some(1.into())));
    assert_eq!(outcomes[3].result, Ok(Some(2.into())));
    assert!(outcomes[0].result.is_err() && outcomes[2].result.is_err(), "{outcomes:?}");
}

async fn waiting_for_tools_does_not_count_as_own_time() {
    let limits = tight_limits();
    let wait = limits.timeout * 2;
    let host = TestHost::default().answering("slow.wait", move |_, _| async move {
        tokio::time::sleep(wait).await;
        Ok(Datum::String("done".into()))
    });
    let bench = Bench::new(host, limits);
    assert_eq!(bench.value("await slow.wait()").await, Some("done".into()));
}

async fn total_time_counts_everything() {
    let mut limits = tight_limits();
    limits.total_timeout = Duration::from_millis(300);
    let host = TestHost::default().answering("slow.wait", |_, cancel| async move {
        cancel.cancelled().await;
        Ok(Datum::Undefined)
    });
    let bench = Bench::new(host, limits);
    let error = bench.error("await slow.wait()").await;
    assert_eq!(kind_and_code(&error), (Timeout, None), "{error:?}");
    bench.assert_works().await;
}

async fn too_many_tool_calls_cannot_be_caught() {
    let mut limits = tight_limits();
    limits.max_tool_calls = 10;
    let bench = Bench::new(TestHost::default(), limits);
    let error = bench.error("for (;;) { try { await fs.list('.') } catch {} }").await;
    assert_eq!(kind_and_code(&error), (Exception, Some("TOO_MANY_TOOL_CALLS")), "{error:?}");
    assert_eq!(bench.host.calls.lock().unwrap().len(), 10);
    bench.assert_works().await;
}

async fn a_block_in_a_process_that_does_not_react_ends_within_its_limit() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    let running = bench.run("slow.wait(); await null; for (;;) {}");
    let stop = async {
        bench.host.until(|host| !host.calls.lock().unwrap().is_empty()).await;
        kill_process(bench.pid(), Signal::STOP).unwrap();
    };
    let (outcome, ()) = tokio::join!(running, stop);
    assert_eq!(outcome.result.map_err(|error| error.kind), Err(Timeout));
    let took = bench.host.event_data("capsule:block:failed").unwrap()["durationMs"].as_f64().unwrap();
    assert!(took <= (bench.limits.timeout + GRACE).as_secs_f64() * 1_000.0, "{took} ms");
    bench.assert_works().await;
}

async fn a_process_with_an_isolate_that_cannot_be_stopped_is_replaced_and_its_other_blocks_end_well() {
    let stuck_has_ended = Arc::new(Notify::new());
    let ended = stuck_has_ended.clone();
    let host = TestHost::default().answering("slow.wait", move |_, _| {
        let ended = ended.clone();
        async move {
            ended.notified().await;
            Ok(Datum::String("well".into()))
        }
    });
    let bench = Bench::new(host, tight_limits());
    bench.assert_works().await;
    let first = bench.capsule.pid();
    let stuck = async {
        // Quadratic, and the engine does not look up from it.
        let outcome = bench.run("'a'.repeat(2 ** 24).indexOf('ab' + 'a'.repeat(2 ** 15))").await;
        stuck_has_ended.notify_one();
        outcome
    };
    let (stuck, beside) = tokio::join!(stuck, bench.run("await slow.wait()"));
    assert_eq!(stuck.result.map_err(|error| error.kind), Err(Timeout));
    assert_eq!(beside.result, Ok(Some("well".into())));
    bench.assert_works().await;
    assert_ne!(bench.capsule.pid(), first);
    bench.host.until(|host| host.event_kinds().contains(&"capsule:exit")).await;
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"));
}
