//! Looks after the agent folder while the conversation goes on.

use std::{path::PathBuf, pin::pin};

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
    pub(super) fn start(reloader: Reloader, place: Place, watcher: Option<Watcher>) -> Self {
        let (requests, asked) = mpsc::channel(1);
        let (sender, outcomes) = mpsc::channel(1);
        tokio::spawn(Watch { reloader, place, watcher, asked, sender }.go());
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

/// Where the files are that are looked at.
#[derive(Clone)]
pub(super) struct Place {
    /// The agent folder.
    pub(super) dir: PathBuf,
    /// The engine that was asked for, in place of the configured one.
    pub(super) engine: Option<String>,
}

struct Watch {
    reloader: Reloader,
    place: Place,
    watcher: Option<Watcher>,
    asked: mpsc::Receiver<()>,
    sender: mpsc::Sender<Reload>,
}

impl Watch {
    async fn go(self) {
        let Self { mut reloader, place, mut watcher, mut asked, sender } = self;
        // What has changed before anybody watched.
        let mut survey = look(&place, watcher.as_mut()).await;
        let mut demand = Demand::IfChanged;
        loop {
            let outcome = {
                let mut loading = pin!(reloader.reload(survey.clone(), demand));
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut loading => break Some(outcome),
                        () = changed(watcher.as_mut()) => {
                            let newer = look(&place, watcher.as_mut()).await;
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
            survey = look(&place, watcher.as_mut()).await;
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
pub(super) async fn look(place: &Place, watcher: Option<&mut Watcher>) -> Survey {
    let mut survey = take(place).await;
    if let Some(watcher) = watcher {
        let mut looks = 0;
        while watcher.watch(survey.folders()) && looks < MAX_LOOKS {
            survey = take(place).await;
            looks += 1;
        }
    }
    survey
}

async fn take(place: &Place) -> Survey {
    let Place { dir, engine } = place.clone();
    tokio::task::spawn_blocking(move || Survey::take(&dir, engine.as_deref())).await.unwrap_or_default()
}
