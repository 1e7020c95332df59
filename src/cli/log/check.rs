//! `axon log check`: every line of a session, and the way out when one is bad.

use std::path::Path;

use serde_json::{Value, json};

use crate::{
    cli::{
        args::Common,
        console::Console,
        failure::{Exit, Failure},
    },
    log::{self, Fault, FaultKind, Repair, Report},
};

/// Faults that are told one by one.
const MAX_TOLD_FAULTS: usize = 20;

pub(super) fn check(common: &Common, path: &Path, repair: bool) -> Result<(), Failure> {
    let session = path.file_stem().unwrap_or_default().to_string_lossy();
    let report = log::check(path)?;
    let repaired = if repair { Some(log::repair(path)?) } else { None };
    let mut console = Console::buffered();
    if common.json.is_some() {
        console.line(&as_json(&session, &report, repaired.as_ref()).to_string())?;
    } else {
        console.line(&as_text(&session, &report, repaired.as_ref()))?;
    }
    console.flush()?;
    if report.is_sound() || repaired.is_some() {
        return Ok(());
    }
    let message = format!("session {session} cannot be opened: {}", counted(report.faults.len() as u64, "fault"));
    let hint = format!("`axon log check --repair {session}` keeps the good lines and moves the bad ones aside");
    Err(Failure::new(Exit::Failed, "LOG_CORRUPT", message).hint(hint))
}

fn as_text(session: &str, report: &Report, repaired: Option<&Repair>) -> String {
    let state = match (report.is_sound(), report.torn_bytes) {
        (true, 0) => "sound",
        (true, _) => "sound but for a torn last line",
        (false, _) => "damaged",
    };
    let mut text = vec![format!(
        "session {session} is {state}: {}, {} of them entries, {} bytes",
        counted(report.lines, "good line"),
        report.entries,
        report.bytes
    )];
    if report.foreign > 0 {
        text.push(format!("  {} of another version, kept and passed over", counted(report.foreign, "line")));
    }
    if report.torn_bytes > 0 {
        text.push(format!("  {} bytes of an unfinished last line; opening moves them aside", report.torn_bytes));
    }
    for Fault { line, kind } in report.faults.iter().take(MAX_TOLD_FAULTS) {
        text.push(format!("  line {line}: {kind}"));
    }
    if report.faults.len() > MAX_TOLD_FAULTS {
        text.push(format!("  and {} more faults", report.faults.len() - MAX_TOLD_FAULTS));
    }
    if let Some(repair) = repaired {
        text.push(match (repair.moved, repair.torn_bytes) {
            (0, 0) if repair.gaps.is_empty() => "  nothing to repair".to_owned(),
            (moved, torn) => format!(
                "  repaired: {} kept, {} and {torn} torn bytes moved to files beside the session",
                counted(repair.kept, "line"),
                counted(moved, "bad line")
            ),
        });
    }
    text.join("\n")
}

fn as_json(session: &str, report: &Report, repaired: Option<&Repair>) -> Value {
    let faults: Vec<_> = report
        .faults
        .iter()
        .map(|Fault { line, kind }| {
            let name = match kind {
                FaultKind::Broken(_) => "broken",
                FaultKind::OutOfOrder { .. } => "outOfOrder",
                FaultKind::Gap { .. } => "gap",
            };
            json!({ "line": line, "kind": name, "message": kind.to_string() })
        })
        .collect();
    let mut told = json!({
        "session": session,
        "sound": report.is_sound(),
        "bytes": report.bytes,
        "lines": report.lines,
        "entries": report.entries,
        "foreign": report.foreign,
        "tornBytes": report.torn_bytes,
        "faults": faults,
    });
    if let Some(repair) = repaired {
        told["repaired"] = json!({
            "kept": repair.kept, "moved": repair.moved, "tornBytes": repair.torn_bytes, "gaps": repair.gaps,
        });
    }
    told
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}
