//! `axon log export`, `check`, `flame`, `prune`, and the filters.

use std::{fs, process::Stdio};

use serde_json::{Value, json};

use crate::support::{Agent, engine_inputs, finish, kind, of_kind, read_log, until};

const CONFIG: &str = "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n[policy.fs]\nread = [\".\"]\n";

/// An agent whose session `s` holds one wake of two ticks.
fn agent_with_a_session() -> Agent {
    let calls = json!({ "calls": [
        { "deltas": ["<text>I lo", "ok ```around```.</text><typescript>(await fs.list('.')).length > 0</typescript>",
            "<typescript>throw new Error('on purpose')</typescript>"] },
        { "deltas": ["<text>Th", "at is ", "all.</text><done/>"] },
    ] });
    let agent = Agent::with(&[("axon.toml", CONFIG), ("model.json", &calls.to_string())]);
    let ran = agent.run(&["run", "--session", "s", "What is\nhere?"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    agent
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_export_is_every_envelope_as_it_is_stored_and_filters_choose_among_them() {
    let agent = agent_with_a_session();
    let stored = fs::read_to_string(&agent.sessions()[0]).expect("a session");
    let export = |args: &[&str]| {
        let ran = agent.run(&[&["log", "export", "s"], args].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    assert_eq!(export(&[]), stored);
    let log = lines(&stored);
    let entries = lines(&export(&["--entries"]));
    assert!(entries.iter().all(|entry| !kind(entry).starts_with("kernel:")) && entries.len() > 5);

    let kernel = lines(&export(&["--type", "kernel:run", "--family", "kernel:engine:start"]));
    let kinds: Vec<_> = kernel.iter().map(kind).collect();
    assert_eq!(kinds, ["kernel:run:start", "kernel:engine:start", "kernel:engine:start", "kernel:run:complete"]);
    let run = kernel[0]["context"]["runId"].as_str().expect("a run");
    let of_run = lines(&export(&["--run", &run[..30]]));
    assert_eq!(of_run.len(), log.iter().filter(|envelope| envelope["context"]["runId"] == run).count());
    assert_eq!(export(&["--run", "nothing"]), "");
    assert_eq!(export(&["--since", "1h", "--until", "2099-01-01"]), stored);
    assert_eq!(export(&["--until", "2001-01-01T00:00:00Z"]), "");
    let ran = agent.run(&["log", "export", "--since", "whenever"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("2026-08-01T12:00:00Z"), "{ran:?}");
}

#[test]
fn an_expanded_export_holds_every_message_of_each_engine_input() {
    let agent = agent_with_a_session();
    let expanded = lines(&agent.run(&["log", "export", "s", "--expand"]).stdout);
    let inputs: Vec<_> =
        of_kind(&expanded, "kernel:engine:input").iter().map(|input| input["data"]["messages"].clone()).collect();
    assert_eq!(inputs, engine_inputs(&agent.log()));
    assert_eq!(expanded.len(), agent.log().len());
    let shown =
        agent.run(&["log", "show", "--type", "kernel:engine:input", "--last", "1", "--expand", "--json"]).stdout;
    assert_eq!(lines(&shown)[0]["data"]["messages"], inputs[1]);
}

#[test]
fn a_conversation_exported_as_markdown_reads_as_one() {
    let agent = agent_with_a_session();
    let page = agent.run(&["log", "export", "s", "--markdown"]).stdout;
    assert!(page.starts_with("# Session s\n\nAgent "), "{page}");
    for part in [
        "\n## User\n\n> What is\n> here?\n\n## Agent\n\nI look ```around```.\n\n",
        "```ts\n(await fs.list('.')).length > 0\n```\n",
        "**Result**\n\n```text\ntrue\n```\n",
        "**Failed**\n\n```text\nexception: Error: on purpose",
        "\nThat is all.\n",
    ] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
    assert_eq!(page.matches("## Agent").count(), 1, "a heading only when the speaker changes");
}

#[test]
fn the_last_turns_are_shown_whole_however_long_the_session() {
    let agent = agent_with_a_session();
    let show = |args: &[&str]| {
        let ran = agent.run(&[&["log", "show", "s"], args].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        ran.stdout
    };
    let whole = show(&[]);
    assert_eq!(show(&["--last", "1"]), "    agent │ That is all.\n", "the chunks of a group are one turn");
    assert_eq!(show(&["--last", "1000"]), whole);
    assert_eq!(show(&["--last", "0"]), "");
    assert_eq!(lines(&show(&["--last", "3", "--json"])).len(), 3, "envelopes count as such");

    // Beyond what is read at first: telemetry that has to be passed over.
    let path = &agent.sessions()[0];
    let stored = fs::read_to_string(path).expect("a session");
    let filler = lines(&stored).last().expect("a last line").clone();
    let mut grown = stored.clone();
    for seq in lines(&stored).len()..20_000 {
        let mut line = filler.clone();
        line["time"]["seq"] = seq.into();
        line["type"] = "cognet:log:info".into();
        grown.push_str(&format!("{line}\n"));
    }
    assert!(grown.len() > 3_000_000);
    fs::write(path, grown).expect("written");
    assert_eq!(show(&["--last", "1"]), "    agent │ That is all.\n");
    assert_eq!(show(&["--last", "1000"]), whole);

    let broken = fs::read_to_string(path).expect("a session").replace("\"seq\":19000}", "\"seq\":19000");
    fs::write(path, broken).expect("written");
    let ran = agent.run(&["log", "show", "s", "--last", "1"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("s.jsonl:19001: not an envelope"), "{ran:?}");
}

#[cfg(unix)]
#[test]
fn a_tail_can_begin_with_the_last_turns() {
    let agent = agent_with_a_session();
    let out = agent.write("tail.out", "");
    let mut tail = agent.command(&["log", "tail", "s", "--last", "1"]);
    let child = tail.stdout(fs::File::create(&out).expect("a file")).stderr(Stdio::piped()).spawn().expect("it starts");
    let pid = child.id();
    until("the past is shown", || fs::read_to_string(&out).ok()?.contains("That is all.").then_some(()));
    crate::interrupt::signal(pid, rustix::process::Signal::INT);
    assert_eq!(finish(child).code, Some(0));
    assert_eq!(fs::read_to_string(&out).expect("what it showed"), "    agent │ That is all.\n");
}

#[test]
fn a_check_finds_what_is_damaged_and_a_repair_makes_the_session_go_on() {
    let agent = agent_with_a_session();
    let sound = agent.run(&["log", "check", "s"]);
    assert_eq!(sound.code, Some(0), "{sound:?}");
    assert!(sound.stdout.starts_with("session s is sound: "), "{sound:?}");

    let path = &agent.sessions()[0];
    let mut stored: Vec<_> = fs::read_to_string(path).expect("a session").lines().map(str::to_owned).collect();
    stored[3] = "oops".to_owned();
    fs::write(path, stored.join("\n") + "\n").expect("written");
    let before = fs::read(path).expect("a session");

    let refused = agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "on"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("s.jsonl:4") && refused.stderr.contains("axon log check --repair s"),
        "{refused:?}"
    );
    let damaged = agent.run(&["log", "check", "s"]);
    assert_eq!(damaged.code, Some(1), "{damaged:?}");
    assert!(damaged.stdout.contains("line 4: not an envelope"), "{damaged:?}");
    assert!(damaged.stderr.contains("axon log check --repair s"), "{damaged:?}");
    let told = lines(&agent.run(&["log", "check", "s", "--json"]).stdout);
    assert_eq!((&told[0]["sound"], &told[0]["faults"][0]["line"]), (&json!(false), &json!(4)));
    assert_eq!(told[1]["error"]["code"], "LOG_CORRUPT");
    assert_eq!(fs::read(path).expect("a session"), before, "a check changes nothing");

    let repaired = agent.run(&["log", "check", "s", "--repair"]);
    assert_eq!(repaired.code, Some(0), "{repaired:?}");
    assert!(repaired.stdout.contains("1 bad line"), "{repaired:?}");
    assert_eq!(agent.run(&["log", "check", "s"]).code, Some(0));
    let on = agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "on"]);
    assert_eq!((on.code, on.stdout.as_str()), (Some(0), "on\n"), "{on:?}");
}

#[test]
fn a_flame_graph_shows_ticks_phases_engine_calls_blocks_and_tools_of_a_wake() {
    let agent = agent_with_a_session();
    let picture = agent.run(&["log", "flame", "s"]);
    assert_eq!(picture.code, Some(0), "{picture:?}");
    let picture = picture.stdout;
    assert!(picture.starts_with("<svg xmlns=") && picture.ends_with("</svg>\n"));
    for (name, times) in [
        ("wake: ", 1),
        ("tick 1: ", 1),
        ("tick 2: ", 1),
        ("invoke: ", 2),
        ("act: ", 2),
        ("engine script:script: ", 2),
        ("block (await fs.list('.')).length &gt; 0: ", 1),
        ("fs.list: ", 1),
        ("capsule boot: ", 1),
    ] {
        assert_eq!(picture.matches(&format!("<title>{name}")).count(), times, "{name:?} in {picture}");
    }
    assert_eq!(picture.matches(", failed</title>").count(), 1, "the block that threw");
    assert_eq!(picture.matches("<g>").count(), picture.matches("</g>").count());

    let run = of_kind(&agent.log(), "kernel:run:start")[0]["context"]["runId"].as_str().expect("a run").to_owned();
    let file = agent.path().join("wake.svg");
    let ran = agent.run(&["log", "flame", "--run", &run, "--output", file.to_str().expect("a path")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(fs::read_to_string(file).expect("a picture"), picture);
    let ran = agent.run(&["log", "flame", "--run", "none"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("WAKE_NOT_FOUND"), "{ran:?}");

    agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "again"]);
    let last = agent.run(&["log", "flame", "s"]).stdout;
    assert_eq!(last.matches("<title>wake: ").count(), 1);
    assert!(!last.contains("invoke"), "the last wake is the echo's");
    assert_eq!(agent.run(&["log", "flame", "s", "--all"]).stdout.matches("<title>wake: ").count(), 2);
}

#[test]
fn pruning_only_tells_until_it_is_asked_to_delete_and_spares_what_is_being_written() {
    let agent = Agent::empty();
    for session in ["a", "b"] {
        agent.run(&["run", "--session", session, "--cognet", "@axon/echo", session]);
    }
    let mut chat = agent.command(&["chat", "--session", "c", "--cognet", "@axon/echo"]);
    let mut child =
        chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    until("the session is open", || agent.sessions().get(2).filter(|path| !read_log(path).is_empty()).cloned());

    let refused = agent.run(&["log", "prune"]);
    assert_eq!(refused.code, Some(2), "a limit is needed: {refused:?}");
    let told = agent.run(&["log", "prune", "--older-than", "0s"]);
    assert!(told.stdout.contains("3 of 3 sessions") && told.stdout.contains("--delete"), "{told:?}");
    let none = agent.run(&["log", "prune", "--older-than", "1h", "--delete"]);
    assert!(none.stdout.starts_with("0 of 3 sessions"), "{none:?}");
    assert_eq!(agent.sessions().len(), 3);

    let aside = agent.sessions()[0].with_extension("jsonl.torn");
    fs::write(&aside, "torn\n").expect("written");
    let done = agent.run(&["log", "prune", "--max-size", "0", "--delete"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("2 of 3 sessions") && done.stdout.contains("kept: somebody writes it"), "{done:?}");
    let left: Vec<_> = agent.sessions().iter().map(|path| path.file_stem().expect("a name").to_owned()).collect();
    assert_eq!(left, ["c"]);
    assert!(!aside.exists());
    drop(child.stdin.take());
    assert_eq!(finish(child).code, Some(0));
}
