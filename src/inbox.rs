//! Where stimuli come in.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use crate::{
    kernel::Recorder,
    log::{Envelope, LogError},
};

/// Admits stimuli to a session, whether or not a wake runs. Clones are one inbox.
///
/// What is admitted while a wake runs is handed to the next one.
#[derive(Clone)]
pub struct Inbox {
    /// A stimulus belongs to no wake.
    recorder: Recorder,
    open: Arc<Mutex<()>>,
}

impl Inbox {
    pub(crate) fn new(recorder: Recorder) -> Self {
        Self { recorder, open: Arc::default() }
    }

    /// Admits a text stimulus: in the log when this returns.
    pub async fn admit_text(&self, content: &str, source: &str) -> Result<Arc<Envelope>, LogError> {
        let _open = self.open.lock().await;
        self.recorder.commit("stimulus:text", json!({ "content": content, "source": source })).await
    }

    /// Holds stimuli back for as long as the guard lives.
    pub(crate) async fn close(&self) -> MutexGuard<'_, ()> {
        self.open.lock().await
    }
}
