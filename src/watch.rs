//! Watching folders for changes of the files in them.
//!
//! What the operating system tells is only ever taken as a hint that it is time to look: editors rename, truncate, swap
//! and delete on the way to one save, and each in their own manner.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

use crate::policy::FileId;

/// How long it must be quiet before a burst counts as over.
const QUIET: Duration = Duration::from_millis(25);

/// How long a burst may go on before it is looked at all the same.
const LONGEST_BURST: Duration = Duration::from_millis(250);

/// How often folders are looked at that the operating system cannot watch.
const POLL_PERIOD: Duration = Duration::from_millis(500);

/// Watches a set of folders, each without those inside it.
pub struct Watcher {
    inner: Option<RecommendedWatcher>,
    news: Arc<News>,
    /// What is watched, and which folder that was: another may stand at its place later.
    watched: BTreeMap<PathBuf, FileId>,
    /// Some folder could not be watched.
    blind: bool,
    /// When the burst began that is under way.
    burst: Option<Instant>,
}

/// What the operating system has told.
#[derive(Default)]
struct News {
    any: Notify,
    /// Names that came or went: a folder watched under one of them may be another by now, even with the same identity.
    moved: Mutex<BTreeSet<PathBuf>>,
}

impl News {
    fn take_moved(&self) -> BTreeSet<PathBuf> {
        std::mem::take(&mut *self.moved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, event: notify::Event) {
        if is_reading(event.kind) {
            return;
        }
        if matches!(event.kind, EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
            self.moved.lock().unwrap_or_else(PoisonError::into_inner).extend(event.paths);
        }
        self.any.notify_one();
    }
}

impl Watcher {
    /// Watches nothing yet.
    pub fn new() -> Self {
        let news = Arc::new(News::default());
        let told = news.clone();
        let inner = notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
            Ok(event) => told.note(event),
            // Something was missed: that is a reason to look, too.
            Err(_) => told.any.notify_one(),
        });
        let inner = inner.inspect_err(|error| tracing::warn!(%error, "folders are polled for changes")).ok();
        Self { blind: inner.is_none(), inner, news, watched: BTreeMap::new(), burst: None }
    }

    /// Watches these folders and no others. Answers whether any of them was not watched before, so that what is in it
    /// may have changed unseen.
    pub(crate) fn watch(&mut self, folders: &BTreeSet<PathBuf>) -> bool {
        let Some(inner) = &mut self.inner else { return false };
        let moved = self.news.take_moved();
        // A folder that has two names is watched by one: to the operating system it is one watch, which ends with either.
        let mut seen = HashSet::new();
        let identified = folders.iter().filter_map(|folder| Some((folder.clone(), identity(folder)?)));
        let now: BTreeMap<_, _> = identified.filter(|(_, id)| seen.insert(*id)).collect();
        let same = |folder: &Path, id: &FileId| now.get(folder) == Some(id) && !moved.contains(folder);
        self.watched.retain(|folder, id| {
            let kept = same(folder, id);
            if !kept {
                // It may be gone already, and its watch with it.
                let _ = inner.unwatch(folder);
            }
            kept
        });
        let mut anew = false;
        self.blind = false;
        for (folder, id) in now {
            if self.watched.contains_key(&folder) {
                continue;
            }
            match inner.watch(&folder, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    anew = true;
                    self.watched.insert(folder, id);
                }
                Err(error) => {
                    tracing::warn!(%error, folder = %folder.display(), "polled for changes");
                    self.blind = true;
                }
            }
        }
        anew
    }

    /// Waits until something may have changed and the burst of changes is over. Nothing is lost when the future is dropped.
    pub async fn changed(&mut self) {
        let began = match self.burst {
            Some(began) => began,
            None => {
                if self.blind {
                    let _ = timeout(POLL_PERIOD, self.news.any.notified()).await;
                } else {
                    self.news.any.notified().await;
                }
                *self.burst.insert(Instant::now())
            }
        };
        while began.elapsed() < LONGEST_BURST {
            if timeout(QUIET, self.news.any.notified()).await.is_err() {
                break;
            }
        }
        self.burst = None;
    }
}

impl Default for Watcher {
    fn default() -> Self {
        Self::new()
    }
}

/// Looking at the files must not seem a change of them.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

fn identity(folder: &Path) -> Option<FileId> {
    std::fs::metadata(folder).ok().map(|metadata| FileId::of_std(&metadata))
}
