//! The abort signal of a wake.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Aborts what holds the matching [`AbortSignal`]s. The first reason stands.
#[derive(Clone, Debug, Default)]
pub struct AbortController(AbortSignal);

/// Tells whether, and why, the work that it was handed to should end. Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct AbortSignal {
    token: CancellationToken,
    reason: Arc<OnceLock<String>>,
}

impl AbortController {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn signal(&self) -> AbortSignal {
        self.0.clone()
    }

    pub fn abort(&self, reason: impl Into<String>) {
        let _ = self.0.reason.set(reason.into());
        self.0.token.cancel();
    }
}

impl AbortSignal {
    pub fn aborted(&self) -> bool {
        self.token.is_cancelled()
    }

    pub fn reason(&self) -> Option<&str> {
        if self.aborted() { self.reason.get().map(String::as_str) } else { None }
    }

    /// Settles when the signal is aborted.
    pub async fn cancelled(&self) {
        self.token.cancelled().await;
    }

    /// The same state for work that needs no reason.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }
}
