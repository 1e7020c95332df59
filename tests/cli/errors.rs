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

#[test]
fn a_bundled_cognets_failure_names_its_file_as_people_call_the_cognet() {
    let agent = Agent::with(&[("axon.toml", "[agent]\ncognet = \"@axon/zero\"\n")]);
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1), "no model to ask: {ran:?}");
    assert!(ran.stderr.contains("--> @axon/zero/src/main.lua:"), "{ran:?}");
    assert!(!ran.stderr.contains("cognets/"), "{ran:?}");
    let ran = agent.run(&["run", "--json=all", "x"]);
    let error: Value = serde_json::from_str(ran.stdout.lines().last().expect("a last line")).expect("one object");
    assert_eq!(error["error"]["file"], "@axon/zero/src/main.lua");
    assert!(!ran.stdout.contains("cognets/zero"), "{ran:?}");
    let sessions = agent.sessions();
    let text = std::fs::read_to_string(&sessions[0]).expect("a session");
    assert!(text.contains("\"file\":\"@axon/zero/src/main.lua\"") && !text.contains("cognets/zero"), "{text}");
    // A copy is a file of the agent's own.
    assert_eq!(agent.run(&["clone", "@axon/zero", "mind"]).code, Some(0));
    let ran = agent.run(&["run", "--cognet", "mind", "x"]);
    assert!(ran.stderr.contains("--> cognets/mind/src/main.lua:"), "{ran:?}");
}

#[test]
fn a_watcher_that_never_ends_is_told_with_the_cognets_own_line() {
    let agent = failing(
        "\tworld.watch(\"n\", function(e, value)\n\t\tworld.set(e, \"n\", value + 1)\n\tend)\n\tworld.spawn { n = 1 }",
    );
    let ran = agent.run(&["run", "x"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("--> cognets/probe.lua:7\n"), "{:.2000}", ran.stderr);
    assert!(!ran.stderr.contains("@axon/host"), "{:.2000}", ran.stderr);
}

#[test]
fn what_befalls_the_vm_within_a_call_of_the_host_is_told_as_such_and_cannot_be_caught() {
    let text = "\tlocal text = \"[\" .. string.rep(\"[],\", 20000) .. \"1]\"\n\tlocal kept = {}\n";
    for (body, says) in [
        (
            "while true do pcall(function() table.insert(kept, require(\"@axon/json\").decode(text)) end) end",
            "COGNET_MEMORY: ",
        ),
        (
            "kernel.store.set(\"k\", require(\"@axon/json\").decode(text)) while true do pcall(function() table.insert(kept, kernel.store.get(\"k\")) end) end",
            "COGNET_MEMORY: ",
        ),
        (
            "while true do pcall(function() table.insert(kept, kernel.run(\"new Array(20000).fill([])\")) end) end",
            "COGNET_MEMORY: ",
        ),
        ("local function r(n) if n > 19900 then print(n) end return r(n + 1) + 1 end r(1)", "stack overflow"),
        (
            "local function r(n) if n > 19900 then world.spawn { n = n } end return r(n + 1) + 1 end r(1)",
            "stack overflow",
        ),
    ] {
        let agent = failing(&format!("{text}\t{body}"));
        agent.write("axon.toml", "[cognet]\ncpu_ms = 30000\nmemory_mb = 24\n");
        let ran = agent.run(&["run", "x"]);
        assert_eq!(ran.code, Some(1), "{body}: {ran:?}");
        assert!(ran.stderr.contains(says) && ran.stderr.contains("--> cognets/probe.lua:8\n"), "{body}: {ran:?}");
    }
}

#[test]
fn what_is_printed_is_readable_and_never_an_address() {
    let source = format!(
        "{HEAD}local json = require(\"@axon/json\")\nlocal cycle = {{}}\ncycle.me = cycle\nloop(function(wake)\n\twake.stop()\n\
         \tprint({{ a = 1, b = {{ \"x\", true }} }}, \"plain\", 2.5, nil)\n\
         \tprint(kernel, kernel.store, kernel.store.session, wake, wake.signal, world, json)\n\
         \tprint(print, coroutine.create(print), json.null, cycle, {{}}, {{ [\"a b\"] = 1, [7] = 2 }})\n\
         \tprint(tostring({{ 1 }}), `{{wake.stimuli[1].data}}`, string.format(\"%s|%d|%*\", {{}}, 3, print), (\"%s\"):format({{ 2 }}))\n\
         \tprint({{ {{ {{ {{ {{}} }} }} }} }}, #tostring(table.create(100000, \"long\")) < 2000)\n\
         \tprint(\"a\\xffb\", {{ \"\\xe4\" }}, \"ä\")\n\
         end)\n"
    );
    let agent = Agent::with(&[("cognets/probe.lua", &source)]);
    let ran = agent.run(&["run", "hi"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = agent.log();
    let printed: Vec<_> =
        of_kind(&log, "cognet:log:info").iter().map(|entry| entry["data"]["value"].as_str().expect("a text")).collect();
    assert_eq!(
        printed,
        [
            "{a = 1, b = {\"x\", true}}\tplain\t2.5\tnil",
            "kernel\tkernel.store\tkernel.store.session\twake\twake.signal\tworld\tjson",
            "function\tthread\tnull\t{me = {...}}\t{}\t{[7] = 2, [\"a b\"] = 1}",
            "{1}\t{content = \"hi\", source = \"cli\"}\t{}|3|function\t{2}",
            "{{{{{...}}}}}\ttrue",
            "a\\xffb\t{\"\\\\xe4\"}\tä",
        ]
    );
}

#[test]
fn what_is_wrong_with_a_request_is_told_in_the_words_of_its_author() {
    for (body, says) in [
        ("kernel.run(5)", "kernel.run: code must be a string or a list of strings, not the number 5"),
        ("kernel.run()", "kernel.run: code must be a string or a list of strings, not nil"),
        ("kernel.run({ \"1\", 2 })", "kernel.run: block 2 must be a string, not the number 2"),
        ("kernel.stream()", "kernel.stream: request must be a table, not nil"),
        (
            "kernel.stream { messages = \"hi\" }",
            "kernel.stream: messages must be a list of { role, content }, not a string",
        ),
        (
            "kernel.stream { messages = {}, format = \"xml\" }",
            "kernel.stream: format must be \"air\", \"fenced\" or \"raw\", not \"xml\"",
        ),
        ("kernel.stream { messages = {}, format = \"fence\" }", "not \"fence\" (did you mean `fenced`?)"),
        (
            "kernel.stream { messages = { { role = \"user\", content = \"\" }, { role = \"tool\", content = \"\" } } }",
            "kernel.stream: message 2: role must be \"system\", \"user\" or \"assistant\", not \"tool\"",
        ),
        (
            "kernel.stream { messages = { { content = \"\" } } }",
            "kernel.stream: message 1: role must be \"system\", \"user\" or \"assistant\", not nil",
        ),
        (
            "kernel.stream { messages = { { role = \"user\", content = 7 } } }",
            "kernel.stream: message 1: content must be a string, not the number 7",
        ),
        (
            "kernel.stream { messages = {}, maxTokens = \"many\" }",
            "kernel.stream: maxTokens must be a whole number, 1 or more, not a string",
        ),
        (
            "kernel.stream { messages = {}, maxTokens = 1.5 }",
            "kernel.stream: maxTokens must be a whole number, 1 or more, not the number 1.5",
        ),
        (
            "kernel.stream { messages = {}, temperature = {} }",
            "kernel.stream: temperature must be a number, not a table",
        ),
        ("kernel.stream { messages = {}, model = 4 }", "kernel.stream: model must be a string, not the number 4"),
        ("string.format(\"%d\", {})", "invalid argument #2 to 'format' (number expected, got table)"),
    ] {
        let report = told(&format!("\tlocal _ = {body}"));
        assert!(report.contains(says), "{says}: {report}");
        assert!(report.contains("--> cognets/probe.lua:6\n"), "{report}");
        for never in ["variant", "missing field", "invalid type", "expected", "@axon/host"] {
            assert!(!report.contains(never) || says.contains(never), "{never}: {report}");
        }
    }
}
