//! `axon.toml` as `axon new` writes it, and all keys with their defaults.

/// Every key with its default, or with an example in a comment.
pub fn default_toml() -> &'static str {
    include_str!("defaults.toml")
}

/// The configuration of a new agent named `name`.
pub fn new_agent_toml(name: &str) -> String {
    let name = toml::Value::from(name).to_string();
    include_str!("new_agent.toml").replacen("\"my-agent\"", &name, 1)
}
