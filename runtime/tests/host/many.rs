//! Many instances in one process.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axon_runtime::{AbortController, AbortSignal, Brain, Kernel, Limits};
use tokio::task::JoinSet;

use crate::fake::{Cognet, FakeKernel, failure};

const AGENTS: usize = 1_000;
const AWAKE_AT_ONCE: usize = 100;

/// What an idle agent may hold, in bytes.
const IDLE_BYTES: usize = 2 << 20;

/// What a runaway may add to the wake of another.
const DELAY: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_agents_sleep_in_one_process_and_a_hundred_wake_at_once() {
    let cognet = Cognet::body("kernel.output('cognet:output:text', { content = 'awake' })");
    let kernel = FakeKernel::new();
    let mut loading = JoinSet::new();
    let mut brains: Vec<Brain> = Vec::with_capacity(AGENTS);
    for _ in 0..AGENTS {
        let (source, kernel) = (cognet.source.clone(), Arc::clone(&kernel) as Arc<dyn Kernel>);
        loading.spawn(async move { Brain::load(&source, kernel, Limits::default()).await.unwrap() });
        // No more threads at a time than wakes.
        if loading.len() >= AWAKE_AT_ONCE {
            brains.extend(loading.join_next().await.map(Result::unwrap));
        }
    }
    brains.extend(loading.join_all().await);
    assert_eq!(brains.len(), AGENTS);
    let largest = brains.iter().map(Brain::memory_bytes).max().unwrap();
    assert!(largest < IDLE_BYTES, "{largest}");

    let mut waking = JoinSet::new();
    for mut brain in brains.drain(..AWAKE_AT_ONCE) {
        waking.spawn(async move { brain.wake(Vec::new(), AbortSignal::default()).await.unwrap() });
    }
    assert_eq!(waking.join_all().await.len(), AWAKE_AT_ONCE);
    assert_eq!(kernel.outputs().len(), AWAKE_AT_ONCE);
}

/// The shortest of a few wakes: what else the machine does comes and goes, what a neighbour adds stays.
async fn shortest_wake(brain: &mut Brain) -> Duration {
    let mut shortest = Duration::MAX;
    for _ in 0..10 {
        let started = Instant::now();
        brain.wake(Vec::new(), AbortSignal::default()).await.unwrap();
        shortest = shortest.min(started.elapsed());
    }
    shortest
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runaways_do_not_delay_the_wake_of_another() {
    let (kernel, quiet) = (FakeKernel::new(), FakeKernel::new());
    let runaway = Cognet::body("kernel.emit('cognet:away') while true do pcall(function() while true do end end) end");
    let limits = Limits { cpu: Duration::from_secs(600), forced_end: Duration::from_millis(10), ..Limits::default() };
    let controller = AbortController::new();
    let mut away = JoinSet::new();
    for _ in 0..2 {
        let mut brain = runaway.load_within(&kernel, limits).await.unwrap();
        let signal = controller.signal();
        away.spawn(async move { brain.wake(Vec::new(), signal).await });
    }
    let mut brain = Cognet::body("kernel.run('x')").load(&quiet).await.unwrap();
    let alone = shortest_wake(&mut brain).await;
    while kernel.emitted("cognet:away").len() < 2 {
        tokio::task::yield_now().await;
    }
    let beside = shortest_wake(&mut brain).await;
    assert!(beside < alone + DELAY, "{beside:?} beside runaways, {alone:?} without");
    controller.abort("enough");
    for outcome in away.join_all().await {
        assert!(outcome.is_err());
    }
}

#[tokio::test]
async fn a_runaway_that_is_ended_leaves_the_others_their_state() {
    let kernel = FakeKernel::new();
    let counting = "local n = 0\nloop(function(wake)\nn += 1\nkernel.output('cognet:output:text', { content = tostring(n) })\nwake.stop()\nend)";
    let mut counter = Cognet::main(counting).load(&kernel).await.unwrap();
    for _ in 0..3 {
        let limits = Limits { cpu: Duration::from_millis(50), ..Limits::default() };
        let mut runaway = Cognet::body("while true do end").load_within(&kernel, limits).await.unwrap();
        let (ended, counted) = tokio::join!(
            runaway.wake(Vec::new(), AbortSignal::default()),
            counter.wake(Vec::new(), AbortSignal::default())
        );
        assert_eq!(failure(ended).code, "COGNET_CPU");
        counted.unwrap();
    }
    assert_eq!(kernel.outputs(), ["1", "2", "3"]);
}
