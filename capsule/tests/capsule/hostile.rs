//! Blocks that do not want to end, or want too much.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axon_capsule::{BlockErrorKind, BlockErrorKind::*, Datum, ENGINE, Engine, Limits};
use rustix::process::{Signal, kill_process};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, TestHost, bench, kind_and_code, tight_limits};

crate::trials![
    every_hostile_block_ends_within_its_limit_and_the_next_block_runs,
    what_only_looks_hostile_gives_its_value,
    texts_of_hundreds_of_megabytes_end_as_values,
    what_the_engine_gives_up_on_harms_no_block_beside_it,
    a_block_cannot_throw_a_verdict_of_the_capsule,
    what_tools_give_counts_towards_the_memory_limit,
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

/// As [`MEMORY`], where there are such objects.
const INTL: &[(BlockErrorKind, Option<&str>)] = match ENGINE {
    Engine::V8 => MEMORY,
    Engine::QuickJs => EXCEPTION,
};

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
            "throw new ReferenceError('x'.repeat(1_000_000) + ' is not defined')",
            EXCEPTION,
        ),
        case("sparse fill", "Array(2 ** 32 - 2).fill(0)", EITHER),
        case("too long a string", "'x'.repeat(2 ** 30)", EXCEPTION),
        case("map bomb", "const m = new Map(); for (let i = 0; ; i++) m.set(i, 'v' + i)", EITHER),
        case("bigint bomb", "let n = 2n; for (;;) n = n ** 3n", EITHER),
        case("deep brackets", "(".repeat(100_000), EXCEPTION),
        case("deep arrays", "[".repeat(50_000) + &"]".repeat(50_000), EXCEPTION),
        case("deep unary", "!".repeat(200_000) + "1", EXCEPTION),
        case("deep template", "`${".repeat(30_000), EXCEPTION),
        case("deep else", "if (0) {} else ".repeat(30_000) + "{}", EXCEPTION),
        case("deep addition", "1+".repeat(200_000) + "1", EXCEPTION),
        case("ten thousand brackets", "(".repeat(10_000) + "1" + &")".repeat(10_000), EXCEPTION),
        case("a megabyte on one line that is not TypeScript", "a b".repeat(349_000), EXCEPTION),
        case("async recursion", "const f = async (): Promise<number> => 1 + await f(); await f()", EITHER),
        case("async stack bomb", "const f = async (n) => { await null; return f(n + 1) }; await f(0)", EITHER),
        case("microtask storm", "for (;;) queueMicrotask(() => {})", EITHER),
        case("promise storm", "const all = []; for (;;) all.push(Promise.resolve(all))", EITHER),
        case("timer storm", "for (;;) setTimeout(() => {}, 1e6)", EITHER),
        case(
            "timers that make timers",
            "const f = () => { setTimeout(f); setTimeout(f) }; f(); await new Promise(() => {})",
            EITHER,
        ),
        case(
            "printing a gigabyte",
            "const s = 'x'.repeat(1 << 20); for (let i = 0; i < 1e9; i++) console.log(s)",
            TIMEOUT,
        ),
        case("thenable that calls itself", "const t = { then(r) { r(t) } }; await t", EITHER),
        case("thenable with a throwing getter", "await { get then() { throw new Error('got') } }", EXCEPTION),
        case("thenable that never stops", "await { then() { for (;;) {} } }", TIMEOUT),
        case(
            "prepareStackTrace loop",
            "Error.prepareStackTrace = () => { for (;;) {} }; new Error('x').stack",
            TIMEOUT,
        ),
        case(
            "prepareStackTrace at the end",
            "Error.prepareStackTrace = () => { for (;;) {} }; null.x",
            &[(Timeout, None), (Exception, None)],
        ),
        case("thrown proxy", "throw new Proxy({}, { get() { for (;;) {} } })", EITHER),
        case("thrown cause cycle", "const e = new Error('a'); e.cause = e; throw e", EXCEPTION),
        case(
            "thrown code getter",
            "throw Object.defineProperty(new Error('a'), 'code', { get() { for (;;) {} } })",
            TIMEOUT,
        ),
        case("iterator without end", "[...{ *[Symbol.iterator]() { for (;;) yield 1 } }]", EITHER),
        case("destructuring without end", "const [...all] = (function* () { for (;;) yield 1 })()", EITHER),
        case("toPrimitive loop", "`${{ [Symbol.toPrimitive]() { for (;;) {} } }}`", TIMEOUT),
        case("async iterator", "for await (const x of (async function* () { for (;;) yield 1 })()) {}", TIMEOUT),
        // QuickJS finds all matches before it calls back.
        case("replace callback", "'a'.repeat(1e6).replace(/a/g, () => { for (;;) {} })", EITHER),
        case("regex backreference", "/(x+x+)+y/.test('x'.repeat(50))", TIMEOUT),
        case("regex in split", "('a'.repeat(50) + 'b').split(/(a*)*c/)", TIMEOUT),
        case("JSON bomb", "let j = []; for (let i = 0; i < 60; i++) j = [j, j]; JSON.stringify(j)", EITHER),
        case("JSON reviver", "JSON.parse('[1]', () => { for (;;) {} })", TIMEOUT),
        case("nested JSON", "JSON.parse('['.repeat(5e6))", EITHER),
        case(
            "weak references",
            "const all = []; for (;;) all.push(new WeakRef({ big: new Array(1e4).fill(1) }))",
            EITHER,
        ),
        case("finalizers", "const r = new FinalizationRegistry(() => {}); for (;;) r.register({}, 1)", EITHER),
        case("label maze", "a: for (;;) { b: for (;;) { continue a } }", TIMEOUT),
        case("getter on the way to a tool", "await fs.read({ get a() { for (;;) {} } })", TIMEOUT),
        case("a huge argument", "await fs.read('x'.repeat(2 ** 28))", EITHER),
        case("binding getter", "const all: any = {}; for (let i = 0; ; i++) all['k' + i] = i", EITHER),
        case("binding that takes long to read", "var o: any = {}; for (let i = 0; i < 1e9; i++) o = { o }", EITHER),
        case("typed array copy", "const a = new Uint8Array(30e6); for (;;) a.slice()", EITHER),
        case(
            "resizable buffer",
            "const b = new ArrayBuffer(1, { maxByteLength: 2 ** 32 }); b.resize(2 ** 31)",
            EXCEPTION,
        ),
        case("sum of strings", "let s = ''; for (;;) s += 'abc'", EITHER),
        case(
            "digest for ever",
            "const b = new Uint8Array(20e6); for (;;) await crypto.subtle.digest('SHA-512', b)",
            TIMEOUT,
        ),
        case("Intl bomb", "const all = []; for (;;) all.push(new Intl.RelativeTimeFormat('en'))", INTL),
        case(
            "segmenter bomb",
            "const all = []; for (;;) all.push(new Intl.Segmenter('ja', { granularity: 'word' }))",
            INTL,
        ),
        case(
            "Intl bomb by a subclass",
            "class F extends Intl.NumberFormat {}; const all = []; for (;;) all.push(new F('en'))",
            EITHER,
        ),
        case("endless code", "throw Object.assign(new Error('x'), { code: 'C'.repeat(1e6) })", EXCEPTION),
        case("Intl for ever", "for (;;) new Intl.NumberFormat('de').format(Math.random())", EITHER),
        case("URL for ever", "for (;;) new URL('https://a.b/' + Math.random())", EITHER),
        case("base64 bomb", "const all = []; for (;;) all.push(btoa('x'.repeat(1e6)))", MEMORY),
        case("structured clone bomb", "let all: any = []; for (;;) all = structuredClone([all, all])", EITHER),
        case("encoder bomb", "const all = []; for (;;) all.push(new TextEncoder().encode('é'.repeat(1e6)))", MEMORY),
        case("eval loop", "(0, eval)('for (;;) {}')", TIMEOUT),
        case("constructor escape", "[].constructor.constructor('for (;;) {}')()", TIMEOUT),
        case("Deno by constructor", "[].constructor.constructor('return Deno')()", EXCEPTION),
        case("await in a finally", "try { await new Promise(() => {}) } finally { for (;;) {} }", TIMEOUT),
        case("frozen prototypes", "Object.freeze(Object.prototype); Object.freeze(Array.prototype); null.x", EXCEPTION),
        case("a source that only comments", "/*".to_owned() + &"x".repeat(1 << 19), EXCEPTION),
        case("NUL in code", "const a\u{0} = 1", EXCEPTION),
    ]
}

/// The whole table twice at the same time, each over a process of its own.
async fn every_hostile_block_ends_within_its_limit_and_the_next_block_runs() {
    assert!(cases().len() >= 60);
    let (first, second) = tokio::join!(tokio::spawn(failures_of(cases())), tokio::spawn(failures_of(cases())));
    let failures = [first.unwrap(), second.unwrap()].concat();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

async fn failures_of(cases: Vec<Case>) -> Vec<String> {
    let short = Bench::new(TestHost::default(), tight_limits());
    // Where memory is to run out, a slow machine gets the time for it.
    let long = Bench::new(TestHost::default(), Limits { timeout: Duration::from_secs(20), ..tight_limits() });
    let mut failures = Vec::new();
    for Case { name, source, expect } in cases {
        let bench = if expect == MEMORY { &long } else { &short };
        bench.capsule.begin_wake();
        let outcome = bench.run(&source).await;
        let failed = bench.host.take_event("capsule:block:failed").unwrap_or_default();
        let took = failed.get("durationMs").and_then(|ms| ms.as_f64()).unwrap_or_default();
        // The kernel itself kills a process that a busy machine kept from stopping a block in time.
        let killed = |crash: &serde_json::Map<String, serde_json::Value>| {
            crash.get("signal") == Some(&Signal::KILL.as_raw().into())
        };
        if let Some(crash) = bench.host.take_event("capsule:crash").filter(|crash| !killed(crash)) {
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
    failures
}

/// Blocks that look hostile and are fine: the value that they must give.
fn harmless() -> Vec<(&'static str, String, serde_json::Value)> {
    use serde_json::json;
    let long_line = format!("[{}].length", "1,".repeat((1 << 19) - 10));
    vec![
        ("a megabyte on one line", long_line, json!((1 << 19) - 10)),
        ("BOM and CRLF", "\u{feff}const a = 1;\r\nconst b = 2;\r\na + b\r\n".into(), json!(3)),
        ("NUL in a string", "'a\u{0}b'.length".into(), json!(3)),
        ("lone surrogates", "'\\ud800'.length + '\\udfff'.codePointAt(0)".into(), json!(57_344)),
        ("a hole of 2^32", "const a = []; a[2 ** 32 - 2] = 1; a.length".into(), json!(4_294_967_295_u64)),
        ("a getter in a result", "({ get a() { for (;;) {} } })".into(), json!("{ a: [Getter] }")),
        ("toJSON in a result", "({ toJSON() { for (;;) {} } })".into(), json!("{ toJSON: [Function: toJSON] }")),
        (
            "a proxy in a result",
            "new Proxy([1], { ownKeys() { for (;;) {} }, has() { for (;;) {} } })".into(),
            json!("[ 1 ]"),
        ),
        (
            "polluted prototypes",
            "Object.prototype.x = 1; Array.prototype.y = 2; Promise.prototype.then; 3".into(),
            json!(3),
        ),
        ("a changed JSON", "JSON.stringify = JSON.parse = () => { throw 1 }; ({ a: 1 })".into(), json!({ "a": 1 })),
        ("a frozen world", "Object.freeze(globalThis); Object.freeze(Object.prototype); 4".into(), json!(4)),
        ("a resolved thenable", "({ then(resolve) { resolve(5) } })".into(), json!(5)),
        (
            "a rejection that is handled late",
            "const p = Promise.reject(1); await null; p.catch(() => 6)".into(),
            json!(6),
        ),
        (
            "a changed hasInstance",
            "Object.defineProperty(Array, Symbol.hasInstance, { value: () => true }); [7]".into(),
            json!([7]),
        ),
        (
            "thousands of declarations",
            (0..5_000).fold(String::new(), |all, n| all + &format!("let v{n} = {n};")) + "v4999",
            json!(4_999),
        ),
    ]
}

async fn what_only_looks_hostile_gives_its_value() {
    let bench = Bench::new(TestHost::default(), Limits { memory_bytes: 64 << 20, ..Limits::default() });
    for (name, source, value) in harmless() {
        let outcome = bench.run(&source).await;
        assert_eq!(outcome.result, Ok(Some(value)), "{name}");
    }
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"));
}

/// With the default limit on memory, which a single text can pass: on QuickJS any of these does, since it has no ropes.
async fn texts_of_hundreds_of_megabytes_end_as_values() {
    const CRASHED: &[(BlockErrorKind, Option<&str>)] = &[(Exception, Some("CAPSULE_CRASHED"))];
    let bench = bench();
    let printed = match ENGINE {
        Engine::V8 => CRASHED,
        Engine::QuickJs => MEMORY,
    };
    for Case { name, source, expect } in [
        case("a list too long for the engine", "'x'.repeat(2e8).split('').length", MEMORY),
        case("the longest text there is, split", "'x'.repeat(2 ** 29 - 24).split('')", MEMORY),
        case("base64 of a long text", "globalThis.kept = btoa('x'.repeat(3.5e8)); 1", MEMORY),
        case("a long text from base64", "globalThis.kept = atob('QUFB'.repeat(1e8)); 1", MEMORY),
        case("many long texts", "const all = []; for (;;) all.push(btoa('x'.repeat(1e8)))", MEMORY),
        case("the longest text there is, printed", "console.log('x'.repeat(2 ** 29 - 24))", printed),
    ] {
        // It takes QuickJS most of a minute to convert so much; the table has the same in small.
        if ENGINE == Engine::QuickJs && name == "many long texts" {
            continue;
        }
        bench.capsule.begin_wake();
        let error = bench.error(&source).await;
        assert!(expect.contains(&kind_and_code(&error)), "{name}: {error:?}");
        bench.assert_works().await;
    }
    assert_eq!(bench.value("btoa('x'.repeat(3e7)).length").await, Some(40_000_000.into()));
    if ENGINE == Engine::V8 {
        assert_eq!(bench.value("'x'.repeat(2 ** 29 - 24).length").await, Some(536_870_888.into()));
    }
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"), "{:?}", bench.host.event_data("capsule:crash"));
}

async fn what_the_engine_gives_up_on_harms_no_block_beside_it() {
    let given_up = Arc::new(Notify::new());
    let ended = given_up.clone();
    let host = TestHost::default().answering("slow.wait", move |_, _| {
        let ended = ended.clone();
        async move {
            ended.notified().await;
            Ok(Datum::String("well".into()))
        }
    });
    let bench = Bench::new(host, Limits::default());
    bench.assert_works().await;
    for source in ["'x'.repeat(2e8).split('')", "console.log('x'.repeat(2 ** 29 - 24))"] {
        let first = bench.capsule.pid();
        let fatal = async {
            let outcome = bench.run(source).await;
            given_up.notify_one();
            outcome
        };
        let (fatal, beside) = tokio::join!(fatal, bench.run("await slow.wait() + '!'"));
        assert!(fatal.result.is_err(), "{source}");
        assert_eq!(beside.result, Ok(Some("well!".into())), "{source}");
        bench.assert_works().await;
        // QuickJS never gives up: it stops the block.
        if ENGINE == Engine::V8 {
            assert_ne!(bench.capsule.pid(), first, "a process that has given up is replaced");
        }
    }
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"), "{:?}", bench.host.event_data("capsule:crash"));
}

async fn a_block_cannot_throw_a_verdict_of_the_capsule() {
    let bench = bench();
    for code in ["CAPSULE_CRASHED", "OUT_OF_MEMORY", "SOURCE_TOO_LARGE", "TOO_MANY_TOOL_CALLS"] {
        let error = bench.error(&format!("throw Object.assign(new Error('mine'), {{ code: '{code}' }})")).await;
        assert_eq!(kind_and_code(&error), (Exception, None), "{error:?}");
    }
    let error = bench.error("throw Object.assign(new Error('mine'), { code: 'MINE' })").await;
    assert_eq!(kind_and_code(&error), (Exception, Some("MINE")), "{error:?}");
    for odd in ["''", "'a\\u0000'", "'C'.repeat(65)", "{}"] {
        let error = bench.error(&format!("throw Object.assign(new Error('mine'), {{ code: {odd} }})")).await;
        assert_eq!(kind_and_code(&error), (Exception, None), "{error:?}");
    }
}

async fn what_tools_give_counts_towards_the_memory_limit() {
    let limits = Limits { timeout: Duration::from_secs(20), ..tight_limits() };
    let half = limits.memory_bytes / 2;
    let host = TestHost::default()
        .answering("fs.read", move |_, _| async move { Ok(Datum::Bytes(vec![1; half])) })
        .answering("fs.list", move |_, _| async move { Ok(Datum::String("x".repeat(half))) });
    let bench = Bench::new(host, limits);
    for source in [
        "const all = []; for (;;) all.push(await fs.read())",
        "const all = []; for (;;) try { all.push(await fs.read()) } catch {}",
        "const all = []; for (;;) all.push(await fs.list())",
        "await Promise.all([fs.read(), fs.read(), fs.read()])",
    ] {
        let error = bench.error(source).await;
        assert_eq!(kind_and_code(&error), (Exception, Some("OUT_OF_MEMORY")), "{source}: {error:?}");
        assert_eq!(bench.value("(await fs.read()).at(-1)").await, Some(1.into()), "{source}");
    }
    assert!(!bench.host.event_kinds().contains(&"capsule:crash"), "{:?}", bench.host.event_data("capsule:crash"));
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
        // Quadratic from either end, and the engine does not look up from it.
        let needle = "'a'.repeat(2 ** 15) + 'b' + 'a'.repeat(2 ** 15)";
        let outcome = bench.run(&format!("'a'.repeat(2 ** 24).indexOf({needle})")).await;
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
