//! What the files of `tools/` declare, kept from the last time that they were examined: while they stay as they are, no process
//! is started only to read them. A cache, which may be deleted at any time.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use axon_capsule::{ToolFile, ToolModule};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::files;

/// Below the agent folder.
const FILE: &str = ".axon/tools.json";

/// The declarations of files with one content, as one build of the program reads them.
#[derive(Serialize, Deserialize)]
struct Known {
    of: String,
    modules: Vec<ToolModule>,
}

/// A place for what was found out about some files.
pub(super) struct Place {
    path: PathBuf,
    of: String,
}

impl Place {
    /// The place for these files of an agent; `program` is what examines them.
    pub fn of(agent_dir: &Path, program: &Path, files: &[ToolFile]) -> Self {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update(bytes.len().to_le_bytes());
            hash.update(bytes);
        };
        part(env!("CARGO_PKG_VERSION").as_bytes());
        part(build_of(program).as_bytes());
        for file in files {
            part(file.path.as_bytes());
            part(file.source.as_bytes());
        }
        let of = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: agent_dir.join(FILE), of }
    }

    pub fn get(&self) -> Option<Vec<ToolModule>> {
        let known: Known = serde_json::from_slice(&fs::read(&self.path).ok()?).ok()?;
        (known.of == self.of).then_some(known.modules)
    }

    /// Where it cannot be kept, the files are examined again.
    pub fn put(&self, modules: &[ToolModule]) {
        let known = Known { of: self.of.clone(), modules: modules.to_vec() };
        let kept =
            serde_json::to_vec(&known).map_err(io::Error::from).and_then(|json| files::replace(&self.path, &json));
        if let Err(error) = kept {
            tracing::debug!("{} could not be written: {error}", self.path.display());
        }
    }
}

/// Tells builds of one version apart: whoever works on the program has many.
fn build_of(program: &Path) -> String {
    let metadata = fs::metadata(program).ok();
    let made = metadata.as_ref().and_then(|metadata| metadata.modified().ok());
    let made = made.and_then(|made| made.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{} {}", metadata.map_or(0, |metadata| metadata.len()), made.as_nanos())
}
