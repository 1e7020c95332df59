//! Where a cognet's files are, and the confinement of what it may read of them.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::{CognetError, error::code};

/// Where a cognet's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CognetSource {
    /// A folder with `cognet.config.lua`, `src/main.lua` and, if it likes, `plugins/`.
    Folder(PathBuf),
    /// One file that calls `defineCognet` and `loop`.
    File(PathBuf),
    /// Files in the binary, by their path inside the cognet. A single-file cognet has one, without a folder.
    Embedded { name: &'static str, files: &'static [(&'static str, &'static str)] },
}

/// In the order in which a name without its extension is looked up.
const EXTENSIONS: [&str; 2] = ["lua", "luau"];

/// The place of cognets in the binary, as people write it: no folder of theirs has that name.
const EMBEDDED: &str = "@axon/";

/// The files of one cognet. A *key* is a path inside it, with `/`, for example `src/main.lua`.
#[derive(Debug)]
pub(crate) struct Files {
    root: Root,
    /// What comes before a key where people see it: `cognets/mind/`, or `cognets/` for a single file, and `@axon/` in place of
    /// `cognets/` where the files are in the binary.
    prefix: String,
}

#[derive(Debug)]
enum Root {
    /// Canonical.
    Folder(PathBuf),
    File {
        path: PathBuf,
        key: String,
    },
    Embedded(&'static [(&'static str, &'static str)]),
}

/// Why a key cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0} leads out of the cognet's folder")]
    Outside(String),
    #[error("{first} and {second} are both there; remove one")]
    Ambiguous { first: String, second: String },
    #[error("{key} cannot be read: {error}")]
    Unreadable { key: String, error: io::Error },
}

impl Files {
    pub fn open(source: &CognetSource) -> Result<Self, CognetError> {
        match source {
            CognetSource::Folder(path) => {
                let root = fs::canonicalize(path).map_err(|error| not_found(path, &error))?;
                if !root.is_dir() {
                    return Err(CognetError::new(code::NOT_FOUND, format!("{} is not a folder", path.display())));
                }
                Ok(Self { prefix: format!("cognets/{}/", last_name(path)), root: Root::Folder(root) })
            }
            CognetSource::File(path) => {
                if !fs::metadata(path).map_err(|error| not_found(path, &error))?.is_file() {
                    return Err(CognetError::new(code::NOT_FOUND, format!("{} is not a file", path.display())));
                }
                let root = Root::File { path: path.clone(), key: last_name(path) };
                Ok(Self { root, prefix: "cognets/".to_owned() })
            }
            CognetSource::Embedded { name, files } => {
                let single = files.len() == 1 && files.iter().all(|(key, _)| !key.contains('/'));
                let prefix = if single { EMBEDDED.to_owned() } else { format!("{EMBEDDED}{name}/") };
                Ok(Self { root: Root::Embedded(files), prefix })
            }
        }
    }

    /// The key of the one file of a cognet that has no folder.
    pub fn single(&self) -> Option<&str> {
        match &self.root {
            Root::Folder(_) => None,
            Root::File { key, .. } => Some(key),
            Root::Embedded(files) => match files {
                [(key, _)] if !key.contains('/') => Some(key),
                _ => None,
            },
        }
    }

    /// The name of a key's chunk: what errors and tracebacks show.
    pub fn display(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// The cognet as people call its place, for example `cognets/mind`.
    pub fn place(&self) -> String {
        match self.single() {
            Some(key) => self.display(key),
            None => self.prefix.trim_end_matches('/').to_owned(),
        }
    }

    pub fn read(&self, key: &str) -> Result<Option<String>, FileError> {
        match &self.root {
            Root::Folder(_) => match self.locate(key)? {
                Some(path) => read_file(&path, key).map(Some),
                None => Ok(None),
            },
            Root::File { path, key: own } => (own == key).then(|| read_file(path, key)).transpose(),
            Root::Embedded(files) => Ok(files.iter().find(|(own, _)| *own == key).map(|(_, text)| (*text).to_owned())),
        }
    }

    /// The key of the file that `stem` names, with or without its extension.
    pub fn find(&self, stem: &str) -> Result<Option<String>, FileError> {
        if EXTENSIONS.iter().any(|extension| Path::new(stem).extension().is_some_and(|own| own == *extension)) {
            return Ok(self.exists(stem)?.then(|| stem.to_owned()));
        }
        for base in [stem.to_owned(), format!("{stem}/init")] {
            let mut found = Vec::new();
            for extension in EXTENSIONS {
                let key = format!("{base}.{extension}");
                if self.exists(&key)? {
                    found.push(key);
                }
            }
            match (found.pop(), found.pop()) {
                (Some(second), Some(first)) => return Err(FileError::Ambiguous { first, second }),
                (Some(key), None) => return Ok(Some(key)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The keys of the plugins, by file name.
    pub fn plugins(&self) -> Result<Vec<String>, FileError> {
        let mut keys: Vec<String> = match &self.root {
            Root::File { .. } => Vec::new(),
            Root::Embedded(files) => files.iter().map(|(key, _)| (*key).to_owned()).collect(),
            Root::Folder(root) => match fs::read_dir(root.join("plugins")) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
                Err(error) => return Err(FileError::Unreadable { key: "plugins".to_owned(), error }),
                Ok(entries) => entries
                    .map(|entry| entry.map(|entry| format!("plugins/{}", entry.file_name().to_string_lossy())))
                    .collect::<io::Result<_>>()
                    .map_err(|error| FileError::Unreadable { key: "plugins".to_owned(), error })?,
            },
        };
        keys.retain(|key| {
            let name = key.strip_prefix("plugins/").unwrap_or_default();
            !name.contains('/')
                && !name.starts_with('.')
                && EXTENSIONS
                    .iter()
                    .any(|extension| name.strip_suffix(extension).is_some_and(|stem| stem.ends_with('.')))
        });
        keys.sort();
        Ok(keys)
    }

    fn exists(&self, key: &str) -> Result<bool, FileError> {
        Ok(match &self.root {
            Root::Folder(_) => self.locate(key)?.is_some(),
            Root::File { key: own, .. } => own == key,
            Root::Embedded(files) => files.iter().any(|(own, _)| *own == key),
        })
    }

    /// The file behind a key, links resolved, if it is inside the folder.
    fn locate(&self, key: &str) -> Result<Option<PathBuf>, FileError> {
        let Root::Folder(root) = &self.root else { return Ok(None) };
        match fs::canonicalize(root.join(key)) {
            Ok(path) if !path.starts_with(root) => Err(FileError::Outside(self.display(key))),
            Ok(path) if path.is_file() => Ok(Some(path)),
            Ok(_) => Ok(None),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(FileError::Unreadable { key: self.display(key), error }),
        }
    }
}

/// The path that `name` means in a file at `from`, as a stem of a key; `None` if it leads out of the cognet.
pub(crate) fn relative(from: &str, name: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in name.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn read_file(path: &Path, key: &str) -> Result<String, FileError> {
    let unreadable = |error| FileError::Unreadable { key: key.to_owned(), error };
    // Opening a pipe would wait for its other end.
    if !fs::metadata(path).map_err(unreadable)?.is_file() {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
        return Err(unreadable(error));
    }
    fs::read_to_string(path).map_err(unreadable)
}

fn not_found(path: &Path, error: &io::Error) -> CognetError {
    CognetError::new(code::NOT_FOUND, format!("no cognet at {}: {error}", path.display()))
}

fn last_name(path: &Path) -> String {
    let canonical = || fs::canonicalize(path).ok();
    let name = path.file_name().map(ToOwned::to_owned).or_else(|| canonical()?.file_name().map(ToOwned::to_owned));
    name.map_or_else(|| "cognet".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_name_stays_inside_or_is_refused() {
        assert_eq!(relative("src/main.lua", "./state").as_deref(), Some("src/state"));
        assert_eq!(relative("plugins/setup.lua", "../src/state").as_deref(), Some("src/state"));
        assert_eq!(relative("src/main.lua", "../../state"), None);
    }
}
