//! Values, printed lines, errors and globals.

use std::collections::BTreeSet;

use axon_capsule::{ENGINE, Engine, Limits};
use serde_json::json;

use crate::support::{Bench, TestHost, bench};

crate::trials![
    json_values_arrive_as_json_and_others_as_they_print,
    reading_a_value_runs_none_of_its_code,
    printing_formats_as_deno_does,
    a_value_over_the_output_limit_is_cut_and_counted,
    printed_stacks_show_the_blocks_own_frames_only,
    errors_carry_their_causes_and_code,
    rejections_that_nobody_handles_fail_the_block,
    the_globals_are_those_of_the_contract_and_work,
    nothing_of_the_engine_or_the_host_is_in_scope,
    one_block_cannot_poison_the_next,
    isolates_share_neither_randomness_nor_clocks,
    blocks_at_once_give_outcomes_in_input_order,
];

async fn json_values_arrive_as_json_and_others_as_they_print() {
    let bench = bench();
    for (source, value) in [
        ("1.5", json!(1.5)),
        ("-0", json!(0)),
        ("'é\\u0000'", json!("é\u{0}")),
        ("[1, 'a', null, true, [], {}]", json!([1, "a", null, true, [], {}])),
        ("({ b: 1, a: undefined, c: { d: [1] } })", json!({ "b": 1, "c": { "d": [1] } })),
        ("Object.create(null)", json!({})),
        ("'a\\ud800b'", json!("a\u{fffd}b")),
        ("({ ['\\udc00']: ['\\ud83d', '\\ud83d\\ude00'] })", json!({ "\u{fffd}": ["\u{fffd}", "😀"] })),
        ("({ ['__proto__']: 1 })", json!({ "__proto__": 1 })),
        ("var __proto__ = 3; __proto__ + 1", json!(4)),
        ("'\\n'.repeat(60_000)", json!("\n".repeat(60_000))),
        ("'abc'.match(/b/)", json!("[ \"b\", index: 1, input: \"abc\", groups: undefined ]")),
        ("10n", json!("10n")),
        ("NaN", json!("NaN")),
        ("Symbol('s')", json!("Symbol(s)")),
        ("new Map([[1, { a: 2 }]])", json!("Map(1) { 1 => { a: 2 } }")),
        ("new Set([1, 'x'])", json!("Set(2) { 1, \"x\" }")),
        ("new Date(0)", json!("1970-01-01T00:00:00.000Z")),
        ("new Uint8Array([1, 2])", json!("Uint8Array(2) [ 1, 2 ]")),
        ("const a = { n: 1 }; a.self = a; a", json!("<ref *1> { n: 1, self: [Circular *1] }")),
        ("class P { x = 1 }; new P()", json!("P { x: 1 }")),
        ("({ when: new Date(0) })", json!("{ when: 1970-01-01T00:00:00.000Z }")),
        ("[1, , 2]", json!("[ 1, <1 empty item>, 2 ]")),
        ("() => 1", json!("[Function (anonymous)]")),
        ("new URL('https://a.b/c?d')", json!(null)),
    ] {
        let got = bench.value(source).await.unwrap();
        if value.is_null() {
            assert!(got.as_str().is_some_and(|text| text.contains("https://a.b/c?d")), "{got}");
        } else {
            assert_eq!(got, value, "{source}");
        }
    }
}

async fn reading_a_value_runs_none_of_its_code() {
    let bench = bench();
    for source in [
        "({ get a() { console.log('ran'); return 1 } })",
        "({ toJSON() { console.log('ran'); return 1 } })",
        "Object.prototype.toJSON = () => { console.log('ran') }; ({ a: 1 })",
        "Array.prototype[Symbol.iterator] = () => { console.log('ran') }; [1]",
        "Array.prototype.push = Array.prototype.join = () => { console.log('ran') }; [1]",
    ] {
        let outcome = bench.run(source).await;
        assert!(outcome.result.is_ok(), "{source}: {outcome:?}");
        assert!(outcome.stdout.is_empty(), "{source}: {outcome:?}");
    }
}

async fn printing_formats_as_deno_does() {
    let bench = bench();
    let source = "console.log('a %s %d', 'b', 1, { c: [1] }); console.error('e'); console.log('x\\ny'); console.log();
        console.group('g'); console.info('in'); console.groupEnd(); console.table([{ a: 1 }]);";
    let outcome = bench.run(source).await;
    let lines: Vec<&str> = outcome.stdout.iter().map(String::as_str).collect();
    assert_eq!(lines[..7], ["a b 1 { c: [ 1 ] }", "e", "x", "y", "", "g", "  in"]);
    assert!(lines[7].starts_with('┌'), "{lines:?}");
    assert!(!outcome.truncated);
}

async fn a_value_over_the_output_limit_is_cut_and_counted() {
    let bench = Bench::new(TestHost::default(), Limits { max_output_bytes: 100, ..Limits::default() });
    let outcome = bench.run("'x'.repeat(1_000)").await;
    assert!(outcome.truncated);
    let value = outcome.result.unwrap().unwrap();
    let text = value.as_str().unwrap();
    assert_eq!(text, format!("{}… [value cut: 900 characters left out]", "x".repeat(100)));
    let outcome = bench.run("Array.from({ length: 1e6 }, (_, i) => i)").await;
    assert!(outcome.truncated && outcome.result.is_ok(), "{outcome:?}");
    let outcome = bench.run("'x'.repeat(2 ** 26)").await;
    assert!(outcome.truncated && outcome.result.is_ok(), "{outcome:?}");
    let outcome = bench.run("console.log('y'.repeat(40)); 'z'.repeat(8)").await;
    assert!(!outcome.truncated, "{outcome:?}");
    let outcome = bench.run("console.log('y'.repeat(700)); console.log('after'); 1").await;
    assert_eq!(outcome.stdout, [format!("{}… [line cut: 650 bytes left out]", "y".repeat(50)), "after".into()]);
    let outcome = bench.run("[...'x'.repeat(100)]").await;
    let text = outcome.result.unwrap().unwrap().as_str().unwrap().to_owned();
    assert!(text.starts_with("[\"x\",") && text.ends_with("… [value cut: 301 characters left out]"), "{text}");
}

async fn printed_stacks_show_the_blocks_own_frames_only() {
    let bench = Bench::new(
        TestHost::default().answering("fs.read", |_, _| async {
            Err(axon_capsule::ToolError { name: "NotFound".into(), message: "no file".into(), code: None })
        }),
        Limits::default(),
    );
    let outcome = bench
        .run("function inner() { return new Error('boom') }\nconsole.log(inner());\nconsole.trace('here');\ntry { await fs.read('x') } catch (e) { console.error(e) }\nconsole.log('end')")
        .await;
    let text = outcome.stdout.join("\n");
    // QuickJS has a call among arguments begin where the call around it does.
    let column = match ENGINE {
        Engine::V8 => 13,
        Engine::QuickJs => 9,
    };
    let printed = format!("Error: boom\n    at inner (block:1:27)\n    at block:2:{column}\n");
    assert!(text.starts_with(&printed), "{text}");
    assert!(text.contains("Trace: here\n    at block:3:9\nNotFound: no file"), "{text}");
    assert!(!text.contains("ext:"), "{text}");
    // What an error has beside its stack stays in its braces.
    for error in ["new AggregateError([new Error('a')], 'many')", "Object.assign(new Error('with'), { more: 1 })"] {
        let text = bench.value(error).await.unwrap().as_str().unwrap().to_owned();
        let count = |brace| text.matches(brace).count();
        assert!(count('{') == 1 && count('}') == 1, "{text}");
    }
}

async fn errors_carry_their_causes_and_code() {
    let bench = bench();
    let error = bench.error("const a = new Error('inner');\nthrow new TypeError('outer', { cause: a })").await;
    assert!(error.message.starts_with("TypeError: outer\n    at block:2:7"), "{}", error.message);
    assert!(error.message.contains("Caused by: Error: inner\n    at block:1:11"), "{}", error.message);
    let error = bench.error("throw Object.assign(new Error('x'), { code: 'E_MINE' })").await;
    assert_eq!(error.code.as_deref(), Some("E_MINE"));
    let error = bench.error("throw 'just text'").await;
    assert_eq!(error.message, "Uncaught just text");
    let error = bench.error("throw { a: 1 }").await;
    assert_eq!(error.message, "Uncaught { a: 1 }");
    let error = bench.error("class MyError extends Error { name = 'MyError' }\nthrow new MyError('m')").await;
    assert!(error.message.starts_with("MyError: m"), "{}", error.message);
    let error = bench.error("await Promise.any([Promise.reject(new Error('one'))])").await;
    assert!(error.message.contains("One of its errors: Error: one"), "{}", error.message);
}

async fn rejections_that_nobody_handles_fail_the_block() {
    let bench = bench();
    let error = bench.error("Promise.reject(new Error('lost')); 1").await;
    assert!(error.message.starts_with("Unhandled rejection: Error: lost"), "{}", error.message);
    assert_eq!(bench.value("const p = Promise.reject(1); p.catch(() => {}); 2").await, Some(json!(2)));
}

async fn the_globals_are_those_of_the_contract_and_work() {
    let bench = bench();
    for (source, value) in [
        ("new URL('../x?a=1#h', 'https://e.org/b/c').href", json!("https://e.org/x?a=1#h")),
        ("new URLSearchParams({ a: '1 2' }).toString()", json!("a=1+2")),
        ("[...new TextEncoder().encode('é')]", json!([195, 169])),
        ("new TextDecoder().decode(new Uint8Array([195, 169]))", json!("é")),
        ("atob(btoa('hello'))", json!("hello")),
        ("structuredClone({ a: [1] })", json!({ "a": [1] })),
        (
            "/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())",
            json!(true),
        ),
        ("crypto.getRandomValues(new Uint8Array(32)).some((n) => n > 0)", json!(true)),
        (
            "[...new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode('abc')))].slice(0, 3)",
            json!([0xba, 0x78, 0x16]),
        ),
        ("performance.now() >= 0", json!(true)),
        ("await new Promise((r) => setTimeout(() => r('t'), 5))", json!("t")),
        ("await new Promise((r) => queueMicrotask(() => r('m')))", json!("m")),
        ("const c = new AbortController(); c.abort(); c.signal.aborted", json!(true)),
        ("[signal instanceof AbortSignal, signal.aborted]", json!([true, false])),
        ("typeof Temporal.Now.instant", json!("function")),
        (
            "let n = 0; await new Promise<void>((r) => { const t = setInterval(() => { if (++n === 3) { clearInterval(t); r() } }, 1) }); n",
            json!(3),
        ),
    ] {
        assert_eq!(bench.value(source).await, Some(value), "{source}");
    }
    let intl = "[typeof Intl.NumberFormat, typeof Intl.PluralRules, typeof Intl.Segmenter, typeof Intl.Collator]";
    match ENGINE {
        Engine::V8 => {
            assert_eq!(bench.value(intl).await, Some(json!(["function", "function", "function", "function"])));
            assert_eq!(bench.value("new Intl.NumberFormat('en').format(1234.5)").await, Some(json!("1,234.5")));
        }
        // No more of Intl than what is right.
        Engine::QuickJs => {
            let date = "new Date(0).toLocaleString('de-DE', { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' })";
            assert!(bench.value(date).await.unwrap().as_str().unwrap().contains("1970"));
            assert_eq!(bench.value(intl).await, Some(json!(["undefined", "undefined", "undefined", "function"])));
        }
    }
    let later = "Temporal.Instant.from('2026-01-01T00:00Z').toZonedDateTimeISO('Asia/Tokyo').toString()";
    assert_eq!(bench.value(later).await, Some(json!("2026-01-01T09:00:00+09:00[Asia/Tokyo]")));
    assert_eq!(
        bench.value("['b', 'ä', 'a'].sort(new Intl.Collator('de').compare)").await,
        Some(json!(["a", "ä", "b"]))
    );
}

async fn nothing_of_the_engine_or_the_host_is_in_scope() {
    let bench = bench();
    for name in [
        "Deno",
        "__bootstrap",
        "process",
        "require",
        "WebAssembly",
        "SharedArrayBuffer",
        "fetch",
        "__axon",
        "Atomics.wait",
        "ShadowRealm",
        "gc",
    ] {
        assert_eq!(bench.value(&format!("typeof {name}")).await, Some(json!("undefined")), "{name}");
    }
    let names = bench.value("Object.getOwnPropertyNames(globalThis)").await.unwrap();
    let names: BTreeSet<&str> = names.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    // QuickJS's Temporal calls this one: numbers in, numbers out.
    let known = |name: &str| ENGINE == Engine::QuickJs && name == "__v8xTemporalTimeZone";
    let suspicious: Vec<_> =
        names.iter().filter(|name| name.starts_with("op_") || name.starts_with("__") && !known(name)).collect();
    assert!(suspicious.is_empty(), "{suspicious:?}");
    assert_eq!(bench.value("new Function('return typeof Deno')()").await, Some(json!("undefined")));
}

async fn one_block_cannot_poison_the_next() {
    let bench = bench();
    bench
        .value("Array.prototype.map = null; Object.prototype.x = 1; globalThis.y = 2; JSON.parse = null; Promise.prototype.then = null; 1")
        .await;
    let clean = bench.value("[typeof [].map, ({} as any).x, typeof (globalThis as any).y, typeof JSON.parse]").await;
    assert_eq!(clean, Some(json!(["function", null, "undefined", "function"])));
}

async fn blocks_at_once_give_outcomes_in_input_order() {
    let bench = bench();
    let sources = (0..20).map(|n| format!("await new Promise((r) => setTimeout(r, {})); {n}", 40 - 2 * n));
    let blocks = sources.map(|source| bench.block(&source)).collect();
    let outcomes = bench.capsule.run_all(blocks, tokio_util::sync::CancellationToken::new()).await;
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.result, Ok(Some(n.into())));
    }
}

async fn isolates_share_neither_randomness_nor_clocks() {
    let bench = bench();
    let mut seen = BTreeSet::new();
    for _ in 0..20 {
        let value =
            bench.value("[Math.random(), crypto.randomUUID(), performance.timeOrigin, Date.now()]").await.unwrap();
        assert!(seen.insert(value[0].to_string()) && seen.insert(value[1].to_string()), "{value}");
        let (origin, now) = (value[2].as_f64().unwrap(), value[3].as_f64().unwrap());
        assert!((now - origin).abs() < 60_000.0, "{value}");
    }
}
