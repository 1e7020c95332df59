//! `--record` and `--engine replay:FILE`: a model's answers, kept and given again.

use serde_json::{Value, json};

use crate::support::{Agent, of_kind};

const ANSWERS: &str = r#"{"calls":[
    {"fault":{"status":503}},
    {"deltas":["<typescript>1 +"," 1</typescript>"],"usage":{"input":12,"output":8},"reasoning":"hm"},
    {"deltas":["<text>It is ","${last_result}</text><done/>"]}
]}"#;

fn agent() -> Agent {
    Agent::with(&[
        ("axon.toml", "[agent]\ncognet = \"@axon/zero\"\n[engine]\nprovider = \"script\"\nscript = \"model.json\"\n"),
        ("model.json", ANSWERS),
    ])
}

/// The file of a recording, for the command line.
fn file(agent: &Agent) -> String {
    agent.path().join("calls.jsonl").display().to_string()
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}

/// What a session says and did, and how its calls of the model ended.
fn said(agent: &Agent, session: &str) -> Vec<Value> {
    let path = agent.path().join("data/sessions").join(format!("{session}.jsonl"));
    let log = crate::support::read_log(&path);
    let mut said = Vec::new();
    for kind in ["cognet:output:text", "cognet:action:typescript", "cognet:action:result", "kernel:engine:complete"] {
        for envelope in of_kind(&log, kind) {
            let data = &envelope["data"];
            said.push(json!([kind, data["content"], data["text"], data["usage"], data["reasoning"], data["attempts"]]));
        }
    }
    said
}

#[test]
fn a_recorded_conversation_is_had_again_without_the_model() {
    let agent = agent();
    let file = file(&agent);
    let first = agent.run(&["run", "--session", "a", "--record", &file, "What is 1 + 1?"]);
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "It is 2\n"), "{first:?}");

    let recorded = lines(&agent.read("calls.jsonl"));
    assert_eq!(recorded.len(), 3, "one line an attempt");
    assert_eq!(recorded[0]["end"]["fault"]["status"], 503);
    assert_eq!(
        recorded[1]["answer"],
        json!([{"reasoning": "hm"}, {"text": "<typescript>1 +"}, {"text": " 1</typescript>"}])
    );
    assert_eq!(recorded[1]["end"]["finished"]["usage"], json!({"input": 12, "output": 8}));
    assert_eq!(recorded[0]["request"], recorded[1]["request"]);

    std::fs::remove_file(agent.path().join("model.json")).expect("the model is gone");
    let spec = format!("replay:{file}");
    let second = agent.run(&["run", "--session", "b", "--engine", &spec, "What is 1 + 1?"]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(0), "It is 2\n"), "{second:?}");
    assert_eq!(said(&agent, "a"), said(&agent, "b"));
}

#[test]
fn a_request_that_was_not_recorded_is_refused_and_the_difference_is_shown() {
    let agent = agent();
    let file = file(&agent);
    assert_eq!(agent.run(&["run", "--record", &file, "What is 1 + 1?"]).code, Some(0));
    let spec = format!("replay:{file}");
    let ran = agent.run(&["run", "--engine", &spec, "What is 1 + 2?"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("the one most like it, calls.jsonl:1, differs"), "{ran:?}");
    assert!(ran.stderr.contains("-<user id=\"u1\" source=\"cli\">What is 1 + 1?"), "{ran:?}");
    assert!(ran.stderr.contains("+<user id=\"u1\" source=\"cli\">What is 1 + 2?"), "{ran:?}");
}

#[test]
fn an_attempt_is_answered_once() {
    let agent = agent();
    agent.write(
        "cognets/twice.lua",
        "defineCognet { name = \"twice\", version = \"0.1.0\", abi = \"9\" }\nloop(function(wake)\n\
         for _ = 1, 2 do\nfor event in kernel.stream { messages = { { role = \"user\", content = \"x\" } }, format = \"raw\" } do\n\
         if event.type == \"engine:text\" then kernel.output(\"cognet:output:text\", { content = event.content }) end\nend\nend\n\
         wake.stop()\nend)\n",
    );
    agent.write("model.json", r#"{"calls":[{"text":"one"},{"text":"two"}]}"#);
    let file = file(&agent);
    let first = agent.run(&["run", "--cognet", "twice", "--record", &file, "go"]);
    assert_eq!((first.code, first.stdout.as_str()), (Some(0), "one\ntwo\n"), "{first:?}");
    let spec = format!("replay:{file}");
    let again = agent.run(&["run", "--cognet", "twice", "--engine", &spec, "go"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "one\ntwo\n"), "{again:?}");

    let recorded = agent.read("calls.jsonl");
    agent.write("calls.jsonl", &format!("{}\n", recorded.lines().next().expect("a line")));
    let short = agent.run(&["run", "--cognet", "twice", "--engine", &spec, "go"]);
    assert_eq!((short.code, short.stdout.as_str()), (Some(1), "one\n"), "{short:?}");
    assert!(short.stderr.contains("recorded in calls.jsonl:1, and has been answered already"), "{short:?}");
}

#[test]
fn a_file_that_is_there_is_never_written_over_and_one_without_a_call_does_not_stay() {
    let agent = agent();
    let kept = agent.write("calls.jsonl", "mine");
    let ran = agent.run(&["run", "--record", &file(&agent), "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("RECORDING_FAILED") && ran.stderr.contains("name another file"), "{ran:?}");
    assert_eq!(agent.read("calls.jsonl"), "mine");

    std::fs::remove_file(&kept).expect("removed");
    let ran = agent.run(&["run", "--cognet", "@axon/echo", "--record", &file(&agent), "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "x\n"), "{ran:?}");
    assert!(!kept.exists() && ran.stderr.contains("no model was asked"), "{ran:?}");
    // Nor does one of a session that did not even begin.
    assert_eq!(agent.run(&["run", "--cognet", "nobody", "--record", &file(&agent), "x"]).code, Some(2));
    assert!(!kept.exists());
}

#[test]
fn a_recording_that_cannot_be_read_is_told_with_its_line() {
    let agent = agent();
    let file = file(&agent);
    assert_eq!(agent.run(&["run", "--record", &file, "What is 1 + 1?"]).code, Some(0));
    let good = agent.read("calls.jsonl");
    let first = good.lines().next().expect("a line");
    let spec = format!("replay:{file}");
    for (text, says) in [
        (format!("{first}\noops\n"), "calls.jsonl:2: this is no line of a recording"),
        (format!("{first}\n{}\n", &first[..first.len() / 2]), "calls.jsonl:2: this is no line of a recording"),
        (String::new(), "calls.jsonl:1: it is empty: no call was recorded"),
        (
            first.replace("\"v\":1", "\"v\":2") + "\n",
            "calls.jsonl:1: the recording has version 2; this program reads 1",
        ),
    ] {
        agent.write("calls.jsonl", &text);
        let ran = agent.run(&["run", "--engine", &spec, "x"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(says), "{ran:?}");
    }
    let gone = agent.run(&["run", "--engine", "replay:nowhere.jsonl", "x"]);
    assert_eq!(gone.code, Some(2), "{gone:?}");
    assert!(gone.stderr.contains("cannot read the recording nowhere.jsonl"), "{gone:?}");
}

#[test]
fn a_recording_may_be_the_configured_engine() {
    let agent = agent();
    assert_eq!(agent.run(&["run", "--record", &file(&agent), "What is 1 + 1?"]).code, Some(0));
    let config = "[agent]\ncognet = \"@axon/zero\"\n[engine]\nprovider = \"replay\"\n";
    agent.write("axon.toml", config);
    let ran = agent.run(&["run", "What is 1 + 1?"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("needs `recording` under [engine]"), "{ran:?}");
    agent.write("axon.toml", &format!("{config}recording = \"calls.jsonl\"\n"));
    let ran = agent.run(&["run", "What is 1 + 1?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It is 2\n"), "{ran:?}");
}

#[test]
fn no_secret_is_in_a_recording_and_it_answers_all_the_same() {
    let agent = agent();
    agent.write("boot.md", "The password is hunter2-hunter2.");
    agent.write(".env", "PASSWORD=hunter2-hunter2\n");
    agent.write("tools/door.ts", "export function open(): string { return env.PASSWORD.length + ''; }\n");
    let config = agent.read("axon.toml");
    agent.write("axon.toml", &format!("{config}[tools.door]\nenv = [\"PASSWORD\"]\n"));
    let file = file(&agent);
    let first = agent.run(&["run", "--record", &file, "What is 1 + 1?"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let recorded = agent.read("calls.jsonl");
    assert!(!recorded.contains("hunter2") && recorded.contains("[PASSWORD]"), "{recorded}");
    let spec = format!("replay:{file}");
    let again = agent.run(&["run", "--engine", &spec, "What is 1 + 1?"]);
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "It is 2\n"), "{again:?}");
}

#[test]
fn a_line_that_was_being_written_when_the_process_died_is_passed_over_and_an_empty_file_is_begun_again() {
    let agent = agent();
    agent.write("calls.jsonl", "");
    let file = file(&agent);
    assert_eq!(agent.run(&["run", "--record", &file, "What is 1 + 1?"]).code, Some(0));
    let good = agent.read("calls.jsonl");
    agent.write("calls.jsonl", &format!("{good}{}", &good[..40]));
    let ran = agent.run(&["run", "--engine", &format!("replay:{file}"), "What is 1 + 1?"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "It is 2\n"), "{ran:?}");
}

#[test]
fn a_fault_whose_next_attempt_was_not_recorded_is_told_as_it_was() {
    let agent = agent();
    let file = file(&agent);
    assert_eq!(agent.run(&["run", "--record", &file, "What is 1 + 1?"]).code, Some(0));
    let first = agent.read("calls.jsonl").lines().next().expect("a line").to_owned();
    agent.write("calls.jsonl", &format!("{first}\n"));
    let ran = agent.run(&["run", "--engine", &format!("replay:{file}"), "What is 1 + 1?"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("TRANSPORT") && ran.stderr.contains("HTTP 503"), "{ran:?}");
}

#[test]
fn a_request_of_many_lines_is_refused_soon() {
    let agent = agent();
    let file = file(&agent);
    let long = |word: &str| (0..20_000).map(|n| format!("{word} {n}\n")).collect::<String>();
    let record = agent.run_with_input(&["run", "--record", &file], &long("one"));
    assert_eq!(record.code, Some(0), "{record:?}");
    let ran = agent.run_with_input(&["run", "--engine", &format!("replay:{file}")], &long("other"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("this request is not in the recording") && ran.stderr.contains("lines more"),
        "{ran:?}"
    );
}
