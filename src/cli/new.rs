//! `axon new`: an agent folder that runs at once, without a model.

use std::{fs, io, path::Path, sync::Arc};

use super::{
    console::Console,
    failure::{Exit, Failure},
    types,
};
use crate::{agent::Agent, policy::Unattended, tools::Unobserved};

/// Every file of a new agent.
const FILES: [(&str, &str); 10] = [
    ("axon.toml", include_str!("new_agent/axon.toml")),
    ("boot.md", include_str!("new_agent/boot.md")),
    ("cognets/hello.lua", include_str!("new_agent/cognets/hello.lua")),
    ("tools/folder.ts", include_str!("new_agent/tools/folder.ts")),
    ("tools/tsconfig.json", include_str!("new_agent/tools/tsconfig.json")),
    (".gitignore", include_str!("new_agent/gitignore")),
    ("README.md", include_str!("new_agent/README.md")),
    (".luaurc", include_str!("new_agent/luaurc.json")),
    (".luarc.json", include_str!("new_agent/luarc.json")),
    (".vscode/settings.json", include_str!("new_agent/vscode/settings.json")),
];

pub(super) async fn new(dir: &Path) -> Result<(), Failure> {
    match fs::read_dir(dir) {
        Ok(mut entries) => {
            if entries.any(|entry| !entry.is_ok_and(|entry| is_generated(&entry))) {
                let message = format!("{} is not empty, and nothing in it was touched", dir.display());
                return Err(
                    Failure::new(Exit::Usage, "ALREADY_EXISTS", message).hint("name a folder that does not exist yet")
                );
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unwritable(dir, &error)),
    }
    for (name, text) in FILES {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| unwritable(&path, &error))?;
    }
    let agent = Agent::open(dir)?;
    let toolbox = agent.toolbox(Arc::new(Unattended), Arc::new(Unobserved)).await?;
    types::write(agent.dir(), &toolbox.scope())?;
    toolbox.shutdown().await;
    let mut console = Console::stdout();
    console.line(&format!("made {}", dir.display()))?;
    console.line(&format!("try it: cd {} && axon run \"hello\"", quoted(dir)))?;
    Ok(())
}

/// What every command makes in its agent folder.
fn is_generated(entry: &fs::DirEntry) -> bool {
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    is_folder && GENERATED.iter().any(|name| entry.file_name() == *name)
}

const GENERATED: [&str; 2] = ["data", ".axon"];

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Exit::Usage, "UNWRITABLE", format!("{} could not be written: {error}", path.display()))
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = text.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    if plain { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
