//! Where the lines of a session stand in its file: offsets and types, never content.

use std::collections::HashMap;

/// What a line is to its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineClass {
    Entry,
    Telemetry,
    /// An envelope of another version.
    Foreign,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LineRef {
    pub offset: u64,
    /// For a foreign line without a readable seq: that of the line before.
    pub seq: u64,
    /// Without the newline.
    pub len: u32,
    pub class: LineClass,
}

impl LineRef {
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len)
    }
}

/// All lines in the order of the file; line `n` of the file is at `n - 1`.
#[derive(Default)]
pub(super) struct Index {
    lines: Vec<LineRef>,
    /// Positions in `lines`.
    entries: Vec<u32>,
    /// The newest line of each type: positions in `lines`.
    newest: HashMap<Box<str>, u32>,
}

impl Index {
    /// The writer leaves `kind` empty for telemetry, which nobody looks up while it runs.
    pub fn push(&mut self, line: LineRef, kind: &str) {
        let position = self.lines.len() as u32;
        self.lines.push(line);
        if line.class == LineClass::Entry {
            self.entries.push(position);
        }
        match self.newest.get_mut(kind) {
            Some(newest) => *newest = position,
            None if kind.is_empty() => {}
            None => {
                self.newest.insert(kind.into(), position);
            }
        }
    }

    pub fn lines(&self) -> &[LineRef] {
        &self.lines
    }

    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// The seq of the newest entry.
    pub fn last_entry(&self) -> Option<u64> {
        self.entries.last().map(|&position| self.lines[position as usize].seq)
    }

    /// How many entries are not after `after`.
    pub fn entries_through(&self, after: u64) -> usize {
        self.entries.partition_point(|&position| self.lines[position as usize].seq <= after)
    }

    /// The positions of entries, from the `from`th on.
    pub fn entries_from(&self, from: usize) -> &[u32] {
        self.entries.get(from..).unwrap_or_default()
    }

    pub fn newest(&self, kind: &str) -> Option<u32> {
        self.newest.get(kind).copied()
    }

    /// The position of the first line whose seq is not below `seq`.
    pub fn first_at(&self, seq: u64) -> usize {
        self.lines.partition_point(|line| line.seq < seq)
    }
}
