//! What of an agent folder decides how the agent thinks, by content: a save that changes nothing is no change.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fs, io,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

use crate::{
    agent::engine_file,
    config::{CONFIG_FILE, DOTENV_FILE},
};

/// Files at the top of the agent folder.
const TOP_FILES: [&str; 3] = [CONFIG_FILE, "boot.md", DOTENV_FILE];

/// Folders below it, and the endings that count in each.
const FOLDERS: [(&str, &[&str]); 2] = [("cognets", &["lua", "luau"]), ("tools", &["ts"])];

/// How deep folders are looked into.
const MAX_DEPTH: usize = 16;

/// How many files and folders are looked at; more make the agent folder something else than one.
const MAX_FILES: usize = 10_000;

/// The contents of the watched files at one moment. Two are equal when all the files are.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    files: BTreeMap<String, Fingerprint>,
    /// Which of them the engine reads, if it reads one.
    engine: Option<String>,
    folders: BTreeSet<PathBuf>,
}

impl PartialEq for Survey {
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl Eq for Survey {}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fingerprint {
    Content([u8; 32]),
    Unreadable,
}

impl Survey {
    /// Reads the watched files of an agent folder, and that of the engine: the one asked for, else the configured one. What is
    /// missing or unreadable is noted as such.
    pub fn take(agent_dir: &Path, engine: Option<&str>) -> Self {
        let mut survey = Self::default();
        survey.folders.insert(agent_dir.to_owned());
        for name in TOP_FILES {
            survey.file(&agent_dir.join(name), name.to_owned());
        }
        let mut seen = HashSet::new();
        for (name, endings) in FOLDERS {
            survey.folder(&agent_dir.join(name), name, endings, 0, &mut seen);
        }
        if let Some(path) = engine_file(agent_dir, engine) {
            let name = name_of(agent_dir, &path);
            // As the other folders are spelled, so that none is watched by two names.
            let path = agent_dir.join(&name);
            survey.folders.extend(path.parent().map(Path::to_owned));
            survey.file(&path, name.clone());
            survey.engine = Some(name);
        }
        survey
    }

    /// The files that are not as they were in `before`, by their path in the agent folder: changed, new and gone.
    pub fn changed_since(&self, before: &Self) -> Vec<String> {
        let names: BTreeSet<_> = self.files.keys().chain(before.files.keys()).collect();
        let changed = names.into_iter().filter(|name| self.files.get(*name) != before.files.get(*name));
        changed.filter(|name| !self.only_one_looked(before, name)).cloned().collect()
    }

    /// Whether what the engine reads is as it was in `before`.
    pub(crate) fn has_engine_file_of(&self, before: &Self) -> bool {
        let fingerprint = |survey: &Self| survey.engine.as_ref().and_then(|name| survey.files.get(name)).cloned();
        self.engine == before.engine && fingerprint(self) == fingerprint(before)
    }

    /// A file that the engine reads no more, or has not read before, has not changed itself: the configuration has.
    fn only_one_looked(&self, before: &Self, name: &str) -> bool {
        let of = |survey: &Self| survey.engine.as_deref() == Some(name);
        self.engine != before.engine && (of(self) || of(before))
    }

    /// Where a change of any of the files shows: the folders that hold them, behind links too.
    pub(crate) fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    fn folder(&mut self, folder: &Path, name: &str, endings: &[&str], depth: usize, seen: &mut HashSet<PathBuf>) {
        // Links may lead in circles.
        let Ok(real) = folder.canonicalize() else { return };
        let Ok(entries) = fs::read_dir(folder) else { return };
        if depth > MAX_DEPTH || !seen.insert(real) {
            return;
        }
        self.folders.insert(folder.to_owned());
        for entry in entries.flatten() {
            let path = entry.path();
            let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            // Editors keep their swap and lock files under hidden names.
            if file_name.starts_with('.') || self.files.len() + self.folders.len() > MAX_FILES {
                continue;
            }
            let inner = format!("{name}/{file_name}");
            if path.is_dir() {
                self.folder(&path, &inner, endings, depth + 1, seen);
            } else if path.extension().and_then(|ending| ending.to_str()).is_some_and(|own| endings.contains(&own)) {
                self.file(&path, inner);
            }
        }
    }

    fn file(&mut self, path: &Path, name: String) {
        let fingerprint = match fs::read(path) {
            Ok(content) => Fingerprint::Content(Sha256::digest(&content).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(_) => Fingerprint::Unreadable,
        };
        if path.is_symlink()
            && let Some(folder) = path.canonicalize().ok().as_deref().and_then(Path::parent)
        {
            self.folders.insert(folder.to_owned());
        }
        self.files.insert(name, fingerprint);
    }
}

/// The path of a file in the agent folder, or its own where it lies elsewhere; the same however the folder is spelled.
fn name_of(agent_dir: &Path, path: &Path) -> String {
    let real_dir = agent_dir.canonicalize().unwrap_or_else(|_| agent_dir.to_owned());
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let real = folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name));
    let inside = real.strip_prefix(&real_dir).or_else(|_| path.strip_prefix(agent_dir));
    inside.unwrap_or(&real).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::TempDir::new().expect("a folder");
        for (path, text) in files {
            write(dir.path(), path, text);
        }
        dir
    }

    fn write(dir: &Path, path: &str, text: &str) {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn content_decides_and_not_the_act_of_saving() {
        let dir = agent(&[("cognets/a.lua", "one"), ("boot.md", "who")]);
        let before = Survey::take(dir.path(), None);
        write(dir.path(), "cognets/a.lua", "one");
        assert_eq!(Survey::take(dir.path(), None), before);
        write(dir.path(), "cognets/a.lua", "two");
        fs::remove_file(dir.path().join("boot.md")).expect("gone");
        write(dir.path(), "tools/t.ts", "new");
        let after = Survey::take(dir.path(), None);
        assert_eq!(after.changed_since(&before), ["boot.md", "cognets/a.lua", "tools/t.ts"]);
        assert_eq!(before.changed_since(&after), ["boot.md", "cognets/a.lua", "tools/t.ts"]);
    }

    #[test]
    fn what_editors_leave_beside_a_file_and_what_the_agent_writes_is_no_change() {
        let dir = agent(&[("cognets/a.lua", "one")]);
        let before = Survey::take(dir.path(), None);
        for litter in [
            "cognets/.a.lua.swp",
            "cognets/.#a.lua",
            "cognets/a.lua~",
            "cognets/4913",
            "cognets/#a.lua#",
            "data/x.lua",
            ".axon/y.lua",
        ] {
            write(dir.path(), litter, "litter");
        }
        assert_eq!(Survey::take(dir.path(), None).changed_since(&before), Vec::<String>::new());
    }

    #[test]
    fn what_the_engine_reads_is_watched_and_another_choice_of_it_is_a_change_of_the_choice() {
        let config = "[engine]\nprovider = \"script\"\nscript = \"models/a.json\"\n";
        let dir = agent(&[("axon.toml", config), ("models/a.json", "one"), ("models/b.json", "b")]);
        let before = Survey::take(dir.path(), None);
        assert!(before.folders().contains(&dir.path().join("models")), "{:?}", before.folders());
        write(dir.path(), "models/a.json", "two");
        let after = Survey::take(dir.path(), None);
        assert_eq!(after.changed_since(&before), ["models/a.json"]);
        assert!(!after.has_engine_file_of(&before));

        let asked = format!("script:{}", dir.path().join("models/b.json").display());
        write(dir.path(), "models/b.json", "c");
        assert_eq!(Survey::take(dir.path(), Some(&asked)).changed_since(&after), Vec::<String>::new());
        write(dir.path(), "axon.toml", "[engine");
        let broken = Survey::take(dir.path(), None);
        assert_eq!(broken.changed_since(&after), ["axon.toml"]);
        write(dir.path(), "axon.toml", config);
        assert_eq!(Survey::take(dir.path(), None), after);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_looked_behind_and_circles_end() {
        use std::os::unix::fs::symlink;
        let dir = agent(&[("cognets/mind/src/main.lua", "one"), ("elsewhere/b.lua", "b")]);
        symlink("..", dir.path().join("cognets/mind/again")).expect("a link");
        symlink("../elsewhere/b.lua", dir.path().join("cognets/b.lua")).expect("a link");
        let before = Survey::take(dir.path(), None);
        assert!(before.folders().iter().any(|folder| folder.ends_with("elsewhere")), "{:?}", before.folders());
        write(dir.path(), "elsewhere/b.lua", "c");
        assert_eq!(Survey::take(dir.path(), None).changed_since(&before), ["cognets/b.lua"]);
    }
}
