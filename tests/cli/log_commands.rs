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

/// Damage of a session's lines, and what is told of it.
type Damage = (&'static str, fn(&mut Vec<String>), u64, &'static str);

#[test]
fn whoever_reads_a_session_tells_of_what_keeps_it_from_going_on() {
    let damages: [Damage; 4] = [
        ("a gap", |lines| drop(lines.remove(3)), 4, "a line is missing before it: seq 3 to 3"),
        ("a gap at the beginning", |lines| drop(lines.drain(..2)), 1, "2 lines are missing before it: seq 0 to 1"),
        ("a line twice", |lines| lines.insert(4, lines[3].clone()), 5, "seq 3 where 4 belongs"),
        ("a broken line", |lines| lines[3] = "oops".to_owned(), 4, "not an envelope"),
    ];
    for (what, damage, line, says) in damages {
        let agent = agent_with_a_session();
        let path = &agent.sessions()[0];
        let mut stored: Vec<_> = fs::read_to_string(path).expect("a session").lines().map(str::to_owned).collect();
        damage(&mut stored);
        fs::write(path, stored.join("\n") + "\n").expect("written");
        let place = format!("s.jsonl:{line}: {says}");
        for command in [
            &["run", "--session", "s", "--cognet", "@axon/echo", "on"][..],
            &["log", "show", "s"],
            &["log", "show", "s", "--all", "--json"],
            &["log", "show", "s", "--last", "2"],
            &["log", "tail", "s"],
            &["log", "export", "s"],
            &["log", "export", "s", "--markdown"],
            &["log", "flame", "s"],
        ] {
            let ran = agent.run(command);
            assert_eq!(ran.code, Some(2), "{what}: {command:?}: {ran:?}");
            let told = if command.contains(&"--json") { &ran.stdout } else { &ran.stderr };
            assert!(told.contains("LOG_CORRUPT") && told.contains(&place), "{what}: {command:?}: {ran:?}");
            assert!(told.contains("axon log check --repair s"), "the way out: {ran:?}");
        }
        let checked = agent.run(&["log", "check", "s"]);
        assert_eq!(checked.code, Some(1), "{what}: {checked:?}");
        assert!(checked.stdout.contains(&format!("line {line}: ")), "{what}: {checked:?}");
        // What is good before it can be read.
        let exported = agent.run(&["log", "export", "s"]).stdout;
        let whole = usize::try_from(line).expect("small") - 1;
        assert_eq!(exported.lines().collect::<Vec<_>>(), stored[..whole], "{what}");

        assert_eq!(agent.run(&["log", "check", "s", "--repair"]).code, Some(0), "{what}");
        for command in [&["log", "show", "s"][..], &["log", "check", "s"], &["log", "export", "s"]] {
            let ran = agent.run(command);
            assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{what}, repaired: {command:?}");
        }
        let on = agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "on"]);
        assert_eq!((on.code, on.stdout.as_str()), (Some(0), "on\n"), "{what}: {on:?}");
    }
}

#[test]
fn the_last_session_is_one_in_which_something_happened_and_not_a_load_that_failed() {
    const BAD: &str = "defineCognet { name = \"bad\", version = \"1\", abi = \"8\" }\nloop(print)\n";
    let agent = Agent::with(&[("cognets/bad.lua", BAD), ("cognets/broken.lua", "loop(")]);
    // Where nothing else is, it is the last one all the same.
    assert_eq!(agent.run(&["run", "--session", "a", "--cognet", "broken", "x"]).code, Some(2));
    let shown = agent.run(&["log", "show", "--all"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("cognet:load:failed"), "{shown:?}");

    assert_eq!(agent.run(&["run", "--session", "b", "--cognet", "@axon/echo", "kept in mind"]).code, Some(0));
    for (session, cognet) in [("c", "bad"), ("d", "broken"), ("e", "broken")] {
        let ran = agent.run(&["run", "--session", session, "--cognet", cognet, "x"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
    // A conversation in which nothing was said is none either.
    let empty = agent.run(&["chat", "--session", "f", "--cognet", "@axon/echo"]);
    assert_eq!(empty.code, Some(0), "{empty:?}");
    for command in [&["log", "show"][..], &["log", "export", "--markdown"]] {
        let ran = agent.run(command);
        assert!(ran.code == Some(0) && ran.stdout.contains("kept in mind"), "{command:?}: {ran:?}");
    }
    assert!(agent.run(&["log", "check"]).stdout.starts_with("session b is sound"));
    let on = agent.run(&["run", "--continue", "--json", "--cognet", "@axon/echo", "again"]);
    assert!(on.code == Some(0) && on.stdout.contains("\"sessionId\":\"b\""), "{on:?}");

    // One that is open is the last one, before anything is said in it.
    let mut chat = agent.command(&["chat", "--session", "g", "--cognet", "@axon/echo"]);
    let mut child =
        chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    let path = agent.path().join("data/sessions/g.jsonl");
    until("it is open", || (!of_kind(&read_log(&path), "cognet:load:complete").is_empty()).then_some(()));
    assert!(agent.run(&["log", "check"]).stdout.starts_with("session g is sound"));
    drop(child.stdin.take());
    assert_eq!(finish(child).code, Some(0));
    // An action without a wake is something that happened.
    assert_eq!(agent.run(&["exec", "--session", "h", "-e", "6 * 7"]).code, Some(0));
    assert!(agent.run(&["log", "show"]).stdout.contains("ok │ 42"));
}

#[test]
fn a_start_that_fails_before_anything_happened_leaves_no_session_and_no_file_beside_one() {
    let agent = Agent::with(&[("model.json", "{")]);
    let echo = agent.run(&["run", "--session", "real", "--cognet", "@axon/echo", "kept in mind"]);
    assert_eq!(echo.code, Some(0), "{echo:?}");
    for engine in ["script:nope.json", "script:model.json", "nonsense:x"] {
        for session in [&["--session", "made"][..], &[]] {
            for command in [&["run", "x"][..], &["chat"]] {
                let ran = agent.run(&[command, session, &["--engine", engine]].concat());
                assert_eq!(ran.code, Some(2), "{engine}: {ran:?}");
            }
        }
    }
    agent.write("tools/t.ts", "export function f(x) { return x; }\n");
    assert_eq!(agent.run(&["run", "--session", "made", "x"]).code, Some(2));
    std::fs::remove_dir_all(agent.path().join("tools")).expect("removed");
    let files = || {
        let entries = std::fs::read_dir(agent.path().join("data/sessions")).expect("the sessions");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort();
        names
    };
    assert_eq!(files(), ["real.jsonl"]);
    // A session that was there stays, and is closed.
    let ran = agent.run(&["run", "--session", "real", "--engine", "script:nope.json", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(files(), ["real.jsonl"]);
    let log = read_log(&agent.path().join("data/sessions/real.jsonl"));
    assert_eq!(log.last().expect("a line")["type"], "axon:session:closed");
    assert!(agent.run(&["log", "show"]).stdout.contains("kept in mind"));
    let on = agent.run(&["run", "--continue", "--json", "--cognet", "@axon/echo", "again"]);
    assert!(on.code == Some(0) && on.stdout.contains("\"sessionId\":\"real\""), "{on:?}");
}

#[test]
fn a_session_whose_writer_was_killed_before_anything_happened_is_not_the_last_one() {
    let agent = Agent::empty();
    assert_eq!(agent.run(&["run", "--session", "real", "--cognet", "@axon/echo", "kept in mind"]).code, Some(0));
    let mut chat = agent.command(&["chat", "--session", "killed", "--cognet", "@axon/echo"]);
    let mut child =
        chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    let path = agent.path().join("data/sessions/killed.jsonl");
    until("it is open", || (!of_kind(&read_log(&path), "cognet:load:complete").is_empty()).then_some(()));
    child.kill().expect("it is ours");
    finish(child);
    assert!(agent.path().join("data/sessions/killed.jsonl.pid").exists(), "nobody was left to remove it");
    assert!(agent.run(&["log", "show"]).stdout.contains("kept in mind"));
    assert!(agent.run(&["log", "check"]).stdout.starts_with("session real is sound"));
    // Nor does what it left stand in the way.
    let on = agent.run(&["run", "--session", "killed", "--cognet", "@axon/echo", "on"]);
    assert_eq!((on.code, on.stdout.as_str()), (Some(0), "on\n"), "{on:?}");
    assert!(!agent.path().join("data/sessions/killed.jsonl.pid").exists());
}

#[test]
fn a_session_of_one_torn_line_is_called_so_by_every_command() {
    let agent = Agent::empty();
    for torn in ["{\"v\":1,\"id\":\"01", "not an envelope\n"] {
        agent.write("data/sessions/s.jsonl", torn);
        let list = agent.run(&["log", "list"]);
        assert!(list.code == Some(0) && list.stdout.contains("torn last line"), "{list:?}");
        let check = agent.run(&["log", "check", "s"]);
        assert!(check.code == Some(0) && check.stdout.contains("is sound but for a torn last line"), "{check:?}");
    }
}

#[test]
fn where_nothing_is_shown_standard_error_says_why() {
    let agent = Agent::empty();
    assert_eq!(agent.run(&["chat", "--session", "s", "--cognet", "@axon/echo"]).code, Some(0));
    let entries = agent.run(&["log", "show", "s"]);
    assert!(entries.code == Some(0) && entries.stderr.contains("no entries; --all shows telemetry"), "{entries:?}");
    for args in
        [&["--type", "foo"][..], &["--type", "foo", "--json"], &["--type", "cogn"], &["--last", "2", "--type", "foo"]]
    {
        let ran = agent.run(&[&["log", "show", "s"], args].concat());
        assert!(ran.code == Some(0) && ran.stdout.is_empty(), "{args:?}: {ran:?}");
        assert!(ran.stderr.contains("nothing to show of session s: nothing in it is of type"), "{args:?}: {ran:?}");
    }
    let some = agent.run(&["log", "show", "s", "--type", "cognet:load"]);
    assert!(some.stderr.is_empty() && !some.stdout.is_empty(), "{some:?}");
}

#[test]
fn an_engines_input_is_counted_unless_it_is_asked_for_in_full() {
    let said = "long ".repeat(2_000);
    let model = serde_json::json!({ "calls": [{ "text": format!("<text>{said}</text><done/>") }] }).to_string();
    let agent = Agent::with(&[("model.json", &model)]);
    let args = ["chat", "--session", "s", "--cognet", "@axon/zero", "--engine", "script:model.json"];
    assert_eq!(agent.run_with_input(&args, "first\nsecond\n").code, Some(0));
    let shown = agent.run(&["log", "show", "s", "--type", "kernel:engine:input"]).stdout;
    let rows: Vec<_> = shown.lines().collect();
    assert!(rows.len() == 2 && rows.iter().all(|row| row.len() < 160), "{shown}");
    assert!(rows[0].contains("messages") && rows[0].contains("characters new"), "{shown}");
    assert!(rows[1].contains("of them sent before"), "{shown}");
    for whole in ["--expand", "--json"] {
        let shown = agent.run(&["log", "show", "s", "--type", "kernel:engine:input", whole]).stdout;
        assert!(shown.contains(said.trim_end()), "{whole}");
    }
}

#[test]
fn json_all_shows_telemetry_as_all_does() {
    let agent = agent_with_a_session();
    let show = |args: &[&str]| {
        let ran = agent.run(&[&["log", "show", "s"], args].concat());
        assert_eq!(ran.code, Some(0), "{ran:?}");
        lines(&ran.stdout)
    };
    let all = show(&["--json=all"]);
    assert_eq!(all, agent.log(), "every envelope of the session");
    assert_eq!(all, show(&["--all", "--json"]));
    let entries = show(&["--json"]);
    assert!(entries.len() < all.len() && entries.iter().all(|entry| !kind(entry).starts_with("kernel:")));
    assert_eq!(show(&["--json=all", "--last", "1"]).len(), 1);
    let of_type = show(&["--json=all", "--type", "kernel:run"]);
    assert!(of_type.iter().all(|envelope| kind(envelope).starts_with("kernel:run")) && of_type.len() == 2);
}

#[test]
fn a_list_keeps_its_columns_whatever_the_sessions_are_called_and_began_with() {
    let agent = Agent::empty();
    let long = "l".repeat(120);
    for (session, said) in [("s", "漢字を書く"), ("a-name-of-ordinary-length", "a"), (&long, "wide"), ("t", "ü")]
    {
        assert_eq!(agent.run(&["run", "--session", session, "--cognet", "@axon/echo", said]).code, Some(0));
    }
    let list = agent.run(&["log", "list"]).stdout;
    let rows: Vec<_> = list.lines().filter(|row| row.contains(" lines  ")).collect();
    assert_eq!(rows.len(), 4, "{list}");
    let at: Vec<_> = rows.iter().map(|row| row.find(" lines  ").expect("a column")).collect();
    assert!(at.iter().all(|column| *column == at[0] && *column < 80), "{list}");
    assert!(list.lines().any(|row| row == long), "a long name has a row of its own: {list}");
}
