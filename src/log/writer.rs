//! The one place where a session's file is written.
//!
//! An event gets its seq and its bytes in the queue, under one lock; whoever needs it written takes the whole queue to
//! the file under another. Concurrent appends thus share a write, and telemetry costs none of its own.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use uuid::Uuid;

use super::{
    Context, ENVELOPE_VERSION, Envelope, Event, Fsync, LogError, MAX_LINE_BYTES, SessionId, Time,
    disk::Disk,
    index::{Index, LineClass, LineRef},
    keeper::Keeper,
    lock::LockedFile,
    observer::Live,
    open::Scanned,
};
use crate::json::{MAX_NESTING, nests_deeper_than};

/// Queued telemetry beyond this is written by whoever adds to it, so that it cannot grow without end. In bytes.
const QUEUE_BYTES: usize = 256 * 1024;

/// The envelope is a level itself.
const MAX_DATA_NESTING: usize = MAX_NESTING - 1;

/// What the handles, the observers and the keeper of an open session share.
pub(super) struct Shared {
    session: SessionId,
    agent_id: String,
    path: PathBuf,
    locked: LockedFile,
    disk: Box<dyn Disk>,
    queue: Mutex<Queue>,
    writer: Mutex<Writer>,
    index: RwLock<Index>,
    /// The seq after the newest entry: answers "anything new?" without a lock.
    entries_end: AtomicU64,
    pub live: Live,
    pub keeper: Keeper,
}

/// Events that have their seq and wait for the file.
struct Queue {
    next_seq: u64,
    bytes: Vec<u8>,
    lines: Vec<Queued>,
    state: State,
}

enum State {
    Open,
    Broken(Arc<io::Error>),
    Closed,
}

/// An event in the queue, and what becomes of it once it is in the file.
pub(super) struct Queued {
    pub seq: u64,
    /// With the newline.
    pub bytes: u32,
    /// For entries.
    kind: Option<Box<str>>,
    /// For observers, when there are any.
    pub envelope: Option<Arc<Envelope>>,
}

struct Writer {
    /// Bytes in the file.
    end: u64,
    /// All seqs below are in the file.
    written: u64,
    /// Buffers to swap with the queue's.
    spare: (Vec<u8>, Vec<Queued>),
}

impl Shared {
    pub fn new(
        session: SessionId,
        agent_id: &str,
        path: PathBuf,
        locked: LockedFile,
        disk: Box<dyn Disk>,
        scan: Scanned,
        fsync: Fsync,
    ) -> Self {
        Self {
            session,
            agent_id: agent_id.to_owned(),
            path,
            locked,
            disk,
            queue: Mutex::new(Queue {
                next_seq: scan.next_seq,
                bytes: Vec::new(),
                lines: Vec::new(),
                state: State::Open,
            }),
            writer: Mutex::new(Writer { end: scan.end, written: scan.next_seq, spare: Default::default() }),
            entries_end: AtomicU64::new(scan.index.last_entry().map_or(0, |seq| seq + 1)),
            live: Live::new(scan.next_seq),
            keeper: Keeper::new(fsync, scan.end),
            index: RwLock::new(scan.index),
        }
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> &File {
        &self.locked.file
    }

    /// Makes what is in the file survive a loss of power.
    pub fn sync_file(&self) -> io::Result<()> {
        self.disk.sync(self.file())
    }

    pub fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there may be an entry after `after`.
    pub fn has_entry_after(&self, after: Option<u64>) -> bool {
        let end = self.entries_end.load(Ordering::Acquire);
        after.map_or(end > 0, |after| after.saturating_add(1) < end)
    }

    /// Logs an event and returns once it is with the operating system.
    pub fn append(&self, event: Event) -> Result<Arc<Envelope>, LogError> {
        let (envelope, _) = self.enqueue(event, State::Open)?;
        self.write_through(envelope.time.seq)?;
        Ok(envelope)
    }

    /// The last event of the session.
    pub fn append_last(&self, event: Event) -> Result<(), LogError> {
        let (envelope, _) = self.enqueue(event, State::Closed)?;
        self.write_through(envelope.time.seq)
    }

    /// Logs an event soon. Returns its seq, unless it was refused.
    pub fn emit(&self, event: Event) -> Option<u64> {
        match self.enqueue(event, State::Open) {
            Ok((envelope, queued)) => {
                if queued > QUEUE_BYTES {
                    // A failed write is told by the next append, and once in the diagnostics.
                    drop(self.flush());
                } else {
                    self.keeper.queued();
                }
                Some(envelope.time.seq)
            }
            Err(error) => {
                tracing::debug!(%error, "telemetry was not logged");
                None
            }
        }
    }

    /// Hands what is queued to the operating system.
    pub fn flush(&self) -> Result<(), LogError> {
        self.write_queue(&mut lock(&self.writer))
    }

    /// Takes no more events: a write or a sync failed.
    pub fn break_off(&self, cause: io::Error) -> LogError {
        let cause = Arc::new(cause);
        {
            let mut queue = lock(&self.queue);
            queue.bytes = Vec::new();
            queue.lines = Vec::new();
            queue.state = State::Broken(cause.clone());
        }
        let error = self.broken(cause);
        tracing::error!("{error}");
        self.live.end();
        self.keeper.broken();
        error
    }

    pub fn release(&self) {
        lock(&self.queue).state.close();
        self.live.end();
        self.locked.release();
    }

    /// Gives the event its place. Returns it and how many bytes wait. `then` is the session's state afterwards.
    fn enqueue(&self, event: Event, then: State) -> Result<(Arc<Envelope>, usize), LogError> {
        let Event { kind, data, run_id, span_id } = event;
        // It could not be read again.
        if nests_deeper_than(&data, MAX_DATA_NESTING) {
            return Err(LogError::TooDeep { kind, limit: MAX_DATA_NESTING });
        }
        let context =
            Context { agent_id: self.agent_id.clone(), session_id: self.session.to_string(), run_id, span_id };
        let id = Uuid::now_v7().to_string();
        let mut envelope = Envelope { v: ENVELOPE_VERSION, id, kind, time: Time { ms: 0, seq: 0 }, context, data };
        let entry_kind = envelope.is_entry().then(|| envelope.kind.as_str().into());

        let mut queue = lock(&self.queue);
        match &queue.state {
            State::Open => {}
            State::Broken(cause) => return Err(self.broken(cause.clone())),
            State::Closed => return Err(LogError::Closed { session: self.session.clone() }),
        }
        envelope.time = Time { ms: now_ms(), seq: queue.next_seq };
        let start = queue.bytes.len();
        let encoded = serde_json::to_writer(&mut queue.bytes, &envelope);
        queue.bytes.push(b'\n');
        let bytes = queue.bytes.len() - start;
        if encoded.is_err() || bytes > MAX_LINE_BYTES {
            queue.bytes.truncate(start);
            return Err(match encoded {
                Err(error) => LogError::io("encode an event for", &self.path, error.into()),
                Ok(()) => LogError::TooLarge { kind: envelope.kind, bytes, limit: MAX_LINE_BYTES },
            });
        }
        let envelope = Arc::new(envelope);
        let kept = self.live.watched().then(|| envelope.clone());
        let seq = queue.next_seq;
        queue.lines.push(Queued { seq, bytes: bytes as u32, kind: entry_kind, envelope: kept });
        queue.next_seq += 1;
        queue.state = then;
        Ok((envelope, queue.bytes.len()))
    }

    fn write_through(&self, seq: u64) -> Result<(), LogError> {
        let mut writer = lock(&self.writer);
        // Whoever held the writer before may have taken this event along.
        if writer.written > seq { Ok(()) } else { self.write_queue(&mut writer) }
    }

    fn write_queue(&self, writer: &mut Writer) -> Result<(), LogError> {
        let (mut bytes, mut lines) = std::mem::take(&mut writer.spare);
        {
            let mut queue = lock(&self.queue);
            if let State::Broken(cause) = &queue.state {
                return Err(self.broken(cause.clone()));
            }
            std::mem::swap(&mut queue.bytes, &mut bytes);
            std::mem::swap(&mut queue.lines, &mut lines);
        }
        if !lines.is_empty() {
            if let Err(cause) = self.disk.write_all_at(self.file(), &bytes, writer.end) {
                // Nothing of what failed may stay. Should this fail as well, the next opening cuts the torn line.
                let _ = self.disk.cut(self.file(), writer.end);
                return Err(self.break_off(cause));
            }
            self.written(writer, &lines);
            self.live.publish(&mut lines, writer.written);
            self.keeper.wrote(writer.end);
        }
        bytes.clear();
        bytes.shrink_to(QUEUE_BYTES);
        lines.clear();
        writer.spare = (bytes, lines);
        Ok(())
    }

    fn written(&self, writer: &mut Writer, lines: &[Queued]) {
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for line in lines {
            let (class, kind) = match &line.kind {
                Some(kind) => (LineClass::Entry, &**kind),
                None => (LineClass::Telemetry, ""),
            };
            index.push(LineRef { offset: writer.end, seq: line.seq, len: line.bytes - 1, class }, kind);
            writer.end += u64::from(line.bytes);
            writer.written = line.seq + 1;
        }
        if let Some(seq) = index.last_entry() {
            self.entries_end.store(seq + 1, Ordering::Release);
        }
    }

    fn broken(&self, cause: Arc<io::Error>) -> LogError {
        LogError::Broken { session: self.session.clone(), path: self.path.clone(), cause }
    }
}

impl State {
    fn close(&mut self) {
        if matches!(self, Self::Open) {
            *self = Self::Closed;
        }
    }
}

/// A panic elsewhere leaves nothing half done in what these locks guard.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
