//! Questions of the rule `ask` in the middle of a conversation.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axon_capsule::BoxFuture;

use super::{screen::Screen, terminal};
use crate::{
    cli::{approve, interrupt::Interrupts},
    policy::{Approval, ApprovalRequest, Approver},
};

/// Asks below what is on the screen. What happens meanwhile is shown once the question is answered.
pub(super) struct Questions {
    pub(super) screen: Screen,
    pub(super) interrupts: Interrupts,
}

/// Tells the reader of an answer that nobody waits for it any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Approver for Questions {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        Box::pin(async move {
            let refused = self.interrupts.question();
            let asked = self.screen.begin_edit().and_then(|()| approve::show(&approve::preview(&request)));
            let answer = match asked {
                Ok(()) => tokio::select! {
                    answer = typed() => approve::judge(answer),
                    () = refused => {
                        let _ = approve::show("\n");
                        Approval::No
                    }
                },
                Err(_) => Approval::Nobody,
            };
            // A screen that is gone is noticed by what has to be shown next.
            let _ = self.screen.end_edit();
            answer
        })
    }
}

/// The line that is typed next; `None` at the end of the input.
async fn typed() -> Option<io::Result<String>> {
    let given_up = GiveUp(Arc::default());
    let flag = given_up.0.clone();
    let line = tokio::task::spawn_blocking(move || terminal::read_line(&flag)).await;
    drop(given_up);
    line.unwrap_or_else(|error| Err(io::Error::other(error))).transpose()
}
