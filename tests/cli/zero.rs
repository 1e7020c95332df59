//! The reference brain over a scripted model.

use serde_json::{Value, json};

use crate::support::{Agent, engine_inputs, of_kind};

const CONFIG: &str = "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n[policy.fs]\nread = [\".\"]\n";

fn agent(calls: &Value) -> Agent {
    Agent::with(&[("axon.toml", CONFIG), ("model.json", &json!({ "calls": calls, "strict": true }).to_string())])
}

/// Entries without their ids: chunk ids and action ids numbered in order of appearance, chunk groups folded.
fn normalised(entries: &[(String, Value)]) -> Vec<Value> {
    let mut ids: Vec<String> = Vec::new();
    let mut number = |id: &Value| -> usize {
        let id = id.as_str().expect("an id").to_owned();
        ids.iter().position(|known| *known == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        })
    };
    let mut folded: Vec<Value> = Vec::new();
    let mut groups: Vec<(usize, usize)> = Vec::new();
    for (kind, data) in entries {
        let mut data = data.clone();
        for field in ["id", "for"] {
            if let Some(id) = data.get(field).cloned() {
                data[field] = number(&id).into();
            }
        }
        if let Some(chunk) = data.get("chunk").cloned() {
            let group = number(&chunk["of"]);
            data.as_object_mut().expect("a table").remove("chunk");
            if let Some((_, place)) = groups.iter().find(|(known, _)| *known == group) {
                let text = format!(
                    "{}{}",
                    folded[*place]["content"].as_str().expect("text"),
                    data["content"].as_str().expect("text")
                );
                folded[*place]["content"] = text.into();
                continue;
            }
            groups.push((group, folded.len()));
        }
        data["type"] = kind.clone().into();
        folded.push(data);
    }
    folded
}

#[test]
fn zero_leaves_exactly_the_entries_that_its_design_describes() {
    let agent = agent(&json!([
        { "deltas": [
            "stray words<text>Loo", "king.</te", "xt><typescript>1 +", " 1</typescript>",
            "<typescript>throw new Error('on purpose')</typescript>",
        ] },
        { "deltas": ["<text>It is ", "${last_result}", ".\n</text>", "<done/>"] },
    ]));
    let ran = agent.run(&["run", "What is 1 + 1?"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let entries = agent.entries();
    let kinds: Vec<_> = entries.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds.iter().filter(|kind| **kind == "cognet:action:typescript").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| **kind == "cognet:action:result").count(), 2);

    let normal = normalised(&entries);
    let texts: Vec<&str> = normal
        .iter()
        .filter(|entry| entry["type"] == "cognet:output:text")
        .map(|entry| entry["content"].as_str().expect("text"))
        .collect();
    assert!(texts.iter().any(|text| text.starts_with("[format] STRAY_TEXT: ")), "{texts:?}");
    assert!(texts.contains(&"Looking."), "{texts:?}");
    assert!(texts.last().is_some_and(|text| text.starts_with("It is ")), "{texts:?}");
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(normal[0], json!({ "type": "stimulus:text", "content": "What is 1 + 1?", "source": "cli" }));

    let results: Vec<_> = normal.iter().filter(|entry| entry["type"] == "cognet:action:result").collect();
    let good = results.iter().find(|entry| entry["ok"] == true).expect("a good one");
    let bad = results.iter().find(|entry| entry["ok"] == false).expect("a bad one");
    assert_eq!(good["content"], "2");
    assert_eq!(bad["error"]["kind"], "exception");
    assert!(bad["error"]["message"].as_str().expect("a message").contains("on purpose"));

    // One id for each spoken block, the last of a group says so.
    let chunks: Vec<_> = entries.iter().filter_map(|(_, data)| data.get("chunk")).collect();
    let groups: std::collections::BTreeSet<_> = chunks.iter().map(|chunk| chunk["of"].to_string()).collect();
    assert_eq!(groups.len(), 2, "two blocks were spoken in chunks");
    assert_eq!(chunks.iter().filter(|chunk| chunk["final"] == true).count(), 2);

    let log = agent.log();
    assert_eq!(of_kind(&log, "kernel:run:complete")[0]["data"]["ticks"], 2);
    let phases: Vec<_> = of_kind(&log, "cognet:phase:complete").iter().map(|e| e["data"]["phase"].clone()).collect();
    assert_eq!(phases, ["sync", "render", "invoke", "act", "sync", "render", "invoke", "act"]);
    assert_eq!(of_kind(&log, "kernel:engine:complete").len(), 2);
}

#[test]
fn any_split_of_the_deltas_leaves_the_same_entries() {
    let message = "<text>Two\nlines — é</text>\n<typescript>const s = `a ${\"</typescript>\"} b`; // </typescript>\ns.length</typescript>";
    let mut expected = None;
    for chunk in [1, 2, 3, 5, 7, 1000] {
        let agent = agent(&json!([
            { "text": message, "chunk": chunk },
            { "text": "<text>${last_result}</text><done/>", "chunk": chunk },
        ]));
        let ran = agent.run(&["run", "go"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let entries = normalised(&agent.entries());
        assert!(
            entries.iter().any(|entry| entry["type"] == "cognet:action:result" && entry["content"] == "17"),
            "{entries:#?}"
        );
        match &expected {
            None => expected = Some(entries),
            Some(expected) => assert_eq!(&entries, expected, "in chunks of {chunk}"),
        }
    }
}

#[test]
fn a_fault_is_retried_and_a_final_one_fails_the_wake() {
    let flaky = agent(&json!([
        { "fault": { "status": 429, "retryAfterMs": 5 } },
        { "text": "<text>there</text><done/>" },
    ]));
    let ran = flaky.run(&["run", "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "there\n"), "{ran:?}");
    let log = flaky.log();
    assert_eq!(of_kind(&log, "kernel:engine:retry")[0]["data"]["fault"]["code"], "RATE_LIMIT");
    assert_eq!(of_kind(&log, "kernel:engine:complete")[0]["data"]["attempts"], 2);

    let broken = agent(&json!([{ "fault": { "status": 401 } }]));
    let ran = broken.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("ENGINE_FAILED") && ran.stderr.contains("AUTH"), "{ran:?}");

    let cut = agent(&json!([{ "deltas": ["<text>half"], "then": "disconnect" }]));
    let ran = cut.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1), "no retry once text has crossed: {ran:?}");
    assert!(ran.stderr.contains("TRANSPORT"), "{ran:?}");
}

#[test]
fn zero_without_an_engine_says_how_to_get_one() {
    let ran = Agent::empty().run(&["run", "x"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("ENGINE_NOT_CONFIGURED") && ran.stderr.contains("axon.toml"), "{ran:?}");
}

#[test]
fn zero_checkpoints_and_resumes_its_session() {
    let agent = agent(&json!([{ "text": "<text>one</text><done/>" }]));
    agent.run(&["run", "--session", "s", "first"]);
    let script = json!({ "calls": [{ "text": "<text>two</text><done/>" }] }).to_string();
    agent.write("model.json", &script);
    let ran = agent.run(&["run", "--session", "s", "second"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "two\n"), "{ran:?}");
    let log = agent.log();
    let input = engine_inputs(&log).pop().expect("an input").to_string();
    for words in ["first", "one", "second"] {
        assert!(input.contains(words), "the whole session is in the context: {words}");
    }
    let started = of_kind(&log, "kernel:run:start");
    assert_eq!(started.last().expect("a wake")["data"]["stimuli"], 1, "only what is new wakes it");
}

#[test]
fn what_was_sent_to_the_model_before_is_stored_once() {
    let ticks = 12;
    let mut calls =
        vec![json!({ "text": "<text>Going on.</text><typescript>'v'.repeat(300)</typescript>" }); ticks - 1];
    calls.push(json!({ "text": "<text>That is all.</text><done/>" }));
    let agent = agent(&json!(calls));
    let ran = agent.run(&["run", "go"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = agent.log();
    let stored = of_kind(&log, "kernel:engine:input");
    let inputs = engine_inputs(&log);
    assert_eq!((stored.len(), inputs.len()), (ticks, ticks));
    let size = |value: &Value| value.to_string().len();
    assert!(stored[1..].iter().all(|input| size(input) < 1_500), "{:#}", stored[ticks - 1]);
    for (tick, input) in inputs.iter().enumerate() {
        let messages = input.as_array().expect("messages");
        assert!(messages.iter().all(|message| message["role"].is_string() && message["content"].is_string()));
        assert_eq!(input.to_string().matches(&"v".repeat(300)).count(), tick, "each result so far, whole");
    }
}
