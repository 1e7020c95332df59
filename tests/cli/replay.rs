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
    assert!(ran.stdout.contains("it asks the model otherwise\n") && ran.stdout.contains("+Be brief."), "{ran:?}");
    assert_eq!(ran.stdout.matches("+Be brief.").count(), 1, "what is the same is shown once: {ran:?}");
    assert!(ran.stdout.ends_with("3 wakes: 3 same (3 of them ask otherwise)\n"), "{ran:?}");
    let strict = agent.run(&["replay", "--strict", "s"]);
    assert_eq!(strict.code, Some(1), "{strict:?}");
    assert!(strict.stdout.ends_with("3 wakes: 3 differ\n"), "{strict:?}");
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
    assert_eq!(ran.code, Some(2), "nothing was compared: {ran:?}");
    assert!(ran.stdout.contains(": its end is not in the log\n"), "{ran:?}");
    assert!(ran.stderr.contains("REPLAY_EMPTY"), "{ran:?}");
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

/// Runs a cognet, given by what stands between its first line and the end of its file, once for each text in one session.
fn session_of(source: &str, calls: &Value, texts: &[&str]) -> Agent {
    let agent = Agent::with(&[
        ("axon.toml", "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n"),
        ("model.json", &json!({ "calls": calls }).to_string()),
        ("cognets/own.lua", &own(source)),
    ]);
    for text in texts {
        agent.run(&["run", "--session", "s", text]);
    }
    agent
}

fn own(source: &str) -> String {
    format!("defineCognet {{ name = \"own\", version = \"0.1.0\", abi = \"9\" }}\n{source}\n")
}

const SAY: &str = "local function say(text) kernel.output(\"cognet:output:text\", { content = text }) end\n";
const ASK: &str = "local req = { messages = { { role = \"user\", content = \"x\" } }, format = \"raw\" }\n";

#[test]
fn an_unchanged_brain_is_the_same_in_whatever_the_log_tells_of() {
    let answer = json!([{ "text": "hm", "delay_ms": 20 }]);
    for (rule, source, calls) in [
        (
            "what boot hooks read is what was there when they ran",
            "local n\ndefinePlugin(function(ctx) ctx.hooks.on(\"boot\", function() n = #kernel.store.session.get() end) end)\n\
             loop(function(wake) say(tostring(n)) wake.stop() end)",
            &answer,
        ),
        (
            "a brain is loaded again where it was",
            "local n = 0\nloop(function(wake) n += 1 say(tostring(n)) wake.stop() end)",
            &answer,
        ),
        (
            "the store is kept",
            "loop(function(wake) local n = (kernel.store.get(\"n\") or 0) + 1 kernel.store.set(\"n\", n) say(tostring(n)) wake.stop() end)",
            &answer,
        ),
        (
            "an answer that broke off has what had arrived",
            "loop(function(wake) wake.stop() local ok, e = pcall(function() for event in kernel.stream(req) do if event.type == \"engine:text:delta\" \
             then say(event.content) end end end) say(tostring(e)) end)",
            &json!([{ "deltas": ["half"], "then": "disconnect" }]),
        ),
        (
            "a failure has its attempts",
            "loop(function(wake) wake.stop() local ok, e = pcall(function() for _ in kernel.stream(req) do end end) say(tostring(e)) end)",
            &json!([{ "fault": { "status": 429 } }]),
        ),
        (
            "the end of an answer says what it said",
            "loop(function(wake) wake.stop() for event in kernel.stream(req) do if event.type == \"engine:done\" then \
             say(`{event.provider} {event.model} {event.durationMs} {event.firstTokenMs} {event.stopReason}`) end end end)",
            &answer,
        ),
        (
            "entries have their times",
            "loop(function(wake) wake.stop() say(\"a\") kernel.run(\"1\") say(\"b\") \
             for _, entry in kernel.store.session.get() do say(`{entry.type} {entry.time.ms} {entry.time.seq} {entry.id}`) end end)",
            &answer,
        ),
        (
            "a verb that was refused is refused",
            "loop(function(wake) wake.stop() local ok, e = pcall(kernel.store.set, string.rep(\"k\", 600), 1) say(tostring(e)) end)",
            &answer,
        ),
    ] {
        let agent = session_of(&format!("{SAY}{ASK}{source}"), calls, &["one", "two"]);
        let ran = agent.run(&["replay", "s"]);
        assert_eq!(ran.code, Some(0), "{rule}: {ran:?}");
        assert!(ran.stdout.ends_with("2 wakes: 2 same\n"), "{rule}: {ran:?}");
    }
}

#[test]
fn what_is_not_the_same_is_never_taken_for_it() {
    let calls = json!([{ "text": "hm" }]);
    for (one, other) in [
        ("say(\"a\\nsays: b\")", "say(\"a\") say(\"b\")"),
        ("kernel.run(\"1+1\")", "say(\"a\\nruns:\\n1+1\")"),
        ("kernel.run({ \"1\", \"2\" })", "kernel.run(\"1\") kernel.run(\"2\")"),
        ("error(\"one reason\", 0)", "error(\"another\", 0)"),
        (
            "kernel.output(\"cognet:output:text\", { content = \"x\", chunk = { of = \"c\" } })",
            "kernel.output(\"cognet:output:text\", { content = \"x\", chunk = { of = \"c\", final = true } })",
        ),
        ("for _ in kernel.stream(req) do end", "say(\"\")"),
    ] {
        let whole = |verb: &str| format!("{SAY}{ASK}loop(function(wake) wake.stop() {verb} end)");
        let agent = session_of(&whole(one), &calls, &["go"]);
        assert_eq!(agent.run(&["replay"]).code, Some(0), "{one}");
        agent.write("cognets/own.lua", &own(&whole(other)));
        let ran = agent.run(&["replay"]);
        assert_eq!(ran.code, Some(1), "{one} against {other}: {ran:?}");
    }
}

#[test]
fn another_model_or_temperature_is_asking_otherwise() {
    let source = "loop(function(wake) wake.stop() for _ in kernel.stream(req) do end end)";
    let agent = session_of(&format!("{ASK}{source}"), &json!([{ "text": "hm" }]), &["go"]);
    for change in ["req.model = \"other\"", "req.temperature = 0.5", "req.maxTokens = 9", "req.format = \"fenced\""] {
        agent.write("cognets/own.lua", &own(&format!("{ASK}{change}\n{source}")));
        let ran = agent.run(&["replay"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stdout.contains("it asks the model otherwise"), "{change}: {ran:?}");
    }
}

#[test]
fn a_secret_that_came_in_pieces_is_shown_in_no_difference_and_in_no_recording() {
    let agent = Agent::with(&[
        ("axon.toml", "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n[tools.door]\nenv = [\"PASSWORD\"]\n"),
        ("tools/door.ts", "export function open(): number { return env.PASSWORD.length; }\n"),
        (".env", "PASSWORD=hunter2-hunter2\n"),
        (
            "model.json",
            &json!({ "calls": [{ "deltas": ["<text>It is hunter2-", "hunter2.</text><done/>"] }] }).to_string(),
        ),
    ]);
    let file = agent.path().join("calls.jsonl");
    assert_eq!(agent.run(&["run", "--record", &file.display().to_string(), "go"]).code, Some(0));
    assert!(agent.read("calls.jsonl").contains("It is [PASSWORD]."), "{}", agent.read("calls.jsonl"));
    let ran = agent.run(&["replay"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = agent.run(&["replay", "--cognet", "@axon/echo"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("-says: It is [PASSWORD]."), "{ran:?}");
}

#[test]
fn only_what_asks_a_model_can_be_recorded() {
    let agent = Agent::empty();
    let ran = agent.run(&["exec", "--record", "x.jsonl", "-e", "1"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("--record is for"), "{ran:?}");
}

#[test]
fn a_brain_that_would_never_end_is_ended_and_an_answer_of_many_lines_is_compared_soon() {
    let agent = session_of(
        &format!("{SAY}loop(function(wake) wake.stop() say(\"a\") end)"),
        &json!([{ "text": "hm" }]),
        &["go"],
    );
    for (verb, says) in [
        ("while true do pcall(say, \"a\") end", "it says far more than it did"),
        (
            "local lines = {} for n = 1, 20000 do lines[n] = `line {n}` end say(table.concat(lines, \"\\n\"))",
            "+  line 20000",
        ),
    ] {
        agent.write("cognets/own.lua", &own(&format!("{SAY}loop(function(wake) wake.stop() {verb} end)")));
        let ran = agent.run(&["replay"]);
        assert_eq!(ran.code, Some(1), "{verb}");
        assert!(ran.stdout.contains(says), "{verb}");
    }
}

#[test]
fn what_a_block_left_behind_to_be_said_is_there_when_the_verb_returns() {
    let source = format!(
        "{SAY}loop(function(wake) wake.stop() kernel.run(\"const a = 'x'.repeat(10 << 20); const b = 'y'.repeat(9 << 20); 0\") \
         local kinds = {{}} for _, entry in kernel.store.session.get() do table.insert(kinds, entry.type) end say(table.concat(kinds, \" \")) end)"
    );
    let agent = session_of(&source, &json!([{ "text": "hm" }]), &["go"]);
    let ran = agent.run(&["replay"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
