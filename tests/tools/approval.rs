//! `[policy.tools]`: allow, ask, deny.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axon::policy::{Approval, ApprovalRequest, Approver, Rule, Unattended};
use axon_capsule::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::support::{Desk, ruled, s, tool_call};

struct Person {
    answer: Approval,
    asked: AtomicUsize,
}

impl Person {
    fn who_says(answer: Approval) -> Arc<Self> {
        Arc::new(Self { answer, asked: AtomicUsize::new(0) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Approver for Person {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        assert_eq!(request.call, "fs.write(\"work/a\")");
        assert_eq!(request.args, serde_json::json!(["work/a", "x"]));
        assert_eq!(request.rule, "policy.tools.\"fs.write\"");
        self.asked.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(self.answer))
    }
}

fn asking(desk: &Desk) -> axon::policy::PolicyRules {
    ruled(desk.rules(&["."], &["work"]), &[("fs.write", Rule::Ask)])
}

#[tokio::test]
async fn an_approval_once_is_asked_for_again_and_one_for_the_session_is_not() {
    for (answer, questions) in [(Approval::Once, 2), (Approval::Session, 1)] {
        let desk = Desk::furnished();
        let person = Person::who_says(answer);
        let tools = desk.tools_with(asking(&desk), person.clone());
        for _ in 0..2 {
            tools.call("write", [s("work/a"), s("x")]).await.unwrap();
        }
        assert_eq!(person.asked(), questions);
        assert_eq!(tools.journal.kinds()[..2], ["capsule:policy:asked", "capsule:policy:allowed"]);
    }
}

#[tokio::test]
async fn a_no_and_nobody_are_denials_that_say_so() {
    let desk = Desk::furnished();
    let tools = desk.tools_with(asking(&desk), Person::who_says(Approval::No));
    let message = tools.denial("write", [s("work/a"), s("x")]).await;
    assert!(message.contains("who said no"), "{message}");
    let tools = desk.tools_with(asking(&desk), Arc::new(Unattended));
    let message = tools.denial("write", [s("work/a"), s("x")]).await;
    assert!(message.contains("nobody is there to ask"), "{message}");
    assert!(!desk.path("work/a").exists());
}

#[tokio::test]
async fn what_the_roots_deny_is_not_even_asked() {
    let desk = Desk::furnished();
    let person = Person::who_says(Approval::Session);
    let tools = desk.tools_with(asking(&desk), person.clone());
    tools.denial("write", [s("notes.md"), s("x")]).await;
    assert_eq!(person.asked(), 0);
}

#[tokio::test]
async fn a_denied_function_is_denied_and_out_of_scope() {
    let desk = Desk::furnished();
    let rules = ruled(desk.rules(&["."], &["work"]), &[("*", Rule::Allow), ("fs.read", Rule::Deny)]);
    let tools = desk.tools_with(rules, Arc::new(Unattended));
    let message = tools.denial("read", [s("notes.md")]).await;
    assert!(message.contains("policy.tools.\"fs.read\" = \"deny\""), "{message}");
    assert!(!tools.toolbox.namespaces()[0].members.contains(&"read".to_owned()));
}

/// Never answers.
struct Absent;

impl Approver for Absent {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_question_ends_with_the_call_that_asked_it() {
    let desk = Desk::furnished();
    let tools = desk.tools_with(asking(&desk), Arc::new(Absent));
    let cancel = CancellationToken::new();
    let call = tools.toolbox.call(tool_call("write", [s("work/a"), s("x")]), &tools.journal, cancel.clone());
    let (answer, ()) = tokio::join!(call, async { cancel.cancel() });
    assert_eq!(answer.unwrap_err().code.as_deref(), Some("CANCELLED"));
}
