//! Looks after the agent folder while the conversation goes on.

use std::{
    path::{Path, PathBuf},
    pin::pin,
};

use tokio::sync::mpsc;

use crate::{
    Watcher,
    session::{Demand, Reload, Reloader, Survey},
};

/// How often folders are looked at anew because others have appeared in them meanwhile; the next change looks again.
const MAX_LOOKS: usize = 8;

/// What has come of changes, and a way to ask for a look.
pub(super) struct Supervisor {
    requests: mpsc::Sender<()>,
    outcomes: mpsc::Receiver<Reload>,
}

impl Supervisor {
    /// Reloads on request, and where there is a watcher on every change.
    pub(super) fn start(reloader: Reloader, dir: PathBuf, watcher: Option<Watcher>) -> Self {
        let (requests, asked) = mpsc::channel(1);
        let (sender, outcomes) = mpsc::channel(1);
        tokio::spawn(Watch { reloader, dir, watcher, asked, sender }.go());
        Self { requests, outcomes }
    }

    /// Has everything loaded anew, changed or not.
    pub(super) fn reload(&self) {
        // A request that already waits is as good.
        let _ = self.requests.try_send(());
    }

    /// What came of a change, as far as anybody needs to know. Never answers once nobody watches.
    pub(super) async fn next(&mut self) -> Reload {
        match self.outcomes.recv().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

struct Watch {
    reloader: Reloader,
    dir: PathBuf,
    watcher: Option<Watcher>,
    asked: mpsc::Receiver<()>,
    sender: mpsc::Sender<Reload>,
}

impl Watch {
    async fn go(self) {
        let Self { mut reloader, dir, mut watcher, mut asked, sender } = self;
        // What has changed before anybody watched.
        let mut survey = look(&dir, watcher.as_mut()).await;
        let mut demand = Demand::IfChanged;
        loop {
            let outcome = {
                let mut loading = pin!(reloader.reload(survey.clone(), demand));
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut loading => break Some(outcome),
                        () = changed(watcher.as_mut()) => {
                            let newer = look(&dir, watcher.as_mut()).await;
                            if newer != survey {
                                // What is being loaded is out of date, and may never end.
                                survey = newer;
                                break None;
                            }
                        }
                    }
                }
            };
            match outcome {
                None => continue,
                Some(Reload::Unchanged) => {}
                Some(outcome) => {
                    if sender.send(outcome).await.is_err() {
                        return;
                    }
                }
            }
            demand = tokio::select! {
                asked = asked.recv() => match asked {
                    Some(()) => Demand::Always,
                    None => return,
                },
                () = changed(watcher.as_mut()) => Demand::IfChanged,
            };
            survey = look(&dir, watcher.as_mut()).await;
        }
    }
}

async fn changed(watcher: Option<&mut Watcher>) {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}

/// The watched files as they are now, with every folder watched that holds one.
pub(super) async fn look(dir: &Path, watcher: Option<&mut Watcher>) -> Survey {
    let mut survey = take(dir).await;
    if let Some(watcher) = watcher {
        let mut looks = 0;
        while watcher.watch(survey.folders()) && looks < MAX_LOOKS {
            survey = take(dir).await;
            looks += 1;
        }
    }
    survey
}

async fn take(dir: &Path) -> Survey {
    let dir = dir.to_owned();
    tokio::task::spawn_blocking(move || Survey::take(&dir)).await.unwrap_or_default()
}
