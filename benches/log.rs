//! The session log: appends against plain writes, and long sessions.
//!
//! `cargo bench --bench log` measures appends. `cargo bench --bench log -- entries N` writes a session of N entries of
//! about 300 bytes and measures what is done with it, each in a process of its own, for the peak of its memory.

use std::{
    env, fs,
    fs::File,
    hint::black_box,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use axon::log::{Event, Fsync, SessionId, SessionLog};
use serde_json::json;
use tempfile::TempDir;

/// Appends that share one acknowledgement in the batched rows.
const BATCH: usize = 1_000;
const ROUNDS: usize = 5;
/// Asks this program, run again, for one measurement: what, and the agent folder.
const MEASURE: &str = "measure";

/// Folds the whole session at boot and says what it has seen.
const FOLDER: &str = "\
defineCognet { name = \"folder\", version = \"1\", abi = \"9\" }
local count, bytes = 0, 0
for _, entry in kernel.store.session.get() do
	count += 1
	bytes += #(entry.data.content or \"\")
end
loop(function(wake)
	wake.stop()
	kernel.output(\"cognet:output:text\", { content = `{count} entries` })
end)
";

fn main() -> io::Result<()> {
    let args: Vec<String> = env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [MEASURE, what, agent] => measure(what, Path::new(agent)),
        ["entries", count] => long_session(count.parse().map_err(io::Error::other)?),
        _ => appends(),
    }
}

fn id() -> SessionId {
    SessionId::parse("s").expect("a name")
}

fn event(n: usize) -> Event {
    Event::new("stimulus:text", json!({ "content": format!("{n:0>90}") }))
}

fn print(line: std::fmt::Arguments<'_>) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Appends a second under each policy, and plain writes of the same bytes: medians.
fn appends() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    print(format_args!("{:<34} {:>12} {:>14} {:>7}", "", "appends/s", "plain writes/s", "ratio"))?;
    for (name, policy, single, batched) in [
        ("never", Fsync::Never, 100_000, 500_000),
        ("wake", Fsync::Wake, 100_000, 500_000),
        ("always", Fsync::Always, 300, 100_000),
    ] {
        for (count, batch, how) in [(single, 1, "one at a time"), (batched, BATCH, "in batches of 1000")] {
            let mut rates = Vec::new();
            for _ in 0..ROUNDS {
                let dir = TempDir::new()?;
                let (log, _) = SessionLog::open(dir.path(), id(), "bench", policy).map_err(io::Error::other)?;
                let started = Instant::now();
                runtime.block_on(append(&log, count, batch))?;
                let took = started.elapsed();
                let path = log.path().to_owned();
                runtime.block_on(log.close()).map_err(io::Error::other)?;
                let plain = plain_writes(&path, count, batch, policy)?;
                rates.push((count as f64 / took.as_secs_f64(), count as f64 / plain.as_secs_f64()));
            }
            rates.sort_by(|a, b| a.0.total_cmp(&b.0));
            let (log, plain) = rates[ROUNDS / 2];
            let row = format!("fsync = \"{name}\", {how}");
            print(format_args!("{row:<34} {log:>12.0} {plain:>14.0} {:>7.2}", log / plain))?;
        }
    }
    Ok(())
}

/// The last of each batch is acknowledged, and with it those before it.
async fn append(log: &SessionLog, count: usize, batch: usize) -> io::Result<()> {
    for n in 1..=count {
        if n % batch == 0 {
            log.commit(event(n)).await.map_err(io::Error::other)?;
        } else {
            log.emit(event(n));
        }
    }
    Ok(())
}

/// Writes the lines of a session to another file, without making them.
fn plain_writes(session: &Path, count: usize, batch: usize, policy: Fsync) -> io::Result<Duration> {
    let lines: Vec<String> = fs::read_to_string(session)?.split_inclusive('\n').skip(1).map(str::to_owned).collect();
    let batches: Vec<String> = lines[..count].chunks(batch).map(|lines| lines.concat()).collect();
    let mut file = File::create(session.with_extension("plain"))?;
    let started = Instant::now();
    for batch in &batches {
        file.write_all(batch.as_bytes())?;
        if policy == Fsync::Always {
            file.sync_data()?;
        }
    }
    Ok(started.elapsed())
}

fn long_session(count: usize) -> io::Result<()> {
    let agent = TempDir::new()?;
    fs::create_dir(agent.path().join("cognets"))?;
    fs::write(agent.path().join("cognets/folder.lua"), FOLDER)?;
    fs::write(agent.path().join("axon.toml"), "[cognet]\nmemory_mb = 16000\ncpu_ms = 600000\n")?;
    let (log, _) =
        SessionLog::open(&agent.path().join("data/sessions"), id(), "bench", Fsync::Never).map_err(io::Error::other)?;
    for n in 0..count {
        log.emit(event(n));
    }
    drop(log);
    let session = agent.path().join("data/sessions/s.jsonl");
    let bytes = fs::metadata(&session)?.len();
    print(format_args!("{count} entries, {} MB, {} bytes each", bytes / 1_000_000, bytes / count as u64))?;
    print(format_args!("{:<44} {:>9} {:>12} {:>14}", "", "time", "peak memory", "of the file"))?;
    for what in ["open", "fold", "tail", "nothing new"] {
        let mut command = Command::new(env::current_exe()?);
        command.args([MEASURE, what]).arg(agent.path());
        row(what, command, bytes)?;
    }
    for args in [
        &["log", "list"] as &[&str],
        &["log", "show", "s", "--last", "20"],
        &["log", "export", "s"],
        &["log", "export", "s", "--markdown"],
        &["log", "check", "s"],
        &["run", "--session", "s", "--cognet", "folder", "go"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_axon"));
        command.arg("-C").arg(agent.path()).args(args);
        row(&format!("axon {}", args.join(" ")), command, bytes)?;
    }
    Ok(())
}

/// Runs a command to its end. A measurement says how long its work took; else the whole process counts.
fn row(name: &str, mut command: Command, file_bytes: u64) -> io::Result<()> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let peak = std::thread::spawn(move || peak_of(&status));
    let mut said = None;
    let mut out = BufReader::new(child.stdout.take().ok_or_else(|| io::Error::other("no output"))?);
    let mut line = Vec::new();
    while out.read_until(b'\n', &mut line)? > 0 {
        if let Some(took) = line.strip_prefix(b"TOOK ") {
            said = Some(String::from_utf8_lossy(took).trim().to_owned());
        }
        line.clear();
    }
    if !child.wait()?.success() {
        return Err(io::Error::other(format!("{name} failed")));
    }
    let took = said.unwrap_or_else(|| format!("{:.0} ms", started.elapsed().as_secs_f64() * 1e3));
    let peak = peak.join().map_err(|_| io::Error::other("the watcher failed"))?;
    print(format_args!("{name:<44} {took:>9} {:>9} MB {:>13.2}×", peak / 1_000_000, peak as f64 / file_bytes as f64))
}

/// The most memory that a process has held, in bytes, as far as it is seen before it ends.
fn peak_of(status: &Path) -> u64 {
    let mut peak = 0;
    while let Ok(text) = fs::read_to_string(status) {
        let kib = text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
        let Some(kib) = kib else { break };
        peak = u64::max(peak, kib);
        std::thread::sleep(Duration::from_millis(1));
    }
    peak * 1024
}

fn measure(what: &str, agent: &Path) -> io::Result<()> {
    let started = Instant::now();
    let (log, _) =
        SessionLog::open(&agent.join("data/sessions"), id(), "bench", Fsync::Never).map_err(io::Error::other)?;
    let opened = started.elapsed();
    let last = log.last_seq().unwrap_or_default();
    match what {
        "open" => print(format_args!("TOOK {} ms", opened.as_millis())),
        "fold" => {
            let content = |entry: axon_runtime::Entry| entry.data["content"].as_str().map_or(0, str::len);
            let bytes: usize = log.entries(None).map_while(Result::ok).map(content).sum();
            black_box(bytes);
            print(format_args!("TOOK {} ms", started.elapsed().as_millis()))
        }
        "tail" => {
            let started = Instant::now();
            black_box(log.entries_after(last.checked_sub(21)).map_err(io::Error::other)?);
            print(format_args!("TOOK {} µs", started.elapsed().as_micros()))
        }
        _ => {
            const CALLS: u32 = 1_000_000;
            let started = Instant::now();
            for _ in 0..CALLS {
                black_box(log.entries(black_box(Some(last))).next().is_none());
            }
            print(format_args!("TOOK {} ns", (started.elapsed() / CALLS).as_nanos()))
        }
    }
}
