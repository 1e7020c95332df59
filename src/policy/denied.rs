//! A refusal by policy.

use axon_capsule::ToolError;

/// Why policy refused a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The rule that decided, as it is found in `axon.toml`, or `protected …` for what no root reaches.
    pub rule: String,
    /// Why, and where it helps, what to do.
    pub detail: String,
}

impl Denied {
    /// As it is thrown in the block. `call` is the call as the model wrote it: `fs.write("/etc/passwd")`.
    pub fn to_error(&self, call: &str) -> ToolError {
        ToolError {
            name: "PolicyDenied".into(),
            message: format!("{call}: {}", self.detail),
            code: Some("POLICY_DENIED".into()),
        }
    }
}
