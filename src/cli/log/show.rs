//! `axon log show`: one session as a conversation.

use std::{
    collections::VecDeque,
    io::{self, Write},
    path::Path,
};

use super::{args::Filter, timeline::Timeline, turns::chunk_group};
use crate::{
    cli::{args::Common, console::Console, failure::Failure},
    log::{Envelope, InputExpander, Line, SessionReader},
};

/// How much of a session's end is read at first to find its last turns, in bytes.
const FIRST_GLANCE: u64 = 1024 * 1024;

pub(super) fn show(
    common: &Common,
    path: &Path,
    filter: &Filter,
    last: Option<usize>,
    expand: bool,
) -> Result<(), Failure> {
    let mut shown = Shown::new(common.json.is_some(), filter, Console::buffered());
    shown.timeline = Timeline::with_inputs_in_full(expand);
    let mut expander = expand.then(InputExpander::default);
    if let Some(count) = last {
        for envelope in last_turns(path, filter, count, expander, shown.json)? {
            shown.show(&envelope)?;
        }
        return shown.end(path);
    }
    for line in SessionReader::open(path)? {
        match line {
            Ok(line) => shown.extend(taken(&line, filter, expander.as_mut()))?,
            Err(error) => {
                // What is good before the damage can be read all the same.
                shown.finish()?;
                return Err(error.into());
            }
        }
    }
    shown.end(path)
}

/// The envelope of a line, if it passes the filter.
fn taken(line: &Line, filter: &Filter, expander: Option<&mut InputExpander>) -> Option<Envelope> {
    let kind = line.kind.as_deref()?;
    let needed = expander.is_some() && kind == crate::log::ENGINE_INPUT;
    if !needed && !filter.takes_type(kind, line.is_entry()) {
        return None;
    }
    let mut envelope = line.envelope()?;
    if let Some(expander) = expander {
        expander.expand(&mut envelope);
    }
    filter.takes(&envelope).then_some(envelope)
}

/// The last turns that pass the filter, read from the end of the file as far as it takes. References of engine inputs
/// lead back, so that expanding them takes the whole file.
fn last_turns(
    path: &Path,
    filter: &Filter,
    count: usize,
    mut expander: Option<InputExpander>,
    chunks_count: bool,
) -> Result<impl Iterator<Item = Envelope>, Failure> {
    let mut glance = if expander.is_some() { u64::MAX } else { FIRST_GLANCE };
    loop {
        let mut last = LastTurns::new(count, chunks_count);
        let (reader, is_whole) = SessionReader::open_near_end(path, glance)?;
        let mut damaged = false;
        for line in reader {
            match line {
                Ok(line) => last.extend(taken(&line, filter, expander.as_mut())),
                Err(error) if is_whole => return Err(error.into()),
                // Its number in the file is known only when the file is read from the beginning.
                Err(_) => {
                    damaged = true;
                    break;
                }
            }
        }
        if is_whole || (last.is_complete() && !damaged) {
            return Ok(last.into_envelopes());
        }
        glance = if damaged { u64::MAX } else { glance.saturating_mul(8) };
    }
}

/// Keeps the newest turns. The chunks of one group are one turn, unless each envelope counts.
pub(super) struct LastTurns {
    turns: VecDeque<Vec<Envelope>>,
    count: usize,
    chunks_count: bool,
    dropped: bool,
}

impl LastTurns {
    pub(super) fn new(count: usize, chunks_count: bool) -> Self {
        Self { turns: VecDeque::new(), count, chunks_count, dropped: false }
    }

    pub(super) fn push(&mut self, envelope: Envelope) {
        let group = chunk_group(&envelope.data);
        let open = self.turns.back_mut().filter(|turn| {
            !self.chunks_count && group.is_some() && turn.last().map(|newest| chunk_group(&newest.data)) == Some(group)
        });
        match open {
            Some(turn) => turn.push(envelope),
            None => self.turns.push_back(vec![envelope]),
        }
        if self.turns.len() > self.count {
            self.turns.pop_front();
            self.dropped = true;
        }
    }

    /// Whether the oldest turn kept is whole: another came before it.
    fn is_complete(&self) -> bool {
        self.dropped
    }

    fn extend(&mut self, envelope: Option<Envelope>) {
        if let Some(envelope) = envelope {
            self.push(envelope);
        }
    }

    pub(super) fn into_envelopes(self) -> impl Iterator<Item = Envelope> {
        self.turns.into_iter().flatten()
    }
}

/// Shows what passes the filter, in the form that is asked for.
pub(super) struct Shown<'a> {
    filter: &'a Filter,
    pub(super) json: bool,
    console: Console,
    timeline: Timeline,
    is_empty: bool,
}

impl<'a> Shown<'a> {
    pub(super) fn new(json: bool, filter: &'a Filter, console: Console) -> Self {
        Self { filter, json, console, timeline: Timeline::default(), is_empty: true }
    }

    pub(super) fn takes(&self, envelope: &Envelope) -> bool {
        self.filter.takes(envelope)
    }

    fn extend(&mut self, envelope: Option<Envelope>) -> Result<(), Failure> {
        envelope.map_or(Ok(()), |envelope| self.show(&envelope))
    }

    /// The end of a session; says so if nothing of it was shown.
    fn end(&mut self, path: &Path) -> Result<(), Failure> {
        self.finish()?;
        if self.is_empty {
            let session = path.file_stem().unwrap_or_default().to_string_lossy();
            let why = self.filter.why_empty();
            writeln!(io::stderr(), "nothing to show of session {session}: {why}")?;
        }
        Ok(())
    }

    pub(super) fn show(&mut self, envelope: &Envelope) -> Result<(), Failure> {
        self.is_empty = false;
        if self.json {
            let line = serde_json::to_string(envelope).map_err(io::Error::other)?;
            self.console.raw(&format!("{line}\n"))?;
        } else {
            let text = self.timeline.next(envelope);
            self.console.raw(&text)?;
        }
        Ok(())
    }

    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let rest = self.timeline.finish();
        self.console.raw(&rest)?;
        Ok(self.console.flush()?)
    }
}
