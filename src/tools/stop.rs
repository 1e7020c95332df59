//! Ending work on a blocking thread.

use tokio_util::sync::CancellationToken;

use super::fault::Failure;

/// Asked between the steps of a tool: whether somebody still wants the answer.
#[derive(Clone, Debug)]
pub(super) struct Stop(CancellationToken);

impl Stop {
    pub fn new(token: CancellationToken) -> Self {
        Self(token)
    }

    pub fn check(&self) -> Result<(), Failure> {
        if self.0.is_cancelled() { Err(Failure::Stopped) } else { Ok(()) }
    }
}
