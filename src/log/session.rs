//! The handle of an open session.

use std::{path::Path, sync::Arc, thread::JoinHandle};

use axon_runtime::Entry;
use serde_json::{Value, json};

use super::{
    Entries, Envelope, Event, Fsync, LogError, Observer, Opened, SessionId,
    disk::{Disk, SystemDisk},
    entries,
    file::sync_dir,
    index::LineClass,
    keeper::Keeper,
    listing::session_path,
    lock::LockedFile,
    open,
    prune::remove_held,
    writer::Shared,
};

/// An open session, the only writer of its file. Clones are handles of the same session; it is released with
/// [`SessionLog::close`], or when the last handle is dropped.
#[derive(Clone)]
pub struct SessionLog(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    keeper: Option<JoinHandle<()>>,
    opened: Opened,
}

impl SessionLog {
    /// Creates the session, or resumes the one that is there, in the folder `dir` (`data/sessions`).
    ///
    /// # Errors
    /// [`LogError::Held`] while somebody else writes it, [`LogError::Corrupt`] for damage before the last line.
    pub fn open(dir: &Path, id: SessionId, agent_id: &str, fsync: Fsync) -> Result<(Self, Opened), LogError> {
        Self::open_on(Box::new(SystemDisk), dir, id, agent_id, fsync)
    }

    pub(super) fn open_on(
        disk: Box<dyn Disk>,
        dir: &Path,
        id: SessionId,
        agent_id: &str,
        fsync: Fsync,
    ) -> Result<(Self, Opened), LogError> {
        open::make_dir(dir)?;
        let path = session_path(dir, &id);
        let locked = LockedFile::open(&path, &id, true)?;
        let scan = open::scan(&locked.file, &path)?;
        open::cut_torn(&locked.file, &path, &scan)?;
        if scan.torn_bytes > 0 {
            sync_dir(dir).map_err(|cause| LogError::io("sync", dir, cause))?;
        }
        let opened = match scan.torn_bytes {
            0 if scan.index.lines().is_empty() => Opened::Created,
            torn_bytes => Opened::Restored { torn_bytes, entries: scan.index.entry_count() },
        };

        let shared = Arc::new(Shared::new(id, agent_id, path, locked, disk, scan, fsync));
        let keeper =
            Keeper::spawn(&shared).map_err(|cause| LogError::io("start the keeper of", shared.path(), cause))?;
        let log = Self(Arc::new(Handle { shared, keeper: Some(keeper), opened }));
        log.append(match opened {
            Opened::Created => Event::new("axon:session:opened", json!({})),
            Opened::Restored { torn_bytes, .. } => {
                Event::new("axon:session:restored", json!({ "tornBytes": torn_bytes }))
            }
        })?;
        Ok((log, opened))
    }

    pub fn id(&self) -> &SessionId {
        self.shared().session()
    }

    /// The session's file.
    pub fn path(&self) -> &Path {
        self.shared().path()
    }

    /// Logs an event. It is with the operating system when this returns, in microseconds; whether it is also synced is
    /// [`SessionLog::commit`]'s matter.
    ///
    /// # Errors
    /// [`LogError::Broken`] when the write fails, and from then on; [`LogError::Closed`]; [`LogError::TooLarge`];
    /// [`LogError::TooDeep`].
    pub fn append(&self, event: Event) -> Result<Arc<Envelope>, LogError> {
        self.shared().append(event)
    }

    /// Logs an event and settles once it is as safe as [`Fsync`] asks: with [`Fsync::Always`] on the disk.
    ///
    /// # Errors
    /// As [`SessionLog::append`].
    pub async fn commit(&self, event: Event) -> Result<Arc<Envelope>, LogError> {
        let envelope = self.append(event)?;
        if self.shared().keeper.fsync() == Fsync::Always {
            self.sync().await?;
        }
        Ok(envelope)
    }

    /// Logs telemetry within milliseconds, in its place among the appends. Returns its seq; `None` when it was refused,
    /// which only the diagnostics tell.
    pub fn emit(&self, event: Event) -> Option<u64> {
        self.shared().emit(event)
    }

    /// Settles once all that was logged is on the disk. With [`Fsync::Never`] it is left to the operating system.
    ///
    /// # Errors
    /// [`LogError::Broken`] when a write or the sync fails.
    pub async fn sync(&self) -> Result<(), LogError> {
        let shared = self.shared();
        shared.flush()?;
        if shared.keeper.fsync() == Fsync::Never || shared.keeper.durable().await {
            return Ok(());
        }
        // The session broke while this waited: the error is its own.
        shared.flush()
    }

    /// The entries with a seq above `after`, or all, in order.
    ///
    /// # Errors
    /// [`LogError::Io`], or [`LogError::Corrupt`] when the file was changed by others.
    pub fn entries_after(&self, after: Option<u64>) -> Result<Vec<Entry>, LogError> {
        self.entries(after).collect()
    }

    /// The entries with a seq above `after`, or all, in order, read as they are asked for.
    pub fn entries(&self, after: Option<u64>) -> Entries {
        Entries::after(self.shared().clone(), after)
    }

    /// The newest entry of a type.
    ///
    /// # Errors
    /// As [`SessionLog::entries_after`].
    pub fn latest(&self, kind: &str) -> Result<Option<Entry>, LogError> {
        let line = {
            let index = self.shared().index();
            let newest = index.newest(kind).map(|position| (position, index.lines()[position as usize]));
            newest.filter(|(_, line)| line.class == LineClass::Entry)
        };
        let mut newest = None;
        entries::read(self.shared(), line.as_slice(), |entry| newest = Some(entry))?;
        Ok(newest)
    }

    /// The seq of the newest line of a type: of an entry, or of telemetry that was there when the session was opened.
    pub fn newest_seq(&self, kind: &str) -> Option<u64> {
        let index = self.shared().index();
        index.newest(kind).map(|position| index.lines()[position as usize].seq)
    }

    /// The seq of the newest line in the file.
    pub fn last_seq(&self) -> Option<u64> {
        self.shared().index().lines().last().map(|line| line.seq)
    }

    /// Observes everything in the log with a seq above `after`, or all, and then what comes.
    pub fn subscribe(&self, after: Option<u64>) -> Observer {
        Observer::new(self.shared().clone(), after)
    }

    /// Ends the session: logs `axon:session:closed`, syncs, and lets others write. Other handles get
    /// [`LogError::Closed`] from then on.
    ///
    /// # Errors
    /// [`LogError::Broken`] when the last write or sync fails. The session is released all the same.
    pub async fn close(self) -> Result<(), LogError> {
        let ended =
            match self.shared().append_last(Event::new("axon:session:closed", Value::Object(Default::default()))) {
                Ok(()) => self.sync().await,
                Err(error) => Err(error),
            };
        self.shared().release();
        ended
    }

    /// Gives up a session in which nothing was to be done yet: one that was created for it and has no entry is removed, with
    /// what telemetry says of the attempt; any other is closed.
    ///
    /// # Errors
    /// As [`SessionLog::close`]; [`LogError::Io`] when the file cannot be removed.
    pub async fn abandon(self) -> Result<(), LogError> {
        self.shared().flush()?;
        if self.0.opened != Opened::Created || self.shared().index().entry_count() > 0 {
            return self.close().await;
        }
        let removed = remove_held(self.path());
        self.shared().release();
        removed
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.keeper.stop();
        if let Some(keeper) = self.keeper.take() {
            // It ends after one write and one sync; a panic there has nobody left to tell.
            let _ = keeper.join();
        }
        self.shared.release();
    }
}
