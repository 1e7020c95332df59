//! Continuous cognets, and which stimuli wake one that is not.

use std::{
    io::Write,
    process::{Child, ChildStdin, Stdio},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::{
    interrupt::signal,
    support::{Agent, finish, kind, of_kind, read_log, until},
};

/// A brain that says what it was handed, beat by beat.
fn sensor(body: &str) -> Agent {
    let source = format!(
        "defineCognet {{ name = \"sensor\", version = \"1.0.0\", abi = \"9\", mode = {{ kind = \"continuous\" }} }}\n\
         definePlugin(function(ctx) ctx.hooks.on(\"shutdown\", function() kernel.emit(\"cognet:sensor:bye\") end) end)\n\
         local beat = 0\n\
         loop(function(wake)\n\
         \tbeat += 1\n\
         \tfor _, stimulus in wake.stimuli do kernel.output(\"cognet:output:text\", {{ content = `heard {{stimulus.data.content}}` }}) end\n\
         {body}\n\
         \twake.stop()\n\
         end)\n"
    );
    Agent::with(&[("axon.toml", "[cognet]\ntick_ms = 20\n"), ("cognets/sensor.lua", &source)])
}

fn chat(agent: &Agent) -> (Child, ChildStdin) {
    let mut command = agent.command(&["chat"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("axon starts");
    let stdin = child.stdin.take().expect("a pipe");
    (child, stdin)
}

/// The only session's log, once it holds as many envelopes of a type.
fn until_logged(agent: &Agent, wanted: &str, count: usize) -> Vec<Value> {
    until(&format!("{count} times {wanted}"), || {
        let log = read_log(agent.sessions().first()?);
        (of_kind(&log, wanted).len() >= count).then_some(log)
    })
}

#[test]
fn beats_wake_it_whether_or_not_anything_arrived_and_what_is_typed_is_in_the_next_one() {
    let agent = sensor("");
    let (child, mut stdin) = chat(&agent);
    let log = until_logged(&agent, "kernel:run:complete", 3);
    assert!(of_kind(&log, "kernel:run:start").iter().all(|start| start["data"]["stimuli"] == 0), "{log:?}");
    stdin.write_all(b"cold\n").expect("a line");
    let log = until_logged(&agent, "cognet:output:text", 1);
    let with: Vec<_> =
        of_kind(&log, "kernel:run:start").into_iter().filter(|start| start["data"]["stimuli"] == 1).collect();
    assert_eq!(with.len(), 1, "one wake was handed the line");
    drop(stdin);
    let ran = finish(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "heard cold\n"), "{ran:?}");
    assert_eq!(of_kind(&agent.log(), "cognet:sensor:bye").len(), 1);
}

#[test]
fn a_wake_that_still_runs_is_not_overlapped_and_the_missed_beats_are_counted() {
    let agent = sensor("\tif beat == 2 then kernel.run(\"await new Promise(done => setTimeout(done, 300))\") end");
    let (child, stdin) = chat(&agent);
    let log = until_logged(&agent, "kernel:run:complete", 3);
    drop(stdin);
    assert_eq!(finish(child).code, Some(0));
    let runs: Vec<_> = log.iter().map(kind).filter(|kind| kind.starts_with("kernel:run:")).collect();
    for pair in runs.chunks(2) {
        assert_eq!(pair[0], "kernel:run:start", "{runs:?}");
        assert!(pair.len() < 2 || pair[1] == "kernel:run:complete", "{runs:?}");
    }
    let starts = of_kind(&log, "kernel:run:start");
    assert!(starts[0]["data"].get("missed").is_none(), "nothing was missed before the first");
    let missed = starts[2]["data"]["missed"].as_u64().expect("the third wake tells what was missed");
    assert!(missed >= 10, "the block took 300 ms at a period of 20: {missed}");
}

#[test]
fn what_is_typed_during_a_wake_is_in_the_next_ones_stimuli() {
    let agent = sensor("\tif beat == 1 then kernel.run(\"await new Promise(done => setTimeout(done, 500))\") end");
    let (child, mut stdin) = chat(&agent);
    until_logged(&agent, "capsule:block:start", 1);
    stdin.write_all(b"meanwhile\n").expect("a line");
    let log = until_logged(&agent, "stimulus:text", 1);
    assert!(of_kind(&log, "kernel:run:complete").is_empty(), "it is admitted while the wake runs");
    until_logged(&agent, "cognet:output:text", 1);
    drop(stdin);
    assert_eq!(finish(child).code, Some(0));
    let log = agent.log();
    let starts = of_kind(&log, "kernel:run:start");
    assert_eq!((&starts[0]["data"]["stimuli"], &starts[1]["data"]["stimuli"]), (&0.into(), &1.into()));
    assert!(of_kind(&log, "stimulus:text")[0]["context"].get("runId").is_none(), "a stimulus belongs to no wake");
}

#[test]
fn a_failed_beat_is_told_and_the_next_one_comes() {
    let agent = sensor("\tif beat == 1 then error(\"the sensor is dirty\") end");
    let (child, stdin) = chat(&agent);
    until_logged(&agent, "kernel:run:complete", 1);
    drop(stdin);
    let ran = finish(child);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("the sensor is dirty") && ran.stderr.contains("cognets/sensor.lua:7"), "{ran:?}");
    assert_eq!(of_kind(&agent.log(), "kernel:run:failed").len(), 1);
}

#[test]
fn ctrl_c_leaves_between_two_beats_and_during_one() {
    for (body, begun) in [
        ("", "kernel:run:complete"),
        ("\tkernel.run(\"await new Promise(() => {})\", { signal = wake.signal })", "capsule:block:start"),
    ] {
        let agent = sensor(body);
        let (child, stdin) = chat(&agent);
        until_logged(&agent, begun, 1);
        signal(child.id(), Signal::INT);
        let ran = finish(child);
        drop(stdin);
        assert_eq!(ran.code, Some(130), "{ran:?}");
        let log = agent.log();
        assert_eq!(of_kind(&log, "cognet:sensor:bye").len(), 1, "the shutdown hooks have run");
        let started = of_kind(&log, "kernel:run:start").len();
        let ended = log.iter().filter(|envelope| kind(envelope).starts_with("kernel:run:")).count() - started;
        assert_eq!(started, ended, "every wake has its end in the log");
    }
}

#[test]
fn run_is_one_beat_with_the_stimulus_in_it() {
    let agent = sensor("");
    let ran = agent.run(&["run", "hot"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "heard hot\n"), "{ran:?}");
    assert_eq!(of_kind(&agent.log(), "kernel:run:start").len(), 1);
}

#[test]
fn a_stimulus_that_does_not_wake_is_in_the_next_wakes_diff_and_the_configuration_has_the_last_word() {
    let source = "defineCognet { name = \"picky\", version = \"1\", abi = \"9\", wakeOn = { \"stimulus:field\" } }\n\
                  loop(function(wake)\n\
                  \tfor _, s in wake.stimuli do kernel.output(\"cognet:output:text\", { content = s.data.content }) end\n\
                  \twake.stop()\n\
                  end)\n";
    let agent = Agent::with(&[("cognets/picky.lua", source)]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("COGNET_DEAF"), "{ran:?}");

    let ran = agent.run_with_input(&["chat", "--session", "s"], "first\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    let log = read_log(&agent.path().join("data/sessions/s.jsonl"));
    assert_eq!(of_kind(&log, "stimulus:text").len(), 1, "it is admitted all the same");
    assert!(of_kind(&log, "kernel:run:start").is_empty());

    agent.write("axon.toml", "[cognet]\nwake_on = [\"stimulus:text\"]\n");
    let ran = agent.run(&["run", "--session", "s", "second"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "first\nsecond\n"), "{ran:?}");
}
