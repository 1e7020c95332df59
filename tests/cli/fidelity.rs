//! JSON keeps its value all the way round: Rust → Luau → log → Luau → capsule → Luau → log.

use proptest::{
    collection::{btree_map, vec},
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::Value;

use crate::support::{Agent, of_kind};

/// Decodes the list that it is told, says each value, reads it back from the log, sends it through the capsule, and says it again.
const ROUND: &str = r#"
local json = require("@axon/json")
defineCognet { name = "round", version = "1.0.0", abi = "9" }

local function say(value)
	kernel.output("cognet:output:field", { reading = { value = value } })
end

loop(function(wake)
	local before = wake.stimuli[1].time.seq
	for _, value in json.decode(wake.stimuli[1].data.content) do
		say({ given = value })
	end
	local blocks = {}
	for _, entry in kernel.store.session.get { after = before } do
		local text = json.encode(entry.data.reading.value)
		table.insert(blocks, `JSON.parse({json.encode(text)})`)
	end
	for _, result in kernel.run(blocks) do
		assert(result.ok, result.error and result.error.message)
		say(result.value)
	end
	wake.stop()
end)
"#;

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        vec(any::<char>(), 0..8).prop_map(|chars| chars.into_iter().collect()),
        Just("\0 \u{2028}\u{feff}\u{10ffff}\u{7f}\"\\".to_owned()),
        Just("__proto__".to_owned()),
        Just("constructor".to_owned()),
        Just("1".to_owned()),
        Just(String::new()),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    const EXACT: i64 = 1 << 53;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-EXACT..=EXACT).prop_map(Value::from),
        prop_oneof![Just(EXACT), Just(-EXACT), Just(0)].prop_map(Value::from),
        // A whole number is an integer on the way back.
        any::<f64>().prop_filter("a fraction", |n| n.is_finite() && n.fract() != 0.0).prop_map(Value::from),
        text().prop_map(Value::from),
        Just(Value::Array(Vec::new())),
        Just(Value::Object(serde_json::Map::new())),
    ];
    leaf.prop_recursive(5, 24, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::Array),
            btree_map(text(), inner, 0..5).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

#[test]
fn every_json_value_comes_back_as_it_was_from_the_log_and_from_the_capsule() {
    let mut runner =
        TestRunner::new(Config { cases: 6, max_shrink_iters: 40, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&vec(json(), 1..24), |values| {
        let agent = Agent::with(&[("cognets/round.lua", ROUND)]);
        let ran = agent.run_with_input(&["run"], &serde_json::to_string(&values).expect("JSON"));
        prop_assert_eq!(ran.code, Some(0), "{:?}", ran);
        let log = agent.log();
        let said: Vec<_> = of_kind(&log, "cognet:output:field")
            .iter()
            .map(|entry| entry["data"]["reading"]["value"]["given"].clone())
            .collect();
        prop_assert_eq!(&said[..values.len()], &values[..], "from the log");
        prop_assert_eq!(&said[values.len()..], &values[..], "from the capsule");
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn an_integer_that_a_double_cannot_hold_raises_wherever_it_comes_from() {
    for (value, says) in
        [("[9007199254740993]", "2^53"), ("[-9007199254740994]", "2^53"), ("[18446744073709551616]", "2^53")]
    {
        let ran = Agent::with(&[("cognets/round.lua", ROUND)]).run(&["run", value]);
        assert_eq!(ran.code, Some(1), "{value}: {ran:?}");
        assert!(ran.stderr.contains("JSON_INVALID") && ran.stderr.contains(says), "{value}: {ran:?}");
    }
}
