//! `axon scope`: what the capsule can execute.

use std::sync::Arc;

use axon_runtime::{Scope, ScopeModule};

use super::{args::Common, console::Console, failure::Failure};
use crate::{agent::Agent, policy::Unattended, tools::Unobserved};

pub(super) async fn scope(common: &Common, dts: bool) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let toolbox = agent.toolbox(Arc::new(Unattended), Arc::new(Unobserved)).await?;
    let scope = toolbox.scope();
    toolbox.shutdown().await;
    let mut console = Console::stdout();
    if common.json.is_some() {
        let json = serde_json::to_string(&scope).map_err(std::io::Error::other)?;
        console.line(&json)?;
    } else if dts {
        console.text(&scope.dts)?;
    } else {
        console.text(&readable(&scope))?;
    }
    Ok(())
}

pub(super) fn readable(scope: &Scope) -> String {
    if scope.modules.is_empty() {
        return "Nothing but the ECMAScript library: the policy grants no tool.\n\
                Grant some in axon.toml, for example:\n\n    [policy.fs]\n    read = [\".\"]\n"
            .to_owned();
    }
    scope.modules.iter().map(module).collect::<Vec<_>>().join("\n")
}

fn module(module: &ScopeModule) -> String {
    let mut text = module.name.clone();
    if let Some(description) = &module.description {
        text.push_str(&format!(": {description}"));
    }
    text.push('\n');
    for member in &module.members {
        text.push_str(&format!("  {}\n", member.declaration));
        if let Some(line) = member.jsdoc.as_deref().and_then(first_line) {
            text.push_str(&format!("      {line}\n"));
        }
    }
    text
}

/// The first words of a JSDoc comment, without its frame.
fn first_line(jsdoc: &str) -> Option<&str> {
    jsdoc
        .lines()
        .map(|line| line.trim().trim_start_matches("/**").trim_end_matches("*/").trim_start_matches('*').trim())
        .find(|line| !line.is_empty())
}
