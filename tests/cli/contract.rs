//! The contract with cognets, on the built binary.

use crate::support::{Agent, of_kind};

fn cognet(body: &str) -> String {
    format!(
        "defineCognet {{ name = \"probe\", version = \"1.0.0\", abi = \"9\" }}\n\
         loop(function(wake)\n\
         \twake.stop()\n\
         \tlocal function say(text) kernel.output(\"cognet:output:text\", {{ content = tostring(text) }}) end\n\
         {body}\n\
         end)\n"
    )
}

fn probe(body: &str) -> crate::support::Ran {
    Agent::with(&[("cognets/probe.lua", &cognet(body))]).run(&["run", "x"])
}

#[test]
fn another_abi_is_refused_naming_both_versions_before_main_runs() {
    let agent = Agent::with(&[
        ("cognets/old/cognet.config.lua", "return defineCognet { name = \"old\", version = \"1.0.0\", abi = \"8\" }"),
        ("cognets/old/src/main.lua", "error(\"main ran\")"),
    ]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("COGNET_ABI_MISMATCH"), "{ran:?}");
    assert!(ran.stderr.contains("\"8\"") && ran.stderr.contains("\"9\""), "{ran:?}");
    assert!(!ran.stderr.contains("main ran"), "{ran:?}");
    let failed = agent.log();
    assert_eq!(of_kind(&failed, "cognet:load:failed")[0]["data"]["error"]["code"], "COGNET_ABI_MISMATCH");
}

#[test]
fn a_syntax_error_names_file_and_line_and_shows_the_line() {
    let agent = Agent::with(&[(
        "cognets/bad.lua",
        "defineCognet { name = \"bad\", version = \"1\", abi = \"9\" }\n\nlocal x = = 2\n",
    )]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    for says in ["COGNET_SYNTAX", "cognets/bad.lua:3", "local x = = 2"] {
        assert!(ran.stderr.contains(says), "{says}: {ran:?}");
    }
    let ran = agent.run(&["run", "--json", "x"]);
    let last = ran.stdout.lines().last().expect("a last line");
    let error: serde_json::Value = serde_json::from_str(last).expect("one object");
    assert_eq!(error["error"]["code"], "COGNET_SYNTAX");
    assert_eq!(error["error"]["line"], 3);
}

#[test]
fn an_error_in_a_wake_fails_it_with_1_and_names_the_cognets_own_line() {
    let agent = Agent::with(&[("cognets/probe.lua", &cognet("local t = nil\nreturn t.x"))]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("cognets/probe.lua:6"), "{ran:?}");
    assert!(!ran.stderr.contains("callback error"), "{ran:?}");
    let log = agent.log();
    assert_eq!(of_kind(&log, "kernel:run:failed").len(), 1);
    assert_eq!(of_kind(&log, "stimulus:text").len(), 1, "a failed wake keeps its stimuli");
}

#[test]
fn what_belongs_to_the_kernel_cannot_be_emitted() {
    for kind in
        ["kernel:run:start", "cognet:action:result", "cognet:output:text", "cognet:load:start", "stimulus:text", "x"]
    {
        let ran = probe(&format!("local ok, e = pcall(kernel.emit, {kind:?}, {{}})\nsay(ok) say(e.code)"));
        assert_eq!(ran.stdout, "false\nCOGNET_EMIT_FORBIDDEN\n", "{kind}: {ran:?}");
    }
    let agent = Agent::with(&[("cognets/probe.lua", &cognet("kernel.emit(\"cognet:memory:kept\", { n = 3 })"))]);
    assert_eq!(agent.run(&["run", "x"]).code, Some(0));
    assert_eq!(of_kind(&agent.log(), "cognet:memory:kept")[0]["data"]["n"], 3);
}

#[test]
fn no_global_of_the_sandbox_reaches_a_file_a_socket_or_a_process() {
    let gone =
        ["io", "loadstring", "load", "dofile", "loadfile", "getfenv", "setfenv", "newproxy", "package", "module"];
    for name in gone {
        let ran = probe(&format!("say(pcall(function() return {name} end))"));
        assert_eq!(ran.stdout, "false\n", "{name} is no global: {ran:?}");
    }
    let fields = [
        ("os", "execute exit getenv remove rename tmpname setlocale"),
        ("debug", "getregistry sethook getupvalue setmetatable getlocal"),
    ];
    for (table, names) in fields {
        for name in names.split(' ') {
            let ran = probe(&format!("say(rawget({table}, {name:?}))"));
            assert_eq!(ran.stdout, "nil\n", "{table}.{name}: {ran:?}");
        }
    }
    let ran = probe(
        "local seen = {}\nfor name in kernel do table.insert(seen, name) end\ntable.sort(seen)\nsay(table.concat(seen, \" \"))",
    );
    assert_eq!(ran.stdout, "base emit output run scope store stream\n", "seven verbs and no eighth: {ran:?}");
}

#[test]
fn an_unknown_verb_names_the_nearest_and_the_seven() {
    let ran = probe("kernel.ouput(\"cognet:output:text\", {})");
    assert_eq!(ran.code, Some(1));
    for says in ["ouput", "output", "stream", "run", "scope", "base", "emit", "store", "cognets/probe.lua:5"] {
        assert!(ran.stderr.contains(says), "{says}: {ran:?}");
    }
}

#[test]
fn a_malformed_output_raises_and_names_the_field() {
    let ran = probe(
        "local ok, e = pcall(kernel.output, \"cognet:output:text\", { contnt = \"x\" })\nsay(e.code) say(e.message)",
    );
    assert!(ran.stdout.starts_with("OUTPUT_INVALID\n") && ran.stdout.contains("contnt"), "{ran:?}");
}

#[test]
fn a_brain_that_never_stops_is_ended_by_its_tick_limit() {
    let source = cognet("").replace("wake.stop()", "").replace("abi = \"9\"", "abi = \"9\", maxTicksPerWake = 3");
    let agent = Agent::with(&[("cognets/probe.lua", &source)]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1));
    let line = 1 + source.lines().position(|line| line.starts_with("loop(")).expect("a loop");
    for told in
        ["COGNET_MAX_TICKS", &format!("--> cognets/probe.lua:{line}\n"), "loop(function", "hint: call wake.stop()"]
    {
        assert!(ran.stderr.contains(told), "{told}: {ran:?}");
    }
    assert_eq!(of_kind(&agent.log(), "cognet:tick:complete").len(), 3);
}

#[test]
fn a_runaway_brain_is_ended_by_its_cpu_limit_even_under_pcall() {
    let agent = Agent::with(&[
        ("axon.toml", "[cognet]\ncpu_ms = 300\n"),
        ("cognets/probe.lua", &cognet("while true do pcall(function() while true do end end) end")),
    ]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("COGNET_CPU"), "{ran:?}");
}

#[test]
fn private_state_lives_on_and_belongs_to_its_cognet() {
    let counter = "local n = (kernel.store.get(\"n\") or 0) + 1\nkernel.store.set(\"n\", n)\nsay(n)";
    let agent = Agent::with(&[
        ("cognets/probe.lua", &cognet(counter)),
        ("cognets/other.lua", &cognet(counter).replace("\"probe\"", "\"other\"")),
    ]);
    for expected in ["1\n", "2\n", "3\n"] {
        assert_eq!(agent.run(&["run", "--cognet", "probe", "x"]).stdout, expected);
    }
    assert_eq!(agent.run(&["run", "--cognet", "other", "x"]).stdout, "1\n");
    std::fs::remove_dir_all(agent.path().join("data/state")).expect("state is a cache");
    assert_eq!(agent.run(&["run", "--cognet", "probe", "x"]).stdout, "1\n");
}

#[test]
fn base_is_the_text_of_boot_md_and_empty_without_it() {
    let agent = Agent::with(&[("cognets/probe.lua", &cognet("say(`[{kernel.base()}]`)"))]);
    assert_eq!(agent.run(&["run", "x"]).stdout, "[]\n");
    agent.write("boot.md", "You are brief.\n");
    assert_eq!(agent.run(&["run", "x"]).stdout, "[You are brief.\n]\n");
}

#[test]
fn a_cold_echo_starts_no_capsule() {
    let agent = Agent::empty();
    let ran = agent.run(&["run", "--cognet", "@axon/echo", "hello"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "hello\n"));
    assert!(of_kind(&agent.log(), "capsule:boot").is_empty());
}

#[test]
fn a_cold_echo_starts_no_process_for_tools_that_were_examined_before() {
    let agent = Agent::empty();
    let run = |session: &str, args: &[&str]| {
        let ran = agent.run(&[&["run", "--session", session], args].concat());
        let log = crate::support::read_log(&agent.path().join(format!("data/sessions/{session}.jsonl")));
        (ran, of_kind(&log, "capsule:boot").len())
    };
    assert_eq!(agent.run(&["new", agent.path().to_str().expect("UTF-8")]).code, Some(0));
    let (ran, boots) = run("new", &["--cognet", "@axon/echo", "x"]);
    assert_eq!((ran.stdout.as_str(), boots), ("x\n", 0), "{ran:?}");
    // What is known of the tools is what they declare: they work.
    let (ran, _) = run("called", &["--cognet", "@axon/repl", "typeof (await folder.overview())"]);
    assert_eq!(ran.stdout, "object\n", "{ran:?}");

    agent.write("tools/folder.ts", "export function other(): number { return 7; }\n");
    let (_, boots) = run("changed", &["--cognet", "@axon/echo", "x"]);
    assert_eq!(boots, 1, "changed files are examined");
    let (ran, _) = run("again", &["--cognet", "@axon/repl", "await folder.other()"]);
    assert_eq!(ran.stdout, "7\n", "{ran:?}");
    for broken in ["", "{}", "{\"of\":1}"] {
        agent.write(".axon/tools.json", broken);
        let (ran, _) = run("broken", &["--cognet", "@axon/repl", "await folder.other()"]);
        assert_eq!(ran.stdout, "7\n", "{broken}: {ran:?}");
    }
    agent.write("tools/folder.ts", "export function other(): = 1\n");
    let (ran, _) = run("wrong", &["--cognet", "@axon/echo", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("tools/folder.ts:1"), "{ran:?}");
}
