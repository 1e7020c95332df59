//! Every limit of the tools.

use std::time::Duration;

/// One call of a tool, from its start to its answer; waiting for a person's approval does not count.
pub(super) const TOOL_TIME: Duration = Duration::from_secs(30);

/// The most that a call which sets its own time can ask for.
pub(super) const MAX_TOOL_TIME: Duration = Duration::from_secs(300);

/// How long a call that was stopped may take to say what it did before its answer is given up.
pub(super) const STOP_GRACE: Duration = Duration::from_millis(100);

/// Bytes that one call reads from a file.
pub(super) const MAX_READ_BYTES: u64 = 16 << 20;

/// Bytes that one call writes to a file.
pub(super) const MAX_WRITE_BYTES: usize = 64 << 20;

/// Entries of `fs.list` and `fs.glob` unless the call says otherwise, and the most that it can say.
pub(super) const LIST_LIMIT: Limit = Limit { default: 10_000, max: 100_000 };

/// Matches of `fs.search`.
pub(super) const SEARCH_LIMIT: Limit = Limit { default: 1_000, max: 20_000 };

/// Lines around a match of `fs.search`.
pub(super) const CONTEXT_LIMIT: Limit = Limit { default: 0, max: 50 };

/// Characters of a matched line; the rest is cut and the cut is marked.
pub(super) const MAX_LINE_CHARS: usize = 500;

/// Bytes of a file that `fs.search` looks into; larger files are passed over.
pub(super) const MAX_SEARCH_FILE_BYTES: u64 = 64 << 20;

/// Bytes that the search may hold at once, long lines included.
pub(super) const SEARCH_HEAP_BYTES: usize = 32 << 20;

/// Bytes that a compiled pattern of `fs.search` may take, and the tables that it builds while it runs.
pub(super) const PATTERN_BYTES: usize = 10 << 20;
pub(super) const PATTERN_TABLE_BYTES: usize = 32 << 20;

/// Folders in folders that a walk goes down.
pub(super) const MAX_DEPTH: usize = 128;

/// Bytes of an ignore file that are looked at.
pub(super) const MAX_IGNORE_FILE_BYTES: u64 = 1 << 20;

/// Bytes of a response's body, decompressed.
pub(super) const MAX_RESPONSE_BYTES: usize = 50 << 20;

/// Redirects that one request follows.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Connecting to a host.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(10);

/// Bytes that are kept of each output of a process, unless the call says otherwise, and the most that it can say.
pub(super) const PROCESS_OUTPUT_LIMIT: Limit = Limit { default: 1 << 20, max: 16 << 20 };

/// How long output is still read once a process has ended: what left its group may hold it open.
pub(super) const OUTPUT_GRACE: Duration = Duration::from_millis(500);

/// Characters of each string, and items of each list, that the log keeps of a call's arguments.
pub(super) const MAX_LOGGED_CHARS: usize = 200;
pub(super) const MAX_LOGGED_ITEMS: usize = 20;

/// A number that a call may choose.
#[derive(Clone, Copy)]
pub(super) struct Limit {
    pub default: usize,
    pub max: usize,
}
