//! The generated files of `.axon/`: what editors and compilers know of the agent's two languages.

use std::{fs, path::Path};

use axon_runtime::{AUTHOR_FILES, Scope};

use super::failure::{Exit, Failure};
use crate::tools::tool_declarations;

/// Writes every file of `.axon/` anew.
pub(super) fn write(agent_dir: &Path, scope: &Scope) -> Result<(), Failure> {
    let folder = agent_dir.join(".axon");
    let tools = tool_declarations();
    let declarations = [("scope.d.ts", scope.dts.as_str()), ("tools.d.ts", tools.as_str())];
    for (name, text) in AUTHOR_FILES.iter().copied().chain(declarations) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).and_then(|()| fs::write(&path, text)).map_err(|error| {
            Failure::new(Exit::Usage, "UNWRITABLE", format!("{} could not be written: {error}", path.display()))
        })?;
    }
    Ok(())
}
