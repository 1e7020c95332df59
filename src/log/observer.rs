//! Observers: everything that is in the log, in order, each once, at the observer's own pace.
//!
//! The newest envelopes are held in memory while somebody observes; whoever is further behind reads the file. A slow
//! observer therefore costs the kernel nothing and loses nothing.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::sync::watch;

use super::{
    Envelope, LogError, entries,
    index::LineClass,
    writer::{Queued, Shared, lock},
};

/// How much of the newest is held in memory for observers.
const RING_ENVELOPES: usize = 1024;
const RING_BYTES: usize = 4 * 1024 * 1024;

/// How many envelopes an observer takes from the ring under one lock.
const TAKE_ENVELOPES: usize = 64;

/// What observers of an open session share.
pub(super) struct Live {
    ring: Mutex<Ring>,
    progress: watch::Sender<Progress>,
    observers: AtomicUsize,
}

/// The newest envelopes without a gap.
#[derive(Default)]
struct Ring {
    envelopes: VecDeque<(Arc<Envelope>, usize)>,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Progress {
    /// All seqs below are in the file.
    written: u64,
    /// Nothing more will come.
    over: bool,
}

impl Live {
    pub fn new(written: u64) -> Self {
        Self {
            ring: Mutex::default(),
            progress: watch::Sender::new(Progress { written, over: false }),
            observers: AtomicUsize::new(0),
        }
    }

    /// Whether anybody observes.
    pub fn watched(&self) -> bool {
        self.observers.load(Ordering::Acquire) > 0
    }

    /// Shows what is in the file now.
    pub fn publish(&self, lines: &mut Vec<Queued>, written: u64) {
        if self.watched() {
            let mut ring = lock(&self.ring);
            for line in lines.drain(..) {
                ring.push(line);
            }
        }
        self.progress.send_modify(|progress| progress.written = written);
    }

    pub fn end(&self) {
        self.progress.send_modify(|progress| progress.over = true);
    }
}

impl Ring {
    fn push(&mut self, line: Queued) {
        // Queued before anybody observed: the ring begins after it.
        let Some(envelope) = line.envelope else { return self.clear() };
        // The last observer may have left, and another come, between two pushes.
        if self.envelopes.back().is_some_and(|(last, _)| last.time.seq + 1 != line.seq) {
            self.clear();
        }
        self.bytes += line.bytes as usize;
        self.envelopes.push_back((envelope, line.bytes as usize));
        while self.envelopes.len() > RING_ENVELOPES || self.bytes > RING_BYTES {
            let Some((_, bytes)) = self.envelopes.pop_front() else { break };
            self.bytes -= bytes;
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Some envelopes from `seq` on; `None` when they are not all held.
    fn take(&self, seq: u64) -> Option<VecDeque<Arc<Envelope>>> {
        let (first, _) = self.envelopes.front()?;
        let skip = usize::try_from(seq.checked_sub(first.time.seq)?).ok()?;
        let taken: VecDeque<_> =
            self.envelopes.iter().skip(skip).take(TAKE_ENVELOPES).map(|(envelope, _)| envelope.clone()).collect();
        (!taken.is_empty()).then_some(taken)
    }
}

/// The observer fell behind what is held in memory. It has missed nothing: unless it [skips](Observer::skip), it goes
/// on with `missed_from`, read from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the observer lagged behind the log; it goes on from seq {missed_from}")]
pub struct Lagged {
    /// The seq of the first envelope that it had not seen.
    pub missed_from: u64,
}

/// Sees each envelope once it is in the log, in order, each exactly once.
pub struct Observer {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    next: u64,
    batch: VecDeque<Arc<Envelope>>,
    source: Source,
}

/// Where the observer got its last batch.
#[derive(PartialEq, Eq)]
enum Source {
    Memory,
    File,
}

impl Observer {
    pub(super) fn new(shared: Arc<Shared>, after: Option<u64>) -> Self {
        shared.live.observers.fetch_add(1, Ordering::AcqRel);
        let progress = shared.live.progress.subscribe();
        let next = after.map_or(0, |after| after.saturating_add(1));
        Self { shared, progress, next, batch: VecDeque::new(), source: Source::File }
    }

    /// The next envelope; `None` once the session is closed, or can take no more, and all was seen.
    ///
    /// Cancelling it loses nothing.
    pub async fn next(&mut self) -> Option<Result<Arc<Envelope>, Lagged>> {
        loop {
            if let Some(envelope) = self.batch.pop_front() {
                self.next = envelope.time.seq + 1;
                return Some(Ok(envelope));
            }
            let progress = *self.progress.borrow_and_update();
            if self.next < progress.written {
                if let Err(lagged) = self.fill(progress.written) {
                    return Some(Err(lagged));
                }
            } else if progress.over || self.progress.changed().await.is_err() {
                return None;
            }
        }
    }

    /// Leaves out what it has not seen yet, up to the newest. Returns the seq that comes next.
    pub fn skip(&mut self) -> u64 {
        self.batch.clear();
        self.next = self.next.max(self.progress.borrow_and_update().written);
        self.next
    }

    fn fill(&mut self, written: u64) -> Result<(), Lagged> {
        if let Some(batch) = lock(&self.shared.live.ring).take(self.next) {
            self.batch = batch;
            self.source = Source::Memory;
            return Ok(());
        }
        if std::mem::replace(&mut self.source, Source::File) == Source::Memory {
            return Err(Lagged { missed_from: self.next });
        }
        if let Err(error) = self.read(written) {
            // The file was damaged under the running session. The observer must not hang on it.
            tracing::error!("{error}");
            self.next = written;
        }
        Ok(())
    }

    fn read(&mut self, written: u64) -> Result<(), LogError> {
        let (lines, through) = {
            let index = self.shared.index();
            let from = index.first_at(self.next);
            let upcoming = (from as u32..).zip(index.lines()[from..].iter().copied());
            let lines = entries::first_batch(upcoming.take_while(|(_, line)| line.seq < written));
            let through = lines.last().map_or(written, |(_, line)| line.seq + 1);
            (lines, through)
        };
        // A foreign line parts the batch: it is not an envelope that could be shown.
        for known in lines.split(|(_, line)| line.class == LineClass::Foreign) {
            entries::read(&self.shared, known, |envelope: Envelope| self.batch.push_back(Arc::new(envelope)))?;
        }
        if self.batch.is_empty() {
            self.next = through;
        }
        Ok(())
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        if self.shared.live.observers.fetch_sub(1, Ordering::AcqRel) == 1 {
            lock(&self.shared.live.ring).clear();
        }
    }
}
