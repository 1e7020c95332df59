//! How long it takes from a save until the new brain serves: `cargo bench --bench reload`.
//!
//! `axon dev` serves a copy of zero; its state file is saved again and again, each time with another content. Two times are
//! taken: from the save to the entry `axon:reload:complete`, debounce included, and what that entry says of itself.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::Value;

const SAVES: usize = 200;

/// Far more than a reload takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::TempDir::new()?;
    let axon = env!("CARGO_BIN_EXE_axon");
    let agent = ["-C", dir.path().to_str().ok_or("a plain path")?];
    let cloned = Command::new(axon).args(agent).args(["clone", "@axon/zero", "mind"]).stdout(Stdio::null()).status()?;
    if !cloned.success() {
        return Err("zero could not be cloned".into());
    }
    let mut dev = Command::new(axon)
        .args(agent)
        .args(["dev", "--headless", "--session", "bench"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let log = dir.path().join("data/sessions/bench.jsonl");
    until(|| of_kind(&log, "cognet:load:complete").map(|found| !found.is_empty()))?;

    let state = dir.path().join("cognets/mind/src/state.lua");
    let source = fs::read_to_string(&state)?;
    let (mut whole, mut own) = (Vec::new(), Vec::new());
    for n in 1..=SAVES {
        let saved = now_ms()?;
        fs::write(&state, format!("{source}\n-- {n}\n"))?;
        until(|| of_kind(&log, "axon:reload:complete").map(|found| found.len() >= n))?;
        let found = of_kind(&log, "axon:reload:complete")?;
        let reloaded = found.last().ok_or("a reload")?;
        whole.push(reloaded["time"]["ms"].as_u64().ok_or("a time")?.saturating_sub(saved));
        own.push(reloaded["data"]["durationMs"].as_u64().ok_or("a duration")?);
    }
    drop(dev.stdin.take());
    dev.wait()?;
    let mut out = io::stdout();
    writeln!(out, "{SAVES} saves of a file of zero")?;
    for (what, times) in [("save to serving", &mut whole), ("look, load and swap", &mut own)] {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        writeln!(out, "{what:<20} p50 {:>4} ms   p99 {:>4} ms", at(50), at(99))?;
    }
    Ok(())
}

fn now_ms() -> Result<u64, Box<dyn std::error::Error>> {
    Ok(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

fn of_kind(log: &Path, kind: &str) -> io::Result<Vec<Value>> {
    let text = fs::read_to_string(PathBuf::from(log)).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let marked = format!("\"type\":\"{kind}\"");
    Ok(whole.lines().filter(|line| line.contains(&marked)).filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn until(mut ready: impl FnMut() -> io::Result<bool>) -> Result<(), Box<dyn std::error::Error>> {
    let began = Instant::now();
    while !ready()? {
        if began.elapsed() > PATIENCE {
            return Err("nothing was reloaded".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
