//! The rule `ask` in a conversation: the question is shown above the line, and the next line is its answer.

use axon_capsule::BoxFuture;
use tokio::sync::{mpsc, oneshot};

use super::Typed;
use crate::{
    cli::approve::{preview, read},
    policy::{Approval, ApprovalRequest, Approver},
};

/// Questions on their way to the conversation.
pub(super) type Questions = mpsc::Receiver<Question>;

/// A call that waits for a person.
pub(super) struct Question {
    request: ApprovalRequest,
    answer: oneshot::Sender<Approval>,
}

/// Puts questions to the conversation.
pub(super) struct Asking(mpsc::Sender<Question>);

pub(super) fn questions() -> (Asking, Questions) {
    let (sender, questions) = mpsc::channel(1);
    (Asking(sender), questions)
}

impl Approver for Asking {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        Box::pin(async move {
            let (answer, answered) = oneshot::channel();
            // A conversation that is over has nobody to ask.
            match self.0.send(Question { request, answer }).await {
                Ok(()) => answered.await.unwrap_or(Approval::Nobody),
                Err(_) => Approval::Nobody,
            }
        })
    }
}

impl Question {
    /// What would happen, and what can be answered.
    pub(super) fn text(&self) -> String {
        preview(&self.request)
    }

    /// Ready once nobody waits for the answer any more.
    pub(super) async fn withdrawn(&mut self) {
        self.answer.closed().await;
    }

    /// Anything but a clear yes is a no, and so is Ctrl-C.
    pub(super) fn answer(self, typed: &Typed) {
        let answer = match typed {
            Typed::Line(line) => read(line),
            Typed::Interrupt | Typed::End => Approval::No,
        };
        // Whoever asked may be gone.
        let _ = self.answer.send(answer);
    }
}
