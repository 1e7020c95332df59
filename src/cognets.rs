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

    fn place(&self) -> PathBuf {
        match &self.source {
            CognetSource::Folder(path) | CognetSource::File(path) => path.clone(),
            CognetSource::Embedded { name, .. } => PathBuf::from(name),
        }
    }
}

/// Why no cognet could be chosen.
#[derive(Debug, thiserror::Error)]
pub enum CognetLookupError {
    #[error("COGNET_NOT_FOUND: there is no cognet {name:?}: neither in {} nor bundled", .folder.display())]
    NotFound { name: String, folder: PathBuf, hint: String },
    #[error("{} is a link that leads out of {}, and such a cognet is not run", .path.display(), .folder.display())]
    LeadsOut { path: PathBuf, folder: PathBuf },
    #[error("{} is neither a folder nor a regular file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("{} and {} are both there, and one name is one cognet", .first.display(), .second.display())]
    Ambiguous { first: PathBuf, second: PathBuf },
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl CognetLookupError {
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "COGNET_NOT_FOUND",
            Self::LeadsOut { .. } | Self::NotAFile { .. } | Self::Ambiguous { .. } => "COGNET_INVALID",
            Self::Io { .. } => "IO",
        }
    }

    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotFound { hint, .. } => Some(hint),
            Self::LeadsOut { .. } => Some("copy it into cognets/, or run it as an agent folder of its own with -C"),
            Self::NotAFile { .. } => Some("put a .lua or .luau file there, or a folder with cognet.config.lua"),
            Self::Ambiguous { .. } => Some("rename or remove one of them"),
            Self::Io { .. } => Some("`cognets` is a folder of files and folders"),
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
        found.extend(as_cognet(folder, &path)?);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    match found.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(ambiguous(&pair[0], &pair[1])),
        None => Ok(found),
    }
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
    let mut found: Option<Found> = None;
    for path in candidates {
        match (found.take(), as_cognet(folder, &path)?) {
            (Some(first), Some(second)) => return Err(ambiguous(&first, &second)),
            (first, second) => found = first.or(second),
        }
    }
    found.or_else(|| bundled(name)).ok_or_else(|| not_found(folder, name))
}

/// What an agent runs when nobody names a cognet: the only one in `cognets/`, else the reference brain.
pub fn default_for(folder: &Path) -> Result<Found, CognetLookupError> {
    let mut found = installed(folder)?;
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => find(folder, "@axon/zero"),
    }
}

/// The cognet at a path below `folder`; `None` when there is nothing, or something else.
fn as_cognet(folder: &Path, path: &Path) -> Result<Option<Found>, CognetLookupError> {
    let io_error = |source| CognetLookupError::Io { path: path.to_owned(), source };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(io_error(error)),
    };
    let named = |name: Option<&std::ffi::OsStr>| name.and_then(|name| name.to_str()).map(str::to_owned);
    let is_script =
        path.extension().and_then(|extension| extension.to_str()).is_some_and(|end| EXTENSIONS.contains(&end));
    let found = if metadata.is_dir() {
        named(path.file_name()).map(|name| Found { name, source: CognetSource::Folder(path.to_owned()) })
    } else if !is_script {
        None
    } else if metadata.is_file() {
        named(path.file_stem()).map(|name| Found { name, source: CognetSource::File(path.to_owned()) })
    } else {
        return Err(CognetLookupError::NotAFile { path: path.to_owned() });
    };
    if found.is_some() {
        let real = path.canonicalize().map_err(io_error)?;
        if !real.starts_with(folder.canonicalize().map_err(io_error)?) {
            return Err(CognetLookupError::LeadsOut { path: path.to_owned(), folder: folder.to_owned() });
        }
    }
    Ok(found)
}

fn ambiguous(first: &Found, second: &Found) -> CognetLookupError {
    CognetLookupError::Ambiguous { first: first.place(), second: second.place() }
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
