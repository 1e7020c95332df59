//! The seven verbs, their arguments and their errors.

use axon_runtime::{Format, Role, VerbError, WakeFailure};
use serde_json::json;

use crate::fake::{Cognet, FakeKernel, Step, code, delta, done, failure_of, outputs_of, text, wake_body};

#[tokio::test]
async fn an_output_has_returned_once_the_kernel_has_taken_it() {
    let kernel = FakeKernel::new();
    let body = "kernel.output('cognet:output:text', { content = 'one' })\n\
                local seen = kernel.store.session.get()\n\
                kernel.output('cognet:output:text', { content = tostring(#seen) .. seen[1].data.content })";
    wake_body(&kernel, body).await.unwrap();
    assert_eq!(kernel.outputs(), ["one", "1one"]);
}

#[tokio::test]
async fn a_stream_is_iterated_by_for_and_ends_after_its_last_event() {
    let kernel = FakeKernel::scripted([vec![delta("a"), delta("b"), text("ab"), code("1+1"), done()]]);
    let body = "local seen = {}\n\
                for event in kernel.stream { messages = { { role = 'user', content = 'hi' } }, format = 'raw', \
                maxTokens = 5, temperature = 0.5, model = 'm', signal = wake.signal } do\n\
                table.insert(seen, event.type .. '=' .. tostring(event.content or event.stopReason))\n\
                end\n\
                kernel.output('cognet:output:text', { content = table.concat(seen, ' ') })";
    wake_body(&kernel, body).await.unwrap();
    let wanted = "engine:text:delta=a engine:text:delta=b engine:text=ab engine:typescript=1+1 engine:done=stop";
    assert_eq!(kernel.outputs(), [wanted]);
    let requests = kernel.requests.lock().unwrap();
    let request = &requests[0];
    assert_eq!((request.format, request.max_tokens, request.temperature), (Format::Raw, Some(5), Some(0.5)));
    assert_eq!((request.messages[0].role, request.messages[0].content.as_str()), (Role::User, "hi"));
}

#[tokio::test]
async fn a_failing_stream_raises_in_the_loop_that_iterates_it() {
    let fault = VerbError::new("ENGINE_FAILED", "the model is gone");
    let kernel = FakeKernel::scripted([vec![delta("a"), Step::Fail(fault)]]);
    let body = "local count = 0\n\
                local ok, err = pcall(function() for event in kernel.stream { messages = {} } do count += 1 end end)\n\
                kernel.output('cognet:output:text', { content = `{ok} {err.code} {err.message} {tostring(err)} {count}` })";
    wake_body(&kernel, body).await.unwrap();
    assert_eq!(kernel.outputs(), ["false ENGINE_FAILED the model is gone ENGINE_FAILED: the model is gone 1"]);
}

#[tokio::test]
async fn a_stream_that_is_left_early_is_cancelled_by_the_end_of_the_wake() {
    let kernel = FakeKernel::scripted([vec![delta("a"), Step::Hang]]);
    wake_body(&kernel, "for _ in kernel.stream { messages = {} } do break end").await.unwrap();
    assert_eq!(kernel.drops(), 1);
}

#[tokio::test]
async fn one_block_gives_a_result_and_a_list_of_blocks_gives_a_list_in_order() {
    let body = "local one = kernel.run('x', { signal = wake.signal })\n\
                local many = kernel.run({ 'a', 'throw', 'c' })\n\
                kernel.output('cognet:output:text', { content = `{one.ok} {one.value} {one.stdout[1]}` })\n\
                kernel.output('cognet:output:text', { content = `{#many} {many[1].value} {many[3].value}` })\n\
                local bad = many[2]\n\
                kernel.output('cognet:output:text', { content = `{bad.ok} {bad.value} {bad.error.kind} {bad.error.message}` })\n\
                kernel.output('cognet:output:text', { content = tostring(#kernel.run({})) })";
    let wanted = ["true ran x a line", "3 ran a ran c", "false nil exception Error: as asked (block:1:1)", "0"];
    assert_eq!(outputs_of(body).await, wanted);
}

#[tokio::test]
async fn a_large_number_of_javascript_is_the_double_that_it_was() {
    let body = "local value = kernel.run('2 ** 60').value\nassert(value[1] == 2 ^ 60 and value[2] == require('@axon/json').null)";
    wake_body(&FakeKernel::new(), body).await.unwrap();
}

#[tokio::test]
async fn a_coroutine_may_wait_any_number_of_times() {
    let events = std::iter::repeat_with(|| delta("x")).take(30_000);
    let kernel = FakeKernel::scripted([events.collect()]);
    let body = "local n = 0\n\
                coroutine.wrap(function() for _ in kernel.stream { messages = {} } do n += 1 end end)()\nassert(n == 30000)";
    wake_body(&kernel, body).await.unwrap();
}

#[tokio::test]
async fn scope_base_and_store_answer_what_the_kernel_holds() {
    let kernel = FakeKernel::new();
    *kernel.base.lock().unwrap() = "be kind".to_owned();
    kernel.say("hello");
    let body = "assert(kernel.base() == 'be kind')\n\
                assert(kernel.scope().dts == 'declare namespace fs {}' and #kernel.scope().modules == 0)\n\
                assert(kernel.store.get('absent') == nil)\n\
                kernel.store.set('key', { n = 1, list = { 'a' } })\n\
                assert(kernel.store.get('key').list[1] == 'a')\n\
                local entries = kernel.store.session.get { after = -1 }\n\
                assert(#entries == 1 and entries[1].type == 'stimulus:text' and entries[1].time.seq == 0)\n\
                assert(entries[1].data.content == 'hello' and entries[1].context == nil)\n\
                assert(#kernel.store.session.get { after = 0 } == 0)";
    wake_body(&kernel, body).await.unwrap();
    assert_eq!(kernel.store.lock().unwrap()["key"], json!({ "n": 1, "list": ["a"] }));
}

#[tokio::test]
async fn base_is_an_empty_string_when_there_is_none() {
    assert_eq!(outputs_of("kernel.output('cognet:output:text', { content = `[{kernel.base()}]` })").await, ["[]"]);
}

#[tokio::test]
async fn verbs_suspend_in_for_pcall_metamethods_coroutines_and_nested_calls() {
    let body = "local say = function(text) kernel.output('cognet:output:text', { content = text }) end\n\
                for _, name in { 'a', 'b' } do say(name) end\n\
                pcall(function() say('pcall'); error('x') end)\n\
                xpcall(function() say('xpcall') end, print)\n\
                local object = setmetatable({}, { __index = function(_, key) say(key); return key end, \
                __call = function() say('call') end })\n\
                local _ = object.index\n\
                object()\n\
                coroutine.wrap(function() say('wrapped') end)()\n\
                local co = coroutine.create(function() say('one'); coroutine.yield('mid'); say('two') end)\n\
                local ok, value = coroutine.resume(co)\n\
                assert(ok and value == 'mid')\n\
                assert(coroutine.resume(co))\n\
                local nested = coroutine.wrap(function() return coroutine.wrap(function() return kernel.run('n').value end)() end)\n\
                say(nested())\n\
                table.sort({ 1, 2 }, function(a, b) say('sorted'); return a < b end)\n\
                string.gsub('x', 'x', function() say('replaced') end)\n\
                for _, name in setmetatable({}, { __iter = function() say('iter'); return next, {} end }) do end";
    let wanted =
        ["a", "b", "pcall", "xpcall", "index", "call", "wrapped", "one", "two", "ran n", "sorted", "replaced", "iter"];
    assert_eq!(outputs_of(body).await, wanted);
}

#[tokio::test]
async fn an_abort_reaches_a_verb_that_waits_in_a_metamethod() {
    let kernel = FakeKernel::new();
    kernel.hang("run");
    let body =
        "local object = setmetatable({}, { __index = function() return kernel.run('x') end })\nprint(object.field)";
    let mut brain = Cognet::body(body).load(&kernel).await.unwrap();
    assert!(matches!(crate::fake::abort_when_waiting(&mut brain, &kernel).await, Err(WakeFailure::Interrupted { .. })));
}

#[tokio::test]
async fn a_waiting_verb_blocks_no_other_task_of_a_single_threaded_runtime() {
    let kernel = FakeKernel::scripted([vec![Step::Hang]]);
    let mut brain = Cognet::body("for _ in kernel.stream { messages = {} } do end").load(&kernel).await.unwrap();
    let controller = axon_runtime::AbortController::new();
    let other = async {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        controller.abort("enough");
    };
    let (outcome, ()) = tokio::join!(brain.wake(Vec::new(), controller.signal()), other);
    assert!(outcome.is_err());
}

#[tokio::test]
async fn an_unknown_verb_names_the_nearest_and_the_seven() {
    let error = failure_of("kernel.ouput('cognet:output:text', {})").await;
    assert_eq!(error.code, "UNKNOWN_VERB");
    for part in ["ouput", "`output`", "base, emit, output, run, scope, store, stream"] {
        assert!(error.message.contains(part), "{error}");
    }
    assert_eq!(error.at.unwrap().line, 2);
    let error = failure_of("kernel.store.sett('a', 1)").await;
    assert!(error.message.contains("`set`"), "{error}");
}

#[tokio::test]
async fn the_kernel_is_frozen() {
    for body in [
        "kernel.output = print",
        "kernel.extra = 1",
        "rawset(kernel, 'x', 1)",
        "kernel.store.get = 1",
        "setmetatable(kernel, {})",
        "table.clear(kernel)",
    ] {
        assert_eq!(failure_of(body).await.code, "COGNET_RUNTIME", "{body}");
    }
}

#[tokio::test]
async fn unknown_fields_and_wrong_types_are_told() {
    for (body, code, part) in [
        ("kernel.stream { message = {} }", "UNKNOWN_FIELD", "`messages`"),
        ("kernel.stream { messages = { { role = 'user', contents = '' } } }", "UNKNOWN_FIELD", "`content`"),
        ("kernel.stream { messages = { { role = 'usr', content = '' } } }", "ARGUMENT_INVALID", "usr"),
        ("kernel.stream { messages = {}, format = 'xml' }", "ARGUMENT_INVALID", "xml"),
        ("kernel.stream { messages = {}, signal = {} }", "ARGUMENT_INVALID", "wake.signal"),
        ("kernel.stream()", "ARGUMENT_INVALID", "table"),
        ("kernel.run('x', { sginal = wake.signal })", "UNKNOWN_FIELD", "sginal"),
        ("kernel.run('x', { signal = {} })", "ARGUMENT_INVALID", "wake.signal"),
        ("kernel.run(7)", "ARGUMENT_INVALID", "number 7"),
        ("kernel.run({ 'a', 7 })", "ARGUMENT_INVALID", "block 2"),
        ("kernel.run({ a = 'b' })", "ARGUMENT_INVALID", "list of strings"),
        ("kernel.output(7, {})", "OUTPUT_INVALID", "type"),
        ("kernel.output('cognet:output:text', 'hi')", "OUTPUT_INVALID", "data"),
        ("kernel.output('cognet:output:text', { content = print })", "OUTPUT_INVALID", "content"),
        ("kernel.emit('cognet:x', 'text')", "ARGUMENT_INVALID", "data"),
        ("kernel.store.session.get { before = 1 }", "UNKNOWN_FIELD", "after"),
        ("kernel.store.session.get { after = 'x' }", "ARGUMENT_INVALID", "number"),
        ("kernel.store.set('key', nil)", "ARGUMENT_INVALID", "json.null"),
        ("kernel.store.get(7)", "ARGUMENT_INVALID", "key"),
        ("kernel.store.set('key', { print })", "JSON_INVALID", "1"),
        ("wake.stp()", "UNKNOWN_FIELD", "`stop`"),
        ("print(wake.signal.abort)", "UNKNOWN_FIELD", "aborted"),
        ("phase('', print)", "ARGUMENT_INVALID", "name"),
        ("phase('x')", "ARGUMENT_INVALID", "fn"),
    ] {
        let error = failure_of(body).await;
        assert_eq!(error.code, code, "{body}: {error}");
        assert!(error.message.contains(part), "{body}: {error}");
        assert_eq!(error.at.as_ref().map(|at| at.line), Some(2), "{body}: {error:?}");
    }
}

#[tokio::test]
async fn what_the_kernel_refuses_is_raised_as_it_says() {
    let error = failure_of("kernel.emit('kernel:run:start', {})").await;
    assert_eq!(error.code, "COGNET_EMIT_FORBIDDEN");
    let error = failure_of("kernel.output('cognet:output:smell', {})").await;
    assert_eq!(error.to_string(), "OUTPUT_INVALID: unknown type cognet:output:smell (at cognets/demo/src/main.lua:2)");
    assert_eq!(error.at.unwrap().source_line.as_deref(), Some("kernel.output('cognet:output:smell', {})"));
}

#[tokio::test]
async fn print_becomes_telemetry() {
    let kernel = FakeKernel::new();
    wake_body(&kernel, "print('a', 1, nil, true)").await.unwrap();
    assert_eq!(kernel.emitted("cognet:log:info"), [json!({ "value": "a\t1\tnil\ttrue" })]);
}

#[tokio::test]
async fn a_signal_of_an_earlier_wake_is_refused() {
    let kernel = FakeKernel::new();
    let main = "local old\nloop(function(wake)\nif old then kernel.run('x', { signal = old }) end\nold = wake.signal\nwake.stop()\nend)";
    let mut brain = Cognet::main(main).load(&kernel).await.unwrap();
    brain.wake(Vec::new(), Default::default()).await.unwrap();
    let error = crate::fake::failure(brain.wake(Vec::new(), Default::default()).await);
    assert_eq!(error.code, "ARGUMENT_INVALID");
}
