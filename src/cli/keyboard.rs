//! Lines of standard input, for the question that is open.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
};

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::oneshot;

type Line = io::Result<String>;

/// Clones share the input.
#[derive(Clone, Default)]
pub(super) struct Keyboard(Arc<Shared>);

struct Shared {
    begun: Once,
    question: Mutex<Question>,
}

impl Default for Shared {
    fn default() -> Self {
        Self { begun: Once::new(), question: Mutex::default() }
    }
}

#[derive(Default)]
enum Question {
    #[default]
    None,
    Open(oneshot::Sender<Line>),
    /// The input has ended.
    Never,
}

impl Keyboard {
    /// Opens a question: the line typed next, from now on, is its answer. `None` at the end of the input.
    pub(super) async fn answer(&self) -> Option<Line> {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            // What was typed and not read is older than the question. A terminal that is gone has nothing to be dropped.
            let _ = tcflush(&stdin, QueueSelector::IFlush);
        }
        let (sender, answer) = oneshot::channel();
        {
            let mut question = self.0.question();
            if matches!(*question, Question::Never) {
                return None;
            }
            *question = Question::Open(sender);
        }
        self.begin();
        answer.await.ok()
    }

    /// A thread of its own reads the lines, since a read cannot be interrupted.
    fn begin(&self) {
        self.0.begun.call_once(|| {
            let shared = self.0.clone();
            std::thread::spawn(move || {
                for line in io::stdin().lock().lines() {
                    let failed = line.is_err();
                    shared.take(line);
                    if failed {
                        break;
                    }
                }
                *shared.question() = Question::Never;
            });
        });
    }
}

impl Shared {
    /// A line that answers nothing is dropped: nobody was asked.
    fn take(&self, line: Line) {
        if let Question::Open(question) = std::mem::take(&mut *self.question()) {
            // A question that was given up has no use for it.
            let _ = question.send(line);
        }
    }

    fn question(&self) -> MutexGuard<'_, Question> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
