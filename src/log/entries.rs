//! Entries read back from the file by way of the index.

use std::{collections::VecDeque, sync::Arc};

use axon_runtime::Entry;
use serde::de::DeserializeOwned;

use super::{LogError, file, index::LineRef, writer::Shared};

/// How much of the file is read at once, in bytes. A single longer line is read whole.
const BATCH_BYTES: u64 = 512 * 1024;

/// The entries of a session in order, read from its file as they are asked for.
///
/// It ends at the entry that was the newest when it got there.
pub struct Entries {
    shared: Arc<Shared>,
    /// How many entries of the index were taken.
    taken: usize,
    batch: VecDeque<Entry>,
    ended: bool,
}

impl Entries {
    pub(super) fn after(shared: Arc<Shared>, after: Option<u64>) -> Self {
        // Asked for what is new, there mostly is nothing: that is told without a lock.
        let ended = !shared.has_entry_after(after);
        let taken = after.filter(|_| !ended).map_or(0, |after| shared.index().entries_through(after));
        Self { shared, taken, batch: VecDeque::new(), ended }
    }

    fn fill(&mut self) -> Result<(), LogError> {
        let lines: Vec<(u32, LineRef)> = {
            let index = self.shared.index();
            let upcoming = index.entries_from(self.taken).iter().map(|&at| (at, index.lines()[at as usize]));
            first_batch(upcoming)
        };
        self.taken += lines.len();
        read(&self.shared, &lines, |entry| self.batch.push_back(entry))
    }
}

impl Iterator for Entries {
    type Item = Result<Entry, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.batch.is_empty()
            && !self.ended
            && let Err(error) = self.fill()
        {
            self.ended = true;
            return Some(Err(error));
        }
        self.batch.pop_front().map(Ok)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.ended {
            return (self.batch.len(), Some(self.batch.len()));
        }
        let unread = self.shared.index().entry_count().saturating_sub(self.taken);
        (self.batch.len() + unread, None)
    }
}

/// As many lines, at least one, as lie within one read.
pub(super) fn first_batch(lines: impl Iterator<Item = (u32, LineRef)>) -> Vec<(u32, LineRef)> {
    let mut start = None;
    lines
        .take_while(|(_, line)| {
            let start = *start.get_or_insert(line.offset);
            line.offset == start || line.end() - start <= BATCH_BYTES
        })
        .collect()
}

/// Reads and parses lines that lie close together. `lines` are positions in the index and what stands there.
pub(super) fn read<T: DeserializeOwned>(
    shared: &Shared,
    lines: &[(u32, LineRef)],
    mut take: impl FnMut(T),
) -> Result<(), LogError> {
    let (Some((_, first)), Some((_, last))) = (lines.first(), lines.last()) else { return Ok(()) };
    let mut bytes = vec![0; (last.end() - first.offset) as usize];
    file::read_exact_at(shared.file(), &mut bytes, first.offset)
        .map_err(|cause| LogError::io("read", shared.path(), cause))?;
    for (position, line) in lines {
        let start = (line.offset - first.offset) as usize;
        let value = serde_json::from_slice(&bytes[start..start + line.len as usize]).map_err(|error| {
            let why = format!("the line was changed after the session was opened: {error}");
            LogError::Corrupt { path: shared.path().to_owned(), line: u64::from(*position) + 1, why }
        })?;
        take(value);
    }
    Ok(())
}
