//! TypeScript as models write it.

use serde_json::json;

use crate::support::bench;

crate::trials![
    typescript_gives_what_typescript_gives,
    sources_are_taken_as_models_write_them,
    errors_name_the_position_in_the_models_own_source,
    modules_are_refused_and_the_namespaces_named,
    an_unknown_name_gives_the_nearest_and_the_namespaces,
    a_source_over_its_limit_is_refused,
];

async fn typescript_gives_what_typescript_gives() {
    let bench = bench();
    for (source, value) in [
        (
            "enum Color { Red, Green = 'g', Blue = 5 }; [Color.Red, Color[0], Color.Green, Color.Blue]",
            json!([0, "Red", "g", 5]),
        ),
        ("const enum E { A = 1 << 3 }; E.A", json!(8)),
        (
            "class P { constructor(public x: number, private readonly y = 2) {} sum() { return this.x + this.y } }\nnew P(1).sum()",
            json!(3),
        ),
        ("namespace N { export const a = 1; export function f() { return a + 1 } }; N.f()", json!(2)),
        ("const o = { a: 1 } satisfies Record<string, number>; o.a", json!(1)),
        ("function id<T extends unknown>(x: T): T { return x }; id<number>(4)", json!(4)),
        ("interface A { x: number } type B = A & { y?: string }; const b: B = { x: 1 }; b as A", json!({ "x": 1 })),
        (
            "abstract class A { abstract f(): number; g() { return this.f()! } } class B extends A { f() { return 7 } } new B().g()",
            json!(7),
        ),
        ("let x: unknown = 'abc'; (x as string).length", json!(3)),
        ("class C { static #n = 1; declare y: string; static get n() { return C.#n } } C.n", json!(1)),
        ("const f = async <T,>(x: T) => x; await f(1)", json!(1)),
        (
            "function over(a: string): string; function over(a: number): number; function over(a: any) { return a }; over(2)",
            json!(2),
        ),
        ("let n: number | undefined; n ??= 3; n!", json!(3)),
    ] {
        assert_eq!(bench.value(source).await, Some(value), "{source}");
    }
}

async fn sources_are_taken_as_models_write_them() {
    let bench = bench();
    for (source, value) in [
        ("```ts\nconst a: number = 1;\na + 1\n```", Some(json!(2))),
        ("~~~\n3\n~~~\n", Some(json!(3))),
        ("#!/usr/bin/env deno\n3.5", Some(json!(3.5))),
        ("export const x = 4;\nx", Some(json!(4))),
        ("export default 5", Some(json!(5))),
        ("const a = await Promise.resolve(6); return a; 7", Some(json!(6))),
        ("Promise.resolve(8)", Some(json!(8))),
        ("{ a: 1, b: [2] }", Some(json!({ "a": 1, "b": [2] }))),
        ("'use strict'", Some(json!("use strict"))),
        ("const a = 1;", None),
        ("", None),
        ("// nothing", None),
        ("undefined", None),
        ("null", Some(json!(null))),
        ("if (true) { 'yes' } else { 'no' }", Some(json!("yes"))),
        ("try { await Promise.reject(1) } catch { 'caught' }", Some(json!("caught"))),
        ("try { Promise.reject(1) } catch { 'caught too' }", Some(json!("caught too"))),
        ("for await (const x of [1, 2]) { console.log(x) }", None),
        ("f(3)\nfunction f(n: number) { return n * 2 }", Some(json!(6))),
    ] {
        assert_eq!(bench.value(source).await, value, "{source}");
    }
}

async fn errors_name_the_position_in_the_models_own_source() {
    let bench = bench();
    for (source, starts, position) in [
        ("throw new Error('a')", "Error: a", "block:1:7"),
        (
            "interface A {\n  x: number\n}\nlet a: A = null\n  a.x",
            "TypeError: Cannot read properties of null",
            "block:5:5",
        ),
        ("```ts\nthrow new RangeError('b')\n```", "RangeError: b", "block:2:7"),
        ("enum E { A }\nfunction f(x: number): never {\n  throw new Error('c')\n}\nf(1)", "Error: c", "block:3:9"),
        ("const a = 1;\nconst b = ;", "SyntaxError:", "block:2:11"),
        ("let a = 1;\nlet a = 2;", "SyntaxError:", "block:"),
        (
            "setTimeout(() => { throw new Error('later') }, 1); await new Promise((r) => setTimeout(r, 50))",
            "Error: later",
            "block:1:",
        ),
        ("await new Promise((_, reject) => reject(new Error('d')))", "Error: d", "block:1:"),
    ] {
        let error = bench.error(source).await;
        assert!(error.message.starts_with(starts), "{source}: {}", error.message);
        assert!(error.message.contains(position), "{source}: {}", error.message);
    }
    let stack = bench.value("const e: Error = new Error('x');\ne.stack").await.unwrap();
    assert!(stack.as_str().unwrap().contains("block:1:18"), "{stack}");
}

async fn modules_are_refused_and_the_namespaces_named() {
    let bench = bench();
    for source in ["import fs from 'node:fs'\n1", "const fs = require('fs')", "const x = await import('fs')"] {
        let error = bench.error(source).await;
        assert!(error.message.contains("block:1:"), "{source}: {}", error.message);
        assert!(error.message.contains("fs, slow"), "{source}: {}", error.message);
    }
}

async fn an_unknown_name_gives_the_nearest_and_the_namespaces() {
    let error = bench().error("const total = 1;\nconsol.log(total)").await;
    assert!(error.message.starts_with("ReferenceError: consol is not defined"), "{}", error.message);
    assert!(error.message.contains("block:2:1"), "{}", error.message);
    assert!(error.message.contains("Did you mean console?"), "{}", error.message);
    assert!(error.message.contains("Tool namespaces in scope: fs, slow."), "{}", error.message);
}

async fn a_source_over_its_limit_is_refused() {
    let bench = bench();
    let error = bench.error(&" ".repeat(bench.limits.max_source_bytes + 1)).await;
    assert_eq!(error.code.as_deref(), Some("SOURCE_TOO_LARGE"));
    assert_eq!(bench.capsule.pid(), None, "nothing was started for it");
    assert_eq!(bench.value(&" ".repeat(bench.limits.max_source_bytes)).await, None);
}
