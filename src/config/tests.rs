use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::log::Fsync;

fn parse(source: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("my-agent"), source)
}

fn fails(source: &str) -> String {
    match parse(source) {
        Ok(config) => panic!("accepted: {config:?}"),
        Err(error) => error.to_string(),
    }
}

/// The keys as the documents show them, with or without the lines that are only examples.
fn documented(take: fn(&str) -> bool) -> String {
    let document = include_str!("../../docs/configuration.md");
    let (_, rest) = document.split_once("```toml\n").expect("a block of toml");
    let (block, _) = rest.split_once("```").expect("its end");
    block.lines().filter(|line| take(line)).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn the_documented_defaults_are_the_defaults() {
    let shown = parse(&documented(|line| !line.contains("# e.g."))).unwrap();
    assert_eq!(shown, Config::defaults(Path::new("my-agent")));
}

#[test]
fn the_documented_examples_are_accepted() {
    let config = parse(&documented(|_| true)).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.engine.provider, Some(Provider::OpenAi));
    assert_eq!(config.policy.tools, [("fs.write".to_owned(), Rule::Allow)]);
}

#[test]
fn a_new_agent_and_its_tool_may_read_its_folder_and_nothing_else() {
    let config = parse(include_str!("../cli/new_agent/axon.toml")).unwrap();
    let mut expected = Config::defaults(Path::new("my-agent"));
    expected.agent.cognet = Some("hello".into());
    expected.policy.fs.read = vec![".".into()];
    let grants = ToolGrants { fs: FsPolicy { read: vec![".".into()], ..FsPolicy::default() }, ..ToolGrants::default() };
    expected.tools.insert("folder".into(), grants);
    assert_eq!(config, expected);
}

#[test]
fn a_folder_without_a_file_has_the_defaults_and_its_own_name() {
    let dir = TempDir::new().unwrap();
    let agent = dir.path().join("helper");
    std::fs::create_dir(&agent).unwrap();
    let config = Config::load(&agent).unwrap();
    assert_eq!(config.agent.name, "helper");
    assert_eq!(config.session.fsync, Fsync::Wake);
    std::fs::write(agent.join(CONFIG_FILE), "[session]\nfsync = \"always\"").unwrap();
    assert_eq!(Config::load(&agent).unwrap().session.fsync, Fsync::Always);
}

#[test]
fn every_key_is_read() {
    let config = parse(
        r#"
        [agent]
        name = "a"
        cognet = "zero"
        [cognet]
        memory_mb = 1
        cpu_ms = 2
        tick_ms = 3
        wake_on = ["stimulus:text", "stimulus:field"]
        [engine]
        provider = "openai"
        model = "m"
        base_url = "http://127.0.0.1:1/v1"
        api_key_env = "K"
        script = "s.json"
        recording = "r.jsonl"
        timeout_ms = { connect = 4, first_token = 5, silence = 6 }
        headers = { "X-A" = "b" }
        price = { input = 1, output = 2.5 }
        [capsule]
        timeout_ms = 7
        total_timeout_ms = 8
        memory_mb = 9
        max_output_bytes = 65_537
        max_source_bytes = 10
        max_concurrent_blocks = 11
        max_tool_calls = 0
        [policy]
        net = ["*.example.com:8443"]
        run = ["git"]
        fs.read = ["."]
        fs.write = ["work"]
        [policy.tools]
        "process.run" = "ask"
        "fs.*" = "deny"
        "a.b" = "allow"
        [tools.weather]
        net = ["w"]
        run = ["r"]
        env = ["E"]
        fs = { read = ["x"] }
        [session]
        fsync = "never"
        "#,
    )
    .unwrap_or_else(|error| panic!("{error}"));
    let strings = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        config,
        Config {
            agent: AgentConfig { name: "a".into(), cognet: Some("zero".into()) },
            cognet: CognetConfig {
                memory_mb: 1,
                cpu_ms: 2,
                tick_ms: 3,
                wake_on: Some(strings(&["stimulus:text", "stimulus:field"])),
            },
            engine: EngineConfig {
                provider: Some(Provider::OpenAi),
                model: Some("m".into()),
                base_url: Some("http://127.0.0.1:1/v1".into()),
                api_key_env: Some("K".into()),
                script: Some("s.json".into()),
                recording: Some("r.jsonl".into()),
                timeouts: EngineTimeouts { connect_ms: 4, first_token_ms: 5, silence_ms: 6 },
                headers: [("X-A".to_owned(), "b".to_owned())].into(),
                price: Some(Price { input: 1.0, output: 2.5 }),
            },
            capsule: CapsuleConfig {
                timeout_ms: 7,
                total_timeout_ms: 8,
                memory_mb: 9,
                max_output_bytes: 65_537,
                max_source_bytes: 10,
                max_concurrent_blocks: 11,
                max_tool_calls: 0,
            },
            policy: PolicyConfig {
                net: strings(&["*.example.com:8443"]),
                run: strings(&["git"]),
                fs: FsPolicy { read: strings(&["."]), write: strings(&["work"]) },
                tools: vec![
                    ("process.run".into(), Rule::Ask),
                    ("fs.*".into(), Rule::Deny),
                    ("a.b".into(), Rule::Allow),
                ],
            },
            tools: [(
                "weather".to_owned(),
                ToolGrants {
                    net: strings(&["w"]),
                    run: strings(&["r"]),
                    fs: FsPolicy { read: strings(&["x"]), write: vec![] },
                    env: strings(&["E"]),
                },
            )]
            .into(),
            session: SessionConfig { fsync: Fsync::Never },
        }
    );
}

#[test]
fn an_unknown_key_is_told_with_its_line_its_neighbour_and_what_is_accepted() {
    assert_eq!(
        fails("[cognet]\n\tmemry_mb = 300\n"),
        "axon.toml:2:2: unknown key `memry_mb` in [cognet]\n  \
           2 | \tmemry_mb = 300\n    \
             | \t^^^^^^^^\n  \
           did you mean `memory_mb`? accepted keys: memory_mb, cpu_ms, tick_ms, wake_on"
    );
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = fails(
        "[polcy]\n[session]\nfsync = \"weke\"\n[engine]\ntimeout_ms = { conect = 1 }\nmodel = 5\n[capsule]\nmemory_mb = 1\n",
    );
    let heads: Vec<&str> = text.lines().filter(|line| line.starts_with("axon.toml")).collect();
    assert_eq!(
        heads,
        [
            "axon.toml:1:2: unknown key `polcy`",
            "axon.toml:3:9: `session.fsync` cannot be \"weke\"",
            "axon.toml:5:16: unknown key `conect` in [engine.timeout_ms]",
            "axon.toml:6:9: `engine.model` must be a text in quotes, not a whole number",
            "axon.toml:8:13: `capsule.memory_mb` must be from 8 to 65536, not 1",
        ]
    );
    assert!(text.contains("did you mean `policy`?"), "{text}");
    assert!(text.contains("did you mean `wake`? accepted values: always, wake, never"), "{text}");
}

#[test]
fn wrong_types_and_values_are_refused() {
    for (source, message) in [
        ("agent = 1", "`agent` must be a table, not a whole number"),
        ("[policy]\nnet = \"x\"", "`policy.net` must be a list of texts, as in [\"a\", \"b\"], not a text"),
        ("[policy]\nnet = [1]", "`policy.net` must be a text in quotes, not a whole number"),
        ("[policy]\nnet = [\"https://a.b/c\"]", "name the host alone"),
        ("[policy.fs]\nread = [\"\"]", "an empty text allows nothing"),
        ("[policy.tools]\n\"fs.*\" = \"alow\"", "`policy.tools.fs.*` cannot be \"alow\""),
        ("[cognet]\ncpu_ms = -1", "`cognet.cpu_ms` must be from 1 to 86400000, not -1"),
        ("[cognet]\ncpu_ms = 1.5", "`cognet.cpu_ms` must be a whole number, not a number with a fraction"),
        ("[cognet]\ncpu_ms = 99999999999999999999999999999999999999999", "`cognet.cpu_ms` must be from"),
        ("[cognet]\nwake_on = [\"text\"]", "`text` is no type of stimulus"),
        ("[engine]\nbase_url = \"localhost\"", "`localhost` is no address"),
        ("[engine]\nprice = { input = -1 }", "`engine.price.input` must be a number that is not negative"),
        ("[engine]\nheaders = { a = 1 }", "`engine.headers.a` must be a text in quotes"),
        ("[engine]\nprovider = \"opnai\"", "`engine.provider` cannot be \"opnai\""),
        ("[tools]\nweather = 1", "`tools.weather` must be a table"),
        ("[tools.w]\nenv = [\"a b\"]", "`a b` is no name of a variable"),
        ("[cognet\n", "not TOML: "),
        ("a = 1\na = 2", "a is in line 1 already"),
    ] {
        let text = fails(source);
        assert!(text.contains(message), "{source}\n{text}");
        assert!(text.starts_with("axon.toml:"), "{text}");
    }
}

#[test]
fn a_key_that_was_pasted_is_not_repeated() {
    for source in ["[engine]\napi_key_env = \"sk-proj-123\"", "[engine]\napi_key = \"sk-proj-123\""] {
        let text = fails(source);
        assert!(!text.contains("sk-proj"), "{text}");
        assert!(text.contains("axon.toml:2:1: ") && text.contains("api_key_env"), "{text}");
    }
}

#[test]
fn columns_count_characters() {
    let text = fails("agent = { name = \"äöü\", nme = 1 }");
    assert!(text.contains("axon.toml:1:25: unknown key `nme` in [agent]"), "{text}");
}

#[test]
fn a_mistake_that_shows_later_is_told_at_its_place() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join(CONFIG_FILE), "[policy.fs]\nread = [\".\",\n  \"wrok\"]\n").unwrap();
    let at = |keys: &[&str], item| {
        let error = ConfigError::at(dir.path(), keys, item, "no such folder".into());
        error.problems[0].place.clone().map(|place| (place.line, place.column, place.width))
    };
    assert_eq!(at(&["policy", "fs", "read"], Some("wrok")), Some((3, 3, 6)));
    assert_eq!(at(&["policy", "fs", "read"], None), Some((2, 8, 5)));
    assert_eq!(at(&["policy", "run"], Some("git")), None);
}
