//! The commands of `axon log` and their flags.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use clap::Subcommand;

use crate::{cli::args::Json, log::Envelope};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum LogCommand {
    /// The sessions of the agent, newest last
    #[command(after_help = "Example:\n  axon log list")]
    List,
    /// One session as a conversation; the last one when none is named
    #[command(after_help = "\
Examples:
  axon log show
  axon log show --last 20
  axon log show --all --since 10m
  axon log show --type cognet:action --json")]
    Show {
        /// The session; the last one when none is named
        id: Option<String>,
        #[command(flatten)]
        filter: Filter,
        /// Only the last COUNT turns that pass the filter
        #[arg(long = "last", value_name = "COUNT")]
        turns: Option<usize>,
        /// Engine inputs with every message in full, not as references to earlier inputs
        #[arg(long)]
        expand: bool,
    },
    /// Follow one session as it grows
    #[command(after_help = "\
Examples:
  axon log tail --all
  axon log tail --last 5")]
    Tail {
        /// The session; the last one when none is named
        id: Option<String>,
        #[command(flatten)]
        filter: Filter,
        /// Begin with the last COUNT turns that pass the filter
        #[arg(long = "last", value_name = "COUNT")]
        turns: Option<usize>,
    },
    /// Print a session's envelopes as they are stored, or as a conversation to read
    #[command(after_help = "\
Examples:
  axon log export > session.jsonl
  axon log export --entries > entries.jsonl
  axon log export --markdown > conversation.md")]
    Export {
        /// The session; the last one when none is named
        id: Option<String>,
        #[command(flatten)]
        selection: Selection,
        /// Entries alone: what cognets and users see
        #[arg(long)]
        entries: bool,
        /// A conversation in Markdown
        #[arg(long, conflicts_with_all = ["entries", "expand"])]
        markdown: bool,
        /// Engine inputs with every message in full, not as references to earlier inputs
        #[arg(long)]
        expand: bool,
    },
    /// Check every line of a session, and repair it when asked
    #[command(after_help = "\
Examples:
  axon log check
  axon log check --repair

A repair keeps the good lines, moves the bad ones to files beside the session and notes in it what is missing.
Exit codes: 0 sound or repaired, 1 damaged, 2 usage.")]
    Check {
        /// The session; the last one when none is named
        id: Option<String>,
        /// Keep the good lines and move the bad ones aside
        #[arg(long)]
        repair: bool,
    },
    /// Draw where a wake spent its time: ticks, phases, engine calls, blocks and tools, as SVG
    #[command(after_help = "\
Examples:
  axon log flame > wake.svg
  axon log flame --all --output session.svg")]
    Flame {
        /// The session; the last one when none is named
        id: Option<String>,
        /// The wake whose id begins so; the last one when none is named
        #[arg(long, value_name = "ID")]
        run: Option<String>,
        /// Every wake of the session
        #[arg(long, conflicts_with = "run")]
        all: bool,
        /// Where to write; standard output when absent
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove old sessions; without --delete it only tells which
    #[command(after_help = "\
Examples:
  axon log prune --older-than 30days
  axon log prune --max-size 1GiB --delete

Sessions that somebody writes are left alone.")]
    Prune {
        #[command(flatten)]
        limits: Limits,
        /// Remove them; there is no way back
        #[arg(long)]
        delete: bool,
        /// Only tell what would be removed, which is the default
        #[arg(long, conflicts_with = "delete")]
        dry_run: bool,
    },
}

/// Which envelopes.
#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct Selection {
    /// Only this type or family, such as cognet:action or kernel; may be repeated
    #[arg(long = "type", visible_alias = "family", value_name = "TYPE")]
    types: Vec<String>,
    /// Only the wake whose id begins so
    #[arg(long, value_name = "ID")]
    run: Option<String>,
    /// Only from then on: a duration ago such as 2h, or a date and time in UTC such as 2026-08-01T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    since: Option<u64>,
    /// Only until then
    #[arg(long, value_name = "WHEN", value_parser = moment)]
    until: Option<u64>,
}

#[derive(Debug, Default, clap::Args)]
pub(in crate::cli) struct Filter {
    #[command(flatten)]
    pub(super) selection: Selection,
    /// Telemetry too
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub(in crate::cli) struct Limits {
    /// Those last written longer ago than this, such as 12h or 30days
    #[arg(long, value_name = "AGE", value_parser = humantime::parse_duration)]
    pub(super) older_than: Option<Duration>,
    /// The oldest, until the others together are within this size, such as 500MB or 2GiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(super) max_size: Option<u64>,
}

impl Selection {
    /// Whether a type was asked for.
    pub(super) fn names_types(&self) -> bool {
        !self.types.is_empty()
    }

    /// What can be told without parsing the envelope.
    pub(super) fn takes_type(&self, kind: &str) -> bool {
        self.types.is_empty()
            || self.types.iter().any(|wanted| {
                let family = wanted.trim_end_matches(['*', ':']);
                kind == family || kind.strip_prefix(family).is_some_and(|rest| rest.starts_with(':'))
            })
    }

    pub(super) fn takes(&self, envelope: &Envelope) -> bool {
        let ms = envelope.time.ms;
        let run = envelope.context.run_id.as_deref();
        self.takes_type(&envelope.kind)
            && self.run.as_deref().is_none_or(|wanted| run.is_some_and(|run| run.starts_with(wanted)))
            && self.since.is_none_or(|since| since <= ms)
            && self.until.is_none_or(|until| ms <= until)
    }

    /// Whether every line passes, those of another version included.
    pub(super) fn is_everything(&self) -> bool {
        self.types.is_empty() && self.run.is_none() && self.since.is_none() && self.until.is_none()
    }
}

impl Filter {
    /// `--json=all` asks for telemetry as `--all` does.
    pub(super) fn with(self, json: Option<Json>) -> Self {
        Self { all: self.all || json == Some(Json::All), ..self }
    }

    /// What to say where nothing passes.
    pub(super) fn why_empty(&self) -> String {
        match (self.selection.types.as_slice(), self.selection.is_everything()) {
            ([], true) if self.all => "it holds nothing".to_owned(),
            ([], true) => "it has no entries; --all shows telemetry".to_owned(),
            ([], false) => "nothing in it is of that time or wake".to_owned(),
            (types, _) => format!(
                "nothing in it is of type {}; a type is whole or the beginning up to a colon, as cognet:action",
                types.join(" or ")
            ),
        }
    }

    /// What can be told without parsing the envelope. Telemetry is shown when it is asked for.
    pub(super) fn takes_type(&self, kind: &str, is_entry: bool) -> bool {
        (is_entry || self.all || self.selection.names_types()) && self.selection.takes_type(kind)
    }

    pub(super) fn takes(&self, envelope: &Envelope) -> bool {
        self.takes_type(&envelope.kind, envelope.is_entry()) && self.selection.takes(envelope)
    }
}

/// Milliseconds since the Unix epoch of a moment in words.
fn moment(text: &str) -> Result<u64, String> {
    let at = match humantime::parse_duration(text) {
        Ok(ago) => SystemTime::now().checked_sub(ago),
        Err(_) => {
            let whole = if text.len() == "2026-08-01".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
            humantime::parse_rfc3339_weak(&whole).ok()
        }
    };
    let since_epoch = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    since_epoch.and_then(|since| u64::try_from(since.as_millis()).ok()).ok_or_else(|| {
        "neither a duration ago such as 2h nor a date such as 2026-08-01 or 2026-08-01T12:00:00Z (UTC)".to_owned()
    })
}

/// Bytes of a size in words.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 8] = [
        ("", 1),
        ("b", 1),
        ("kb", 1000),
        ("mb", 1000 * 1000),
        ("gb", 1000 * 1000 * 1000),
        ("kib", 1 << 10),
        ("mib", 1 << 20),
        ("gib", 1 << 30),
    ];
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit = text[digits..].trim().to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let number = text[..digits].parse::<u64>().ok();
    number
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .ok_or_else(|| "a size is a whole number with B, KB, MB, GB, KiB, MiB or GiB, such as 500MB".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log::{Context, ENVELOPE_VERSION, Time};

    fn filter(types: &[&str], all: bool) -> Filter {
        let selection = Selection { types: types.iter().map(|t| t.to_string()).collect(), ..Selection::default() };
        Filter { selection, all }
    }

    #[test]
    fn a_type_filter_takes_the_type_and_its_family_and_no_lookalike() {
        assert!(filter(&["cognet:action"], false).takes_type("cognet:action:result", true));
        assert!(filter(&["cognet:action:*"], false).takes_type("cognet:action:result", true));
        assert!(filter(&["kernel"], false).takes_type("kernel:run:start", false));
        assert!(!filter(&["cognet:act"], false).takes_type("cognet:action:result", true));
        assert!(filter(&[], false).takes_type("stimulus:text", true));
        assert!(!filter(&[], false).takes_type("kernel:run:start", false));
        assert!(filter(&[], true).takes_type("kernel:run:start", false));
        assert!(!filter(&["kernel"], true).takes_type("stimulus:text", true));
    }

    #[test]
    fn a_selection_takes_a_wake_and_a_span_of_time() {
        let at = |ms, run: Option<&str>| Envelope {
            v: ENVELOPE_VERSION,
            id: String::new(),
            kind: "stimulus:text".into(),
            time: Time { ms, seq: 0 },
            context: Context {
                agent_id: String::new(),
                session_id: String::new(),
                run_id: run.map(str::to_owned),
                span_id: None,
            },
            data: json!({}),
        };
        let run = Selection { run: Some("ab".into()), ..Selection::default() };
        assert!(run.takes(&at(0, Some("abc"))) && !run.takes(&at(0, Some("b"))) && !run.takes(&at(0, None)));
        let time = Selection { since: Some(5), until: Some(7), ..Selection::default() };
        assert_eq!((4..9).filter(|&ms| time.takes(&at(ms, None))).collect::<Vec<_>>(), [5, 6, 7]);
    }

    #[test]
    fn moments_and_sizes_are_read_as_people_write_them() {
        assert_eq!(moment("1970-01-02"), Ok(86_400_000));
        assert_eq!(moment("1970-01-01T00:00:01Z"), Ok(1_000));
        assert_eq!(moment("1970-01-01 00:00:01"), Ok(1_000));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        assert!(moment("1h").unwrap() <= now - 3_590_000);
        assert!(moment("yesterday").is_err() && moment("").is_err());
        assert_eq!((size("12"), size("3 KiB"), size("1GB")), (Ok(12), Ok(3072), Ok(1_000_000_000)));
        assert!(size("1.5MB").is_err() && size("MB").is_err() && size("99999999999GiB").is_err());
    }
}
