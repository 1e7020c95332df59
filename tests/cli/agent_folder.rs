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
    for generated in
        [".axon/scope.d.ts", ".axon/kernel.d.luau", ".axon/kernel.meta.lua", ".axon/.luaurc", ".axon/lib/air.luau"]
    {
        assert!(folder.join(generated).is_file(), "{generated}");
    }
}

#[test]
fn a_new_agent_comes_with_types_and_settings_for_editors_and_prepare_writes_the_types_anew() {
    let parent = Agent::empty();
    let folder = parent.path().join("a");
    let new = finish(
        axon().arg("new").arg(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts"),
    );
    assert_eq!(new.code, Some(0), "{new:?}");
    let json = |path: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(folder.join(path)).expect("a file");
        serde_json::from_str(&text).expect("JSON")
    };
    let declared = json(".vscode/settings.json")["luau-lsp.types.definitionFiles"]["@axon"].clone();
    let libraries = json(".luaurc")["aliases"]["axon"].clone();
    let stub = json(".luarc.json")["workspace.library"][0].clone();
    for named in [&declared, &libraries, &stub] {
        let path = folder.join(named.as_str().expect("a path"));
        assert!(path.exists(), "{named} is there");
    }
    let declarations = folder.join(declared.as_str().expect("a path"));
    assert!(std::fs::read_to_string(&declarations).expect("a file").contains("declare kernel: {"));

    std::fs::write(&declarations, "old").expect("a file");
    let agent = folder.to_str().expect("a path");
    let prepared = finish(
        axon()
            .args(["-C", agent, "prepare"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("axon starts"),
    );
    assert_eq!(prepared.code, Some(0), "{prepared:?}");
    assert!(std::fs::read_to_string(&declarations).expect("a file").contains("declare kernel: {"));
}

#[test]
fn the_readme_of_a_new_agent_tells_of_the_daily_commands_and_of_files_that_are_there() {
    let parent = Agent::empty();
    let folder = parent.path().join("a");
    let new = finish(
        axon().arg("new").arg(&folder).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts"),
    );
    assert_eq!(new.code, Some(0), "{new:?}");
    let readme = std::fs::read_to_string(folder.join("README.md")).expect("a file");
    for told in ["axon run", "axon chat", "axon dev", "axon prepare", "axon log show", "folder.overview()", "luau-lsp"]
    {
        assert!(readme.contains(told), "{told}");
    }
    let commands: std::collections::BTreeSet<_> =
        readme.split("axon ").skip(1).filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next()).collect();
    for command in commands.into_iter().filter(|command| !command.is_empty()) {
        let ran = parent.run(&[command, "--help"]);
        assert_eq!(ran.code, Some(0), "axon {command}: {ran:?}");
    }
    for named in
        ["cognets/hello.lua", "tools/folder.ts", "boot.md", "axon.toml", ".axon", ".vscode", ".luaurc", ".luarc.json"]
    {
        assert!(readme.contains(named) && folder.join(named).exists(), "{named}");
    }
    let tried = finish(
        axon()
            .arg("-C")
            .arg(&folder)
            .args(["exec", "-e", "await folder.overview()"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("axon starts"),
    );
    assert!(tried.code == Some(0) && tried.stdout.contains("boot.md"), "{tried:?}");
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
fn a_folder_that_holds_no_more_than_what_commands_make_there_becomes_an_agent() {
    let agent = Agent::with(&[("data/sessions/s.jsonl", ""), (".axon/history", "kept\n")]);
    let new = || {
        let mut command = axon();
        command.args(["new", "."]).current_dir(agent.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().expect("axon starts"))
    };
    let ran = new();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(agent.read(".axon/history"), "kept\n");
    assert_eq!(agent.run(&["run", "hello"]).code, Some(0));
    assert_eq!(new().code, Some(2), "now it holds something");
}

#[test]
fn what_is_wrong_in_a_file_of_the_agent_is_told_by_its_path_there_with_the_line() {
    for (file, text, line) in [
        ("axon.toml", "[agent]\nnme = \"x\"\n", "nme = \"x\""),
        ("model.json", "{\"calls\":\n  nonsense\n}", "nonsense"),
        ("tools/t.ts", "\nexport function f(x) { return x; }\n", "export function f(x)"),
        ("cognets/mind.lua", "\nloop(= 1)\n", "loop(= 1)"),
        (".env", "A=1\nno sign\n", ".env:2"),
    ] {
        let agent = Agent::with(&[(file, text)]);
        let mut args = vec!["run", "x"];
        if file == "model.json" {
            args.extend(["--engine", "script:model.json"]);
        }
        let ran = agent.run(&args);
        assert_eq!(ran.code, Some(2), "{file}: {ran:?}");
        assert!(ran.stderr.contains(&format!("{file}:")) && ran.stderr.contains(line), "{file}: {ran:?}");
        assert!(!ran.stderr.contains(agent.path().to_str().expect("a name")), "{file}: {ran:?}");
    }
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

#[test]
fn a_pipe_where_a_file_belongs_is_refused_and_never_waited_for() {
    for place in ["axon.toml", ".env", "boot.md", "data/sessions/s.jsonl", "cognets/hi.lua", "model.json"] {
        let agent = Agent::empty();
        let path = agent.write(place, "");
        std::fs::remove_file(&path).expect("a file");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("a pipe");
        let cognet = if place.starts_with("cognets") { "hi" } else { "@axon/echo" };
        let ran = agent.run(&["run", "--session", "s", "--cognet", cognet, "--engine", "script:model.json", "x"]);
        if place == "model.json" {
            assert_eq!(ran.code, Some(2), "{place}: {ran:?}");
        } else {
            let ran = agent.run(&["run", "--session", "s", "--cognet", cognet, "x"]);
            assert_ne!(ran.code, Some(0), "{place}: {ran:?}");
            assert!(ran.stderr.contains("regular file"), "{place}: {ran:?}");
        }
        assert_ne!(agent.run(&["log", "list"]).code, None);
    }
}

#[test]
fn a_cognet_that_a_link_leads_out_to_is_refused_and_nothing_of_it_is_shown() {
    let agent = Agent::with(&[("cognets/hi.lua", HI), ("outside/secret.lua", HI), ("outside/folder/src/main.lua", HI)]);
    for (link, target) in [("x.lua", "outside/secret.lua"), ("y", "outside/folder"), ("z.lua", "/etc/passwd")] {
        let link = agent.path().join("cognets").join(link);
        std::os::unix::fs::symlink(agent.path().join(target), &link).expect("a link");
        let name = link.file_stem().expect("a name").to_string_lossy().into_owned();
        let ran = agent.run(&["run", "--cognet", &name, "x"]);
        assert_eq!(ran.code, Some(2), "{name}: {ran:?}");
        assert!(ran.stderr.contains("leads out") && !ran.stderr.contains("root:"), "{name}: {ran:?}");
        std::fs::remove_file(link).expect("a link");
    }
    std::os::unix::fs::symlink("hi.lua", agent.path().join("cognets/again.lua")).expect("a link");
    let ran = agent.run(&["run", "--cognet", "again", "x"]);
    assert_eq!(ran.code, Some(0), "a link that stays inside is a cognet: {ran:?}");
}

#[test]
fn two_cognets_of_one_name_are_an_error_and_not_a_choice() {
    let agent = Agent::with(&[("cognets/hi.lua", HI), ("cognets/hi/src/main.lua", HI)]);
    let ran = agent.run(&["run", "--cognet", "hi", "x"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("both there"), "{ran:?}");
}

#[test]
fn what_a_terminal_would_obey_is_shown_in_errors_and_long_lines_are_clipped() {
    let agent = Agent::empty();
    let ran = agent.run(&["run", "--session", "x\u{1b}[31m", "hi"]);
    assert_eq!(ran.code, Some(2));
    assert!(!ran.stderr.contains('\u{1b}'), "{ran:?}");
    agent.write("axon.toml", &format!("[agent]\nname = {}\n", "x".repeat(20_000)));
    let ran = agent.run(&["run", "--cognet", "@axon/echo", "hi"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("axon.toml:2") && ran.stderr.len() < 2_000, "{ran:?}");
}

#[test]
fn a_full_standard_output_is_said_on_standard_error() {
    let agent = Agent::empty();
    for args in [&["run", "--cognet", "@axon/echo", "x"][..], &["run", "--json", "--cognet", "@axon/echo", "x"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let ran = finish(agent.command(args).stdout(full).stderr(Stdio::piped()).spawn().expect("axon starts"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains("standard output"), "{ran:?}");
    }
}
