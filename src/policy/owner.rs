//! Whose grants a policy holds, and by which keys of `axon.toml` they are named.

/// Who may do what the rules list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    /// The agent's blocks, by `[policy]`.
    #[default]
    Agent,
    /// The user's tool of this name, by `[tools.NAME]`.
    Tool(String),
}

impl Owner {
    /// The key that holds a grant such as `net` or `fs.read`.
    pub(crate) fn key(&self, grant: &str) -> String {
        match self {
            Self::Agent => format!("policy.{grant}"),
            Self::Tool(name) => format!("tools.{name}.{grant}"),
        }
    }
}
