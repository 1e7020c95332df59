//! Top-level declarations live on from block to block, as in a notebook.

use axon_capsule::{Bindings, ENGINE, Engine, MAX_BINDINGS_BYTES};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Bench, TestHost, bench, tight_limits};

crate::trials![
    every_kind_of_declaration_is_there_in_the_next_block,
    errors_are_carried_where_the_engine_can_copy_them,
    names_can_be_declared_anew_with_any_keyword,
    what_a_block_changes_later_blocks_see_changed,
    a_const_stays_one,
    functions_bring_along_what_they_refer_to,
    what_has_no_copy_is_forgotten_with_its_reason,
    a_block_that_fails_or_is_stopped_changes_no_binding,
    blocks_at_once_start_alike_and_the_last_to_end_counts_for_each_name,
    over_the_limit_the_largest_are_dropped_and_named,
    bindings_survive_the_death_of_the_process_and_can_be_restored,
    a_declaration_that_was_not_reached_is_none,
    a_tools_name_stays_the_tools,
    odd_names_and_sources_are_carried,
    prototypes_that_were_changed_are_not_carried_and_do_no_harm,
];

/// Runs blocks in turn; all must succeed. Gives the value of the last.
async fn in_turn(bench: &Bench, sources: &[&str]) -> Option<Value> {
    let mut last = None;
    for source in sources {
        last = bench.value(source).await;
    }
    last
}

async fn every_kind_of_declaration_is_there_in_the_next_block() {
    let bench = bench();
    for (declaration, use_of_it, value) in [
        ("const a: number = 1", "a", json!(1)),
        ("let b = { n: [1, { m: 2 }] }", "b.n[1].m", json!(2)),
        ("var c = 'é\\u0000\\ud800'", "c.length", json!(3)),
        ("if (true) { var hoisted = 3 }", "hoisted", json!(3)),
        ("const { d, e: [f = 7, ...g] } = { d: 1, e: [undefined, 2, 3] }", "[d, f, g]", json!([1, 7, [2, 3]])),
        ("function h(x: number) { return x + 1 }", "h(1)", json!(2)),
        ("async function i() { return 5 }", "await i()", json!(5)),
        ("function* j() { yield 1; yield 2 }", "[...j()]", json!([1, 2])),
        ("const k = (x: number): number => x * 2", "k(4)", json!(8)),
        ("const l = async function () { return 6 }", "await l()", json!(6)),
        (
            "class M { #p = 4; static z = 9; constructor(readonly q: number) {} get both() { return this.#p + this.q } }",
            "[new M(1).both, M.z]",
            json!([5, 9]),
        ),
        ("enum N { A = 3, B }", "[N.B, N[3]]", json!([4, "A"])),
        ("namespace O { export const x = 5; export function y() { return x } }", "[O.x, O.y()]", json!([5, 5])),
        ("export const p = 8", "p", json!(8)),
        ("export default function q() { return 9 }", "q()", json!(9)),
        ("const r = new Map([[1, new Set([2])]])", "[...r.get(1)!]", json!([2])),
        (
            "const s = [new Date(5), /x/gi, 10n, new Uint8Array([7]), undefined]",
            "[+s[0], s[1].flags, String(s[2]), s[3][0]]",
            json!([5, "gi", "10", 7]),
        ),
        ("const t: any = {}; t.self = t", "t.self.self === t", json!(true)),
        (
            "const v = NaN, w = -0, x = Infinity",
            "[Number.isNaN(v), Object.is(w, -0), x === Infinity]",
            json!([true, true, true]),
        ),
    ] {
        bench.value(declaration).await;
        assert_eq!(bench.value(use_of_it).await, Some(value), "{declaration}");
    }
    // All of them still, one block later and together.
    assert_eq!(bench.value("[a, h(a), k(p), new M(2).both, N.A, O.y()]").await, Some(json!([1, 2, 16, 6, 3, 5])));
}

async fn errors_are_carried_where_the_engine_can_copy_them() {
    let bench = bench();
    bench.value("const u = new TypeError('m', { cause: 1 }); const other = 2").await;
    let source = "[u instanceof TypeError, u.message, u.cause]";
    match ENGINE {
        Engine::V8 => assert_eq!(bench.value(source).await, Some(json!([true, "m", 1]))),
        Engine::QuickJs => {
            let error = bench.error(source).await;
            assert!(error.message.contains("a TypeError that has no copy"), "{}", error.message);
        }
    }
    assert_eq!(bench.value("other").await, Some(json!(2)));
}

async fn names_can_be_declared_anew_with_any_keyword() {
    let bench = bench();
    for declaration in [
        "const x = 1",
        "let x = 2",
        "var x = 3",
        "function x() { return 4 }",
        "class x {}",
        "enum x { A }",
        "const x = 5",
    ] {
        bench.value(declaration).await;
    }
    assert_eq!(bench.value("x").await, Some(json!(5)));
    assert_eq!(in_turn(&bench, &["const x = 6; x", "const y = x + 1; y"]).await, Some(json!(7)));
}

async fn what_a_block_changes_later_blocks_see_changed() {
    let bench = bench();
    let sources = [
        "let count = 0; const list: number[] = []; function inc() { count++; list.push(count) }",
        "inc(); inc()",
        "count += 10; list.push(99)",
        "inc()",
        "[count, list]",
    ];
    assert_eq!(in_turn(&bench, &sources).await, Some(json!([13, [1, 2, 99, 13]])));
}

async fn a_const_stays_one() {
    let bench = bench();
    bench.value("const fixed = 1").await;
    let error = bench.error("fixed = 2").await;
    let says = match ENGINE {
        Engine::V8 => "TypeError: Assignment to constant variable",
        Engine::QuickJs => "TypeError: 'fixed' is read-only",
    };
    assert!(error.message.starts_with(says), "{}", error.message);
    assert_eq!(bench.value("fixed").await, Some(json!(1)));
}

async fn functions_bring_along_what_they_refer_to() {
    let bench = bench();
    let sources = [
        "const base = 10",
        "const add = (n: number) => n + base; function twice(n: number) { return add(add(n)) }",
        "class Shape { area() { return twice(1) } } class Square extends Shape { }",
        "const make = () => new Square()",
        "make().area()",
    ];
    assert_eq!(in_turn(&bench, &sources).await, Some(json!(21)));
    // An error in a carried function names the block's own line, and that the rest is from before.
    bench.value("function fails() { throw new Error('inside') }").await;
    let error = bench.error("1;\nfails()").await;
    assert!(error.message.starts_with("Error: inside\n    at fails (an earlier block)"), "{}", error.message);
    assert!(error.message.contains("at block:2:1"), "{}", error.message);
}

async fn what_has_no_copy_is_forgotten_with_its_reason() {
    let bench = bench();
    for (declaration, what) in [
        ("const conn = Promise.resolve(1)", "a Promise"),
        ("const conn = new Promise(() => {})", "a Promise"),
        ("const conn = ((n) => () => n)(1)", "a function that was made by a call or assigned later"),
        ("const conn = fs.read", "a function that was made by a call or assigned later"),
        ("const conn = new WeakMap()", "a WeakMap"),
        ("class P { x = 1 } const conn = new P()", "an instance of P"),
        ("const conn = { go() {} }", "an Object that holds a function that was made by a call or assigned later"),
        ("const conn = [1, [Promise.resolve()]]", "an Array that holds a Promise"),
        ("const conn = new Proxy({}, {})", "a Proxy"),
        ("const conn = Symbol('s')", "a symbol"),
        ("const conn = { get a() { return 1 } }", "an Object with a getter or a setter"),
        ("const conn = (function* () {})()", "an object of a kind of its own"),
        ("const conn = new URL('https://a.b')", "a URL"),
    ] {
        bench.value(&format!("{declaration}; 0")).await;
        let error = bench.error("conn.x").await;
        let expected = format!(
            "ReferenceError: conn is not defined (declared in an earlier block, but its value, {what}, cannot be carried \
             over)\n    at block:1:1"
        );
        assert!(error.message.starts_with(&expected), "{declaration}: {}", error.message);
        assert_eq!(bench.value("typeof conn").await, Some(json!("undefined")));
    }
    assert_eq!(in_turn(&bench, &["const conn = 1", "conn"]).await, Some(json!(1)));
}

async fn a_block_that_fails_or_is_stopped_changes_no_binding() {
    let bench = Bench::new(TestHost::default(), tight_limits());
    bench.value("let kept = 1; const list = [1]").await;
    for source in [
        "kept = 2; list.push(2); const more = 1; throw new Error('x')",
        "kept = 2; const more = 1; for (;;) {}",
        "kept = 2; const more = 1; const all = []; for (;;) all.push(new Uint8Array(1 << 20))",
        "kept = 2; const more = 1; Promise.reject(new Error('lost')); 1",
        "kept = 2; const more = ;",
    ] {
        bench.error(source).await;
        assert_eq!(bench.value("[kept, list, typeof more]").await, Some(json!([1, [1], "undefined"])), "{source}");
    }
}

async fn blocks_at_once_start_alike_and_the_last_to_end_counts_for_each_name() {
    let bench =
        Bench::new(TestHost::default(), axon_capsule::Limits { max_concurrent_blocks: 2, ..Default::default() });
    bench.value("let n = 1; let untouched = 'same'").await;
    // More blocks than may run at once: those that wait start from the same bindings as the first.
    let blocks = (0..6).map(|index| bench.block(&format!("n += 1; const own{index} = untouched; n"))).collect();
    let outcomes = bench.capsule.run_all(blocks, CancellationToken::new()).await;
    for outcome in outcomes {
        assert_eq!(outcome.result, Ok(Some(json!(2))));
    }
    assert_eq!(bench.value("[n, own0, own5]").await, Some(json!([2, "same", "same"])));
    // A block that only reads does not undo what one beside it has written.
    let slow = "await new Promise((r) => setTimeout(r, 300)); n";
    let blocks = ["n = 7", slow].map(|source| bench.block(source)).to_vec();
    bench.capsule.run_all(blocks, CancellationToken::new()).await;
    assert_eq!(bench.value("n").await, Some(json!(7)));
    let blocks =
        ["n = 8", "await new Promise((r) => setTimeout(r, 300)); n = 9"].map(|source| bench.block(source)).to_vec();
    bench.capsule.run_all(blocks, CancellationToken::new()).await;
    assert_eq!(bench.value("n").await, Some(json!(9)));
}

async fn over_the_limit_the_largest_are_dropped_and_named() {
    let bench = bench();
    bench.value("const small = 'kept'; const first = 'x'.repeat(9 << 20)").await;
    let outcome = bench.run("const second = new Uint8Array(8 << 20).fill(1); 0").await;
    let rebinding = outcome.rebinding.unwrap();
    assert_eq!(rebinding.kept, ["second"]);
    assert_eq!(rebinding.dropped[0].0, "first");
    let error = bench.error("first.length").await;
    assert!(error.message.contains("first is not defined (declared in an earlier block, but its value, 9216 KiB, was dropped: bindings hold at most 16 MiB together)"), "{}", error.message);
    assert_eq!(bench.value("[small, second.length]").await, Some(json!(["kept", 8 << 20])));
    // One value that is too large by itself harms none of the others.
    let outcome = bench.run("const huge = 'y'.repeat(20 << 20); 0").await;
    assert_eq!(outcome.rebinding.unwrap().dropped[0].0, "huge");
    assert_eq!(bench.value("[small, second.length]").await, Some(json!(["kept", 8 << 20])));
    assert!(bench.capsule.bindings().bytes() <= MAX_BINDINGS_BYTES);
}

async fn bindings_survive_the_death_of_the_process_and_can_be_restored() {
    let first = bench();
    first.value("const a = [1, 2]; function sum() { return a[0] + a[1] }").await;
    kill_process(first.pid(), Signal::KILL).unwrap();
    assert_eq!(first.value("sum()").await, Some(json!(3)));
    let saved = first.capsule.bindings().encode();
    let second = bench();
    second.capsule.restore(Bindings::decode(&saved).unwrap());
    assert_eq!(second.value("sum()").await, Some(json!(3)));
}

async fn a_declaration_that_was_not_reached_is_none() {
    let bench = bench();
    bench.value("const before = 1; if (before) return 0; const after = 2").await;
    assert_eq!(bench.value("[before, typeof after]").await, Some(json!([1, "undefined"])));
}

async fn a_tools_name_stays_the_tools() {
    let bench = bench();
    bench.value("const slow = 1").await;
    assert_eq!(bench.value("typeof slow.wait").await, Some(json!("function")));
}

async fn odd_names_and_sources_are_carried() {
    let bench = bench();
    let sources = [
        "const $expose = 1; const ünïcödé = 2; const $ = 3, _ = 4; let fetch = 5; const console_ = console === undefined",
        "const names = ['a']; const undefined_ = [$expose, ünïcödé, $, _, fetch]; undefined_",
    ];
    assert_eq!(in_turn(&bench, &sources).await, Some(json!([1, 2, 3, 4, 5])));
    let shadowed = [
        "const Array = 1; const JSON = 2; const Promise = 3; const Object = 4",
        "[Array, JSON, Promise, Object].join()",
    ];
    assert_eq!(in_turn(&bench, &shadowed).await, Some(json!("1,2,3,4")));
    assert_eq!(
        in_turn(&bench, &["{ a: 1 }", "const text = `a${'b'}`; function f() { return `${text}\n\\n` }", "f()"]).await,
        Some(json!("ab\n\n"))
    );
}

async fn prototypes_that_were_changed_are_not_carried_and_do_no_harm() {
    let bench = bench();
    let sources = [
        "Function.prototype.toString = () => 'lies'; Array.prototype.push = null; Map.prototype.forEach = null; \
         Object.prototype.polluted = 1; \
         const m = new Map([[1, 2]]); function f() { return m.get(1) } const a = {}; 0",
        "[f(), (a as any).polluted ?? null, typeof [].push]",
    ];
    assert_eq!(in_turn(&bench, &sources).await, Some(json!([2, null, "function"])));
}
