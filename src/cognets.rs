//! Where cognets are found: the agent's `cognets/` folder first, then those bundled with the program.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use axon_runtime::CognetSource;

/// The prefix of bundled cognets.
const BUNDLED_PREFIX: &str = "@axon/";

/// File names that a single-file cognet may have, and the entry that makes a folder one.
const EXTENSIONS: [&str; 2] = ["lua", "luau"];

/// A cognet that comes with the program: its name without prefix, and its files.
#[derive(Debug)]
pub struct BundledCognet {
    pub name: &'static str,
    pub about: &'static str,
    pub files: &'static [(&'static str, &'static str)],
}

macro_rules! files {
    ($($path:literal => $source:literal),* $(,)?) => { &[$(($path, include_str!($source))),*] };
}

/// Every bundled cognet.
pub const BUNDLED: &[BundledCognet] = &[
    BundledCognet {
        name: "zero",
        about: "the reference brain: asks a model, runs its TypeScript, answers",
        files: files![
            "cognet.config.lua" => "../cognets/zero/cognet.config.lua",
            "src/main.lua" => "../cognets/zero/src/main.lua",
            "src/state.lua" => "../cognets/zero/src/state.lua",
            "plugins/setup.lua" => "../cognets/zero/plugins/setup.lua",
        ],
    },
    BundledCognet {
        name: "repl",
        about: "a brain without a model: runs each text as a TypeScript block",
        files: files!["repl.lua" => "../cognets/repl.lua"],
    },
    BundledCognet { name: "echo", about: "says what it hears", files: files!["echo.lua" => "../cognets/echo.lua"] },
];

/// A cognet that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// As a person would write it: `hi` or `@axon/zero`.
    pub name: String,
    pub source: CognetSource,
}

impl Found {
    /// Whether it comes with the program.
    pub fn is_bundled(&self) -> bool {
        self.name.starts_with(BUNDLED_PREFIX)
    }

    /// The name under which its private state is kept.
    pub fn state_name(&self) -> &str {
        self.name.strip_prefix(BUNDLED_PREFIX).unwrap_or(&self.name)
    }
}

/// Why no cognet could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum CognetLookupError {
    #[error("COGNET_NOT_FOUND: there is no cognet {name:?}: neither in {} nor bundled", .folder.display())]
    NotFound { name: String, folder: PathBuf, hint: String },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl CognetLookupError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "COGNET_NOT_FOUND",
            Self::Io { .. } => "IO",
        }
    }

    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotFound { hint, .. } => Some(hint),
            Self::Io { .. } => None,
        }
    }
}

/// The cognets in a folder, by name: folders, and single files without their ending.
pub fn installed(folder: &Path) -> Result<Vec<Found>, CognetLookupError> {
    let io_error = |source| CognetLookupError::Io { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(io_error)?.path();
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        if hidden {
            continue;
        }
        found.extend(as_cognet(&path));
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    Ok(found)
}

/// The cognet of that name, or of that path (`./somewhere/hi.lua`).
pub fn find(folder: &Path, name: &str) -> Result<Found, CognetLookupError> {
    if let Some(bare) = name.strip_prefix(BUNDLED_PREFIX) {
        return bundled(bare).ok_or_else(|| not_found(folder, name));
    }
    let plain = !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0']);
    if !plain {
        return Err(not_found(folder, name));
    }
    let candidates = [folder.join(name)]
        .into_iter()
        .chain(EXTENSIONS.iter().map(|extension| folder.join(format!("{name}.{extension}"))));
    for path in candidates {
        if let Some(found) = as_cognet(&path) {
            return Ok(found);
        }
    }
    bundled(name).ok_or_else(|| not_found(folder, name))
}

/// What an agent runs when nobody names a cognet: the only one in `cognets/`, else the reference brain.
pub fn default_for(folder: &Path) -> Result<Found, CognetLookupError> {
    let mut found = installed(folder)?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => find(folder, "@axon/zero"),
    }
}

fn as_cognet(path: &Path) -> Option<Found> {
    if path.is_dir() {
        let name = path.file_name()?.to_str()?.to_owned();
        return Some(Found { name, source: CognetSource::Folder(path.to_owned()) });
    }
    let extension = path.extension()?.to_str()?;
    if path.is_file() && EXTENSIONS.contains(&extension) {
        let name = path.file_stem()?.to_str()?.to_owned();
        return Some(Found { name, source: CognetSource::File(path.to_owned()) });
    }
    None
}

fn bundled(bare: &str) -> Option<Found> {
    let cognet = BUNDLED.iter().find(|cognet| cognet.name == bare)?;
    Some(Found {
        name: format!("{BUNDLED_PREFIX}{bare}"),
        source: CognetSource::Embedded { name: cognet.name, files: cognet.files },
    })
}

fn not_found(folder: &Path, name: &str) -> CognetLookupError {
    let mut known: Vec<String> = installed(folder).unwrap_or_default().into_iter().map(|found| found.name).collect();
    known.extend(BUNDLED.iter().map(|cognet| format!("{BUNDLED_PREFIX}{}", cognet.name)));
    let bare = |name: &str| name.strip_prefix(BUNDLED_PREFIX).unwrap_or(name).to_owned();
    let wanted = bare(name);
    let nearest = known.iter().find(|known| crate::text::nearest(&wanted, [bare(known).as_str()]).is_some());
    let hint = match nearest {
        Some(nearest) => format!("did you mean {nearest:?}? there are {}", known.join(", ")),
        None => format!("there are {}", known.join(", ")),
    };
    CognetLookupError::NotFound { name: name.to_owned(), folder: folder.to_owned(), hint }
}
