//! How a cognet's failure is told: one report, the cognet's own place, no frame of the host.

use serde_json::{Value, json};

use crate::support::{Agent, Ran, of_kind};

const HEAD: &str = "defineCognet { name = \"probe\", version = \"1.0.0\", abi = \"9\" }\n";

/// Lines 2 to 4 are functions, the body is `body` from line 6.
fn failing(body: &str) -> Agent {
    let source = format!(
        "{HEAD}local function inner(t)\n\treturn t.x.y\nend\nloop(function(wake)\n{body}\n\twake.stop()\nend)\n"
    );
    Agent::with(&[("cognets/probe.lua", &source)])
}

fn told(body: &str) -> String {
    let Ran { code, stdout, stderr } = failing(body).run(&["run", "x"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""), "{stderr}");
    stderr
}

#[test]
fn a_failure_shows_place_line_callers_phase_and_tick_and_nothing_twice() {
    let report = told(
        "\tphase(\"think\", function()\n\t\tsystem(\"deep\", function()\n\t\t\tinner({})\n\t\tend)\n\tend)\n\tprint(\"not reached\")",
    );
    assert_eq!(
        report,
        "error: COGNET_RUNTIME: attempt to index nil with 'y'\n\
         \x20 --> cognets/probe.lua:3\n\
         \x20 3 | return t.x.y\n\
         \x20   at cognets/probe.lua:3 in inner\n\
         \x20   at cognets/probe.lua:8\n\
         \x20   at cognets/probe.lua:7\n\
         \x20   at cognets/probe.lua:6\n\
         \x20 in phase \"think\" of tick 1\n"
    );
}

#[test]
fn json_says_the_same_as_the_text_and_as_the_log() {
    let agent = failing("\tphase(\"think\", function()\n\t\tinner({})\n\tend)");
    let ran = agent.run(&["run", "--json", "x"]);
    assert!(ran.stderr.is_empty(), "{ran:?}");
    let last: Value = serde_json::from_str(ran.stdout.lines().last().expect("a last line")).expect("one object");
    let expected = json!({
        "code": "COGNET_RUNTIME",
        "message": "attempt to index nil with 'y'",
        "file": "cognets/probe.lua",
        "line": 3,
        "sourceLine": "return t.x.y",
        "traceback": ["cognets/probe.lua:3 in inner", "cognets/probe.lua:7", "cognets/probe.lua:6"],
        "phase": "think",
        "tick": 1,
    });
    assert_eq!(last, json!({ "error": expected }));

    let log = agent.log();
    let logged = &of_kind(&log, "kernel:run:failed")[0]["data"]["error"];
    for field in ["code", "message", "traceback", "phase", "tick"] {
        assert_eq!(logged[field], expected[field], "{field}");
    }
    assert_eq!(logged["at"], json!({ "file": "cognets/probe.lua", "line": 3, "sourceLine": "return t.x.y" }));
    let phase = &of_kind(&log, "cognet:phase:failed")[0]["data"];
    assert_eq!((&phase["phase"], &phase["error"]["line"]), (&json!("think"), &json!(3)));
}

#[test]
fn no_way_of_failing_shows_a_frame_of_the_host_or_the_same_frame_twice() {
    for (body, says) in [
        ("kernel.output(\"cognet:output:text\", { contnt = \"x\" })", "OUTPUT_INVALID"),
        ("kernel.run(7)", "ARGUMENT_INVALID"),
        ("kernel.run(\"1\", { timeout = 5 })", "UNKNOWN_FIELD"),
        ("require(\"@axon/air\").render({ base = \"\" })", "ARGUMENT_INVALID"),
        ("table.sort({ 3, 2, 1 }, function(a, b) error(\"while sorting\") end)", "while sorting"),
        ("string.gsub(\"x\", \"x\", function() error(\"while replacing\") end)", "while replacing"),
        ("coroutine.wrap(function() error(\"in a coroutine\") end)()", "in a coroutine"),
        ("for _ in setmetatable({}, { __iter = function() error(\"iterating\") end }) do end", "iterating"),
        ("local _ = tostring(setmetatable({}, { __tostring = function() error(\"showing\") end }))", "showing"),
        ("local function r(n) return r(n) + 1 end r(1)", "stack overflow"),
        ("local function a(n) return pcall(a, n) and error(\"deep\") end a(1) error(\"after\")", ""),
        ("local ok, e = pcall(error, \"again\") error(e)", "again"),
        ("error({ code = \"MINE\", message = \"own words\" })", "MINE: own words"),
        ("error()", "nil"),
        ("while true do end", "COGNET_CPU"),
        ("local t = {} while true do t[#t + 1] = { 1, 2, 3 } end", "COGNET_MEMORY"),
    ] {
        let agent = failing(body);
        agent.write("axon.toml", "[cognet]\ncpu_ms = 300\nmemory_mb = 32\n");
        let ran = agent.run(&["run", "x"]);
        assert_eq!(ran.code, Some(1), "{body}: {ran:?}");
        assert!(ran.stderr.contains(says), "{body}: {ran:?}");
        assert_eq!(ran.stderr.matches("error:").count(), 1, "one report: {body}: {ran:?}");
        assert!(ran.stderr.contains("--> cognets/probe.lua:6\n"), "{body}: {ran:?}");
        for never in ["callback error", "stack traceback", "@axon/host", "[C]", "mlua", "panicked"] {
            assert!(!ran.stderr.contains(never), "{never}: {body}: {ran:?}");
        }
        let frames: Vec<_> = ran.stderr.lines().filter(|line| line.starts_with("    at ")).collect();
        assert!(frames.windows(2).all(|pair| pair[0] != pair[1]) && frames.len() <= 16, "{body}: {frames:?}");
    }
}

#[test]
fn a_failure_while_loading_names_the_file_it_is_in() {
    for (files, place) in [
        (
            vec![("src/main.lua", "require(\"./part\")\nloop(print)"), ("src/part.lua", "\nlocal t = nil\nt.x = 1")],
            "src/part.lua:3",
        ),
        (
            vec![("src/main.lua", "loop(print)"), ("plugins/p.lua", "definePlugin(function(ctx) ctx.hook.on() end)")],
            "plugins/p.lua:1",
        ),
        (
            vec![
                ("src/main.lua", "loop(print)"),
                (
                    "plugins/p.lua",
                    "definePlugin(function(ctx)\nctx.hooks.on(\"boot\", function()\nerror(\"no\")\nend)\nend)",
                ),
            ],
            "plugins/p.lua:3",
        ),
        (vec![("src/main.lua", "loop(print)\nlop(print)")], "src/main.lua:2"),
    ] {
        let agent = Agent::with(&[("cognets/probe/cognet.config.lua", &format!("return {HEAD}"))]);
        for (path, text) in files {
            agent.write(&format!("cognets/probe/{path}"), text);
        }
        let ran = agent.run(&["run", "x"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(&format!("--> cognets/probe/{place}\n")), "{place}: {ran:?}");
        let prepared = agent.run(&["prepare"]);
        assert_eq!(prepared.code, Some(2), "{prepared:?}");
        assert!(prepared.stderr.contains(&format!("--> cognets/probe/{place}\n")), "{place}: {prepared:?}");
    }
}
