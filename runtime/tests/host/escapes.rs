//! Attempts to get out, to hurt the host or to hurt a neighbour. Each ends as the error it should be, the brain that tried is
//! woken again afterwards, and a neighbour in the same process is none the worse for it.

use std::time::Duration;

use axon_runtime::{AbortSignal, Brain, Limits, WakeFailure};

use crate::fake::{CONFIG, Cognet, FakeKernel, done, text};

/// How an attempt ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The wake fails with this code.
    Fails(&'static str),
    /// The script itself asserts that it got nothing.
    Held,
}

use End::{Fails, Held};

fn tight() -> Limits {
    Limits {
        cpu: Duration::from_millis(150),
        forced_end: Duration::from_millis(150),
        memory_bytes: 24 << 20,
        ..Limits::default()
    }
}

/// A neighbour that looks whether its own VM is as it should be.
const NEIGHBOUR: &str = "assert(not pcall(function() return loot end) and string.format('%d', 7) == '7' and ('x'):rep(2) == 'xx')\n\
     assert(getmetatable('').__add == nil and type(kernel.run) == 'function' and math.pi > 3 and table.concat({ 1, 2 }) == '12')\n\
     local entity = world.spawn { mine = 1 }\nassert(entity == 1 and world.get(entity, 'mine') == 1)\n\
     assert(kernel.run('x').ok and require('@axon/json').encode({}) == '{}')";

async fn attempts(list: &[(&str, End)]) {
    let quiet = FakeKernel::new();
    let neighbour = Cognet::body(NEIGHBOUR);
    let mut neighbour = neighbour.load(&quiet).await.unwrap();
    for (body, end) in list {
        let kernel = FakeKernel::scripted([vec![text("once"), done()]]);
        let main = format!(
            "local wakes = 0\nloop(function(wake)\nwakes += 1\nif wakes == 1 then\n{body}\nend\nwake.stop()\nend)"
        );
        let mut brain = Cognet::main(&main).load_within(&kernel, tight()).await.unwrap();
        let (outcome, beside) = tokio::join!(
            brain.wake(Vec::new(), AbortSignal::default()),
            neighbour.wake(Vec::new(), AbortSignal::default())
        );
        beside.unwrap_or_else(|failure| panic!("{body}: the neighbour was hurt: {failure}"));
        match (end, outcome) {
            (Held, Ok(_)) => {}
            (Fails(code), Err(WakeFailure::Failed { error, .. })) => {
                assert_eq!(error.code, *code, "{body}: {error}");
            }
            (end, outcome) => panic!("{body}: {end:?} was expected: {outcome:?}"),
        }
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap_or_else(|failure| panic!("{body}: {failure}"));
    }
}

#[tokio::test]
async fn no_code_is_loaded_but_the_cognets_own_files() {
    attempts(&[
        ("loadstring('return 1')()", Fails("UNDEFINED_GLOBAL")),
        ("load('\\27Lua')", Fails("UNDEFINED_GLOBAL")),
        ("dofile('/etc/passwd')", Fails("UNDEFINED_GLOBAL")),
        ("string.dump(print)", Fails("COGNET_RUNTIME")),
        ("package.loadlib('libc.so.6', 'system')", Fails("UNDEFINED_GLOBAL")),
        ("require('/etc/passwd')", Fails("REQUIRE_REFUSED")),
        ("require('../../../../../../etc/passwd')", Fails("REQUIRE_REFUSED")),
        ("require('./../../other/src/main')", Fails("REQUIRE_REFUSED")),
        ("require('./deep/../../../other/cognet.config')", Fails("REQUIRE_REFUSED")),
        ("require('./state\\0.lua')", Fails("REQUIRE_REFUSED")),
        ("require('.\\\\..\\\\..\\\\x')", Fails("REQUIRE_REFUSED")),
        ("require('state')", Fails("REQUIRE_REFUSED")),
        ("require('')", Fails("REQUIRE_REFUSED")),
        ("require('file:///etc/passwd')", Fails("REQUIRE_REFUSED")),
        ("require('@axon/../../etc/passwd')", Fails("REQUIRE_NOT_FOUND")),
        ("require('@axon/host')", Fails("REQUIRE_NOT_FOUND")),
        ("require('@other/main')", Fails("REQUIRE_NOT_FOUND")),
        ("require('./' .. string.rep('../', 100000))", Fails("REQUIRE_REFUSED")),
        ("require({ './state' })", Fails("ARGUMENT_INVALID")),
        ("require(setmetatable({}, { __tostring = function() return './main' end }))", Fails("ARGUMENT_INVALID")),
    ])
    .await;
}

#[tokio::test]
async fn relics_and_the_debug_library_open_nothing() {
    attempts(&[
        ("getfenv(1).loot = 1", Fails("UNDEFINED_GLOBAL")),
        ("setfenv(1, {})", Fails("UNDEFINED_GLOBAL")),
        ("newproxy(true)", Fails("UNDEFINED_GLOBAL")),
        ("debug.sethook(print, 'l')", Fails("COGNET_RUNTIME")),
        ("debug.getregistry()", Fails("COGNET_RUNTIME")),
        ("debug.getupvalue(kernel.run, 1)", Fails("COGNET_RUNTIME")),
        ("debug.setmetatable('', {})", Fails("COGNET_RUNTIME")),
        ("debug.info(1, 'f')()", Fails("ARGUMENT_INVALID")),
        ("debug.info(coroutine.running(), 1, 'f')", Fails("ARGUMENT_INVALID")),
        ("assert(debug.info(1000000000, 's') == nil)", Held),
        ("debug.traceback(string.rep('x', 1000000), 1)", Held),
        ("os.exit(1)", Fails("COGNET_RUNTIME")),
        ("os.execute('id')", Fails("COGNET_RUNTIME")),
        ("os.getenv('HOME')", Fails("COGNET_RUNTIME")),
        ("io.open('/etc/passwd')", Fails("UNDEFINED_GLOBAL")),
        ("collectgarbage('stop')", Fails("ARGUMENT_INVALID")),
    ])
    .await;
}

#[tokio::test]
async fn what_all_scripts_share_cannot_be_poisoned() {
    attempts(&[
        ("getmetatable('').__index = function() return print end", Fails("COGNET_RUNTIME")),
        ("getmetatable('').__add = function() return 1 end", Fails("COGNET_RUNTIME")),
        ("rawset(getmetatable(''), '__index', {})", Fails("COGNET_RUNTIME")),
        ("setmetatable(getmetatable(''), { __index = print })", Fails("COGNET_RUNTIME")),
        ("setmetatable(string, { __index = print })", Fails("COGNET_RUNTIME")),
        ("rawset(string, 'format', print)", Fails("COGNET_RUNTIME")),
        ("table.clear(math)", Fails("COGNET_RUNTIME")),
        ("table.insert(table, print)", Fails("COGNET_RUNTIME")),
        ("coroutine.resume = nil", Fails("COGNET_RUNTIME")),
        ("setmetatable(_G, {})", Fails("COGNET_RUNTIME")),
        ("rawset(kernel, 'run', print)", Fails("COGNET_RUNTIME")),
        ("rawset(kernel.store.session, 'get', print)", Fails("COGNET_RUNTIME")),
        ("setmetatable(kernel, {})", Fails("COGNET_RUNTIME")),
        ("table.move({ print }, 1, 1, 1, kernel)", Fails("COGNET_RUNTIME")),
        ("world.spawn = print", Fails("COGNET_RUNTIME")),
        ("assert(getmetatable(kernel) == false and getmetatable(_G) == false and getmetatable(wake.signal) == false)", Held),
        ("local ok, copy = pcall(table.clone, kernel)\nif ok then pcall(rawset, copy, 'run', nil) end\nassert(kernel.run)", Held),
        ("rawset(wake.signal, 'aborted', true)", Fails("COGNET_RUNTIME")),
        ("wake.stop = nil", Fails("COGNET_RUNTIME")),
        ("local _, e = pcall(kernel.run, 7)\nrawset(e, 'code', 'FINE')", Fails("COGNET_RUNTIME")),
        ("local _, e = pcall(kernel.run, 7)\ngetmetatable(e).__tostring = print", Fails("COGNET_RUNTIME")),
        ("getmetatable(require('@axon/json').array {}).__index = print", Fails("COGNET_RUNTIME")),
        ("rawset(require('@axon/air'), 'render', print)", Fails("COGNET_RUNTIME")),
        ("loot = 1\nstring_loot = string", Held),
    ])
    .await;
}

#[tokio::test]
async fn limits_hold_however_they_are_caught() {
    attempts(&[
        ("while true do pcall(function() while true do end end) end", Fails("COGNET_CPU")),
        ("while true do xpcall(function() while true do end end, function() while true do end end) end", Fails("COGNET_CPU")),
        ("while true do coroutine.wrap(function() while true do end end)() end", Fails("COGNET_CPU")),
        ("local function spawn() local co = coroutine.create(spawn) return coroutine.resume(co) end\nwhile true do pcall(spawn) end", Fails("COGNET_CPU")),
        ("coroutine.close(coroutine.create(print))\nlocal co = coroutine.create(function() while true do coroutine.yield() end end)\nwhile true do coroutine.resume(co) end", Fails("COGNET_CPU")),
        ("phase('p', function() system('s', function() while true do pcall(error, 'x') end end) end)", Fails("COGNET_CPU")),
        ("error(setmetatable({}, { __tostring = function() while true do end end }))", Fails("COGNET_CPU")),
        ("for _ in setmetatable({}, { __iter = function() while true do end end }) do end", Fails("COGNET_CPU")),
        ("local t = setmetatable({}, { __eq = function() while true do end end })\nreturn t == setmetatable({}, getmetatable(t))", Fails("COGNET_CPU")),
        ("string.find(string.rep('a', 300000), '.-.-.-.-.-.-b')", Fails("COGNET_CPU")),
        ("string.gsub(string.rep('(', 300000), '%b()', '')", Fails("COGNET_CPU")),
        ("string.match(string.rep('x', 100000), string.rep('x*', 200) .. 'y')", Fails("COGNET_RUNTIME")),
        ("kernel.emit('cognet:x', { t = 1 })\nwhile true do kernel.emit('cognet:x') kernel.base() kernel.store.get('k') end", Fails("COGNET_CPU")),
        ("local made = 0\nwhile made < 200000 do\nsetmetatable({}, { __gc = function() loot = true end })\nmade += 1\nend\nassert(not pcall(function() return loot end))", Held),
    ])
    .await;
}

#[tokio::test]
async fn bombs_end_at_the_memory_limit_or_before() {
    attempts(&[
        ("string.rep('x', 1000000000)", Fails("COGNET_MEMORY")),
        ("string.rep('x', 2 ^ 31 - 1)", Fails("COGNET_RUNTIME")),
        ("local s = 'x'\nwhile true do s ..= s end", Fails("COGNET_MEMORY")),
        ("local t = {}\nwhile true do pcall(table.insert, t, string.rep('x', 100000) .. #t) end", Fails("COGNET_MEMORY")),
        ("table.create(2 ^ 31)", Fails("COGNET_RUNTIME")),
        ("table.create(100000000)", Fails("COGNET_RUNTIME")),
        ("table.concat(table.create(1000000, string.rep('x', 1000)))", Fails("COGNET_MEMORY")),
        ("buffer.create(2 ^ 30)", Fails("COGNET_MEMORY")),
        ("string.format('%999999999d', 1)", Fails("COGNET_RUNTIME")),
        ("return table.unpack({}, 1, 100000000)", Fails("COGNET_RUNTIME")),
        ("return string.byte(string.rep('x', 10000000), 1, -1)", Fails("COGNET_RUNTIME")),
        ("local co = {}\nwhile true do co[#co + 1] = coroutine.create(print) end", Fails("COGNET_MEMORY")),
        ("local f = function() end\nlocal all = {}\nwhile true do local g = f f = function() return g() end all[#all + 1] = f end", Fails("COGNET_MEMORY")),
    ])
    .await;
}

#[tokio::test]
async fn depth_without_end_is_an_error() {
    attempts(&[
        ("local function f() return 1 + f() end\nf()", Fails("COGNET_RUNTIME")),
        ("local function f() return (string.gsub('x', 'x', f)) end\nf()", Fails("COGNET_RUNTIME")),
        ("local function f() return (coroutine.wrap(f)()) end\nf()", Fails("COGNET_RUNTIME")),
        (
            "local t = setmetatable({}, {})\ngetmetatable(t).__index = function(_, k) return t[k] end\nreturn t.x",
            Fails("COGNET_RUNTIME"),
        ),
        ("local t = {}\nsetmetatable(t, { __index = t })\nreturn t.x", Fails("COGNET_RUNTIME")),
        ("local function f() error(setmetatable({}, { __tostring = f })) end\nf()", Fails("COGNET_RUNTIME")),
        ("require('@axon/json').decode(string.rep('[', 1000000))", Fails("JSON_INVALID")),
        ("require('@axon/json').decode(string.rep('{\"a\":', 100000))", Fails("JSON_INVALID")),
        ("local t = {}\nfor _ = 1, 100000 do t = { t } end\nrequire('@axon/json').encode(t)", Fails("JSON_INVALID")),
    ])
    .await;
}

#[tokio::test]
async fn no_verb_takes_what_is_no_json_or_holds_itself() {
    let knot = "local t = {}\nt.t = t\n";
    let list = "local t = {}\nt[1] = t\n";
    let mut all: Vec<(String, End)> = Vec::new();
    for (make, call, code) in [
        (knot, "kernel.output('cognet:output:text', t)", "OUTPUT_INVALID"),
        (knot, "kernel.emit('cognet:x', t)", "ARGUMENT_INVALID"),
        (knot, "kernel.store.set('k', t)", "JSON_INVALID"),
        (knot, "kernel.stream { messages = t }", "ARGUMENT_INVALID"),
        (list, "kernel.stream { messages = t }", "UNKNOWN_FIELD"),
        (list, "kernel.run(t)", "ARGUMENT_INVALID"),
        (knot, "kernel.run('x', t)", "UNKNOWN_FIELD"),
        (knot, "kernel.store.session.get(t)", "UNKNOWN_FIELD"),
        (knot, "kernel.store.get(t)", "ARGUMENT_INVALID"),
        (knot, "require('@axon/json').encode(t)", "JSON_INVALID"),
        (knot, "defineCognet(t)", "COGNET_INVALID"),
        (knot, "world.query(t)", "UNKNOWN_FIELD"),
        ("local t = { content = function() end }\n", "kernel.output('cognet:output:text', t)", "OUTPUT_INVALID"),
        ("local t = { content = '\\255' }\n", "kernel.output('cognet:output:text', t)", "OUTPUT_INVALID"),
        ("local t = { n = 2 ^ 53 + 2 }\n", "kernel.store.set('k', t)", "JSON_INVALID"),
        ("local t = { n = 0 / 0 }\n", "kernel.store.set('k', t)", "JSON_INVALID"),
        ("local t = { n = math.huge }\n", "kernel.emit('cognet:x', t)", "ARGUMENT_INVALID"),
        ("local t = { coroutine.create(print) }\n", "kernel.store.set('k', t)", "JSON_INVALID"),
        ("local t = { buffer.create(1) }\n", "kernel.store.set('k', t)", "JSON_INVALID"),
        ("local t = '\\255'\n", "kernel.run(t)", "ARGUMENT_INVALID"),
        (
            "local t = setmetatable({}, { __index = function() return 'x' end, __len = function() return 2 ^ 31 end })\n",
            "kernel.output('cognet:output:text', nil, t)",
            "OUTPUT_INVALID",
        ),
        ("local t = nil\n", "kernel.emit('kernel:run:start', t)", "COGNET_EMIT_FORBIDDEN"),
    ] {
        all.push((format!("{make}{call}"), Fails(code)));
    }
    let all: Vec<(&str, End)> = all.iter().map(|(body, end)| (body.as_str(), *end)).collect();
    attempts(&all).await;
}

#[tokio::test]
async fn yields_and_coroutines_lead_nowhere() {
    attempts(&[
        ("coroutine.yield()", Fails("COGNET_RUNTIME")),
        ("pcall(coroutine.yield)\ncoroutine.yield(1, 2, 3)", Fails("COGNET_RUNTIME")),
        ("phase('p', function() coroutine.yield() end)", Fails("COGNET_RUNTIME")),
        ("table.sort({ 3, 2, 1 }, function() coroutine.yield() end)", Fails("COGNET_RUNTIME")),
        ("local ok = coroutine.resume(coroutine.create(function() table.sort({ 2, 1 }, function() coroutine.yield() end) end))\nassert(not ok)", Held),
        ("local ok = coroutine.resume(coroutine.running())\nassert(not ok)", Held),
        ("coroutine.close(coroutine.running())", Fails("COGNET_RUNTIME")),
        ("assert(coroutine.wrap(function() return kernel.run('in a coroutine').ok end)())", Held),
        ("local co = coroutine.create(function() kernel.run('x') coroutine.yield('mine') return kernel.run('y').ok end)\n\
          local _, first = coroutine.resume(co)\nlocal _, second = coroutine.resume(co)\nassert(first == 'mine' and second == true)", Held),
        ("local co\nco = coroutine.create(function() return coroutine.resume(co) end)\nlocal _, ok = coroutine.resume(co)\nassert(ok == false)", Held),
        ("local seen = {}\nfor event in kernel.stream { messages = {} } do\ntable.insert(seen, event.type)\ncoroutine.wrap(function() kernel.run('x') end)()\nend\nassert(#seen == 2)", Held),
        ("wake.stop()\nkernel.output('cognet:output:text', { content = 'after stop' })", Held),
        ("wake.stop()\nwake.stop()\ncoroutine.wrap(wake.stop)()", Held),
    ])
    .await;
}

#[tokio::test]
async fn roles_of_the_load_cannot_be_played_again_during_a_wake() {
    attempts(&[
        ("loop(function() end)", Fails("COGNET_LOOP_TWICE")),
        ("pcall(loop, function() end)", Fails("COGNET_LOOP_TWICE")),
        ("defineCognet { name = 'other', version = '1', abi = '9' }", Fails("COGNET_INVALID")),
        ("definePlugin(function(ctx) ctx.hooks.on('start', print) end)", Fails("ARGUMENT_INVALID")),
    ])
    .await;
}

/// A brain that keeps things from its first wake and uses them in the second.
#[tokio::test]
async fn what_is_kept_from_a_wake_is_dead_in_the_next() {
    for (keep, later) in [
        ("kept = kernel.stream { messages = {} }", "assert(kept() == nil)"),
        ("kept = wake.stop", "kept()\nassert(#wake.stimuli == 0)"),
        ("kept = world.spawn { a = 1 }", "assert(not pcall(world.get, kept, 'a'))"),
        (
            "kept = wake.signal",
            "local ok, e = pcall(kernel.run, 'x', { signal = kept })\nassert(not ok and e.code == 'ARGUMENT_INVALID')",
        ),
        (
            "kept = coroutine.create(function() coroutine.yield() return kernel.run('x').ok end)\ncoroutine.resume(kept)",
            "local _, ok = coroutine.resume(kept)\nassert(ok == true)",
        ),
    ] {
        let kernel = FakeKernel::scripted([vec![text("a"), text("b"), done()]]);
        let main = format!(
            "local n = 0\nlocal kept\nloop(function(wake)\nn += 1\nif n == 1 then\n{keep}\nelse\n{later}\nend\nwake.stop()\nend)"
        );
        let mut brain = Cognet::main(&main).load(&kernel).await.unwrap();
        for _ in 0..2 {
            brain.wake(Vec::new(), AbortSignal::default()).await.unwrap_or_else(|failure| panic!("{later}: {failure}"));
        }
    }
}

fn with_hook(hook: &str, body: &str) -> Cognet {
    let plugin = format!("definePlugin(function(ctx)\nctx.hooks.on('{hook}', function()\n{body}\nend)\nend)");
    Cognet::folder(&[
        ("cognet.config.lua", CONFIG),
        ("plugins/p.lua", &plugin),
        ("src/main.lua", "loop(function(wake) wake.stop() end)"),
    ])
}

#[tokio::test]
async fn boot_and_shutdown_are_under_the_same_rules() {
    for (body, code) in [
        ("kernel.output('cognet:output:text', { content = 'x' })", "SYSCALL_OUTSIDE_WAKE"),
        ("kernel.run('x')", "SYSCALL_OUTSIDE_WAKE"),
        ("pcall(kernel.stream, { messages = {} })\nkernel.stream { messages = {} }", "SYSCALL_OUTSIDE_WAKE"),
        ("world.spawn()", "SYSCALL_OUTSIDE_WAKE"),
        ("coroutine.yield()", "COGNET_RUNTIME"),
        ("while true do pcall(function() while true do end end) end", "COGNET_CPU"),
        ("local t = {}\nwhile true do t[#t + 1] = { 1, 2, 3 } end", "COGNET_MEMORY"),
    ] {
        let kernel = FakeKernel::new();
        let error = with_hook("boot", body).load_within(&kernel, tight()).await.err().unwrap();
        assert_eq!(error.code, code, "boot: {body}: {error}");
        let mut brain = with_hook("shutdown", body).load_within(&kernel, tight()).await.unwrap();
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
        assert_eq!(brain.shutdown().await.unwrap_err().code, code, "shutdown: {body}");
    }
}

#[tokio::test]
async fn bytecode_is_refused_wherever_a_file_is_run() {
    // What a compiler of Luau writes begins with its version.
    let bytecode = "\u{6}\u{3}\u{0}\u{0}\u{1}return";
    for files in [
        [("cognet.config.lua", bytecode), ("src/main.lua", ""), ("src/x.lua", "")],
        [("cognet.config.lua", CONFIG), ("src/main.lua", bytecode), ("src/x.lua", "")],
        [("cognet.config.lua", CONFIG), ("src/main.lua", "require('./x')"), ("src/x.lua", bytecode)],
    ] {
        let error = Cognet::folder(&files).load(&FakeKernel::new()).await.err().unwrap();
        assert_eq!(error.code, "COGNET_SYNTAX", "{error}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn no_link_leads_out_whatever_it_points_at() {
    for target in ["/etc/passwd", "../../other/src/main.lua", "../..", "/proc/self/environ"] {
        let cognet = Cognet::folder(&[("cognet.config.lua", CONFIG), ("src/main.lua", "require('./link')")]);
        let root = cognet.folder.path();
        std::fs::create_dir_all(root.join("other/src")).unwrap();
        std::fs::write(root.join("other/src/main.lua"), "return 'secret'").unwrap();
        std::os::unix::fs::symlink(target, root.join("demo/src/link.lua")).unwrap();
        let error = cognet.load(&FakeKernel::new()).await.err().unwrap();
        assert_eq!(error.code, "REQUIRE_REFUSED", "{target}: {error}");
        assert!(!error.message.contains("secret") && !error.message.contains("root:"), "{error}");
    }
}

#[tokio::test]
async fn two_instances_of_one_cognet_share_nothing() {
    let main = "local state = require('./state')\n\
                loop(function(wake)\n\
                state.n += 1\nif not pcall(function() return mine end) then mine = 0 end\nmine += 1\n\
                world.watch('seen', function() state.watched += 1 end)\n\
                world.spawn { seen = state.n }\n\
                local entities = 0\nfor _ in world.query { with = { 'seen' } } do entities += 1 end\n\
                kernel.output('cognet:output:text', { content = `{state.n} {mine} {state.watched} {entities}` })\n\
                wake.stop()\nend)";
    let cognet = Cognet::folder(&[
        ("cognet.config.lua", CONFIG),
        ("src/main.lua", main),
        ("src/state.lua", "return { n = 0, watched = 0 }"),
    ]);
    let (one, other) = (FakeKernel::new(), FakeKernel::new());
    let (mut first, mut second): (Brain, Brain) =
        (cognet.load(&one).await.unwrap(), cognet.load(&other).await.unwrap());
    for _ in 0..3 {
        first.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
    second.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    assert_eq!(one.outputs(), ["1 1 1 1", "2 2 2 1", "3 3 3 1"]);
    assert_eq!(other.outputs(), ["1 1 1 1"]);
}
