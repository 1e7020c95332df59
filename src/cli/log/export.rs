//! `axon log export`: a session's envelopes as they are stored, or a conversation in Markdown.

use std::{io, path::Path};

use super::{args::Selection, markdown::Markdown};
use crate::{
    cli::{console::Console, failure::Failure},
    log::{InputExpander, Line, LogError, SessionReader},
};

pub(super) fn envelopes(path: &Path, selection: &Selection, entries_only: bool, expand: bool) -> Result<(), Failure> {
    let mut console = Console::buffered();
    let mut expander = expand.then(InputExpander::default);
    // Lines are printed as they are stored: they are parsed only where something in them decides or is changed.
    let parse = expand || !selection.is_everything();
    for line in SessionReader::open(path)? {
        let mut line = up_to_damage(line, &mut console)?;
        if entries_only && !line.is_entry() {
            continue;
        }
        if parse {
            let Some(mut envelope) = line.envelope() else {
                if selection.is_everything() {
                    console.raw(&line.text)?;
                    console.raw("\n")?;
                }
                continue;
            };
            if let Some(expander) = &mut expander
                && envelope.kind == crate::log::ENGINE_INPUT
            {
                expander.expand(&mut envelope);
                line.text = serde_json::to_string(&envelope).map_err(io::Error::other)?;
            }
            if !selection.takes(&envelope) {
                continue;
            }
        }
        line.text.push('\n');
        console.raw(&line.text)?;
    }
    Ok(console.flush()?)
}

/// Where the session is damaged, what was good before it is printed.
fn up_to_damage(line: Result<Line, LogError>, console: &mut Console) -> Result<Line, Failure> {
    if line.is_err() {
        console.flush()?;
    }
    Ok(line?)
}

pub(super) fn markdown(path: &Path, selection: &Selection) -> Result<(), Failure> {
    let mut console = Console::buffered();
    let mut page = Markdown::default();
    for line in SessionReader::open(path)? {
        let line = up_to_damage(line, &mut console)?;
        if !line.is_entry() {
            continue;
        }
        if let Some(envelope) = line.envelope().filter(|envelope| selection.takes(envelope)) {
            let text = page.next(&envelope);
            console.raw(&text)?;
        }
    }
    let rest = page.finish();
    console.raw(&rest)?;
    Ok(console.flush()?)
}
