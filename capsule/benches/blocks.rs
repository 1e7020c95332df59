//! What blocks cost: `cargo bench -p axon-capsule --bench blocks`.
//!
//! One kernel, one capsule process. Every block gets a fresh isolate; its types are erased, it crosses to the process
//! and back. The process's own CPU time over the blocks is what making and running isolates costs.

use std::{
    io::{self, Write},
    sync::Arc,
    time::{Duration, Instant},
};

use axon_capsule::{Block, BoxFuture, Capsule, CapsuleHost, Datum, HOST_COMMAND, Launch, Limits, ToolCall, ToolError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

const WARM_UP: usize = 50;
const BLOCKS: usize = 1_000;
/// Time for the pool to be full again before a block whose own way is measured.
const REST: Duration = Duration::from_millis(15);

struct Silent;

impl CapsuleHost for Silent {
    fn call_tool(&self, _: ToolCall, _: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>> {
        Box::pin(async { Ok(Datum::Undefined) })
    }

    fn event(&self, _: &'static str, _: Map<String, Value>) {}
}

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some(HOST_COMMAND) {
        axon_capsule::serve();
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> io::Result<()> {
    let launch = Launch { program: std::env::current_exe()?, args: vec![HOST_COMMAND.into()] };
    let capsule = Capsule::new(launch, Limits::default(), Arc::new(Silent));
    for _ in 0..WARM_UP {
        run(&capsule, "1 + 1").await?;
    }
    let mut out = io::stdout();

    for (what, source) in [("1 + 1, warm", "1 + 1"), ("a binding read and changed", "n += 1")] {
        run(&capsule, "let n = 0").await?;
        let mut times = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS / 2 {
            tokio::time::sleep(REST).await;
            let began = Instant::now();
            run(&capsule, source).await?;
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64() * 1e3;
        writeln!(out, "{what:<34} p50 {:.3} ms   p99 {:.3} ms", at(50), at(99))?;
    }

    let cpu = process_cpu(&capsule)?;
    let began = Instant::now();
    for _ in 0..BLOCKS {
        run(&capsule, "1 + 1").await?;
    }
    let took = began.elapsed().as_secs_f64();
    writeln!(out, "{:<34} {:.0} a second", "one after another", BLOCKS as f64 / took)?;
    let spent = (process_cpu(&capsule)? - cpu).as_secs_f64() / BLOCKS as f64;
    writeln!(out, "{:<34} {:.2} ms of CPU", "a fresh isolate and its block", spent * 1e3)?;
    tokio::time::sleep(REST * 20).await;
    writeln!(out, "{:<34} {} MiB resident", "the process, idle, isolates warm", resident_kib(&capsule)? >> 10)?;
    capsule.shutdown().await;
    Ok(())
}

async fn run(capsule: &Capsule, source: &str) -> io::Result<()> {
    let block = Block {
        id: "bench".into(),
        source: source.into(),
        namespaces: Arc::default(),
        files: Arc::default(),
        bindings: capsule.bindings(),
    };
    capsule.run(block, CancellationToken::new()).await.result.map(drop).map_err(io::Error::other)
}

fn resident_kib(capsule: &Capsule) -> io::Result<u64> {
    let pid = capsule.pid().ok_or_else(|| io::Error::other("no process"))?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).ok_or_else(|| io::Error::other("no size"))
}

/// User and system time of the capsule's process, ended threads included.
fn process_cpu(capsule: &Capsule) -> io::Result<Duration> {
    let pid = capsule.pid().ok_or_else(|| io::Error::other("no process"))?;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(") ").next().unwrap_or_default();
    // The state comes first; user time is the 12th field from there, system time the 13th; 100 ticks a second.
    let field = |at: usize| after_name.split(' ').nth(at).and_then(|field| field.parse::<u64>().ok());
    let ticks = field(11).zip(field(12)).map(|(user, system)| user + system);
    ticks.map(|ticks| Duration::from_millis(ticks * 10)).ok_or_else(|| io::Error::other("no times"))
}
