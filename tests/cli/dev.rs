//! `axon dev`: what is saved is loaded at once, or not at all.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Child, ChildStdin, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

use crate::{
    minds::{REPEATER, SLOW_MODEL, brain, said, slow_brain},
    support::{Agent, finish, kind, of_kind, read_log, until},
};

/// `axon dev --headless` in an agent folder.
struct Dev<'a> {
    agent: &'a Agent,
    child: Child,
    stdin: Option<ChildStdin>,
}

impl<'a> Dev<'a> {
    fn start(agent: &'a Agent, args: &[&str]) -> Self {
        let mut command = agent.command(&[&["dev", "--headless"], args].concat());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
        let stdin = child.stdin.take();
        let dev = Self { agent, child, stdin };
        dev.until("the cognet serves", |log| (!of_kind(log, "cognet:load:complete").is_empty()).then_some(()));
        dev
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("standard input"), "{line}").expect("a line");
    }

    fn log(&self) -> Vec<Value> {
        self.agent.sessions().first().map(|path| read_log(path)).unwrap_or_default()
    }

    fn until<T>(&self, what: &str, mut look: impl FnMut(&[Value]) -> Option<T>) -> T {
        until(what, || look(&self.log()))
    }

    /// Waits until so many of a kind are in the log, and answers the last.
    fn nth(&self, wanted: &str, count: usize) -> Value {
        self.until(wanted, |log| {
            let found = of_kind(log, wanted);
            (found.len() >= count).then(|| found[count - 1].clone())
        })
    }

    fn count(&self, wanted: &str) -> usize {
        of_kind(&self.log(), wanted).len()
    }

    /// What the agent has said so far.
    fn said(&self) -> Vec<String> {
        said(&self.log())
    }

    fn until_said(&self, what: &str) {
        self.until(what, |log| said(log).iter().any(|said| said == what).then_some(()));
    }

    /// Ends the input and waits for the end.
    fn end(mut self) -> crate::support::Ran {
        drop(self.stdin.take());
        finish(self.child)
    }
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis()).expect("ms")
}

#[test]
fn a_save_during_a_wake_lets_it_end_and_what_was_said_meanwhile_is_the_new_brains() {
    let agent = Agent::with(&[("cognets/mind.lua", &slow_brain("old")), ("model.json", SLOW_MODEL)]);
    let script = format!("script:{}", agent.path().join("model.json").display());
    let mut dev = Dev::start(&agent, &["--engine", &script]);
    dev.say("a");
    dev.nth("kernel:engine:start", 1);
    agent.write("cognets/mind.lua", &slow_brain("new"));
    dev.say("b");
    dev.say("c");
    dev.until_said("new:c");
    let ran = dev.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = agent.log();
    assert_eq!(said(&log), ["old:a", "new:b", "new:c"]);
    let seq = |wanted: &str| of_kind(&log, wanted)[0]["time"]["seq"].as_u64().expect("a seq");
    assert!(seq("kernel:run:complete") < seq("axon:reload:complete"), "the wake ended with the brain it began with");
    let reloaded = of_kind(&log, "axon:reload:complete")[0];
    assert_eq!(reloaded["data"]["generation"], 2);
    assert_eq!(reloaded["data"]["changed"], serde_json::json!(["cognets/mind.lua"]));
    assert!(reloaded["data"]["durationMs"].is_u64());
    assert_eq!(of_kind(&log, "system:notice").len(), 1, "one notice");
    assert_eq!(of_kind(&log, "cognet:unload:complete").len(), 2, "the old one's shutdown, and the last one's");
    let line = ran.stderr.lines().find(|line| line.contains("reloaded in")).expect("one line tells");
    assert!(line.contains("ms") && line.contains("cognets/mind.lua"), "{line}");
}

#[test]
fn with_interrupt_a_wake_ends_for_the_new_brain_at_once() {
    let model = SLOW_MODEL.replace("20}", "60000}");
    let agent = Agent::with(&[("cognets/mind.lua", &slow_brain("old")), ("model.json", &model)]);
    let script = format!("script:{}", agent.path().join("model.json").display());
    let mut dev = Dev::start(&agent, &["--interrupt", "--engine", &script]);
    dev.say("a");
    dev.nth("kernel:engine:start", 1);
    agent.write("cognets/mind.lua", &brain("new"));
    dev.nth("kernel:run:interrupted", 1);
    dev.nth("axon:reload:complete", 1);
    dev.say("b");
    dev.until_said("new:b");
    assert_eq!(dev.end().code, Some(0));
}

/// How soon a mistake is told after the save.
const SOON_MS: u64 = 1_000;

/// The CPU that a wake may use: a top level that does not end is told of long before.
const WAKE_CPU_MS: u64 = 5_000;

#[test]
fn what_does_not_load_changes_nothing_and_says_where_it_fails_within_a_second_of_the_save() {
    let good = brain("good");
    let bad = [
        ("cognets/mind.lua", format!("{good}\nlocal = 1\n"), "COGNET_SYNTAX", Some(9)),
        ("cognets/mind.lua", good.replace("abi = \"9\"", "abi = \"8\""), "COGNET_ABI_MISMATCH", Some(1)),
        (
            "cognets/mind.lua",
            "defineCognet { name = \"mind\", version = \"1\", abi = \"9\" }\n".to_owned(),
            "COGNET_NO_LOOP",
            None,
        ),
        ("cognets/mind.lua", format!("{good}loop(function() end)\n"), "COGNET_LOOP_TWICE", Some(8)),
        (
            "cognets/mind.lua",
            format!("{good}definePlugin(function(ctx)\n\tctx.hooks.on(\"boot\", function() error(\"no\") end)\nend)\n"),
            "COGNET_RUNTIME",
            Some(9),
        ),
        ("cognets/mind.lua", format!("{good}while true do end\n"), "COGNET_CPU", Some(8)),
        ("axon.toml", "[cognet]\nmemory = 1\n".to_owned(), "CONFIG_INVALID", Some(2)),
        ("axon.toml", "[policy.fs]\nread = [\"nowhere\"]\n".to_owned(), "POLICY_INVALID", Some(2)),
        ("axon.toml", "[agent]\ncognet = \"nobody\"\n".to_owned(), "COGNET_NOT_FOUND", None),
    ];
    let agent = Agent::with(&[("cognets/mind.lua", &good), ("axon.toml", "")]);
    let mut dev = Dev::start(&agent, &[]);
    // From the save to the entry that tells of it, by the clock of the log.
    let mut times = Vec::new();
    for (n, (file, text, code, line)) in bad.iter().enumerate() {
        let saved = now_ms();
        agent.write(file, text);
        let failed = dev.nth("axon:reload:failed", n + 1);
        let error = &failed["data"]["error"];
        assert_eq!(error["code"], *code, "{failed}");
        if let Some(line) = line {
            assert_eq!(error["at"]["line"], *line, "{failed}");
            assert_eq!(error["at"]["file"], *file, "{failed}");
        }
        times.push((failed["time"]["ms"].as_u64().expect("ms").saturating_sub(saved), *code));
        dev.say(code);
        dev.until_said(&format!("good:{code}"));
        agent.write("axon.toml", "");
        agent.write("cognets/mind.lua", &format!("{good}-- mended {n}\n"));
        dev.nth("axon:reload:complete", n + 1);
    }
    dev.say("end");
    dev.until_said("good:end");
    let ran = dev.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // Each within a second; on a machine that is busy with other things, most of them, and none as late as a wake's CPU limit is.
    times.sort_unstable();
    assert!(times[times.len() / 2].0 < SOON_MS, "{times:?}");
    assert!(times.iter().all(|(took, _)| *took < WAKE_CPU_MS), "{times:?}");
    for place in ["cognets/mind.lua:9", "axon.toml:2:1"] {
        assert!(ran.stderr.contains(place), "{place} in {}", ran.stderr);
    }
}

#[test]
fn an_agent_that_does_not_load_yet_is_waited_for() {
    let agent = Agent::with(&[("cognets/mind.lua", "loop(")]);
    let mut command = agent.command(&["dev", "--headless"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    writeln!(child.stdin.as_mut().expect("a pipe"), "hello").expect("a line");
    until("the failure", || {
        let log = read_log(agent.sessions().first()?);
        (!of_kind(&log, "cognet:load:failed").is_empty()).then_some(())
    });
    agent.write("cognets/mind.lua", &brain("now"));
    until("the answer", || said(&read_log(agent.sessions().first()?)).contains(&"now:hello".to_owned()).then_some(()));
    drop(child.stdin.take());
    let ran = finish(child);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "now:hello\n"), "{ran:?}");
    assert_eq!(agent.sessions().len(), 1, "one session, however often it took");
}

#[test]
fn without_a_terminal_a_wake_that_failed_is_told_by_the_exit_code() {
    let agent = Agent::empty();
    for (args, input, code) in [
        (&["chat", "--cognet", "@axon/zero"][..], "x\n", 1),
        (&["dev", "--headless", "--cognet", "@axon/zero"], "x\n", 1),
        (&["dev", "--headless", "--json", "--cognet", "@axon/zero"], "x\n", 1),
        (&["chat", "--cognet", "@axon/zero"], "", 0),
        (&["chat", "--cognet", "@axon/echo"], "x\ny\n", 0),
    ] {
        let ran = agent.run_with_input(args, input);
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
        if args.contains(&"--json") {
            let last = ran.stdout.lines().last().expect("a line");
            assert!(last.contains("\"WAKES_FAILED\""), "{ran:?}");
        }
    }
}

/// The ways in which editors and other programs save a file.
const WAYS: [fn(&Path, &str); 5] = [
    // In place.
    |path, text| fs::write(path, text).expect("saved"),
    // Truncated first, written later.
    |path, text| {
        let mut file = fs::File::create(path).expect("truncated");
        file.flush().expect("flushed");
        file.write_all(text.as_bytes()).expect("written");
    },
    // Beside it, then renamed over it.
    |path, text| {
        let beside = path.with_extension("tmp~");
        fs::write(&beside, text).expect("written");
        fs::rename(&beside, path).expect("renamed");
    },
    // The old one is moved away first, and a swap file comes and goes.
    |path, text| {
        let swap = path.with_file_name(".mind.lua.swp");
        fs::write(&swap, "swap").expect("written");
        let backup = path.with_extension("lua~");
        let _ = fs::rename(path, &backup);
        fs::write(path, text).expect("written");
        fs::remove_file(&swap).expect("removed");
        let _ = fs::remove_file(&backup);
    },
    // Deleted and made anew.
    |path, text| {
        let _ = fs::remove_file(path);
        fs::write(path, text).expect("written");
    },
];

#[test]
fn however_an_editor_saves_the_new_brain_is_seen() {
    let agent = Agent::with(&[("cognets/mind.lua", &brain("v0"))]);
    let mut dev = Dev::start(&agent, &[]);
    for (n, way) in WAYS.iter().enumerate() {
        way(&agent.path().join("cognets/mind.lua"), &brain(&format!("v{}", n + 1)));
        dev.nth("axon:reload:complete", n + 1);
        dev.say("x");
        dev.until_said(&format!("v{}:x", n + 1));
    }
    assert_eq!(dev.count("axon:reload:failed"), 0);
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_file_that_is_gone_leaves_the_brain_and_its_return_is_seen() {
    let agent = Agent::with(&[("cognets/mind.lua", &brain("first"))]);
    let mut dev = Dev::start(&agent, &[]);
    fs::remove_file(agent.path().join("cognets/mind.lua")).expect("removed");
    let failed = dev.nth("axon:reload:failed", 1);
    assert_eq!(failed["data"]["error"]["code"], "COGNET_NOT_FOUND");
    dev.say("x");
    dev.until_said("first:x");
    agent.write("cognets/mind.lua", &brain("second"));
    dev.nth("axon:reload:complete", 1);
    dev.say("y");
    dev.until_said("second:y");
    assert_eq!(dev.end().code, Some(0));
}

fn folder_brain(dir: &Path, version: &str) {
    fs::create_dir_all(dir.join("src")).expect("a folder");
    fs::write(dir.join("cognet.config.lua"), "return defineCognet { name = \"mind\", version = \"1\", abi = \"9\" }\n")
        .expect("a file");
    fs::write(dir.join("src/version.lua"), format!("return \"{version}\"\n")).expect("a file");
    fs::write(
        dir.join("src/main.lua"),
        "local version = require(\"./version\")\nloop(function(wake)\n\tfor _, stimulus in wake.stimuli do\n\t\tkernel.output(\"cognet:output:text\", { content = version .. \":\" .. stimulus.data.content })\n\tend\n\twake.stop()\nend)\n",
    )
    .expect("a file");
}

#[cfg(unix)]
#[test]
fn a_checkout_and_a_folder_that_is_replaced_by_a_link_are_followed() {
    let agent = Agent::empty();
    let cognets = agent.path().join("cognets");
    let mind = cognets.join("mind");
    folder_brain(&mind, "folder");
    folder_brain(&agent.path().join("elsewhere/mind"), "linked");
    let mut dev = Dev::start(&agent, &[]);
    // As a checkout of another branch does: every file is another one, one after another.
    for file in ["src/version.lua", "src/main.lua", "cognet.config.lua"] {
        let path = mind.join(file);
        let text = fs::read_to_string(&path).expect("a file").replace("folder", "branch");
        fs::remove_file(&path).expect("removed");
        fs::write(&path, text).expect("written");
    }
    dev.nth("axon:reload:complete", 1);
    dev.say("a");
    dev.until_said("branch:a");
    fs::rename(&cognets, agent.path().join("away")).expect("moved");
    std::os::unix::fs::symlink("elsewhere", &cognets).expect("a link");
    dev.nth("axon:reload:complete", 2);
    dev.say("b");
    dev.until_said("linked:b");
    // What is behind the link is watched, too.
    fs::write(agent.path().join("elsewhere/mind/src/version.lua"), "return \"edited\"\n").expect("written");
    dev.nth("axon:reload:complete", 3);
    dev.say("c");
    dev.until_said("edited:c");
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn boot_md_and_the_choice_of_the_cognet_are_reloaded_and_other_cognets_are_not() {
    let reader = brain("x").replace("\"x:\" .. stimulus.data.content", "kernel.base()");
    let agent = Agent::with(&[
        ("cognets/mind.lua", &reader),
        ("cognets/other.lua", &brain("other").replace("mind", "other")),
        ("boot.md", "I am one"),
        ("axon.toml", "[agent]\ncognet = \"mind\"\n"),
    ]);
    let mut dev = Dev::start(&agent, &[]);
    dev.say("x");
    dev.until_said("I am one");
    agent.write("cognets/other.lua", "nothing that loads (");
    agent.write("boot.md", "I am two");
    let reloaded = dev.nth("axon:reload:complete", 1);
    assert!(reloaded["data"]["changed"].as_array().expect("a list").contains(&"boot.md".into()));
    dev.say("x");
    dev.until_said("I am two");
    agent.write("cognets/other.lua", &brain("other").replace("mind", "other"));
    agent.write("axon.toml", "[agent]\ncognet = \"other\"\n");
    dev.nth("axon:reload:complete", 2);
    dev.say("x");
    dev.until_said("other:x");
    assert_eq!(dev.count("axon:reload:failed"), 0);
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_policy_that_is_tightened_while_a_block_runs_denies_its_next_call() {
    let agent = Agent::with(&[("axon.toml", "[policy.fs]\nread = [\".\"]\n"), ("a.txt", "text")]);
    let mut dev = Dev::start(&agent, &["--cognet", "@axon/repl"]);
    dev.say("for (;;) { try { await fs.read('a.txt') } catch (error) { return error.code } await new Promise(next => setTimeout(next, 20)) }");
    dev.nth("capsule:tool:complete", 2);
    agent.write("axon.toml", "[policy.fs]\nread = []\n");
    dev.until_said("POLICY_DENIED");
    let log = dev.log();
    let denied = of_kind(&log, "capsule:policy:denied")[0];
    assert_eq!(of_kind(&log, "cognet:action:typescript").len(), 1, "it was the block that ran");
    assert!(denied["time"]["seq"].as_u64() < of_kind(&log, "cognet:action:result")[0]["time"]["seq"].as_u64());
    // The next block does not see what is no longer granted.
    dev.nth("axon:reload:complete", 1);
    dev.say("typeof fs");
    dev.until_said("undefined");
    assert_eq!(dev.end().code, Some(0));
}

/// What a process holds.
#[cfg(target_os = "linux")]
#[derive(Debug)]
struct Holdings {
    threads: usize,
    brain_threads: usize,
    watches: usize,
    resident_kib: u64,
}

#[cfg(target_os = "linux")]
impl Holdings {
    fn of(pid: u32) -> Self {
        let proc = Path::new("/proc").join(pid.to_string());
        let entries = |name: &str| fs::read_dir(proc.join(name)).expect("a process of ours").flatten();
        let names: Vec<_> =
            entries("task").filter_map(|task| fs::read_to_string(task.path().join("comm")).ok()).collect();
        let watches = entries("fdinfo")
            .filter_map(|info| fs::read_to_string(info.path()).ok())
            .map(|info| info.lines().filter(|line| line.starts_with("inotify ")).count())
            .sum();
        let status = fs::read_to_string(proc.join("status")).expect("a status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
        Self {
            threads: names.len(),
            brain_threads: names.iter().filter(|name| name.trim() == "axon-cognet").count(),
            watches,
            resident_kib: resident.trim().trim_end_matches(" kB").parse().expect("a number"),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_hundred_saves_under_load_lose_no_stimulus_and_leak_nothing() {
    const SAVES: u64 = 200;
    /// Far less than as many brains would take.
    const MAX_GROWTH_KIB: u64 = 64 * 1024;
    let agent = Agent::with(&[("cognets/mind.lua", &brain("v0"))]);
    let mut dev = Dev::start(&agent, &[]);
    let path = agent.path().join("cognets/mind.lua");
    // The first ones fill what is kept for good: the runtime's threads, the allocator's arenas.
    for n in 1..=3 {
        fs::write(&path, brain(&format!("warm{n}"))).expect("saved");
        dev.nth("axon:reload:complete", n);
        dev.say("warm");
        dev.until_said(&format!("warm{n}:warm"));
    }
    let before = Holdings::of(dev.child.id());
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for n in 1..=SAVES {
        let text = match next(4) {
            0 => format!("-- {n}\nloop("),
            1 => brain("bad").replace("abi = \"9\"", &format!("abi = \"{n}\"")),
            _ => brain(&format!("v{n}")),
        };
        let way = usize::try_from(next(5)).expect("small");
        WAYS[way](&path, &text);
        dev.say(&n.to_string());
        // The pace of the saves, from bursts to single ones.
        std::thread::sleep(Duration::from_millis(next(50)));
    }
    fs::write(&path, brain("last")).expect("saved");
    dev.until("the last one serves", |log| {
        let loaded = log
            .iter()
            .rposition(|envelope| kind(envelope) == "cognet:load:complete" && envelope["data"]["version"] == "last")?;
        log[loaded..].iter().any(|envelope| kind(envelope) == "axon:reload:complete").then_some(())
    });
    dev.say("end");
    dev.until_said("last:end");
    let answered: Vec<u64> = dev.said().iter().filter_map(|said| said.split_once(':')?.1.parse().ok()).collect();
    assert_eq!(answered, (1..=SAVES).collect::<Vec<_>>(), "every stimulus was answered, once and in order");
    let log = dev.log();
    let loaded = of_kind(&log, "cognet:load:complete").len();
    assert!(of_kind(&log, "axon:reload:failed").len() > 5, "bad ones were among them");
    assert!(loaded > 10, "{loaded}");
    let after = until("what was needed is given back", || {
        let now = Holdings::of(dev.child.id());
        (now.brain_threads == 0 && now.threads <= before.threads + 1).then_some(now)
    });
    assert_eq!(after.watches, before.watches, "{before:?} {after:?}");
    assert!(after.resident_kib < before.resident_kib + MAX_GROWTH_KIB, "{before:?} {after:?}");
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_changed_tool_file_is_in_scope_of_the_next_block_and_a_broken_one_keeps_the_old() {
    let tool = |body: &str| format!("/** Says. */\n{body}\n");
    let agent = Agent::with(&[("tools/say.ts", &tool("export function one(): string { return 'one' }"))]);
    let mut dev = Dev::start(&agent, &["--cognet", "@axon/repl"]);
    dev.say("await say.one()");
    dev.until_said("one");
    agent.write(
        "tools/say.ts",
        &tool("export function one(): string { return 'uno' }\nexport function two(): string { return 'due' }"),
    );
    dev.nth("axon:reload:complete", 1);
    dev.say("await say.one() + await say.two()");
    dev.until_said("unodue");
    agent.write("tools/say.ts", &tool("export function one(: string {"));
    let failed = dev.nth("axon:reload:failed", 1);
    assert_eq!(failed["data"]["error"]["code"], "TOOLS_INVALID");
    assert!(failed["data"]["error"]["message"].as_str().expect("a text").contains("tools/say.ts:2"), "{failed}");
    dev.say("'still ' + await say.two()");
    dev.until_said("still due");
    let types = fs::read_to_string(agent.path().join(".axon/scope.d.ts")).expect("types");
    assert!(types.contains("two("), "the types have followed: {types}");
    assert_eq!(dev.end().code, Some(0));
}

#[test]
fn a_secret_that_a_reload_brings_is_hidden_in_every_entry_from_then_on() {
    const FIRST: &str = "the-first-s3cret";
    const VALUE: &str = "s3cret-of-the-reload";
    let agent = Agent::with(&[
        ("tools/say.ts", "export function key(): string { return env.NEW_KEY ?? 'none' }\n"),
        ("axon.toml", "[tools.say]\nenv = [\"OLD_KEY\"]\n"),
        (".env", &format!("OLD_KEY={FIRST}\nNEW_KEY={VALUE}\nENGINE_KEY=engine-{VALUE}\n")),
    ]);
    let mut dev = Dev::start(&agent, &["--cognet", "@axon/repl"]);
    dev.say("await say.key()");
    dev.until_said("none");
    // The whole of the session was there before: its log, its capsule, its first brain.
    agent.write(
        "axon.toml",
        "[engine]\nprovider = \"openai\"\nmodel = \"m\"\napi_key_env = \"ENGINE_KEY\"\n[tools.say]\nenv = [\"NEW_KEY\"]\n",
    );
    let reloaded = dev.nth("axon:reload:complete", 1)["time"]["seq"].as_u64();
    dev.say("await say.key()");
    dev.until_said("[NEW_KEY]");
    for (code, says) in [
        (format!("console.log('{VALUE}'); '{}' + '{}' // {VALUE}", &VALUE[..6], &VALUE[6..]), "[NEW_KEY]\n[NEW_KEY]"),
        (format!("({{ '{VALUE}': ['engine-{VALUE}'] }})"), r#"{"[NEW_KEY]":["[ENGINE_KEY]"]}"#),
        (format!("throw new TypeError('{FIRST} {VALUE}')"), "exception: TypeError: [OLD_KEY] [NEW_KEY]"),
    ] {
        dev.say(&code);
        dev.until(says, |log| said(log).iter().any(|said| said.starts_with(says)).then_some(()));
    }
    // A failed reload tells of files that may hold it.
    agent.write("axon.toml", &format!("[policy.fs]\nread = [\"{VALUE}\"]\n"));
    let failed = dev.nth("axon:reload:failed", 1);
    assert!(failed["data"]["error"]["message"].as_str().is_some_and(|text| text.contains("[NEW_KEY]")), "{failed}");
    let log = dev.log();
    assert_eq!(dev.end().code, Some(0));
    let later = log.iter().filter(|envelope| envelope["time"]["seq"].as_u64() > reloaded);
    for envelope in later {
        let text = envelope.to_string();
        assert!(!text.contains(VALUE) && !text.contains(FIRST), "{text}");
    }
}

fn model(lines: &[&str]) -> String {
    let calls: Vec<_> = lines.iter().map(|line| format!("  {{\"text\": \"{line}\"}}")).collect();
    format!("{{\"calls\": [\n{}\n]}}\n", calls.join(",\n"))
}

#[test]
fn the_file_of_the_engine_is_reloaded_and_a_broken_one_keeps_the_old() {
    const CONFIG: &str = "[engine]\nprovider = \"script\"\nscript = \"models/a.json\"\n";
    for configured in [true, false] {
        let agent = Agent::with(&[("cognets/mind.lua", REPEATER), ("models/a.json", &model(&["one", "one again"]))]);
        let script = format!("script:{}", agent.path().join("models/a.json").display());
        let args: &[&str] = if configured { &[] } else { &["--engine", &script] };
        if configured {
            agent.write("axon.toml", CONFIG);
        }
        let mut dev = Dev::start(&agent, args);
        dev.say("a");
        dev.until_said("one");
        agent.write("models/a.json", &model(&["two", "two again", "two and again"]));
        let reloaded = dev.nth("axon:reload:complete", 1);
        assert_eq!(reloaded["data"]["changed"], serde_json::json!(["models/a.json"]));
        dev.say("b");
        dev.until_said("two");
        agent.write("models/a.json", "{\"calls\": [\n  {\"txet\": \"three\"}\n]}\n");
        let failed = dev.nth("axon:reload:failed", 1);
        let error = &failed["data"]["error"];
        assert_eq!((&error["code"], &error["at"]["line"]), (&"ENGINE_INVALID".into(), &2.into()), "{failed}");
        assert_eq!(error["at"]["file"], "models/a.json");
        dev.say("c");
        dev.until_said("two again");
        // Another file of the agent that is saved meanwhile does not bring a broken model to service.
        agent.write("boot.md", "I am one");
        dev.nth("axon:reload:failed", 2);
        agent.write("models/a.json", &model(&["three"]));
        let reloaded = dev.nth("axon:reload:complete", 2);
        assert_eq!(reloaded["data"]["changed"], serde_json::json!(["boot.md", "models/a.json"]));
        dev.say("d");
        dev.until_said("three");
        let ran = dev.end();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("models/a.json:2:"), "{ran:?}");
        assert_eq!(said(&agent.log()), ["one", "two", "two again", "three"]);
    }
}

#[test]
fn an_engine_file_that_is_not_there_yet_is_waited_for_and_a_save_that_changes_nothing_keeps_the_place_in_it() {
    let agent = Agent::with(&[
        ("cognets/mind.lua", REPEATER),
        ("axon.toml", "[engine]\nprovider = \"script\"\nscript = \"model.json\"\n"),
    ]);
    let mut command = agent.command(&["dev", "--headless"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "a").expect("a line");
    let text = model(&["one", "two", "three"]);
    // It is looked for before this is written, or finds it: both are right.
    agent.write("model.json", &text);
    let log = || agent.sessions().first().map(|path| read_log(path)).unwrap_or_default();
    until("the answer", || said(&log()).contains(&"one".to_owned()).then_some(()));
    agent.write("model.json", &text);
    agent.write("boot.md", "I am one");
    until("the reload", || (!of_kind(&log(), "axon:reload:complete").is_empty()).then_some(()));
    writeln!(stdin, "b").expect("a line");
    until("the next answer", || said(&log()).contains(&"two".to_owned()).then_some(()));
    drop(stdin);
    assert_eq!(finish(child).code, Some(0));
}

#[test]
fn a_rule_that_names_no_tool_is_told_with_its_line_and_holds_once_there_is_one() {
    let agent = Agent::with(&[("axon.toml", "[policy.tools]\n\"wether.now\" = \"deny\"\n")]);
    let mut dev = Dev::start(&agent, &["--cognet", "@axon/repl"]);
    agent.write("tools/weather.ts", "export function now(): string { return 'sunny' }\n");
    dev.nth("axon:reload:complete", 1);
    dev.say("await weather.now()");
    dev.until_said("sunny");
    agent.write("axon.toml", "[policy.tools]\n\"weather.now\" = \"deny\"\n");
    dev.nth("axon:reload:complete", 2);
    dev.say("typeof weather");
    dev.until_said("undefined");
    agent.write("axon.toml", "[policy.tools]\n\"fs.raed\" = \"deny\"\n");
    let failed = dev.nth("axon:reload:failed", 1);
    assert_eq!(failed["data"]["error"]["code"], "POLICY_INVALID");
    assert_eq!(failed["data"]["error"]["at"]["line"], 2);
    let ran = dev.end();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: Vec<_> = ran.stderr.lines().filter(|line| line.contains("names no tool yet")).collect();
    assert_eq!(told.len(), 2, "when it starts, and when the tools have changed: {told:?}");
    assert!(told[0].contains("axon.toml:2:") && told[1].contains("did you mean \"weather.now\"?"), "{told:?}");
}
