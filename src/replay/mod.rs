//! Replay: a fresh brain lives through a recorded session, and what it says is compared with what was said.
//!
//! Nothing is asked of a model and no block is run: answers and results are the recorded ones. What the brain reads is the
//! session as it was up to the wake, and within the wake what it has said and done itself. A brain that went its own way is
//! replaced by a fresh one, which folds the session as it was recorded, so that each wake is judged by itself.

mod answers;
mod compare;
mod kernel;
mod wakes;

use std::{path::Path, sync::Arc};

use axon_runtime::{AbortController, Brain, CognetError, Limits, Scope, WakeFailure};

use self::{
    kernel::{ReplayKernel, Replayed},
    wakes::{Ending, RecordedWake, Step, Steps},
};
use crate::{
    cognets::Found,
    log::{LogError, SessionReader},
    secrets::Secrets,
};
pub(crate) use compare::{Asking, Difference, Verdict};
pub(crate) use wakes::last_cognet;

/// What a replay is made with.
pub(crate) struct ReplayOptions {
    pub found: Found,
    /// Whether wakes of other cognets are replayed with this one too.
    pub whose: Whose,
    pub asking: Asking,
    pub base: String,
    pub scope: Scope,
    pub limits: Limits,
    pub secrets: Secrets,
}

/// Which wakes are replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of the cognet itself.
    Own,
    /// All of the session.
    Everybodys,
}

/// Why a replay could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Log(#[from] LogError),
    /// The cognet does not load.
    #[error("{0}")]
    Load(Box<CognetError>),
    /// A shutdown hook has raised.
    #[error("{0}")]
    Shutdown(Box<CognetError>),
}

/// One wake of a session, replayed.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedWake {
    /// The seq of its `kernel:run:start`.
    pub seq: u64,
    /// The words that woke it, if it was a text.
    pub words: Option<String>,
    pub verdict: Verdict,
}

/// A replay under way.
pub(crate) struct Replay {
    options: ReplayOptions,
    steps: Steps,
    kernel: Arc<ReplayKernel>,
    /// `None` until there is a wake to replay, and after a brain went its own way.
    brain: Option<Brain>,
}

impl Replay {
    pub(crate) fn open(path: &Path, options: ReplayOptions) -> Result<Self, ReplayError> {
        let steps = Steps::new(SessionReader::open(path)?);
        let kernel = Arc::new(ReplayKernel::new(options.base.clone(), options.scope.clone(), options.secrets.clone()));
        Ok(Self { options, steps, kernel, brain: None })
    }

    /// Replays the next wake; `None` behind the last one.
    pub(crate) async fn next(&mut self) -> Result<Option<ReplayedWake>, ReplayError> {
        while let Some(step) = self.steps.next().transpose()? {
            match step {
                // A brain is loaded where one was loaded, also in the place of one that is still there.
                Step::Loaded(cognet) => {
                    self.shut_down().await?;
                    self.brain = if self.replays(&cognet) { Some(self.load().await?) } else { None };
                }
                Step::Entry(entry) => self.kernel.happened(entry),
                Step::Wake(wake) => return self.wake(*wake).await.map(Some),
            }
        }
        self.shut_down().await?;
        Ok(None)
    }

    fn replays(&self, cognet: &str) -> bool {
        self.options.whose == Whose::Everybodys || cognet == self.options.found.name
    }

    async fn load(&self) -> Result<Brain, ReplayError> {
        self.kernel.forget();
        let loaded = Brain::load(&self.options.found.source, self.kernel.clone(), self.options.limits).await;
        loaded.map_err(|error| ReplayError::Load(Box::new(error)))
    }

    async fn shut_down(&mut self) -> Result<(), ReplayError> {
        let Some(brain) = self.brain.take() else { return Ok(()) };
        brain.shutdown().await.map_err(|error| ReplayError::Shutdown(Box::new(error)))
    }

    async fn wake(&mut self, wake: RecordedWake) -> Result<ReplayedWake, ReplayError> {
        let seq = wake.seq;
        let words = wake.stimuli.iter().find_map(|stimulus| stimulus.data["content"].as_str()).map(str::to_owned);
        let told = |verdict| ReplayedWake { seq, words, verdict };
        let others = wake.cognet.as_ref().filter(|cognet| !self.replays(cognet));
        let skipped = match (others, &wake.ending) {
            (Some(other), _) => Some(format!("a wake of {other}")),
            (None, Ending::Interrupted) => Some("it was interrupted".to_owned()),
            (None, Ending::Missing) => Some("its end is not in the log".to_owned()),
            _ => None,
        };
        let (is_others, died) = (others.is_some(), wake.ending == Ending::Missing);
        if let Some(why) = skipped {
            self.kernel.skip(wake);
            // It goes on with what is recorded. That is before anything else comes in, as with a brain that is there.
            self.brain = if is_others || died { None } else { Some(self.load().await?) };
            return Ok(told(Verdict::Skipped(why)));
        }
        let mut brain = match self.brain.take() {
            Some(brain) => brain,
            // A log that does not say who was loaded.
            None => self.load().await?,
        };
        let stimuli = wake.stimuli.clone();
        let abort = AbortController::new();
        self.kernel.begin(wake, abort.clone());
        let ended = brain.wake(stimuli, abort.signal()).await;
        let Replayed { recorded, replayed, left_log } = self.kernel.end();
        let ending = match ended {
            Ok(_) => Ending::Complete,
            Err(WakeFailure::Failed { error, .. }) => Ending::Failed { code: error.code, message: error.message },
            Err(WakeFailure::Interrupted { .. }) => Ending::Interrupted,
        };
        let verdict = compare::judge(&recorded, &replayed, &ending, self.options.asking, &self.options.secrets);
        let goes_on = !left_log && matches!(verdict, Verdict::Same { .. });
        self.brain = Some(if goes_on { brain } else { self.load().await? });
        Ok(told(verdict))
    }
}
