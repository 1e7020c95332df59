//! Asking a person before a call, for the rule `ask`.

use axon_capsule::BoxFuture;
use serde_json::Value;

/// What would happen if the person agrees.
#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRequest {
    /// The block that calls.
    pub block: String,
    pub namespace: String,
    pub function: String,
    /// The call in short: `fs.write("work/a.txt")`.
    pub call: String,
    /// Every argument in full; bytes and dates as text.
    pub args: Value,
    /// For a change of a file, the difference that it would make.
    pub diff: Option<String>,
    /// The rule that asks: `policy.tools."fs.write"`.
    pub rule: String,
}

/// The person's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// This call alone.
    Once,
    /// Every call of this function for the rest of the session.
    Session,
    No,
    /// There is nobody to ask: the call is denied and its error says so.
    Nobody,
}

/// Puts a question to the person at the terminal. One question is open at a time.
pub trait Approver: Send + Sync + 'static {
    fn ask(&self, request: ApprovalRequest) -> BoxFuture<'_, Approval>;
}

/// Nobody is there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Approver for Unattended {
    fn ask(&self, _request: ApprovalRequest) -> BoxFuture<'_, Approval> {
        Box::pin(std::future::ready(Approval::Nobody))
    }
}
