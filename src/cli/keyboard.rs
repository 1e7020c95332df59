//! Lines of standard input, for whoever needs the next one: a conversation, or a question.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::{Arc, OnceLock},
};

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{Mutex, mpsc};

/// Clones share the input.
#[derive(Clone, Default)]
pub(super) struct Keyboard(Arc<OnceLock<Mutex<mpsc::Receiver<io::Result<String>>>>>);

impl Keyboard {
    /// The next line; `None` at the end of the input.
    pub(super) async fn line(&self) -> Option<io::Result<String>> {
        self.0.get_or_init(|| Mutex::new(lines())).lock().await.recv().await
    }

    /// Drops what was typed and has not been read.
    pub(super) fn forget_typed(&self) {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // A terminal that is gone has nothing to be dropped.
            let _ = tcflush(&stdin, QueueSelector::IFlush);
        }
        if let Some(lines) = self.0.get()
            && let Ok(mut lines) = lines.try_lock()
        {
            while lines.try_recv().is_ok() {}
        }
    }
}

/// A thread of its own reads them, since a read cannot be interrupted.
fn lines() -> mpsc::Receiver<io::Result<String>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let failed = line.is_err();
            if sender.blocking_send(line).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
