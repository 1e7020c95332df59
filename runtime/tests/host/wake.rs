//! Wakes: stimuli, ticks, telemetry, failure, abort.

use axon_runtime::{AbortController, AbortSignal, WakeFailure};
use serde_json::Value;

use crate::fake::{CONFIG, Cognet, FakeKernel, Step, abort_when_waiting, delta, failure, failure_of, wake_body};

#[tokio::test]
async fn a_wake_is_handed_its_stimuli_in_order_and_ticks_until_it_stops() {
    let kernel = FakeKernel::new();
    let main = "loop(function(wake)\n\
                for index, stimulus in wake.stimuli do kernel.output('cognet:output:text', { content = index .. stimulus.data.content }) end\n\
                if #kernel.store.session.get() >= 6 then wake.stop() end\nend)";
    let mut brain = Cognet::main(main).load(&kernel).await.unwrap();
    let stimuli = vec![kernel.say("a"), kernel.say("b")];
    let report = brain.wake(stimuli, AbortSignal::default()).await.unwrap();
    assert_eq!(report.ticks, 2);
    assert_eq!(kernel.outputs(), ["1a", "2b", "1a", "2b"]);
}

#[tokio::test]
async fn a_wake_without_stimuli_has_an_empty_list_and_a_signal_that_is_not_aborted() {
    let body = "assert(#wake.stimuli == 0 and wake.signal.aborted == false and wake.signal.reason == nil)";
    wake_body(&FakeKernel::new(), body).await.unwrap();
}

#[tokio::test]
async fn the_brain_stays_warm_between_wakes() {
    let kernel = FakeKernel::new();
    let main = "local n = 0\nloop(function(wake)\nn += 1\nkernel.output('cognet:output:text', { content = tostring(n) })\nwake.stop()\nend)";
    let mut brain = Cognet::main(main).load(&kernel).await.unwrap();
    for _ in 0..3 {
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
    assert_eq!(kernel.outputs(), ["1", "2", "3"]);
}

#[tokio::test]
async fn a_wake_that_does_not_converge_fails_and_the_next_one_runs() {
    let config = CONFIG.replace("mode =", "maxTicksPerWake = 3, mode =");
    let main = "local done = false\nloop(function(wake) if done then wake.stop() end end)\n\
                definePlugin(function(ctx) ctx.hooks.on('tick', function(t) if t.tick == 3 then done = true end end) end)\n";
    let never = "loop(function() end)";
    let kernel = FakeKernel::new();
    let cognet = Cognet::folder(&[("cognet.config.lua", &config), ("src/main.lua", main)]);
    assert_eq!(cognet.load(&kernel).await.unwrap().wake(Vec::new(), AbortSignal::default()).await.unwrap().ticks, 3);

    let cognet = Cognet::folder(&[("cognet.config.lua", &config), ("src/main.lua", never)]);
    let mut brain = cognet.load(&kernel).await.unwrap();
    for _ in 0..2 {
        match brain.wake(Vec::new(), AbortSignal::default()).await {
            Err(WakeFailure::Failed { error, ticks: 3 }) => assert_eq!(error.code, "COGNET_MAX_TICKS"),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn hooks_are_called_around_wakes_and_ticks() {
    let plugin = "definePlugin(function(ctx)\n\
                  ctx.hooks.on('wake', function(wake) print('wake', #wake.stimuli) end)\n\
                  ctx.hooks.on('tick', function(tick) print('tick', tick.tick) end)\nend)";
    let main = "loop(function(wake) print('body'); if #kernel.store.session.get() == 1 then wake.stop() end kernel.run('x') end)";
    let cognet = Cognet::folder(&[("cognet.config.lua", CONFIG), ("plugins/p.lua", plugin), ("src/main.lua", main)]);
    let kernel = FakeKernel::new();
    let stimuli = vec![kernel.say("hi")];
    cognet.load(&kernel).await.unwrap().wake(stimuli, AbortSignal::default()).await.unwrap();
    let said: Vec<_> = kernel.emitted("cognet:log:info").iter().map(|data| data["value"].clone()).collect();
    assert_eq!(said, ["wake\t1", "tick\t1", "body"]);
}

#[tokio::test]
async fn an_unknown_hook_is_refused_with_the_nearest() {
    let main = "definePlugin(function(ctx) ctx.hooks.on('boots', print) end)\nloop(function() end)";
    let error = Cognet::main(main).load(&FakeKernel::new()).await.err().unwrap();
    assert!(error.message.contains("`boot`"), "{error}");
}

#[tokio::test]
async fn ticks_phases_and_systems_are_told_as_telemetry() {
    let kernel = FakeKernel::new();
    let body = "local a, b = phase('outer', function() return system('inner', function() return 1, 2 end) end)\nassert(a == 1 and b == 2)";
    wake_body(&kernel, body).await.unwrap();
    let kinds = [
        "cognet:tick:start",
        "cognet:phase:start",
        "cognet:system:start",
        "cognet:system:complete",
        "cognet:phase:complete",
        "cognet:tick:complete",
    ];
    assert_eq!(kernel.emitted_kinds(), kinds);
    let system = &kernel.emitted("cognet:system:complete")[0];
    assert_eq!((&system["tick"], &system["phase"], &system["system"]), (&1.into(), &"outer".into(), &"inner".into()));
    assert!(system["durationMs"].is_number());
    assert_eq!(kernel.emitted("cognet:tick:start")[0], serde_json::json!({ "tick": 1 }));
    assert!(kernel.emitted("cognet:phase:start")[0].get("durationMs").is_none());
}

#[tokio::test]
async fn a_failure_inside_phases_keeps_its_own_place() {
    let kernel = FakeKernel::new();
    let error = failure(wake_body(&kernel, "phase('think', function()\nsystem('deep', function()\nerror({ code = 'MINE', message = 'no' })\nend)\nend)").await);
    assert_eq!((error.code.as_str(), error.message.as_str()), ("MINE", "no"));
    assert_eq!((error.at.as_ref().unwrap().line, error.phase.as_deref(), error.tick), (4, Some("think"), Some(1)));
    for kind in ["cognet:system:failed", "cognet:phase:failed", "cognet:tick:failed"] {
        let data = &kernel.emitted(kind)[0];
        assert_eq!((&data["error"]["code"], &data["error"]["line"]), (&"MINE".into(), &4.into()), "{kind}");
        assert_eq!(data["error"]["file"], "cognets/demo/src/main.lua");
    }
}

#[tokio::test]
async fn uncaught_errors_of_every_kind_name_the_cognets_own_line() {
    for (body, code, message) in [
        ("error('plain')", "COGNET_RUNTIME", "plain"),
        ("error('bare', 0)", "COGNET_RUNTIME", "bare"),
        ("error({ odd = 1 })", "COGNET_RUNTIME", "{\"odd\":1}"),
        ("error({ code = 'A', message = 'b' })", "A", "b"),
        ("local x = nil; x.y = 1", "COGNET_RUNTIME", "attempt to index nil with 'y'"),
        ("require('@axon/json').decode('{')", "JSON_INVALID", "EOF while parsing an object at line 1 column 1"),
        ("coroutine.wrap(function() error('inside') end)()", "COGNET_RUNTIME", "inside"),
    ] {
        let error = failure_of(body).await;
        assert_eq!((error.code.as_str(), error.message.as_str()), (code, message), "{body}");
        assert_eq!(
            error.at.as_ref().map(|at| (at.file.as_str(), at.line)),
            Some(("cognets/demo/src/main.lua", 2)),
            "{body}"
        );
    }
}

#[tokio::test]
async fn a_failed_wake_leaves_the_brain_loaded() {
    let kernel = FakeKernel::new();
    let main = "local n = 0\nloop(function(wake) n += 1; if n == 1 then error('first') end wake.stop() end)";
    let mut brain = Cognet::main(main).load(&kernel).await.unwrap();
    failure(brain.wake(Vec::new(), AbortSignal::default()).await);
    brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
}

#[tokio::test]
async fn an_abort_ends_each_waiting_verb_at_once_and_the_next_wake_runs() {
    for (verb, call) in [
        ("output", "kernel.output('cognet:output:text', { content = 'x' })"),
        ("stream", "kernel.stream { messages = {} }"),
        ("run", "kernel.run('x')"),
        ("scope", "kernel.scope()"),
        ("store.set", "kernel.store.set('k', 1)"),
    ] {
        let kernel = FakeKernel::new();
        kernel.hang(verb);
        let mut brain = Cognet::body(call).load(&kernel).await.unwrap();
        match abort_when_waiting(&mut brain, &kernel).await {
            Err(WakeFailure::Interrupted { reason, ticks: 1 }) => assert_eq!(reason, "the user asked"),
            other => panic!("{verb}: {other:?}"),
        }
        assert_eq!(kernel.drops(), 1, "{verb}: the verb's future is dropped");
        assert_eq!(kernel.emitted("cognet:tick:interrupted").len(), 1);
        kernel.hanging.lock().unwrap().clear();
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
}

#[tokio::test]
async fn an_abort_during_a_stream_raises_interrupted_and_cancels_the_inference() {
    let kernel = FakeKernel::scripted([vec![delta("a"), Step::Hang]]);
    let body = "local ok, err = pcall(function() for _ in kernel.stream { messages = {} } do kernel.emit('cognet:seen') end end)\n\
                kernel.emit('cognet:caught', { code = err.code, message = err.message, reason = wake.signal.reason })";
    let mut brain = Cognet::body(body).load(&kernel).await.unwrap();
    let controller = AbortController::new();
    let abort = async {
        while kernel.emitted("cognet:seen").is_empty() {
            tokio::task::yield_now().await;
        }
        controller.abort("stop it");
    };
    let (outcome, ()) = tokio::join!(brain.wake(Vec::new(), controller.signal()), abort);
    assert!(matches!(outcome, Err(WakeFailure::Interrupted { .. })));
    let caught = &kernel.emitted("cognet:caught")[0];
    assert_eq!(
        (&caught["code"], &caught["message"], &caught["reason"]),
        (&"INTERRUPTED".into(), &"stop it".into(), &"stop it".into())
    );
    assert_eq!(kernel.drops(), 1);
}

#[tokio::test]
async fn phases_that_an_abort_ends_are_told_as_interrupted() {
    let kernel = FakeKernel::new();
    kernel.hang("run");
    let mut brain = Cognet::body("phase('act', function() kernel.run('x') end)").load(&kernel).await.unwrap();
    assert!(abort_when_waiting(&mut brain, &kernel).await.is_err());
    let phase = &kernel.emitted("cognet:phase:interrupted")[0];
    assert_eq!(phase["error"]["code"], Value::from("INTERRUPTED"));
}

#[tokio::test]
async fn a_wake_that_begins_aborted_runs_no_tick() {
    let kernel = FakeKernel::new();
    let mut brain = Cognet::body("kernel.emit('cognet:ran')").load(&kernel).await.unwrap();
    let controller = AbortController::new();
    controller.abort("too late");
    let outcome = brain.wake(Vec::new(), controller.signal()).await;
    assert_eq!(outcome, Err(WakeFailure::Interrupted { reason: "too late".to_owned(), ticks: 0 }));
    assert!(kernel.emitted("cognet:ran").is_empty());
}

#[tokio::test]
async fn a_wake_that_nobody_waits_for_any_more_ends_and_the_next_one_runs() {
    for body in ["kernel.run('x')", "while true do end"] {
        let kernel = FakeKernel::new();
        kernel.hang("run");
        let main = format!(
            "local n = 0\nloop(function(wake)\nn += 1\nif n == 1 then kernel.emit('cognet:first') {body} end\nwake.stop()\nend)"
        );
        let mut brain = Cognet::main(&main).load(&kernel).await.unwrap();
        let started = async {
            while kernel.emitted("cognet:first").is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            outcome = brain.wake(Vec::new(), AbortSignal::default()) => panic!("{outcome:?}"),
            () = started => {}
        }
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_brains_are_awake_at_once_on_any_kind_of_runtime() {
    let cognet = std::sync::Arc::new(Cognet::body("for n = 1, 5 do kernel.run('x') end"));
    let wakes = (0..40).map(|_| {
        let cognet = cognet.clone();
        tokio::spawn(async move {
            let kernel = FakeKernel::new();
            let mut brain = cognet.load(&kernel).await.unwrap();
            brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
            brain.shutdown().await.unwrap();
            kernel.contents("cognet:action:result").len()
        })
    });
    for wake in wakes.collect::<Vec<_>>() {
        assert_eq!(wake.await.unwrap(), 5);
    }
}

#[tokio::test]
async fn a_kernel_that_panics_fails_the_wake_and_the_next_one_runs() {
    for body in ["kernel.base()", "while true do pcall(kernel.base) end"] {
        let kernel = FakeKernel::new();
        kernel.hang("panic");
        let cognet = Cognet::body(body);
        let mut brain = cognet.load(&kernel).await.unwrap();
        let error = failure(brain.wake(Vec::new(), AbortSignal::default()).await);
        assert_eq!(error.code, "COGNET_RUNTIME", "{error}");
        kernel.hanging.lock().unwrap().clear();
        if body == "kernel.base()" {
            brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
        }
    }
}
