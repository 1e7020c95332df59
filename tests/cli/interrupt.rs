//! Ctrl-C: a wake ends as interrupted, soon, and the next one works.

use std::{
    os::unix::process::CommandExt,
    process::Stdio,
    time::{SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::support::{Agent, finish, of_kind, read_log, until};

/// The contract's own limit from an abort to the end of the wake.
const LIMIT_MS: u64 = 500;

pub fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a pid")).expect("a pid");
    kill_process(pid, signal).expect("the process is ours");
}

/// Starts `args`, waits until `begun` is in the log, interrupts, and checks how the wake ended.
fn interrupted(agent: &Agent, args: &[&str], begun: &str) {
    // As a terminal does it: the signal goes to the whole foreground group.
    let mut command = agent.command(args);
    let child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    until(begun, || {
        let log = read_log(agent.sessions().first()?);
        (!of_kind(&log, begun).is_empty()).then_some(())
    });
    let at = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("ms");
    let group = Pid::from_raw(i32::try_from(child.id()).expect("a pid")).expect("a pid");
    kill_process_group(group, Signal::INT).expect("the group is ours");
    let ran = finish(child);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    let log = agent.log();
    assert!(of_kind(&log, "capsule:crash").is_empty(), "Ctrl-C is not the capsule's: {begun}");
    let ended = of_kind(&log, "kernel:run:interrupted");
    assert_eq!(ended.len(), 1, "{begun}");
    let took = ended[0]["time"]["ms"].as_u64().expect("a time").saturating_sub(at);
    assert!(took <= LIMIT_MS, "the wake ended {took} ms after the abort");
    assert_eq!(of_kind(&log, "system:interrupt").len(), 1);

    let next = agent.run(&["run", "--continue", "--cognet", "@axon/repl", "20 + 22"]);
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "42\n"), "the next wake works: {next:?}");
}

#[test]
fn an_abort_during_a_stream_ends_the_wake() {
    let agent = Agent::with(&[(
        "model.json",
        r#"{"calls":[{"text":"<text>slowly, slowly, slowly, slowly, slowly</text><done/>","chunk":1,"delay_ms":2000}]}"#,
    )]);
    let script = format!("script:{}", agent.path().join("model.json").display());
    interrupted(&agent, &["run", "--cognet", "@axon/zero", "--engine", &script, "x"], "kernel:engine:start");
}

#[test]
fn an_abort_during_a_block_ends_the_wake_and_records_the_block_as_interrupted() {
    let agent = Agent::empty();
    interrupted(&agent, &["run", "--cognet", "@axon/repl", "for(;;){}"], "capsule:block:start");
    let log = agent.log();
    assert_eq!(of_kind(&log, "cognet:action:result")[0]["data"]["error"]["kind"], "interrupt");
}

#[test]
fn an_abort_during_a_tool_call_ends_the_wake() {
    let agent = Agent::with(&[("axon.toml", "[policy.fs]\nread = [\"/\"]\n")]);
    let code = "await fs.search('no such words anywhere \\\\d{40}', { path: '/usr' }); await fs.search('again \\\\d{50}', { path: '/' })";
    interrupted(&agent, &["run", "--cognet", "@axon/repl", code], "capsule:tool:start");
}

#[test]
fn an_abort_of_a_brain_that_swallows_it_is_enforced() {
    let agent = Agent::with(&[(
        "cognets/deaf.lua",
        "defineCognet { name = \"deaf\", version = \"1\", abi = \"9\" }\nloop(function(wake)\n\tkernel.emit(\"cognet:deaf:begun\")\n\twhile true do pcall(kernel.run, \"await new Promise(() => {})\") end\nend)\n",
    )]);
    let child =
        agent.command(&["run", "x"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    until("the wake", || {
        let log = read_log(agent.sessions().first()?);
        (!of_kind(&log, "capsule:block:start").is_empty()).then_some(())
    });
    signal(child.id(), Signal::TERM);
    let ran = finish(child);
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(of_kind(&agent.log(), "kernel:run:interrupted").len(), 1);
}
