//! The brains of docs/cookbook.md, each doing what it is for.

use std::{fs, io::Write, path::Path, process::Stdio};

use crate::support::{Agent, Ran, finish, of_kind, read_log, until};

/// A copy of the agent of the cookbook.
fn kitchen() -> Agent {
    let agent = Agent::empty();
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/cookbook"), agent.path());
    agent
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_owned();
        match path.is_dir() {
            // What somebody's runs have left there is not part of it.
            true if name == "data" || name == ".axon" => {}
            true => copy(&path, &to.join(name)),
            false => {
                fs::copy(&path, to.join(name)).expect("a copy");
            }
        }
    }
}

fn ask(agent: &Agent, cognet: &str, text: &str) -> String {
    let engine = format!("script:models/{cognet}.json");
    let Ran { code, stdout, stderr } = agent.run(&["run", "--cognet", cognet, "--engine", &engine, text]);
    assert_eq!(code, Some(0), "{stderr}");
    stdout
}

#[test]
fn code_that_the_reviewer_does_not_pass_is_written_again_and_never_run() {
    let agent = kitchen();
    assert_eq!(ask(&agent, "critique", "sort 3, 10, 2"), "2, 3, 10\n");
    let log = agent.log();
    let blocks = of_kind(&log, "cognet:action:typescript");
    assert_eq!(blocks.len(), 1);
    assert!(blocks[0]["data"]["content"].as_str().expect("code").contains("a - b"));
    assert_eq!(of_kind(&log, "cognet:critique:verdict").len(), 2);
}

#[test]
fn easy_questions_stay_with_the_small_model_and_hard_ones_go_to_the_large() {
    let agent = kitchen();
    let engine = "script:models/two_engines.json";
    let ran = agent.run_with_input(
        &["chat", "--cognet", "two_engines", "--engine", engine],
        "What is the capital of France?\nWhy is this theorem true?\n",
    );
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "Paris. (small)\nIt follows from compactness. (large)\n"),
        "{ran:?}"
    );
    let log = agent.log();
    let models: Vec<_> =
        of_kind(&log, "kernel:engine:start").iter().map(|start| start["data"]["model"].clone()).collect();
    assert_eq!(models, ["small", "small", "small", "large"]);
}

#[test]
fn nothing_runs_before_a_yes_and_the_proposal_waits_across_processes() {
    let agent = kitchen();
    let proposed = ask(&agent, "approval", "what is 19 + 23?");
    assert!(proposed.contains("19 + 23") && proposed.ends_with("yes or no?\n"), "{proposed}");
    assert_eq!(ask(&agent, "approval", "yes"), "42\n");
    assert!(ask(&agent, "approval", "again").ends_with("yes or no?\n"), "one yes runs one block");
    assert_eq!(ask(&agent, "approval", "no"), "Then not.\n");
    let blocks = |path: &std::path::PathBuf| of_kind(&read_log(path), "cognet:action:typescript").len();
    assert_eq!(agent.sessions().iter().map(blocks).sum::<usize>(), 1);
}

#[test]
fn what_is_old_becomes_a_summary_that_the_model_is_shown() {
    let agent = kitchen();
    let engine = "script:models/summary.json";
    let ran = agent
        .run_with_input(&["chat", "--cognet", "summary", "--engine", engine], "I am Ada.\nI like tea.\nWho am I?\n");
    let said = "Hello Ada.\nNoted.\nYou are Ada, and you like tea.\n";
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), said), "{ran:?}");
    let log = agent.log();
    let asked = of_kind(&log, "kernel:engine:input");
    let last = asked.last().expect("a request")["data"]["messages"].to_string();
    assert!(last.contains("The user is Ada. She likes tea.") && !last.contains("I am Ada."), "{last}");
}

#[test]
fn the_sensor_says_what_has_changed_and_listens_to_words() {
    let agent = kitchen();
    let mut command = agent.command(&["chat", "--cognet", "sensor"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let said = |kind: &str, count: usize| {
        until(kind, || {
            let log = read_log(agent.sessions().first()?);
            (of_kind(&log, kind).len() >= count).then_some(())
        });
    };
    said("cognet:output:field", 1);
    agent.write("reading.txt", "25");
    said("cognet:output:field", 2);
    stdin.write_all(b"limit 20\n").expect("a line");
    said("cognet:output:text", 1);
    drop(stdin);
    let ran = finish(child);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(ran.stdout, "21 °C\n25 °C\n25 °C\nToo warm: 25 °C, the limit is 20.\n", "{ran:?}");
}
