//! What no root reaches: the parts of the agent folder that would let a model widen its own grants.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use cap_std::{ambient_authority, fs::Dir};

use super::{
    Access, FileId, PolicyError,
    path::{fold, normalise, real_so_far},
};

/// How many files of the protected folders are compared with a file that has several names.
const MAX_LINKED_FILES: usize = 20_000;

/// The agent folder as it is known to policy.
#[derive(Debug)]
pub(super) struct Agent {
    /// Absolute, as it was given.
    given: PathBuf,
    /// Absolute and free of links.
    pub real: PathBuf,
    pub id: FileId,
}

impl Agent {
    pub fn open(agent_dir: &Path) -> Result<Self, PolicyError> {
        let fail = |error: std::io::Error| {
            PolicyError::new(
                "policy",
                agent_dir.to_string_lossy(),
                format!("cannot be used as agent folder: {error}"),
                "name a folder that exists and can be read",
            )
        };
        let given = normalise(&std::path::absolute(agent_dir).map_err(fail)?);
        let real = given.canonicalize().map_err(fail)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fail)?;
        let id = FileId::from(&dir.dir_metadata().map_err(fail)?);
        Ok(Self { given, real, id })
    }

    pub fn spellings(&self) -> [&Path; 2] {
        [&self.real, &self.given]
    }

    /// The protected part that a path lies in, by its name in the agent folder.
    pub fn part_by_name(&self, absolute: &Path) -> Option<&'static Part> {
        let name = self.name_inside(absolute)?;
        PARTS.iter().find(|part| part.matches(&name))
    }

    /// As [`Agent::part_by_name`], for a name that does not exist yet: a spelling that a file system could take for
    /// a protected one is one.
    pub fn part_by_new_name(&self, absolute: &Path) -> Option<&'static Part> {
        let name = fold(&self.name_inside(absolute)?);
        PARTS.iter().find(|part| part.matches(&name))
    }

    fn name_inside(&self, absolute: &Path) -> Option<String> {
        let inside = self.spellings().into_iter().find_map(|agent| absolute.strip_prefix(agent).ok())?;
        Some(inside.components().next()?.as_os_str().to_string_lossy().into_owned())
    }
}

/// A protected part of the agent folder.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// As people know it.
    pub label: &'static str,
    name: Name,
    /// Writing is never possible; reading only where this says so.
    pub readable: bool,
    /// Completes "… of the agent folder".
    pub why: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    Is(&'static str),
    StartsWith(&'static str),
}

const PARTS: [Part; 7] = [
    Part { label: ".env*", name: Name::StartsWith(".env"), readable: false, why: "holds secrets" },
    Part { label: "data/", name: Name::Is("data"), readable: false, why: "is the agent's own record" },
    Part { label: ".axon/", name: Name::Is(".axon"), readable: false, why: "is generated for Axon itself" },
    Part { label: "axon.toml", name: Name::Is("axon.toml"), readable: true, why: "decides what the agent may do" },
    Part { label: "boot.md", name: Name::Is("boot.md"), readable: true, why: "is the agent's identity" },
    Part { label: "cognets/", name: Name::Is("cognets"), readable: true, why: "is the agent's own brain" },
    Part { label: "tools/", name: Name::Is("tools"), readable: true, why: "runs with its own grants" },
];

impl Part {
    pub fn blocks(&self, access: Access) -> bool {
        access == Access::Write || !self.readable
    }

    fn matches(&self, name: &str) -> bool {
        match self.name {
            Name::Is(part) => name == part,
            // Secrets are protected in any case: loaders of such files are not strict about it either.
            Name::StartsWith(part) => fold(name).starts_with(part),
        }
    }
}

/// The protected parts as they are on disk at one moment: where their names lead, and which files they are.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    /// Where a part really is, when its own name is a link.
    places: Vec<(PathBuf, &'static Part)>,
    ids: HashMap<FileId, &'static Part>,
    folders: Vec<(PathBuf, &'static Part)>,
}

impl Snapshot {
    pub fn take(agent: &Agent) -> Self {
        let mut snapshot = Self::default();
        for part in &PARTS {
            match part.name {
                Name::Is(name) => snapshot.add(agent.real.join(name), part),
                Name::StartsWith(_) => {
                    let names =
                        fs::read_dir(&agent.real).into_iter().flatten().flatten().map(|entry| entry.file_name());
                    for name in names.filter(|name| part.matches(&name.to_string_lossy())) {
                        snapshot.add(agent.real.join(name), part);
                    }
                }
            }
        }
        snapshot
    }

    fn add(&mut self, path: PathBuf, part: &'static Part) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { return };
        if !metadata.is_symlink() {
            return self.add_place(path, &metadata, part);
        }
        match (path.canonicalize(), fs::metadata(&path), fs::read_link(&path)) {
            (Ok(real), Ok(metadata), _) => self.add_place(real, &metadata, part),
            // A link to what is not there yet: who makes it makes the part.
            (_, _, Ok(target)) => self.places.push((real_so_far(&normalise(&path.with_file_name(target))), part)),
            _ => {}
        }
    }

    fn add_place(&mut self, real: PathBuf, metadata: &fs::Metadata, part: &'static Part) {
        self.ids.insert(FileId::of_std(metadata), part);
        if metadata.is_dir() {
            self.folders.push((real.clone(), part));
        }
        self.places.push((real, part));
    }

    /// The part that a path without links lies in, or that the file itself is.
    pub fn part(&self, real: &Path, id: Option<FileId>) -> Option<&'static Part> {
        let by_place = self.places.iter().find(|(place, _)| real.starts_with(place)).map(|(_, part)| *part);
        by_place.or_else(|| self.ids.get(&id?).copied())
    }

    /// The part that a folder holds, if it holds one.
    pub fn part_below(&self, folder: &Path) -> Option<&'static Part> {
        self.places.iter().find(|(place, _)| place.starts_with(folder)).map(|(_, part)| *part)
    }

    /// Every file inside the protected folders, for a file that has more names than one.
    pub fn linked_files(&self) -> HashMap<FileId, &'static Part> {
        let mut files = HashMap::new();
        let mut left = MAX_LINKED_FILES;
        for (folder, part) in &self.folders {
            collect_files(folder, part, &mut files, &mut left);
        }
        files
    }
}

fn collect_files(folder: &Path, part: &'static Part, files: &mut HashMap<FileId, &'static Part>, left: &mut usize) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            collect_files(&entry.path(), part, files, left);
        } else {
            files.insert(FileId::of_std(&metadata), part);
        }
    }
}

/// The file systems of processes and the kernel: what looks like a file there holds the secrets of this process.
#[cfg(target_os = "linux")]
pub(super) fn is_process_file_system(dir: &Dir) -> bool {
    rustix::fs::fstatfs(dir).is_ok_and(|stat| stat.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_process_file_system(_dir: &Dir) -> bool {
    false
}
