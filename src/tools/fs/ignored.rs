//! What ignore files name: `.gitignore` and `.ignore`, read through handles.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, OpenOptions};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::super::limits::MAX_IGNORE_FILE_BYTES;
use crate::policy::{Access, Guard, Target, open_file};

/// The later one overrules the earlier.
const FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The rules of the folders on the way from the root to where a walk is.
#[derive(Default)]
pub(super) struct Ignored(Vec<Gitignore>);

impl Ignored {
    /// Enters the folders above a start, from the top of its readable root.
    pub fn enter_parents(&mut self, guard: &Guard<'_>, start: &Path) {
        let Some(top) = guard.root_of(start) else { return };
        let mut parents: Vec<PathBuf> =
            start.ancestors().skip(1).take_while(|parent| parent.starts_with(top)).map(Path::to_path_buf).collect();
        parents.reverse();
        for parent in parents {
            if let Ok(place) = guard.locate_absolute(Access::Read, &parent)
                && let Target::Folder { folder, .. } = place.target
            {
                self.enter(&folder, &parent);
            }
        }
    }

    pub fn enter(&mut self, folder: &Dir, real: &Path) {
        let mut rules = GitignoreBuilder::new(real);
        for name in FILES {
            for line in read(folder, name).unwrap_or_default().lines() {
                // A line that is no pattern names nothing.
                let _ = rules.add_line(None, line);
            }
        }
        self.0.push(rules.build().unwrap_or_else(|_| Gitignore::empty()));
    }

    pub fn leave(&mut self) {
        self.0.pop();
    }

    /// Whether the rules leave a path out; those of the deepest folder come first.
    pub fn names(&self, real: &Path, is_folder: bool) -> bool {
        let verdicts = self.0.iter().rev().map(|rules| rules.matched(real, is_folder));
        matches!(verdicts.into_iter().find(|verdict| !verdict.is_none()), Some(Match::Ignore(_)))
    }
}

fn read(folder: &Dir, name: &str) -> Option<String> {
    if !folder.symlink_metadata(name).ok()?.is_file() {
        return None;
    }
    let file = open_file(folder, name.as_ref(), OpenOptions::new().read(true)).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
