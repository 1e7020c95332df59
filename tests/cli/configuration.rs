//! What is wrong with `axon.toml` is told with its line, whatever part of it is read when.

use serde_json::Value;

use crate::support::Agent;

/// The failure of `axon prepare --json`.
fn failure(config: &str) -> Value {
    let agent = Agent::with(&[("axon.toml", config)]);
    let ran = agent.run(&["prepare", "--json"]);
    assert_eq!(ran.code, Some(2), "{config}: {ran:?}");
    let object: Value = serde_json::from_str(ran.stdout.lines().last().expect("a last line")).expect("one object");
    object["error"].clone()
}

#[test]
fn a_rule_that_cannot_be_held_is_told_where_it_stands() {
    for (config, code, line, says) in [
        (
            "[policy.fs]\nread = [\".\", \"nowhere\"]\n",
            "POLICY_INVALID",
            2,
            "policy.fs.read: \"nowhere\" does not exist",
        ),
        ("[policy.fs]\nread = [\n\t\".\",\n\t\"nowhere\",\n]\n", "POLICY_INVALID", 4, "nowhere"),
        ("[policy]\nnet = [\"a.b\", \"c:d:e\"]\n", "POLICY_INVALID", 2, "policy.net: \"c:d:e\""),
        ("[policy]\n\nrun = [\"no-such-program\"]\n", "POLICY_INVALID", 3, "policy.run: \"no-such-program\""),
        ("[policy.tools]\n\"*\" = \"ask\"\n\"fs\" = \"deny\"\n", "POLICY_INVALID", 3, "policy.tools: \"fs\""),
        ("[tools.none]\nenv = [\"A\"]\n", "TOOLS_INVALID", 1, "tools/none.ts"),
    ] {
        let error = failure(config);
        assert_eq!((&error["code"], &error["file"]), (&code.into(), &"axon.toml".into()), "{config}: {error}");
        assert_eq!(error["line"], line, "{config}: {error}");
        let message = error["message"].as_str().expect("a text");
        assert!(message.contains(says) && message.contains(&format!("axon.toml:{line}:")), "{message}");
        assert!(message.contains(&format!("\n  {line} | ")), "the line itself: {message}");
    }
}

#[test]
fn what_a_tool_cannot_be_granted_is_told_where_it_stands() {
    let agent = Agent::with(&[
        ("axon.toml", "[tools.say]\nrun = []\n[tools.say.fs]\nread = [\"nowhere\"]\n"),
        ("tools/say.ts", "export function hi(): string { return 'hi' }\n"),
    ]);
    for command in [&["prepare"][..], &["scope"], &["run", "--cognet", "@axon/echo", "x"], &["exec", "-e", "1"]] {
        let ran = agent.run(command);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        for says in ["TOOLS_INVALID", "axon.toml:4:9", "tools.say.fs.read: \"nowhere\" does not exist"] {
            assert!(ran.stderr.contains(says), "{says}: {ran:?}");
        }
    }
}

#[test]
fn a_rule_for_what_can_never_be_a_tool_is_refused_by_every_command_with_the_nearest_name() {
    for (rule, near) in [("fs.raed", "fs.read"), ("process.rnu", "process.run"), ("http.reqest", "http.request")] {
        let agent =
            Agent::with(&[("axon.toml", &format!("[policy.tools]\n\"*\" = \"allow\"\n\"{rule}\" = \"deny\"\n"))]);
        for command in [&["prepare"][..], &["scope"], &["run", "--cognet", "@axon/echo", "x"], &["exec", "-e", "1"]] {
            let ran = agent.run(command);
            assert_eq!(ran.code, Some(2), "{ran:?}");
            for says in ["POLICY_INVALID", "axon.toml:3:", &format!("did you mean \"{near}\"?")] {
                assert!(ran.stderr.contains(says), "{says}: {ran:?}");
            }
        }
        assert!(agent.sessions().is_empty(), "no session is begun for it");
    }
}

#[test]
fn a_rule_for_a_tool_that_is_not_there_yet_is_told_by_prepare_and_is_no_failure() {
    let agent = Agent::with(&[
        (
            "axon.toml",
            "[policy.tools]\n\"proces.run\" = \"ask\"\n\"say.hii\" = \"deny\"\n\"say.hi\" = \"allow\"\n\"github.*\" = \"ask\"\n",
        ),
        ("tools/say.ts", "export function hi(): string { return 'hi' }\n"),
    ]);
    let ran = agent.run(&["prepare", "--cognet", "@axon/echo"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    for says in [
        "axon.toml:2:16: policy.tools: \"proces.run\" names no tool yet: there is no tools/proces.ts; did you mean \"process.run\"?",
        "axon.toml:3:13: policy.tools: \"say.hii\" names no tool yet: tools/say.ts exports no function `hii`; did you mean \"say.hi\"?",
        "axon.toml:5:14: policy.tools: \"github.*\" names no tool yet",
    ] {
        assert!(ran.stderr.contains(says), "{says}: {ran:?}");
    }
    assert_eq!(ran.stderr.matches("warning:").count(), 3, "{ran:?}");
    let ran = agent.run(&["run", "--cognet", "@axon/echo", "x"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
}

#[test]
fn a_file_that_is_no_configuration_is_refused_at_once_however_it_is_made() {
    let deep = "[".repeat(100_000);
    let inner = format!("a = {}", "{ b = ".repeat(30_000));
    let many = "x\n".repeat(50_000);
    let huge = format!("# {}\n", "x".repeat(3_000_000));
    let keys = (0..12_000).map(|n| format!("key{n} = 1\n")).collect::<String>();
    for config in [&deep, &inner, &many, &huge, &keys] {
        let started = std::time::Instant::now();
        let agent = Agent::with(&[("axon.toml", config)]);
        let ran = agent.run(&["run", "--cognet", "@axon/echo", "x"]);
        assert_eq!(ran.code, Some(2), "{:.200}", ran.stderr);
        assert!(ran.stderr.contains("CONFIG_INVALID") && ran.stderr.contains("axon.toml"), "{:.200}", ran.stderr);
        assert!(ran.stderr.len() < 16_000, "{} bytes: {:.200}", ran.stderr.len(), ran.stderr);
        // Far more than it takes, far less than what grows with the square of the file.
        assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    }
}
