//! Reading a session that somebody else is writing.

use std::{path::Path, time::Duration};

use super::{Line, LogError, SessionReader};

/// How often a file that did not grow is looked at again.
const POLL: Duration = Duration::from_millis(50);

/// The lines of a session from its beginning, and then those that are written to it, by whatever process.
pub struct Follow(SessionReader);

impl Follow {
    /// # Errors
    /// As [`SessionReader::open`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        SessionReader::open(path).map(Self)
    }

    /// The next line if it is there already.
    pub fn ready(&mut self) -> Option<Result<Line, LogError>> {
        self.0.next()
    }

    /// The next line, once there is one. Cancelling it loses nothing.
    ///
    /// # Errors
    /// As [`SessionReader`]'s items.
    pub async fn next(&mut self) -> Result<Line, LogError> {
        loop {
            match self.0.next() {
                Some(line) => return line,
                None => tokio::time::sleep(POLL).await,
            }
        }
    }
}
