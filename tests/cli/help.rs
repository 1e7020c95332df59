//! What a person is told of the program: help, completions, the manual, `axon doctor`.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::support::{Agent, Ran, axon, finish};

fn run(args: &[&str]) -> Ran {
    finish(
        axon()
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("axon starts"),
    )
}

fn help(command: &[&str]) -> String {
    let ran = run(&[command, &["--help"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{command:?}");
    ran.stdout
}

/// Every command, those of `axon log` included, as its help lists them.
fn commands() -> Vec<Vec<String>> {
    fn listed(help: &str) -> Vec<String> {
        let (_, list) = help.split_once("\nCommands:\n").unwrap_or_default();
        let rows = list.lines().take_while(|row| row.starts_with("  "));
        rows.filter_map(|row| row.split_whitespace().next()).filter(|name| *name != "help").map(str::to_owned).collect()
    }
    let mut all = Vec::new();
    for name in listed(&help(&[])) {
        for inner in listed(&help(&[&name])) {
            all.push(vec![name.clone(), inner]);
        }
        all.push(vec![name]);
    }
    assert!(all.len() > 15, "{all:?}");
    all
}

/// The long flags that a help text shows.
fn flags(help: &str) -> BTreeSet<String> {
    let options = help.split_once("\nOptions:\n").map(|(_, options)| options).unwrap_or_default();
    let rows = options.lines().take_while(|row| row.starts_with(' ') || row.is_empty());
    // Descriptions stand further to the right.
    let named = rows.filter(|row| row.starts_with("  -") || row.starts_with("      --"));
    let flags = named.filter_map(|row| row.split_whitespace().find(|word| word.starts_with("--")));
    flags.map(|flag| flag.split(['[', '=', '.']).next().unwrap_or(flag).to_owned()).collect()
}

#[test]
fn the_help_of_a_command_shows_the_flags_that_mean_something_to_it_and_no_others() {
    let session = ["--cognet", "--continue", "--engine", "--record", "--session"];
    for (command, shows) in [
        (&["run"][..], &[&session[..], &["--agent", "--json"]].concat()[..]),
        (&["chat"], &[&session[..], &["--agent", "--json"]].concat()),
        (&["dev"], &[&session[..], &["--agent", "--headless", "--interrupt", "--json"]].concat()),
        (&["exec"], &["--agent", "--continue", "--json", "--session"]),
        (&["new"], &[]),
        (&["clone"], &["--agent"]),
        (&["scope"], &["--agent", "--dts", "--json"]),
        (&["doctor"], &["--agent", "--cognet", "--engine", "--json"]),
        (&["prepare"], &["--agent", "--cognet", "--engine", "--json"]),
        (&["replay"], &["--agent", "--cognet", "--json", "--strict"]),
        (&["completions"], &[]),
        (&["man"], &[]),
        (&["log"], &["--agent"]),
        (&["log", "list"], &["--agent", "--json"]),
        (&["log", "check"], &["--agent", "--json", "--repair"]),
        (&["log", "flame"], &["--agent", "--all", "--output", "--run"]),
    ] {
        let shown = flags(&help(command));
        let expected: BTreeSet<_> = shows.iter().copied().chain(["--help", "--verbose"]).map(str::to_owned).collect();
        assert_eq!(shown, expected, "axon {}", command.join(" "));
    }
    // Wherever they stand, common flags are taken by every command, as scripts around it may give them to all.
    let agent = Agent::empty();
    let ran = agent.run(&["--engine", "script:none.json", "--cognet", "@axon/echo", "scope", "--session", "s"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// What stands below `Example:` or `Examples:`, a line a command.
fn examples(help: &str) -> Vec<String> {
    let found = help.split_once("\nExample:\n").or_else(|| help.split_once("\nExamples:\n"));
    let (_, examples) = found.unwrap_or_default();
    examples.lines().map_while(|line| line.strip_prefix("  ")).map(str::to_owned).collect()
}

/// Runs a line as a person's shell does, in a folder, with `axon` on the path.
fn shell(line: &str, dir: &Path, home: &Path) -> Ran {
    let program = Path::new(env!("CARGO_BIN_EXE_axon")).parent().expect("a folder").to_owned();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).current_dir(dir).env("PATH", path).env("HOME", home).env("NO_COLOR", "1");
    finish(shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell starts"))
}

#[test]
fn every_help_has_an_example_and_each_of_them_works() {
    let parent = Agent::empty();
    let home = parent.path().join("home");
    fs::create_dir(&home).expect("a folder");
    let made = shell("axon new agent", parent.path(), &home);
    assert_eq!(made.code, Some(0), "{made:?}");
    let agent = parent.path().join("agent");
    assert_eq!(shell("axon run --session first hello", &agent, &home).code, Some(0));
    let mut tried = 0;
    for command in commands() {
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        let lines = examples(&help(&command));
        assert!(!lines.is_empty(), "axon {} --help has no example", command.join(" "));
        for line in lines {
            // It ends when somebody interrupts it, which another test does.
            if line.starts_with("axon log tail") {
                continue;
            }
            tried += 1;
            let ran = shell(&line, &agent, &home);
            assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
        }
    }
    for line in examples(&help(&[])) {
        tried += 1;
        // The first one makes an agent, as the example of `axon new` has.
        let ran = shell(&line.replace("my-agent", "another"), &agent, &home);
        assert_eq!(ran.code, Some(0), "{line}: {ran:?}");
    }
    assert!(tried > 20, "{tried}");
}

#[test]
fn completions_know_every_command_and_are_what_their_shell_can_read() {
    for shell_name in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = run(&["completions", shell_name]);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{shell_name}");
        for command in commands() {
            let name = command.last().expect("a name");
            assert!(ran.stdout.contains(name.as_str()), "{shell_name} has no {command:?}");
        }
    }
    let script = run(&["completions", "bash"]).stdout;
    // What bash offers behind `axon log sh` and `axon --cog`.
    let ask = |words: &[&str]| {
        let line = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={}; _axon axon {:?} ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" "),
            words.len() - 1,
            words.last().expect("a word"),
        );
        Command::new("bash").args(["--norc", "-c", &line]).output().ok()
    };
    // Not every system has bash.
    if let Some(output) = ask(&["axon", "log", "sh"]) {
        assert_eq!(String::from_utf8_lossy(&output.stdout), "show\n", "{output:?}");
        let output = ask(&["axon", "run", "--cog"]).expect("bash");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "--cognet\n", "{output:?}");
    }
    let refused = run(&["completions", "tcsh"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("bash"), "{refused:?}");
}

#[test]
fn the_manual_has_every_command_with_its_flags_and_examples() {
    let ran = run(&["man"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    let page = ran.stdout;
    assert!(page.contains(".TH axon 1") && page.contains(env!("CARGO_PKG_VERSION")), "{:.300}", page);
    let plain = page.replace("\\-", "-");
    for command in commands() {
        let title = format!("\n.SH axon {}\n", command.join(" "));
        let (_, section) = plain.split_once(&title).unwrap_or_else(|| panic!("no section {title:?}"));
        let section = section.split("\n.SH axon ").next().unwrap_or_default();
        let command: Vec<_> = command.iter().map(String::as_str).collect();
        let help = help(&command);
        for flag in flags(&help) {
            assert!(section.contains(&flag), "{flag} of {command:?} in {section}");
        }
        for example in examples(&help) {
            let words = example.split_whitespace().next().expect("a word");
            assert!(section.contains(words), "{example} of {command:?} in {section}");
        }
    }
    assert!(!page.contains("capsule-host"), "what is hidden stays so");
}

fn findings(agent: &Agent, args: &[&str]) -> (Option<i32>, Vec<Value>) {
    let ran = agent.run(&[&["doctor", "--json"], args].concat());
    let list = ran.stdout.lines().next().expect("a line");
    (ran.code, serde_json::from_str::<Vec<Value>>(list).expect("a list"))
}

fn finding<'a>(findings: &'a [Value], what: &str) -> (&'a str, &'a str) {
    let found = findings.iter().find(|finding| finding["what"] == what);
    let found = found.unwrap_or_else(|| panic!("{what} in {findings:?}"));
    (found["health"].as_str().expect("a word"), found["detail"].as_str().expect("a text"))
}

#[test]
fn the_doctor_finds_a_sound_agent_sound_and_says_what_it_runs_on() {
    let agent = Agent::with(&[("axon.toml", "[agent]\nname = \"mine\"\ncognet = \"@axon/echo\"\n")]);
    let (code, list) = findings(&agent, &[]);
    assert_eq!(code, Some(0), "{list:?}");
    assert!(finding(&list, "axon").1.starts_with(env!("CARGO_PKG_VERSION")), "{list:?}");
    let (health, detail) = finding(&list, "capsule");
    assert!(health == "good" && detail.contains("runs TypeScript"), "{list:?}");
    assert!(["good", "absent"].contains(&finding(&list, "sandbox").0), "{list:?}");
    assert!(finding(&list, "agent").1.starts_with("mine in "), "{list:?}");
    assert_eq!(finding(&list, "policy").0, "good");
    assert!(finding(&list, "cognet").1.starts_with("@axon/echo"), "{list:?}");
    assert_eq!(finding(&list, "engine").0, "absent");
    assert!(agent.sessions().is_empty(), "it begins no session");
    let text = agent.run(&["doctor"]);
    assert_eq!((text.code, text.stderr.as_str()), (Some(0), ""), "{text:?}");
    assert!(text.stdout.contains("ok  capsule: ") && text.stdout.contains("--  engine: "), "{text:?}");
}

#[test]
fn the_doctor_tells_of_each_thing_that_does_not_work_and_ends_with_1() {
    let engine = "provider = \"openai\"\nmodel = \"m\"\napi_key_env = \"NO_SUCH_KEY\"\n";
    // A port of the system that nobody listens on: it was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    for (config, args, what, says) in [
        ("[agent\n".to_owned(), &[][..], "agent", "axon.toml:1:"),
        ("[policy.fs]\nread = [\"nowhere\"]\n".to_owned(), &[], "policy", "axon.toml:2:"),
        ("[agent]\ncognet = \"nobody\"\n".to_owned(), &[], "cognet", "nobody"),
        (format!("[engine]\n{engine}"), &[], "key", "NO_SUCH_KEY is not set"),
        (format!("[engine]\n{engine}base_url = \"http://{free}/v1\"\n"), &[], "server", "cannot be reached"),
        (String::new(), &["--engine", "script:none.json"], "engine", "none.json"),
        (String::new(), &["--engine", "opnai:m"], "engine", "did you mean \"openai\"?"),
    ] {
        let agent = Agent::with(&[("axon.toml", &config)]);
        let (code, list) = findings(&agent, args);
        assert_eq!(code, Some(1), "{config}: {list:?}");
        let (health, detail) = finding(&list, what);
        assert!(health == "bad" && detail.contains(says), "{what}: {says}: {list:?}");
        let text = agent.run(&[&["doctor"], args].concat());
        assert!(text.stdout.contains(&format!("!!  {what}: ")), "{text:?}");
        assert!(text.stderr.contains("UNWELL") && text.stderr.contains(what), "{text:?}");
    }
}

#[test]
fn the_doctor_names_what_an_engine_lacks_and_asks_the_providers_own_server_where_no_other_is_named() {
    // Nothing leaves the machine: a proxy that is not there is asked.
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let agent = Agent::with(&[("axon.toml", "[engine]\nprovider = \"openai\"\nmodel = \"m\"\n")]);
    let mut command = agent.command(&["doctor"]);
    command.env("HTTPS_PROXY", format!("http://{free}")).env_remove("NO_PROXY").env_remove("no_proxy");
    let ran = crate::support::finish(
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().expect("axon starts"),
    );
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("!!  engine: ") && ran.stdout.contains("OPENAI_API_KEY is not set"), "{ran:?}");
    assert!(ran.stdout.contains("!!  server: https://api.openai.com/v1 cannot be reached"), "{ran:?}");
    assert!(!ran.stdout.contains("unconfigured"), "{ran:?}");

    let agent = Agent::with(&[("model.json", "{\"calls\":[{\"text\":\"x\"}]}")]);
    let ran = agent.run(&["doctor", "--engine", "script:model.json"]);
    assert!(ran.code == Some(0) && ran.stdout.contains("ok  engine: script in model.json\n"), "{ran:?}");
}

#[test]
fn the_doctor_reaches_a_server_that_answers() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().expect("a client");
        let _ = stream.read(&mut [0; 1024]);
        stream
            .write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .expect("an answer");
    });
    let agent = Agent::with(&[
        (
            "axon.toml",
            &format!(
                "[engine]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"SOME_KEY\"\nbase_url = \"http://{address}/v1\"\n"
            ),
        ),
        (".env", "SOME_KEY=abcdef-secret\n"),
    ]);
    let (code, list) = findings(&agent, &[]);
    server.join().expect("the server ends");
    assert_eq!(code, Some(0), "{list:?}");
    assert_eq!(finding(&list, "server"), ("good", format!("http://{address}/v1 answers").as_str()));
    assert_eq!(finding(&list, "key"), ("good", "SOME_KEY is set"));
    assert!(!list.iter().any(|finding| finding.to_string().contains("abcdef")), "a key is never shown: {list:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    for args in [&["--help"][..], &["--version"], &["log", "--help"], &["man"], &["completions", "bash"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("the full device");
        let mut command = crate::support::axon();
        let ran = crate::support::finish(
            command.args(args).stdout(full).stderr(std::process::Stdio::piped()).spawn().expect("axon starts"),
        );
        assert_eq!(ran.code, Some(1), "{args:?}: {ran:?}");
    }
}
