//! `axon.toml` and `.env`: what the user configured.

mod dotenv;
mod duplicate;
mod error;
mod load;
mod schema;
mod section;

pub use dotenv::{DotenvError, read_dotenv};
pub use error::{ConfigError, Place, Problem};
pub use schema::{
    AgentConfig, CapsuleConfig, CognetConfig, Config, EngineConfig, EngineTimeouts, FsPolicy, PolicyConfig, Price,
    Provider, Rule, SessionConfig, ToolGrants,
};

/// The name of the configuration file in an agent folder.
pub const CONFIG_FILE: &str = "axon.toml";

/// The name of the file of variables in an agent folder.
pub const DOTENV_FILE: &str = ".env";

#[cfg(test)]
mod tests;
