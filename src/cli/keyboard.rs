//! Lines of standard input: for the conversation, or for the question that is open.

use std::{
    io::{self, BufRead, IsTerminal},
    sync::{Arc, Mutex, MutexGuard, Once, PoisonError},
};

use rustix::termios::{QueueSelector, tcflush};
use tokio::sync::{mpsc, oneshot};

type Line = io::Result<String>;

/// Clones share the input.
#[derive(Clone)]
pub(super) struct Keyboard(Arc<Shared>);

struct Shared {
    begun: Once,
    question: Mutex<Question>,
    conversation: mpsc::UnboundedSender<Option<Line>>,
    lines: tokio::sync::Mutex<mpsc::UnboundedReceiver<Option<Line>>>,
}

enum Question {
    None,
    Open(oneshot::Sender<Line>),
    /// The input has ended.
    Never,
}

impl Default for Keyboard {
    fn default() -> Self {
        let (conversation, lines) = mpsc::unbounded_channel();
        Self(Arc::new(Shared {
            begun: Once::new(),
            question: Mutex::new(Question::None),
            conversation,
            lines: tokio::sync::Mutex::new(lines),
        }))
    }
}

impl Keyboard {
    /// The next line that answers no question; `None` at the end of the input.
    pub(super) async fn line(&self) -> Option<Line> {
        self.begin();
        self.0.lines.lock().await.recv().await.flatten()
    }

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
                // The conversation ends when nobody listens to it any more, too.
                let _ = shared.conversation.send(None);
            });
        });
    }
}

impl Shared {
    fn take(&self, line: Line) {
        let question = std::mem::replace(&mut *self.question(), Question::None);
        let unanswered = match question {
            // A question that was given up has no use for it.
            Question::Open(question) => question.send(line).err(),
            Question::None | Question::Never => Some(line),
        };
        if let Some(line) = unanswered {
            let _ = self.conversation.send(Some(line));
        }
    }

    fn question(&self) -> MutexGuard<'_, Question> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
