//! What is recorded, and how it is read.

use crate::support::{Agent, finish, kind, of_kind, read_log, until};
use std::process::Stdio;

#[test]
fn every_line_is_an_envelope_in_seq_order_without_gaps() {
    let agent = Agent::with(&[("axon.toml", "[agent]\nname = \"mine\"\n")]);
    agent.run(&["run", "--cognet", "@axon/repl", "1 + 1"]);
    let log = agent.log();
    for (seq, envelope) in log.iter().enumerate() {
        assert_eq!(envelope["v"], 1);
        assert_eq!(envelope["time"]["seq"], seq, "{envelope}");
        assert_eq!(envelope["context"]["agentId"], "mine");
        assert!(envelope["id"].as_str().is_some_and(|id| id.len() == 36));
    }
    let session = agent.sessions()[0].file_stem().expect("a name").to_string_lossy().into_owned();
    assert!(log.iter().all(|envelope| envelope["context"]["sessionId"] == session));
    let run = &of_kind(&log, "kernel:run:start")[0]["context"]["runId"];
    assert!(run.is_string());
    assert_eq!(&of_kind(&log, "cognet:action:result")[0]["context"]["runId"], run);
    assert_eq!(kind(log.last().expect("a last")), "axon:session:closed");
}

#[test]
fn json_prints_the_entries_of_this_run_and_all_prints_telemetry_too() {
    let agent = Agent::empty();
    let ran = agent.run(&["run", "--json", "--session", "s", "--cognet", "@axon/echo", "one"]);
    let kinds = |text: &str| -> Vec<String> {
        text.lines().map(|line| kind(&serde_json::from_str(line).expect("JSON")).to_owned()).collect()
    };
    assert_eq!(kinds(&ran.stdout), ["stimulus:text", "cognet:output:text"]);
    let ran = agent.run(&["run", "--json", "--session", "s", "--cognet", "@axon/echo", "two"]);
    assert_eq!(kinds(&ran.stdout), ["stimulus:text", "cognet:output:text"], "this run's only");
    assert!(ran.stdout.contains("two") && !ran.stdout.contains("one"));
    let ran = agent.run(&["run", "--json=all", "--continue", "--cognet", "@axon/echo", "three"]);
    let all = kinds(&ran.stdout);
    for expected in [
        "axon:session:restored",
        "cognet:load:complete",
        "kernel:run:start",
        "cognet:tick:complete",
        "axon:session:closed",
    ] {
        assert!(all.iter().any(|kind| kind == expected), "{expected} in {all:?}");
    }
    let log = agent.log();
    assert!(
        ran.stdout
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .eq(log[log.len() - all.len()..].iter().cloned())
    );
}

#[test]
fn sessions_are_listed_shown_and_filtered() {
    let agent = Agent::empty();
    let ran = agent.run(&["log", "list"]);
    assert_eq!(ran.code, Some(2), "no session yet: {ran:?}");
    agent.run(&["run", "--session", "first", "--cognet", "@axon/echo", "hello there"]);
    agent.run(&["run", "--session", "second", "--cognet", "@axon/repl", "6 * 7"]);
    let list = agent.run(&["log", "list"]).stdout;
    assert!(list.find("first").expect("listed") < list.find("second").expect("listed"), "newest last: {list}");
    let shown = agent.run(&["log", "show", "first"]).stdout;
    assert!(shown.contains("you │ hello there") && shown.contains("agent │ hello there"), "{shown}");
    let shown = agent.run(&["log", "show"]).stdout;
    assert!(shown.contains("code │ 6 * 7") && shown.contains("ok │ 42"), "the last one: {shown}");
    let json = agent.run(&["log", "show", "second", "--type", "cognet:action", "--json"]).stdout;
    assert_eq!(json.lines().count(), 2, "{json}");
    let all = agent.run(&["log", "show", "second", "--all"]).stdout;
    assert!(all.contains("kernel:run:start") && all.contains("capsule:boot"), "{all}");
    let ran = agent.run(&["log", "show", "third"]);
    assert_eq!(ran.code, Some(2));
    for escape in ["../first", "/etc/passwd", "", "."] {
        let ran = agent.run(&["log", "show", escape]);
        assert_eq!(ran.code, Some(2), "{escape:?}: {ran:?}");
    }
}

#[test]
fn tail_follows_a_session_that_grows_and_ends_on_interrupt() {
    let agent = Agent::empty();
    agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "before"]);
    let out = agent.write("tail.out", "");
    let file = std::fs::File::create(&out).expect("a file");
    let mut tail = agent.command(&["log", "tail", "s"]);
    let child = tail.stdout(file).stderr(Stdio::piped()).spawn().expect("axon starts");
    let pid = child.id();
    until("the past is shown", || std::fs::read_to_string(&out).ok()?.contains("before").then_some(()));
    agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "after"]);
    until("what comes is shown", || std::fs::read_to_string(&out).ok()?.contains("agent │ after").then_some(()));
    crate::interrupt::signal(pid, rustix::process::Signal::INT);
    assert_eq!(finish(child).code, Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_long_session_that_nobody_asks_for_is_not_held_in_memory() {
    const ENTRIES: usize = 60_000;
    /// Far less than the entries take; their index takes 28 bytes each.
    const MAX_GROWTH_KIB: u64 = 16 * 1024;
    let peak = |agent: &Agent| {
        let mut command = agent.command(&["run", "--session", "s", "--cognet", "@axon/echo", "x"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
        let status = format!("/proc/{}/status", child.id());
        let watcher = std::thread::spawn(move || {
            let mut peak = 0;
            while let Ok(text) = std::fs::read_to_string(&status) {
                let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let Some(kib) = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok()) else {
                    break;
                };
                peak = peak.max(kib);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            peak
        });
        assert_eq!(finish(child).code, Some(0));
        watcher.join().expect("a peak")
    };
    let short = peak(&Agent::empty());
    let agent = Agent::empty();
    agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "x"]);
    let path = &agent.sessions()[0];
    let first = std::fs::read_to_string(path).expect("a session").lines().next().expect("a line").to_owned();
    let mut text = first.clone() + "\n";
    for seq in 1..=ENTRIES {
        let line =
            first.replace("\"seq\":0", &format!("\"seq\":{seq}")).replace("axon:session:opened", "cognet:output:text");
        text.push_str(&line.replace("\"data\":{}", &format!("\"data\":{{\"content\":\"{seq:0>90}\"}}")));
        text.push('\n');
    }
    assert!(text.len() > ENTRIES * 250);
    std::fs::write(path, text).expect("written");
    let long = peak(&agent);
    assert!(long < short + MAX_GROWTH_KIB, "{short} KiB, then {long} KiB");
}

#[test]
fn a_second_writer_is_refused_with_the_pid_that_holds_the_session() {
    let agent = Agent::empty();
    let mut first = agent.command(&["chat", "--session", "s", "--cognet", "@axon/echo"]);
    let mut child =
        first.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    until("the session is open", || agent.sessions().first().filter(|path| !read_log(path).is_empty()).cloned());
    let ran = agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains(&child.id().to_string()), "{ran:?}");
    drop(child.stdin.take());
    assert_eq!(finish(child).code, Some(0));
    assert_eq!(agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "x"]).code, Some(0));
}

#[test]
fn a_line_that_is_not_utf8_is_answered_and_so_are_those_after_it() {
    for args in [&["chat", "--cognet", "@axon/echo"][..], &["dev", "--headless", "--cognet", "@axon/echo"]] {
        let agent = Agent::empty();
        let mut command = agent.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        std::io::Write::write_all(&mut stdin, b"one\n\xff\xfe two\xe4\r\n\xf0\x9f\xa6\x80 three\nfour").expect("lines");
        drop(stdin);
        let ran = finish(child);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let stimuli: Vec<_> =
            of_kind(&agent.log(), "stimulus:text").iter().map(|stimulus| stimulus["data"]["content"].clone()).collect();
        assert_eq!(stimuli, ["one", "\u{fffd}\u{fffd} two\u{fffd}", "\u{1f980} three", "four"]);
        assert!(ran.stdout.ends_with("\u{1f980} three\nfour\n"), "{ran:?}");
        let told: Vec<_> = ran.stderr.lines().filter(|line| line.contains("not UTF-8")).collect();
        assert!(told.len() == 1 && told[0].contains("line 2 "), "{ran:?}");
    }
}

#[test]
fn chat_answers_each_line_and_goes_on_after_a_failed_wake() {
    let agent = Agent::with(&[(
        "cognets/moody.lua",
        "defineCognet { name = \"moody\", version = \"1\", abi = \"9\" }\nloop(function(wake)\n\twake.stop()\n\tlocal said = wake.stimuli[1].data.content\n\tif said == \"fail\" then error(\"no\") end\n\tkernel.output(\"cognet:output:text\", { content = \"heard \" .. said })\nend)\n",
    )]);
    let ran = agent.run_with_input(&["chat"], "one\n\nfail\ntwo\n/exit\nnever\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "heard one\nheard two\n"), "{ran:?}");
    assert!(ran.stderr.ends_with("1 of 3 wakes failed\n"), "a program is told in the end: {ran:?}");
    assert!(ran.stderr.contains("cognets/moody.lua:5"), "{ran:?}");
    assert!(
        !ran.stderr.contains('>') || !ran.stderr.contains("Ctrl-C"),
        "no prompt where there is no terminal: {ran:?}"
    );
}
