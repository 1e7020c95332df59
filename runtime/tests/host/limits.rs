//! CPU, memory and the forced end.

use std::time::Duration;

use axon_runtime::{AbortController, AbortSignal, Limits, WakeFailure};

use crate::fake::{Cognet, FakeKernel, failure};

fn tight() -> Limits {
    Limits {
        cpu: Duration::from_millis(100),
        forced_end: Duration::from_millis(100),
        memory_bytes: 16 << 20,
        ..Limits::default()
    }
}

async fn failure_within(limits: Limits, body: &str) -> axon_runtime::CognetError {
    let kernel = FakeKernel::new();
    let main = once(body);
    let interpreted = failure_of(&kernel, limits, &main).await;
    let compiled = failure_of(&kernel, limits, &format!("--!native\n{main}")).await;
    assert_eq!(compiled.code, interpreted.code, "in machine code as well: {body}");
    interpreted
}

/// A cognet that does this in its first wake.
fn once(body: &str) -> String {
    format!("local n = 0\nloop(function(wake)\nn += 1\nif n == 1 then\n{body}\nend\nwake.stop()\nend)")
}

/// What the first wake comes to; the next must run.
async fn failure_of(kernel: &std::sync::Arc<FakeKernel>, limits: Limits, main: &str) -> axon_runtime::CognetError {
    let cognet = Cognet::main(main);
    let mut brain = cognet.load_within(kernel, limits).await.unwrap();
    let error = failure(brain.wake(Vec::new(), AbortSignal::default()).await);
    brain.wake(Vec::new(), AbortSignal::default()).await.expect("the next wake runs");
    error
}

#[tokio::test]
async fn a_tight_loop_ends_at_the_cpu_limit_with_its_place() {
    let error = failure_within(tight(), "while true do end").await;
    assert_eq!(error.code, "COGNET_CPU");
    assert_eq!(error.at.unwrap().line, 5);
}

#[tokio::test]
async fn no_way_of_catching_outlives_the_cpu_limit() {
    for body in [
        "while true do pcall(function() while true do end end) end",
        "xpcall(function() while true do end end, function() while true do end end) while true do end",
        "local co = coroutine.create(function() while true do end end) while true do coroutine.resume(co); co = coroutine.create(function() while true do end end) end",
        "phase('p', function() pcall(function() while true do end end) while true do end end)",
        "local t = setmetatable({}, { __index = function() while true do end end }) while true do pcall(function() return t.x end) end",
        "table.sort({ 3, 2, 1 }, function() while true do end end)",
        "string.gsub('aaa', 'a', function() while true do end end)",
    ] {
        assert_eq!(failure_within(tight(), body).await.code, "COGNET_CPU", "{body}");
    }
}

#[tokio::test]
async fn a_hostile_pattern_ends_at_the_cpu_limit() {
    let body = "string.find(string.rep('a', 300000), '.-.-.-.-.-.-b')";
    assert_eq!(failure_within(tight(), body).await.code, "COGNET_CPU");
}

#[tokio::test]
async fn what_no_safepoint_stops_is_left_behind_and_the_next_wake_runs() {
    let kernel = FakeKernel::new();
    let cognet = Cognet::body("if #wake.stimuli == 0 then table.sort(table.create(6000000, 1)) end");
    let limits = Limits { memory_bytes: 256 << 20, ..tight() };
    let mut brain = cognet.load_within(&kernel, limits).await.unwrap();
    let error = failure(brain.wake(Vec::new(), AbortSignal::default()).await);
    assert_eq!(error.code, "COGNET_CPU", "{error}");
    brain.wake(vec![kernel.say("go on")], AbortSignal::default()).await.unwrap();
}

#[tokio::test]
async fn recursion_without_end_is_an_error_with_its_place() {
    for body in [
        "local function f() return 1 + f() end f()",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return t[k .. 'x'] end local _ = t.a",
        "local function f() string.gsub('x', 'x', f) end f()",
        "local function f() pcall(f) error('deep') end f()",
    ] {
        let error = failure_within(Limits { memory_bytes: 256 << 20, ..Limits::default() }, body).await;
        assert_eq!(error.code, "COGNET_RUNTIME", "{body}: {error}");
        assert_eq!(error.at.unwrap().line, 5, "{body}");
    }
}

#[tokio::test]
async fn source_that_nests_without_end_is_a_syntax_error() {
    let (open, close) = ("(".repeat(20_000), ")".repeat(20_000));
    let deep = [
        format!("return {open}1{close}"),
        format!("{}{}", "do ".repeat(20_000), "end ".repeat(20_000)),
        format!("local t = {}{}", "{".repeat(20_000), "}".repeat(20_000)),
    ];
    for source in deep {
        let error = Cognet::main(&source).load(&FakeKernel::new()).await.err().unwrap();
        assert_eq!(error.code, "COGNET_SYNTAX", "{error}");
    }
}

#[tokio::test]
async fn a_loop_at_load_ends_at_the_cpu_limit() {
    let error = Cognet::main("while true do end").load_within(&FakeKernel::new(), tight()).await.err().unwrap();
    assert_eq!(error.code, "COGNET_CPU");
}

#[tokio::test]
async fn cpu_counts_between_two_waits_only() {
    let kernel = FakeKernel::new();
    let body =
        "for _ = 1, 8 do\nlocal until_ = os.clock() + 0.04\nwhile os.clock() < until_ do end\nkernel.run('x')\nend";
    let mut brain = Cognet::body(body).load_within(&kernel, tight()).await.unwrap();
    brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
}

#[tokio::test]
async fn a_tight_loop_holds_up_no_other_task_of_a_single_threaded_runtime() {
    let kernel = FakeKernel::new();
    let mut brain =
        Cognet::body("kernel.emit('cognet:in') while true do end").load_within(&kernel, tight()).await.unwrap();
    let mut steps = 0;
    let others = async {
        while kernel.emitted("cognet:in").is_empty() || steps < 1_000 {
            tokio::task::yield_now().await;
            steps += 1;
        }
    };
    tokio::select! {
        biased;
        () = others => {}
        outcome = brain.wake(Vec::new(), AbortSignal::default()) => panic!("{outcome:?}"),
    }
}

#[tokio::test]
async fn an_allocation_bomb_ends_at_the_memory_limit_and_the_next_wake_runs() {
    for body in [
        "local t = {} while true do t[#t + 1] = { 1, 2, 3 } end",
        "local s = 'x' while true do s ..= s end",
        "local b = buffer.create(1000000000)",
        "local t = {} while true do pcall(function() while true do t[#t + 1] = { 1, 2, 3 } end end) end",
        "string.rep('x', 1000000000)",
    ] {
        let error = failure_within(tight(), body).await;
        assert_eq!(error.code, "COGNET_MEMORY", "{body}: {error}");
        assert!(error.message.contains("16 MiB"), "{error}");
    }
}

#[tokio::test]
async fn a_script_that_swallows_its_interruption_is_ended_by_force() {
    for body in [
        "while true do pcall(kernel.run, 'x') end",
        "pcall(kernel.run, 'x') while true do end",
        "while true do pcall(function() kernel.run('x') while true do end end) end",
    ] {
        let kernel = FakeKernel::new();
        kernel.hang("run");
        let main = format!("local n = 0\nloop(function(wake)\nn += 1\nif n == 1 then {body} end\nwake.stop()\nend)");
        let limits = Limits { cpu: Duration::from_secs(60), ..tight() };
        let mut brain = Cognet::main(&main).load_within(&kernel, limits).await.unwrap();
        let outcome = crate::fake::abort_when_waiting(&mut brain, &kernel).await;
        assert!(matches!(outcome, Err(WakeFailure::Interrupted { .. })), "{body}: {outcome:?}");
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_that_never_waits_sees_the_abort_between_ticks() {
    let kernel = FakeKernel::new();
    let config = crate::fake::CONFIG.replace("mode =", "maxTicksPerWake = 1000000000, mode =");
    let main = "loop(function() kernel.emit('cognet:tick') end)";
    let cognet = Cognet::folder(&[("cognet.config.lua", &config), ("src/main.lua", main)]);
    let mut brain = cognet.load(&kernel).await.unwrap();
    let controller = AbortController::new();
    let abort = async {
        while kernel.emitted_kinds().is_empty() {
            tokio::task::yield_now().await;
        }
        controller.abort("enough");
    };
    let (outcome, ()) = tokio::join!(brain.wake(Vec::new(), controller.signal()), abort);
    assert!(matches!(outcome, Err(WakeFailure::Interrupted { .. })));
}

#[tokio::test]
async fn a_small_table_that_would_be_endless_json_is_refused() {
    let shared = "local s = string.rep('x', 1000000) local t = table.create(1000000, s)";
    let doubled = "local t = {} for _ = 1, 100 do t = { t, t } end";
    for (made, call) in [
        (shared, "kernel.store.set('k', t)"),
        (shared, "kernel.run(t)"),
        (doubled, "kernel.output('cognet:output:text', { content = '', t = t })"),
        (doubled, "require('@axon/json').encode(t)"),
        ("local t = '[' .. string.rep('0,', 10000000) .. '0]'", "require('@axon/json').decode(t)"),
    ] {
        // Encoding 64 MiB takes a build that is not optimised seconds, and a busy machine longer.
        let limits = Limits { cpu: Duration::from_secs(60), ..Limits::default() };
        let main = once(&format!("{made}\n{call}"));
        let error = failure_of(&FakeKernel::new(), limits, &main).await;
        assert!(error.message.contains("MiB") && error.code != "COGNET_MEMORY", "{call}: {error}");
    }
}

#[tokio::test]
async fn an_endless_message_is_cut() {
    let error = failure_within(Limits::default(), "error(string.rep('x', 1000000), 0)").await;
    assert!(error.message.len() < 20_000);
}

#[tokio::test]
async fn yielding_in_the_body_itself_is_no_way_around_the_cpu_limit() {
    let error = failure_within(tight(), "while true do coroutine.yield() end").await;
    assert_eq!((error.code.as_str(), error.at.unwrap().line), ("COGNET_RUNTIME", 5));
}

#[tokio::test]
async fn an_idle_brain_is_small() {
    let kernel = FakeKernel::new();
    let brain = Cognet::body("").load(&kernel).await.unwrap();
    assert!(brain.memory_bytes() < 2 << 20, "{}", brain.memory_bytes());
}

#[tokio::test]
async fn the_top_level_can_have_less_cpu_than_hooks_and_wakes() {
    // Work, and not a time: on a busy machine little CPU goes into that.
    let busy = "for _ = 1, 3e7 do end";
    let limits = Limits { top_level_cpu: Duration::from_millis(50), ..Limits::default() };
    let kernel = FakeKernel::new();
    let loop_body = "loop(function(wake) wake.stop() end)";
    let loaded = Cognet::main(&format!("{busy}\n{loop_body}")).load_within(&kernel, limits).await;
    let error = loaded.err().expect("its top level takes too long");
    assert_eq!((error.code.as_str(), error.at.map(|at| at.line)), ("COGNET_CPU", Some(1)));
    assert!(error.message.contains("top level") && error.message.contains("50 ms"), "{}", error.message);

    let in_hook = format!("definePlugin(function(ctx) ctx.hooks.on(\"boot\", function() {busy} end) end)\n{loop_body}");
    Cognet::main(&in_hook).load_within(&kernel, limits).await.expect("a boot hook has the ordinary limit");
}
