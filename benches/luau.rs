//! The Luau host: `cargo bench --bench luau`.
//!
//! Verbs are timed by a cognet, over a session with a real log; instances are loaded over a kernel that does nothing.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use axon::{Agent, BUNDLED, Session, SessionOptions, WakeOutcome, policy::Unattended};
use axon_runtime::{AbortController, AbortSignal, Brain, CognetSource, DryKernel, Limits};
use serde_json::Value;
use tokio::task::JoinSet;

const LOADS: usize = 200;
const IDLE: usize = 1_000;
const AWAKE_AT_ONCE: usize = 100;

/// Times each verb in batches and says the median of a call, in microseconds; then steps of a loop, in nanoseconds.
const METER: &str = r#"
defineCognet { name = "meter", version = "1.0.0", abi = "9" }

local function median(batches: number, calls: number, fn: () -> ())
	local times = {}
	for batch = 1, batches do
		local started = os.clock()
		for _ = 1, calls do
			fn()
		end
		times[batch] = (os.clock() - started) / calls
	end
	table.sort(times)
	return times[(batches + 1) // 2]
end

local function say(name: string, value: number, unit: string)
	kernel.output("cognet:output:text", { content = `{name}\t{string.format("%.3f", value)} {unit}` })
end

loop(function(wake)
	wake.stop()
	local emitted = { n = 1 }
	say("kernel.emit", median(21, 2000, function() kernel.emit("cognet:meter", emitted) end) * 1e6, "µs")
	local said = { content = "a word or two" }
	say("kernel.output", median(21, 500, function() kernel.output("cognet:output:text", said) end) * 1e6, "µs")
	local entries = kernel.store.session.get()
	local tail = { after = entries[#entries].time.seq + 1000 }
	say("kernel.store.session.get, nothing new", median(21, 5000, function() kernel.store.session.get(tail) end) * 1e6, "µs")
	say("kernel.base", median(21, 5000, function() kernel.base() end) * 1e6, "µs")
	local function steps() for _ = 1, 1000000 do end end
	say("a step of a loop (a safepoint)", median(21, 5, steps) * 1e3, "ns")
end)
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    axon::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        loads().await?;
        instances().await?;
        verbs("default limits", "").await?;
        verbs("limits out of reach", "[cognet]\ncpu_ms = 86400000\nmemory_mb = 65536\n").await
    })
}

fn print(name: &str, value: impl std::fmt::Display) -> io::Result<()> {
    writeln!(io::stdout(), "{name:<48} {value}")
}

fn zero() -> Result<CognetSource, &'static str> {
    let zero = BUNDLED.iter().find(|cognet| cognet.name == "zero").ok_or("zero is bundled")?;
    Ok(CognetSource::Embedded { name: zero.name, files: zero.files })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn loads() -> Result<(), Box<dyn std::error::Error>> {
    let source = zero()?;
    let mut times = Vec::with_capacity(LOADS);
    for _ in 0..LOADS {
        let started = Instant::now();
        let brain = Brain::load(&source, Arc::new(DryKernel::default()), Limits::default()).await?;
        times.push(started.elapsed());
        drop(brain);
    }
    print("a new VM with zero loaded", format_args!("{:.2?}", median(times)))?;
    Ok(())
}

async fn instances() -> Result<(), Box<dyn std::error::Error>> {
    let source = zero()?;
    let before = resident_bytes();
    let mut brains = Vec::with_capacity(IDLE);
    let started = Instant::now();
    for _ in 0..IDLE {
        brains.push(Brain::load(&source, Arc::new(DryKernel::default()), Limits::default()).await?);
    }
    print(&format!("{IDLE} agents loaded in one process"), format_args!("{:.2?}", started.elapsed()))?;
    print("the heap of an idle agent", format_args!("{} KiB", brains[0].memory_bytes() >> 10))?;
    if let (Some(before), Some(after)) = (before, resident_bytes()) {
        print("resident memory of each", format_args!("{} KiB", (after.saturating_sub(before) / IDLE) >> 10))?;
    }
    // Zero asks a model first, which fails here: the whole way into the brain and out again.
    let mut waking = JoinSet::new();
    let started = Instant::now();
    for mut brain in brains.drain(..AWAKE_AT_ONCE) {
        waking.spawn(async move { brain.wake(Vec::new(), AbortSignal::default()).await.is_err() });
    }
    waking.join_all().await;
    print(&format!("{AWAKE_AT_ONCE} of them woken at once, all done"), format_args!("{:.2?}", started.elapsed()))?;
    Ok(())
}

async fn verbs(limits: &str, config: &str) -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::TempDir::new()?;
    std::fs::create_dir(dir.path().join("cognets"))?;
    std::fs::write(dir.path().join("cognets/meter.lua"), METER)?;
    std::fs::write(dir.path().join("axon.toml"), config)?;
    let agent = Agent::open(dir.path())?;
    let options =
        SessionOptions { session: None, cognet: None, engine: None, recording: None, approver: Arc::new(Unattended) };
    let mut session = Session::open(&agent, options).await?;
    match session.wake(&AbortController::new()).await? {
        WakeOutcome::Complete { .. } => {}
        other => return Err(format!("the meter failed: {other:?}").into()),
    }
    for entry in session.log().entries_after(None)? {
        let said = entry.data.get("content").and_then(Value::as_str).unwrap_or_default();
        if let Some((name, value)) = said.split_once('\t') {
            print(&format!("{name}, {limits}"), value)?;
        }
    }
    session.close().await?;
    Ok(())
}

/// What this process holds in memory, where the system tells.
fn resident_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<usize>().ok().map(|kib| kib << 10)
}
