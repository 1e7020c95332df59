//! JSON between Rust and Luau.

use std::sync::Arc;

use axon_runtime::{AbortSignal, Brain};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Map, Value, json};

use crate::fake::{Cognet, FakeKernel, outputs_of, wake_body};

fn any_json() -> impl Strategy<Value = Value> {
    const EXACT: i64 = 1 << 53;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-EXACT..=EXACT).prop_map(Value::from),
        (-1e6..1e6f64).prop_map(|number| Value::from(number + 0.5 * f64::EPSILON)),
        any::<String>().prop_map(Value::from),
        Just(Value::from("nul \0 and \u{10FFFF}")),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|fields| Value::Object(Map::from_iter(fields))),
        ]
    })
}

/// JSON has no integers of its own: 1.0 and 1 are the same number.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn every_json_value_comes_back_from_luau_as_it_was() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kernel = FakeKernel::new();
    let body = "local json = require('@axon/json')\nlocal value = kernel.store.get('in')\nkernel.store.set('out', value)\n\
                kernel.store.set('text', json.decode(json.encode(value)))";
    let brain: Brain = runtime.block_on(Cognet::body(body).load(&kernel)).unwrap();
    let brain = std::sync::Mutex::new(brain);
    let mut runner = TestRunner::default();
    let kernel: &Arc<FakeKernel> = &kernel;
    runner
        .run(&any_json(), |value| {
            kernel.store.lock().unwrap().insert("in".to_owned(), value.clone());
            runtime.block_on(brain.lock().unwrap().wake(Vec::new(), AbortSignal::default())).unwrap();
            let store = kernel.store.lock().unwrap();
            prop_assert!(same(&store["out"], &value), "{} became {}", value, store["out"]);
            prop_assert!(same(&store["text"], &value), "{} became {}", value, store["text"]);
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn null_and_empty_arrays_are_kept_and_an_empty_table_is_an_object() {
    let kernel = FakeKernel::new();
    let body = "local json = require('@axon/json')\n\
                kernel.store.set('a', { none = json.null, list = json.array {}, table = {}, deep = { { } } })\n\
                local back = kernel.store.get('a')\nassert(back.none == json.null and #back.list == 0)\n\
                kernel.store.set('b', back)\n\
                assert(json.encode(json.array()) == '[]' and json.encode({}) == '{}' and json.encode(json.null) == 'null')";
    wake_body(&kernel, body).await.unwrap();
    let store = kernel.store.lock().unwrap();
    assert_eq!(store["a"], json!({ "none": null, "list": [], "table": {}, "deep": [{}] }));
    assert_eq!(store["a"], store["b"]);
}

#[tokio::test]
async fn what_cannot_be_carried_exactly_raises() {
    for (expression, part) in [
        ("json.decode('9007199254740993')", "9007199254740993"),
        ("json.decode('[1, -9007199254740993]')", "9007199254740993"),
        (
            "json.decode('{\"a\\\\\"9007199254740993\": 123456789012345678901234567890}')",
            "123456789012345678901234567890",
        ),
        ("json.encode({ id = 2^53 + 2 })", "id: the integer 9007199254740994"),
        ("json.encode({ 0/0 })", "1: NaN"),
        ("json.encode({ a = { b = math.huge } })", "a.b: inf"),
        ("json.encode({ print })", "1: a function"),
        ("json.encode({ 1, nil, 3 })", "hole"),
        ("json.encode({ 1, a = 2 })", "both"),
        ("json.encode({ [3] = 1 })", "key"),
        ("json.encode('\\xff')", "UTF-8"),
        ("(function() local t = {} t.t = t return json.encode(t) end)()", "holds itself"),
        ("json.decode('{')", "EOF"),
        ("json.decode(7)", "string"),
    ] {
        let body = format!(
            "local json = require('@axon/json')\nlocal ok, err = pcall(function() return {expression} end)\n\
                            kernel.output('cognet:output:text', {{ content = `{{ok}} {{err}}` }})"
        );
        let said = outputs_of(&body).await.remove(0);
        assert!(said.starts_with("false") && said.contains(part), "{expression}: {said}");
    }
}

#[tokio::test]
async fn the_largest_exact_integers_and_large_floats_pass() {
    let body = "local json = require('@axon/json')\n\
                for _, text in { '9007199254740992', '-9007199254740992', '0', '1.5', '-1.5' } do\n\
                local back = json.encode(json.decode(text))\nassert(back == text, back)\nend\n\
                assert(json.decode(json.encode(6.02e23)) == 6.02e23 and json.decode('\"9007199254740993\"') == '9007199254740993')";
    wake_body(&FakeKernel::new(), body).await.unwrap();
}
