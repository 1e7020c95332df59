//! Processes that die: the capsule's, and the kernel's own.

use std::process::Stdio;

use rustix::process::Signal;

use crate::{
    interrupt::signal,
    support::{Agent, finish, kind, of_kind, read_log, until},
};

/// The capsule's process id, once a block runs in it: a block that has called a tool does.
fn capsule_pid(agent: &Agent) -> u32 {
    until("a block calls a tool", || {
        let log = read_log(agent.sessions().first()?);
        let called = !of_kind(&log, "capsule:tool:complete").is_empty();
        let pid = of_kind(&log, "capsule:boot").last()?["data"]["pid"].as_u64()?;
        called.then(|| u32::try_from(pid).expect("a pid"))
    })
}

#[test]
fn a_killed_capsule_is_an_exception_value_and_the_next_block_gets_a_new_process() {
    let agent = Agent::with(&[("axon.toml", "[policy.fs]\nread = [\".\"]\n")]);
    let mut chat = agent.command(&["chat", "--cognet", "@axon/repl"]);
    let mut child =
        chat.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    std::io::Write::write_all(&mut stdin, b"await fs.list('.'); for(;;){}\n20 + 22\n").expect("it listens");
    drop(stdin);
    signal(capsule_pid(&agent), Signal::KILL);
    let ran = finish(child);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("CAPSULE_CRASHED") && ran.stdout.contains("42\n"), "{ran:?}");
    let log = agent.log();
    let results = of_kind(&log, "cognet:action:result");
    assert_eq!(results[0]["data"]["error"]["kind"], "exception");
    assert_eq!(results[0]["data"]["error"]["code"], "CAPSULE_CRASHED");
    assert_eq!(of_kind(&log, "capsule:crash").len(), 1);
    assert_eq!(of_kind(&log, "capsule:boot").len(), 2);
}

#[test]
fn a_killed_kernel_leaves_no_orphan_and_its_session_opens_again_with_all_that_was_acknowledged() {
    let agent = Agent::empty();
    // What is printed with --json has been acknowledged: it was read back from the log.
    for round in 0..8 {
        let out = agent.write("acknowledged.jsonl", "");
        let file = std::fs::File::create(&out).expect("a file");
        let input = "console.log('some output'); 1\n".repeat(200);
        let mut chat = agent.command(&["chat", "--json", "--session", "s", "--cognet", "@axon/repl"]);
        let mut child = chat.stdin(Stdio::piped()).stdout(file).stderr(Stdio::null()).spawn().expect("axon starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || {
            let _ = std::io::Write::write_all(&mut stdin, input.as_bytes());
        });
        // Each round dies at another point of its work.
        let enough = 1 + round * 7;
        until("some entries", || {
            let text = std::fs::read_to_string(&out).ok()?;
            (text.lines().count() > enough).then_some(())
        });
        let capsule =
            of_kind(&read_log(&agent.sessions()[0]), "capsule:boot").last().map(|boot| boot["data"]["pid"].clone());
        child.kill().expect("it can be killed");
        child.wait().expect("it ended");
        writer.join().expect("the writer ends");

        if let Some(pid) = capsule.and_then(|pid| pid.as_u64()) {
            until("the capsule dies with its parent", || (!is_running(pid)).then_some(()));
        }
        let acknowledged = read_log(&out);
        assert!(!acknowledged.is_empty());
        let next = agent.run(&["run", "--session", "s", "--cognet", "@axon/echo", "still here"]);
        // A stimulus that was admitted before the kill, and that no wake was handed, comes before it.
        assert_eq!(next.code, Some(0), "{next:?}");
        assert!(next.stdout.ends_with("still here\n"), "{next:?}");
        let log = agent.log();
        for envelope in &acknowledged {
            assert!(log.contains(envelope), "round {round}: {} is lost", kind(envelope));
        }
        for (seq, envelope) in log.iter().enumerate() {
            assert_eq!(envelope["time"]["seq"], seq);
        }
    }
}

/// Neither gone nor a zombie that waits for its parent.
fn is_running(pid: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}
