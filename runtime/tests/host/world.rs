//! The ECS world of a wake.

use axon_runtime::AbortSignal;
use serde_json::json;

use crate::fake::{Cognet, FakeKernel, failure_of, outputs_of, wake_body};

#[tokio::test]
async fn entities_and_components_are_written_read_and_taken_away() {
    let body = "local e = world.spawn { at = 1, name = 'x' }\n\
                assert(world.get(e, 'at') == 1 and world.has(e, 'name') and world.get(e, 'none') == nil)\n\
                world.set(e, 'at', 2)\nassert(world.get(e, 'at') == 2)\n\
                world.remove(e, 'at')\nworld.remove(e, 'at')\nassert(not world.has(e, 'at'))\n\
                world.despawn(e)\nassert(not pcall(world.get, e, 'name'))";
    let kernel = FakeKernel::new();
    wake_body(&kernel, body).await.unwrap();
    let kinds: Vec<_> = kernel.emitted_kinds().into_iter().filter(|kind| !kind.contains(":tick:")).collect();
    assert_eq!(
        kinds,
        [
            "cognet:entity:add",
            "cognet:component:add",
            "cognet:component:add",
            "cognet:component:update",
            "cognet:component:remove",
            "cognet:component:remove",
            "cognet:entity:remove",
        ]
    );
    assert_eq!(kernel.emitted("cognet:component:update"), [json!({ "tick": 1, "entity": 1, "component": "at" })]);
    assert_eq!(kernel.emitted("cognet:entity:remove"), [json!({ "tick": 1, "entity": 1 })]);
}

#[tokio::test]
async fn writes_in_a_phase_name_it() {
    let kernel = FakeKernel::new();
    wake_body(&kernel, "phase('plan', function() world.spawn() end)").await.unwrap();
    assert_eq!(kernel.emitted("cognet:entity:add")[0]["phase"], "plan");
}

#[tokio::test]
async fn a_query_goes_in_spawn_order_and_may_be_written_to_meanwhile() {
    let body = "for n = 1, 5 do world.spawn { n = n, odd = n % 2 == 1 or nil } end\n\
                local seen = {}\n\
                for entity, n in world.query { with = { 'n' }, without = { 'gone' }, where = function(_, n) return n ~= 2 end } do\n\
                table.insert(seen, n)\nif n == 1 then world.despawn(3); world.set(4, 'gone', true); world.spawn { n = 9 } end\nend\n\
                kernel.output('cognet:output:text', { content = table.concat(seen, ' ') })\n\
                local odd = {}\nfor _, n, flag in world.query { with = { 'n', 'odd' } } do table.insert(odd, `{n}{flag}`) end\n\
                kernel.output('cognet:output:text', { content = table.concat(odd, ' ') })";
    assert_eq!(outputs_of(body).await, ["1 5", "1true 5true"]);
}

#[tokio::test]
async fn a_watcher_sees_each_write_of_its_component_until_it_is_ended() {
    let body = "local seen = {}\n\
                local stop = world.watch('a', function(e, value, before) table.insert(seen, `{e}:{before}->{value}`) end)\n\
                local e = world.spawn { a = 1, b = 1 }\nworld.set(e, 'a', 2)\nworld.remove(e, 'a')\nstop()\nworld.set(e, 'a', 3)\n\
                kernel.output('cognet:output:text', { content = table.concat(seen, ' ') })";
    assert_eq!(outputs_of(body).await, ["1:nil->1 1:1->2 1:2->nil"]);
}

#[tokio::test]
async fn each_wake_has_a_fresh_world_and_watchers_from_loading_stay() {
    let main = "world.watch('a', function(e) print(e) end)\n\
                loop(function(wake)\nassert(world.query { with = { 'a' } }() == nil)\nworld.spawn { a = 1 }\nwake.stop()\nend)";
    let kernel = FakeKernel::new();
    let mut brain = Cognet::main(main).load(&kernel).await.unwrap();
    for _ in 0..2 {
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
    }
    assert_eq!(kernel.emitted("cognet:log:info"), [json!({ "value": "1" }), json!({ "value": "1" })]);
}

#[tokio::test]
async fn mistakes_with_the_world_are_told() {
    for (body, code) in [
        ("world.get(7, 'a')", "ENTITY_UNKNOWN"),
        ("world.set(world.spawn(), 'a', nil)", "ARGUMENT_INVALID"),
        ("world.query { wth = {} }", "UNKNOWN_FIELD"),
        ("world.spwan()", "UNKNOWN_FIELD"),
    ] {
        let error = failure_of(body).await;
        assert_eq!((error.code.as_str(), error.at.as_ref().unwrap().line), (code, 2), "{body}: {error}");
    }
    let error = Cognet::main("world.spawn()\nloop(function() end)").load(&FakeKernel::new()).await.err().unwrap();
    assert_eq!(error.code, "SYSCALL_OUTSIDE_WAKE");
}
