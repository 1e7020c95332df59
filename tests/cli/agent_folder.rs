//! Agent folders: made, cloned into, found wanting.

use crate::support::{Agent, axon, finish};
use std::process::Stdio;

const HI: &str = r#"defineCognet { name = "hi", version = "1.0.0", abi = "9" }
loop(function(wake)
	kernel.output("cognet:output:text", { content = "hi, " .. wake.stimuli[1].data.content })
	wake.stop()
end)
"#;

#[test]
fn a_new_agent_runs_at_once_and_a_dropped_in_cognet_runs_beside_it() {
    let parent = Agent::empty();
    let folder = parent.path().join("a");
    let new = finish(
        axon().arg("new").arg(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts"),
    );
    assert_eq!(new.code, Some(0), "{new:?}");

    let ran = parent.run(&["-C", "a", "run", "hello"]);
    assert_ne!(ran.code, Some(0), "a folder given twice is a usage error");
    let run = |args: &[&str]| {
        finish(
            axon()
                .current_dir(&folder)
                .args(args)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("axon starts"),
        )
    };
    let ran = run(&["run", "hello"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("You said \"hello\"") && ran.stdout.contains("boot.md"), "{ran:?}");

    std::fs::write(folder.join("cognets/hi.lua"), HI).expect("a file");
    let ran = run(&["run", "--cognet", "hi", "x"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hi, x\n"), "{ran:?}");
    let ran = run(&["run", "hello"]);
    assert!(ran.stdout.contains("You said"), "the configured cognet stays the default: {ran:?}");
    let ran = run(&["prepare"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let types = std::fs::read_to_string(folder.join(".axon/scope.d.ts")).expect("prepare writes it");
    assert!(types.contains("function overview(path?: string): Promise<Overview>"), "its tool is in scope: {types}");
}

#[test]
fn new_touches_nothing_in_a_folder_that_is_not_empty() {
    let agent = Agent::with(&[("kept.txt", "mine")]);
    let ran = finish(
        axon().arg("new").arg(agent.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts"),
    );
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("not empty"), "{ran:?}");
    assert_eq!(std::fs::read_dir(agent.path()).expect("a folder").count(), 1);
}

#[test]
fn every_bundled_cognet_can_be_cloned_and_its_copy_loads() {
    let agent = Agent::empty();
    for (bundled, name) in [("@axon/zero", "mind"), ("@axon/repl", "calc"), ("@axon/echo", "parrot")] {
        let ran = agent.run(&["clone", bundled, name]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let again = agent.run(&["clone", bundled, name]);
        assert_eq!(again.code, Some(2), "a copy is never overwritten: {again:?}");
    }
    let ran = agent.run(&["prepare"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for name in ["mind", "calc", "parrot"] {
        assert!(ran.stdout.contains(&format!("cognet {name}: loads: {name} ")), "{ran:?}");
    }
    let ran = agent.run(&["run", "--cognet", "parrot", "polly"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "polly\n"), "{ran:?}");
}

#[test]
fn the_only_cognet_of_a_folder_is_the_default_and_a_bare_name_prefers_the_folder() {
    let agent = Agent::with(&[("cognets/hi.lua", HI)]);
    assert_eq!(agent.run(&["run", "x"]).stdout, "hi, x\n");
    agent.write("cognets/echo.lua", &HI.replace("\"hi\"", "\"echo\"").replace("hi, ", "mine: "));
    assert_eq!(agent.run(&["run", "--cognet", "echo", "x"]).stdout, "mine: x\n");
    assert_eq!(agent.run(&["run", "--cognet", "@axon/echo", "x"]).stdout, "x\n");
}

#[test]
fn an_unknown_cognet_is_answered_with_the_nearest_and_all_that_there_are() {
    let agent = Agent::with(&[("cognets/greeter.lua", HI)]);
    let ran = agent.run(&["run", "--cognet", "greter", "x"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("COGNET_NOT_FOUND") && ran.stderr.contains("did you mean \"greeter\"?"), "{ran:?}");
    for escape in ["../greeter", "/etc/passwd", "..", "", "a/b", "@axon/../x"] {
        let ran = agent.run(&["run", "--cognet", escape, "x"]);
        assert_eq!(ran.code, Some(2), "{escape:?} {ran:?}");
    }
}

#[test]
fn an_unknown_key_in_the_configuration_names_its_line_and_the_nearest_match() {
    let agent = Agent::with(&[("axon.toml", "[agent]\nname = \"a\"\n\n[capsule]\ntimout_ms = 5\n")]);
    let ran = agent.run(&["run", "--cognet", "@axon/echo", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("axon.toml:5") && ran.stderr.contains("timeout_ms"), "{ran:?}");

    let ran = agent.run(&["run", "--json", "--cognet", "@axon/echo", "x"]);
    let error: serde_json::Value = serde_json::from_str(ran.stdout.trim()).expect("one object");
    assert_eq!((ran.code, error["error"]["code"].as_str()), (Some(2), Some("CONFIG_INVALID")));
    assert!(ran.stderr.is_empty(), "{ran:?}");
}

#[test]
fn help_and_version_are_answers_and_usage_errors_are_2() {
    let agent = Agent::empty();
    for args in [&["--help"][..], &["--version"], &["run", "--help"], &["exec", "--help"], &["log", "show", "--help"]] {
        let ran = agent.run(args);
        assert_eq!(ran.code, Some(0), "{args:?} {ran:?}");
        assert!(!ran.stdout.is_empty());
    }
    for args in [&["rnu"][..], &["run", "--cogent", "x"], &["exec"], &["--session", "a", "--continue", "chat"]] {
        assert_eq!(agent.run(args).code, Some(2), "{args:?}");
    }
    let ran = agent.run(&["run", "--json", "--cogent", "x"]);
    let error: serde_json::Value = serde_json::from_str(ran.stdout.trim()).expect("one object");
    assert_eq!(error["error"]["code"], "USAGE");
}
