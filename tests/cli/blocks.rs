//! TypeScript blocks, through `exec` and through the repl brain.

use crate::support::{Agent, of_kind};

/// Short for a loop without end, long enough to run out of memory on a busy machine.
const SHORT: &str = "[capsule]\ntimeout_ms = 3_000\nmemory_mb = 64\n[policy.fs]\nread = [\".\"]\n";

#[test]
fn the_repl_brain_runs_typescript_over_real_files_and_prints_its_value() {
    let agent = Agent::with(&[("axon.toml", SHORT), ("one.txt", "1"), ("two.txt", "2")]);
    let code = r#"const n: number = (await fs.list(".")).length; n * 2"#;
    let ran = agent.run(&["run", "--cognet", "@axon/repl", code]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // axon.toml and the two files; data/ is out of a block's sight.
    assert_eq!(ran.stdout, "6\n", "{ran:?}");
}

#[test]
fn whatever_a_block_does_it_ends_as_a_value_and_the_next_block_of_the_same_process_works() {
    let agent = Agent::with(&[("axon.toml", SHORT)]);
    let cases = [
        ("for(;;){}", "timeout"),
        ("const a = []; for(;;) a.push(new Array(1e5).fill(1.5))", "OUT_OF_MEMORY"),
        ("const b = []; for(;;) b.push(new Uint8Array(1 << 22).fill(1))", "OUT_OF_MEMORY"),
        ("await fs.read('/etc/passwd')", "PolicyDenied"),
        ("await new Promise(() => {})", "timeout"),
        ("(() => { const f = () => f(); f() })()", "RangeError"),
    ];
    let mut input = String::new();
    for (code, _) in cases {
        input.push_str(code);
        input.push_str("\n20 + 22\n");
    }
    let ran = agent.run_with_input(&["chat", "--cognet", "@axon/repl"], &input);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout.matches("42\n").count(), cases.len(), "{ran:?}");
    for (code, says) in cases {
        assert!(ran.stdout.contains(says), "{code}: {ran:?}");
    }
    assert_eq!(of_kind(&agent.log(), "capsule:boot").len(), 1, "one capsule process served them all");
    assert!(of_kind(&agent.log(), "capsule:crash").is_empty());
}

#[test]
fn exec_fails_with_1_and_says_why() {
    let agent = Agent::with(&[("axon.toml", SHORT)]);
    for (code, says) in [
        ("for(;;){}", "timeout"),
        ("const a = []; for(;;) a.push(new Array(1e5).fill(1.5))", "OUT_OF_MEMORY"),
        ("await fs.read('/etc/passwd')", "fs.read(\"/etc/passwd\"): not inside the readable roots ."),
        ("await fs.write('x.txt', 'x')", "fs"),
        ("const x: = 1", "block:1:"),
        ("let a = 1;\nlet b: string = 'x';\nnope.x", "block:3:1"),
        ("throw new TypeError('no', { cause: new Error('why') })", "why"),
    ] {
        let ran = agent.run(&["exec", "-e", code]);
        assert_eq!(ran.code, Some(1), "{code}: {ran:?}");
        assert!(ran.stderr.contains(says), "{code} should say {says:?}: {ran:?}");
        assert!(ran.stdout.is_empty(), "stdout carries the answer only: {ran:?}");
    }
    assert!(!agent.path().join("x.txt").exists());
}

#[test]
fn exec_prints_lines_and_values_of_code_files_and_standard_input() {
    let agent = Agent::with(&[("two.ts", "enum E { A = 2 }\nconsole.log('in file'); E.A")]);
    let file = agent.path().join("two.ts");
    let ran = agent.run_with_input(
        &["exec", "-e", "console.log('one'); ({ a: [1, null] })", file.to_str().expect("UTF-8"), "-"],
        "const s: string = `th${'ree'}`; s",
    );
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "one\n{\"a\":[1,null]}\nin file\n2\nthree\n");
    let ran = agent.run(&["exec", "-e", "undefined"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "no value prints nothing");
    let ran = agent.run(&["exec", "missing.ts"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn a_write_needs_a_writable_root_and_then_happens() {
    let agent =
        Agent::with(&[("axon.toml", "[policy.fs]\nread = [\".\"]\nwrite = [\"work\"]\n"), ("work/a.txt", "old")]);
    let ran = agent.run(&["exec", "-e", "await fs.write('work/a.txt', 'new'); await fs.read('work/a.txt')"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "new\n"), "{ran:?}");
    for path in ["a.txt", "../a.txt", "work/../b.txt", "/tmp/axon-escape.txt", "axon.toml", "cognets/x.lua"] {
        let ran = agent.run(&["exec", "-e", &format!("await fs.write({path:?}, 'x')")]);
        assert_eq!(ran.code, Some(1), "{path}: {ran:?}");
        assert!(ran.stderr.contains("POLICY_DENIED"), "{path}: {ran:?}");
    }
}

#[test]
fn blocks_of_one_call_run_at_the_same_time_and_their_results_come_in_input_order() {
    let agent = Agent::with(&[
        (
            "cognets/three.lua",
            r#"defineCognet { name = "three", version = "1.0.0", abi = "9" }
loop(function(wake)
	-- Each waits for marks of the others: one after the other, none would come to its end. The first ends last.
	local function block(name, awaits)
		return ([[
			await fs.write("work/%s", "");
			for (let seen: string[] = []; !%s.every(mark => seen.includes(mark));) {
				await new Promise(done => setTimeout(done, 10));
				seen = (await fs.list("work")).map(entry => entry.name);
			}
			await fs.write("work/%s-left", "");
			"%s"]]):format(name, awaits, name, name)
	end
	local results = kernel.run {
		block("a", '["b-left", "c-left"]'), block("b", '["a", "c"]'), block("c", '["b-left"]'),
	}
	local said = {}
	for i, result in results do said[i] = result.value end
	kernel.output("cognet:output:text", { content = table.concat(said, " ") })
	wake.stop()
end)
"#,
        ),
        ("axon.toml", "[policy.fs]\nread = [\"work\"]\nwrite = [\"work\"]\n"),
        ("work/x", ""),
    ]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a b c\n"), "{ran:?}");
    let log = agent.log();
    let actions = of_kind(&log, "cognet:action:typescript");
    let results = of_kind(&log, "cognet:action:result");
    assert_eq!((actions.len(), results.len()), (3, 3));
    for action in &actions {
        assert_eq!(results.iter().filter(|result| result["data"]["for"] == action["data"]["id"]).count(), 1);
    }
}

#[test]
fn the_scope_tells_what_the_policy_grants_and_nothing_else() {
    let agent = Agent::empty();
    let none = agent.run(&["scope"]);
    assert!(none.stdout.contains("grants no tool"), "{none:?}");
    agent.write("axon.toml", "[policy.fs]\nread = [\".\"]\n");
    let scope: serde_json::Value = serde_json::from_str(&agent.run(&["scope", "--json"]).stdout).expect("JSON");
    let members: Vec<_> = scope["modules"][0]["members"]
        .as_array()
        .expect("members")
        .iter()
        .map(|m| m["name"].as_str().expect("a name"))
        .collect();
    assert!(members.contains(&"read") && members.contains(&"list") && !members.contains(&"write"), "{members:?}");
    let dts = agent.run(&["scope", "--dts"]).stdout;
    assert!(dts.contains("fs") && dts.contains("read(") && !dts.contains("write("), "{dts}");
}
