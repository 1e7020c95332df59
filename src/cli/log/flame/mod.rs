//! `axon log flame`: where a wake spent its time, as SVG.
//!
//! Time runs from left to right, so that what ran side by side, such as the blocks of one call, is seen side by side. A
//! flame graph of merged stacks would add such times up.

mod spans;
mod svg;

use std::{collections::HashMap, fs, path::Path};

use spans::{SpanBuilder, Wake};

use crate::{
    cli::{
        console::Console,
        failure::{Exit, Failure},
    },
    log::SessionReader,
};

/// Which wakes are drawn.
pub(super) enum Wakes {
    Last,
    /// The one whose id begins so.
    Run(String),
    All,
}

impl Wakes {
    pub(super) fn chosen(run: Option<String>, all: bool) -> Self {
        match run {
            Some(run) => Self::Run(run),
            None if all => Self::All,
            None => Self::Last,
        }
    }
}

pub(super) fn flame(path: &Path, wakes: &Wakes, output: Option<&Path>) -> Result<(), Failure> {
    let session = path.file_stem().unwrap_or_default().to_string_lossy();
    let drawn = read(path, wakes)?;
    if drawn.is_empty() {
        let message = match wakes {
            Wakes::Run(run) => format!("session {session} has no wake whose id begins with {run:?}"),
            Wakes::Last | Wakes::All => format!("session {session} has no wake to draw"),
        };
        return Err(Failure::new(Exit::Usage, "WAKE_NOT_FOUND", message)
            .hint("`axon log show --type kernel:run --json` lists the wakes with their ids"));
    }
    let picture = svg::draw(&drawn);
    match output {
        Some(file) => fs::write(file, picture).map_err(|error| {
            Failure::new(Exit::Failed, "IO", format!("{} could not be written: {error}", file.display()))
        }),
        None => Ok(Console::stdout().raw(&picture)?),
    }
}

fn read(path: &Path, wakes: &Wakes) -> Result<Vec<Wake>, Failure> {
    let mut open: HashMap<String, SpanBuilder> = HashMap::new();
    let mut order: Vec<String> = Vec::new();
    for line in SessionReader::open(path)? {
        let Some(envelope) = line?.envelope() else { continue };
        let Some(run) = envelope.context.run_id.clone() else { continue };
        if matches!(wakes, Wakes::Run(wanted) if !run.starts_with(wanted.as_str())) {
            continue;
        }
        if !open.contains_key(&run) {
            if matches!(wakes, Wakes::Last) {
                open.clear();
                order.clear();
            }
            order.push(run.clone());
        }
        open.entry(run).or_default().take(&envelope);
    }
    Ok(order.iter().filter_map(|run| open.remove(run)?.finish()).collect())
}
