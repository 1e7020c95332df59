//! `axon clone`: a bundled cognet as one's own.

use std::fs;

use super::{
    args::Common,
    console::Console,
    failure::{Exit, Failure},
};
use crate::{
    agent::Agent,
    cognets::{self, BUNDLED},
};

pub(super) fn clone(common: &Common, cognet: &str, name: Option<&str>) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let bare = cognet.strip_prefix("@axon/").unwrap_or(cognet);
    let Some(bundled) = BUNDLED.iter().find(|bundled| bundled.name == bare) else {
        let known: Vec<_> =
            BUNDLED.iter().map(|bundled| format!("@axon/{} ({})", bundled.name, bundled.about)).collect();
        return Err(Failure::new(Exit::Usage, "COGNET_NOT_FOUND", format!("no cognet {cognet:?} is bundled"))
            .hint(format!("there are {}", known.join(", "))));
    };
    let name = name.unwrap_or(bundled.name);
    if name.is_empty() || !name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_') {
        return Err(Failure::new(Exit::Usage, "COGNET_INVALID", format!("{name:?} cannot be a cognet's name"))
            .hint("use letters, digits, - and _"));
    }
    let folder = agent.cognets_dir();
    if cognets::installed(&folder)?.iter().any(|found| found.name == name) {
        let message = format!("there is a cognet {name:?} already in {}", folder.display());
        return Err(Failure::new(Exit::Usage, "ALREADY_EXISTS", message)
            .hint(format!("choose another name: axon clone {cognet} NAME")));
    }
    let is_folder = bundled.files.len() > 1;
    for (path, source) in bundled.files {
        let target = if is_folder { folder.join(name).join(path) } else { folder.join(format!("{name}.lua")) };
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&target, renamed(source, bundled.name, name))?;
        Console::stdout().line(&format!("wrote {}", target.strip_prefix(agent.dir()).unwrap_or(&target).display()))?;
    }
    Console::stdout().line(&format!("run it with: axon run --cognet {name} \"hello\""))?;
    Ok(())
}

/// The source with the copy's own name in its identity.
fn renamed(source: &str, from: &str, to: &str) -> String {
    source.replacen(&format!("name = \"{from}\""), &format!("name = {to:?}"), 1)
}
