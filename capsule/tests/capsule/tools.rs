//! Tools as a block sees them.

use axon_capsule::{BlockErrorKind, Datum, Limits, ToolError};
use serde_json::json;

use crate::support::{Bench, TestHost, bench, kind_and_code};

crate::trials![
    data_crosses_to_a_tool_and_back_unchanged,
    a_tools_error_is_thrown_where_it_was_called_and_can_be_caught,
    an_unknown_function_names_the_nearest_and_the_others,
    namespaces_cannot_be_changed,
    what_cannot_cross_is_refused_at_the_call,
    a_call_that_nobody_awaits_takes_effect,
    calls_made_at_once_run_at_once,
    what_a_tool_gives_must_fit_the_wire,
    arguments_in_flight_are_bounded,
];

fn echo() -> TestHost {
    TestHost::default().answering("fs.read", |mut call, _| async move {
        Ok(if call.args.is_empty() { Datum::Undefined } else { call.args.swap_remove(0) })
    })
}

async fn data_crosses_to_a_tool_and_back_unchanged() {
    let bench = Bench::new(echo(), Limits::default());
    for expression in [
        "null",
        "true",
        "-0.5",
        "9007199254740991",
        "''",
        "'é \\u0000 𝒳 \\n'",
        "[]",
        "[1, [2, [3, null]]]",
        "({})",
        "({ a: { b: ['c'] }, 'x y': 1, __proto__x: 2 })",
    ] {
        let value = bench.value(&format!("const x = {expression}; const y = await fs.read(x); [x, y]")).await.unwrap();
        assert_eq!(value[0], value[1], "{expression}");
    }
    let value = bench.value("const y = await fs.read(new Uint8Array([1, 2, 255])); [y instanceof Uint8Array, [...y]]");
    assert_eq!(value.await, Some(json!([true, [1, 2, 255]])));
    let value = bench.value("const y = await fs.read(new Date(1234)); [y instanceof Date, y.getTime()]").await;
    assert_eq!(value, Some(json!([true, 1234])));
    assert_eq!(bench.value("(await fs.read()) === undefined").await, Some(json!(true)));
}

async fn a_tools_error_is_thrown_where_it_was_called_and_can_be_caught() {
    let host = TestHost::default().answering("fs.read", |_, _| async {
        Err(ToolError {
            name: "PolicyDenied".into(),
            message: "fs.read(\"/etc/passwd\"): not inside the readable roots".into(),
            code: Some("POLICY_DENIED".into()),
        })
    });
    let bench = Bench::new(host, Limits::default());
    let error = bench.error("const a = 1;\n  await fs.read('/etc/passwd')").await;
    assert_eq!(kind_and_code(&error), (BlockErrorKind::Exception, Some("POLICY_DENIED")));
    assert!(error.message.starts_with("PolicyDenied: fs.read(\"/etc/passwd\"): not inside"), "{}", error.message);
    assert!(error.message.contains("block:2:"), "{}", error.message);
    let caught = "try { await fs.read('x') } catch (e) { [e instanceof Error, e.name, e.code] }";
    assert_eq!(bench.value(caught).await, Some(json!([true, "PolicyDenied", "POLICY_DENIED"])));
}

async fn an_unknown_function_names_the_nearest_and_the_others() {
    let error = bench().error("await fs.raed('x')").await;
    assert!(error.message.contains("fs.raed does not exist. Did you mean fs.read?"), "{}", error.message);
    assert!(error.message.contains("read, list, write"), "{}", error.message);
}

async fn namespaces_cannot_be_changed() {
    let bench = bench();
    for source in ["fs = 1", "fs.read = 1", "delete fs.read", "globalThis.fs = 1", "fs.read.x = 1", "fs.__proto__ = {}"]
    {
        let error = bench.error(source).await;
        assert!(error.message.starts_with("TypeError"), "{source}: {}", error.message);
    }
    assert_eq!(bench.value("Object.keys(fs)").await, Some(json!(["read", "list", "write"])));
    let printed = bench.value("fs").await.unwrap();
    assert!(printed.as_str().unwrap().contains("  read: [AsyncFunction: read],"), "{printed}");
}

async fn what_cannot_cross_is_refused_at_the_call() {
    let bench = bench();
    for (argument, what) in [
        ("() => 1", "a function"),
        ("new Map()", "a Map"),
        ("10n", "a bigint"),
        ("Symbol()", "a symbol"),
        ("Promise.resolve(1)", "a promise"),
        ("[1, [Symbol.iterator]]", "a symbol"),
    ] {
        let error = bench.error(&format!("await fs.read('a', {argument})")).await;
        assert!(error.message.starts_with(&format!("TypeError: fs.read, argument 2: {what}")), "{}", error.message);
    }
    let error = bench.error("const a = []; a.push(a); await fs.read(a)").await;
    assert!(error.message.contains("nested deeper"), "{}", error.message);
    let error = bench.error("await fs.read({ get x() { throw new RangeError('mine') } })").await;
    assert!(error.message.starts_with("RangeError: mine"), "{}", error.message);
    assert!(bench.host.calls.lock().unwrap().is_empty());
}

async fn a_call_that_nobody_awaits_takes_effect() {
    let (told, mut written) = tokio::sync::mpsc::unbounded_channel();
    let host = TestHost::default().answering("fs.write", move |call, cancel| {
        let told = told.clone();
        async move {
            tokio::task::yield_now().await;
            told.send((call.args, cancel.is_cancelled())).unwrap();
            Ok(Datum::Undefined)
        }
    });
    let bench = Bench::new(host, Limits::default());
    assert_eq!(bench.value("fs.write('a', 'b'); 'done'").await, Some(json!("done")));
    let args = vec![Datum::String("a".into()), Datum::String("b".into())];
    assert_eq!(written.recv().await, Some((args, false)));
}

async fn calls_made_at_once_run_at_once() {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(5));
    let host = TestHost::default().answering("slow.wait", move |call, _| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(call.args.into_iter().next().unwrap_or(Datum::Null))
        }
    });
    let bench = Bench::new(host, Limits::default());
    let value = bench.value("await Promise.all([1, 2, 3, 4, 5].map((n) => slow.wait(n)))").await;
    assert_eq!(value, Some(json!([1, 2, 3, 4, 5])));
}

async fn what_a_tool_gives_must_fit_the_wire() {
    let host = TestHost::default()
        .answering("fs.read", |_, _| async { Ok((0..200).fold(Datum::Null, |inner, _| Datum::Array(vec![inner]))) })
        .answering("fs.list", |_, _| async { Ok(Datum::Bytes(vec![0; 65 << 20])) });
    let bench = Bench::new(host, Limits::default());
    assert_eq!(bench.error("await fs.read()").await.code.as_deref(), Some("RESULT_TOO_DEEP"));
    assert_eq!(bench.error("await fs.list()").await.code.as_deref(), Some("RESULT_TOO_LARGE"));
    bench.assert_works().await;
}

async fn arguments_in_flight_are_bounded() {
    let host = TestHost::default().answering("slow.wait", |_, cancel| async move {
        cancel.cancelled().await;
        Ok(Datum::Undefined)
    });
    let bench = Bench::new(host, Limits::default());
    let error =
        bench.error("const b = new Uint8Array(24 << 20); await Promise.all([b, b, b].map((b) => slow.wait(b)))");
    assert_eq!(error.await.code.as_deref(), Some("ARGUMENTS_TOO_LARGE"));
}
