//! `axon replay`: a session lived through again.

use serde_json::{Value, json};

use crate::support::{Agent, Ran};

const CONFIG: &str = "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n[policy.fs]\nread = [\".\"]\n";

/// An agent whose zero has woken three times: a block that fails and one that holds, a plain answer, and a fault.
fn agent() -> Agent {
    let calls = json!([
        { "deltas": ["<text>Loo", "king.</text>", "<typescript>console.log('a')\nnull.x</typescript>"] },
        { "deltas": ["<typescript>console.log('b'); [1, 2]</typescript><typescript>'three'</typescript>"] },
        { "deltas": ["<text>It is ", "three.</text><done/>"] },
        { "text": "<text>Good.</text><done/>" },
        { "fault": { "status": 401 } },
    ]);
    let agent = Agent::with(&[("axon.toml", CONFIG), ("model.json", &json!({ "calls": calls }).to_string())]);
    let lines = "What is there?\nGood\nOn\n";
    let ran = agent.run_with_input(&["chat", "--session", "s"], lines);
    assert!(ran.stdout.contains("Looking.\nIt is three.\n"), "{ran:?}");
    agent
}

/// The lines of `--json`.
fn wakes(ran: &Ran) -> Vec<Value> {
    let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines.filter(|line| line.get("verdict").is_some()).collect()
}

fn verdicts(ran: &Ran) -> Vec<String> {
    wakes(ran).iter().map(|wake| wake["verdict"].as_str().expect("a verdict").to_owned()).collect()
}

#[test]
fn a_brain_that_is_as_it_was_says_what_it_said() {
    let agent = agent();
    let before = std::fs::read(&agent.sessions()[0]).expect("a log");
    std::fs::remove_file(agent.path().join("model.json")).expect("no model is needed");
    let ran = agent.run(&["replay", "s"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.starts_with("session s, replayed with @axon/zero\nsame    wake at "), "{ran:?}");
    assert!(ran.stdout.ends_with("3 wakes: 3 same\n"), "{ran:?}");
    assert_eq!(std::fs::read(&agent.sessions()[0]).expect("a log"), before, "a replay changes nothing");
    assert_eq!(agent.sessions().len(), 1);
    let json = agent.run(&["replay", "--json"]);
    assert_eq!(verdicts(&json), ["same"; 3], "{json:?}");
    assert!(wakes(&json).iter().all(|wake| wake["asked"] == json!([])), "{json:?}");
}

#[test]
fn a_brain_that_says_something_else_is_shown_with_the_difference_and_each_wake_is_judged_by_itself() {
    let agent = agent();
    assert_eq!(agent.run(&["clone", "@axon/zero", "mind"]).code, Some(0));
    let main = agent.read("cognets/mind/src/main.lua");
    let changed = main.replace("{ content = content,", "{ content = string.upper(content),");
    assert_ne!(main, changed, "zero says what it is told");
    agent.write("cognets/mind/src/main.lua", &changed);
    let ran = agent.run(&["replay", "--cognet", "mind", "s"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("  -says: Good.\n  +says: GOOD.\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("3 wakes: 1 same, 2 differ\n"), "{ran:?}");
    assert!(ran.stderr.contains("REPLAY_DIFFERS: 2 of 3 wakes"), "{ran:?}");
    let json = agent.run(&["replay", "--json", "--cognet", "mind", "s"]);
    assert_eq!(verdicts(&json), ["differs", "differs", "same"], "{json:?}");
    // Each was begun by a brain that had read what was recorded.
    assert!(wakes(&json)[1]["asked"] == json!([]), "{json:?}");
}

#[test]
fn a_brain_that_asks_in_other_words_says_so_and_is_the_same_all_the_same() {
    let agent = agent();
    agent.write("boot.md", "Be brief.");
    let ran = agent.run(&["replay", "s"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("it asks the model otherwise:") && ran.stdout.contains("+Be brief."), "{ran:?}");
}

#[test]
fn nothing_is_run_that_was_not_run_and_no_model_is_asked_once_more() {
    let agent = agent();
    let writes = "kernel.run(\"await fs.write('made.txt', '')\")";
    let asks = "for _ in kernel.stream { messages = { { role = \"user\", content = \"x\" } } } do end";
    for (verb, says) in [(writes.to_owned(), "a replay runs nothing"), ([asks; 4].join("\n"), "a replay asks none")] {
        agent.write(
            "cognets/other.lua",
            &format!("defineCognet {{ name = \"other\", version = \"0.1.0\", abi = \"9\" }}\nloop(function(wake)\n{verb}\nwake.stop()\nend)\n"),
        );
        let ran = agent.run(&["replay", "--cognet", "other", "s"]);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stdout.contains(says), "{ran:?}");
    }
    assert!(!agent.path().join("made.txt").exists());
}

#[test]
fn a_brain_gets_the_results_that_it_got() {
    let agent = Agent::empty();
    for text in [
        "console.log('a\\nb'); ({ n: 1 })",
        "console.log(1); 'x\\ny'",
        "'42'",
        "42",
        "undefined",
        "console.log('')",
        "new Map([[1, 2]])",
        "throw new TypeError('no')",
        "null",
    ] {
        let ran = agent.run(&["run", "--cognet", "@axon/repl", "--session", "r", text]);
        assert_eq!(ran.code, Some(0), "{text}: {ran:?}");
    }
    let ran = agent.run(&["replay", "r"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("9 wakes: 9 same\n"), "{ran:?}");
}

#[test]
fn wakes_of_another_cognet_and_those_that_did_not_end_are_passed_over_and_told() {
    let agent = Agent::empty();
    assert_eq!(agent.run(&["run", "--cognet", "@axon/echo", "--session", "s", "a"]).code, Some(0));
    assert_eq!(agent.run(&["run", "--cognet", "@axon/repl", "--session", "s", "1"]).code, Some(0));
    let ran = agent.run(&["replay"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains(": a wake of @axon/echo\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("2 wakes: 1 same, 1 skipped\n"), "{ran:?}");

    // The process dies before the wake's end is in the log.
    let path = &agent.sessions()[0];
    let text = std::fs::read_to_string(path).expect("a log");
    let end = text.rfind("kernel:run:complete").expect("an end");
    let whole = &text[..text[..end].rfind('\n').expect("a line") + 1];
    std::fs::write(path, whole).expect("written");
    let ran = agent.run(&["replay"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains(": its end is not in the log\n"), "{ran:?}");
}

#[test]
fn a_replay_of_what_is_not_there_says_what_there_is() {
    let agent = Agent::empty();
    let ran = agent.run(&["replay"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("SESSION_NOT_FOUND"), "{ran:?}");
    let ran = agent.run(&["replay", "nobody"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("there is no session nobody"), "{ran:?}");
}
