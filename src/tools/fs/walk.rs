//! Walking down folders by their handles: nothing is opened by path, no link is followed.

use std::{
    ffi::{OsStr, OsString},
    ops::ControlFlow,
    path::Path,
};

use cap_std::fs::{Dir, Metadata};

use super::{
    super::{fault::Failure, limits::MAX_DEPTH, stop::Stop},
    ignored::Ignored,
};
use crate::policy::{Guard, open_folder};

/// What a walk passes over.
#[derive(Clone, Copy)]
pub(super) struct Skip {
    /// Names that begin with a dot.
    pub hidden: bool,
    /// What ignore files name.
    pub ignored: bool,
}

/// Something met on a walk.
pub(super) struct Found<'a> {
    pub folder: &'a Dir,
    pub name: &'a OsStr,
    pub metadata: &'a Metadata,
    /// From the start of the walk.
    pub below: &'a Path,
    pub real: &'a Path,
}

/// What is done with each thing that is met; `Break` ends the walk.
pub(super) type Visit<'v> = dyn FnMut(Found<'_>) -> Result<ControlFlow<()>, Failure> + 'v;

pub(super) struct Walk<'a> {
    pub guard: &'a Guard<'a>,
    pub stop: &'a Stop,
    pub skip: Skip,
    /// Folders in folders; what is deeper is not looked at.
    pub depth: usize,
}

/// A folder that a walk is in.
struct At<'a> {
    folder: &'a Dir,
    real: &'a Path,
    below: &'a Path,
    depth: usize,
}

impl Walk<'_> {
    /// Visits what lies below a folder in the order of names, folders before what is in them.
    pub fn run(&self, start: &Dir, real: &Path, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Failure> {
        let mut ignored = Ignored::default();
        if self.skip.ignored {
            ignored.enter_parents(self.guard, real);
        }
        self.folder(&At { folder: start, real, below: Path::new(""), depth: 1 }, &mut ignored, visit)
    }

    fn folder(&self, at: &At<'_>, ignored: &mut Ignored, visit: &mut Visit<'_>) -> Result<ControlFlow<()>, Failure> {
        if self.skip.ignored {
            ignored.enter(at.folder, at.real);
        }
        for name in self.names(at.folder)? {
            self.stop.check()?;
            if self.entry(at, &name, ignored, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.skip.ignored {
            ignored.leave();
        }
        Ok(ControlFlow::Continue(()))
    }

    fn entry(
        &self,
        at: &At<'_>,
        name: &OsStr,
        ignored: &mut Ignored,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<()>, Failure> {
        const GO_ON: Result<ControlFlow<()>, Failure> = Ok(ControlFlow::Continue(()));
        // What vanished since the folder was read is not there.
        let Ok(metadata) = at.folder.symlink_metadata(name) else { return GO_ON };
        let (real, below) = (at.real.join(name), at.below.join(name));
        if self.passes_over(name, &real, &metadata, ignored) || self.guard.hides(&real, &metadata) {
            return GO_ON;
        }
        let found = Found { folder: at.folder, name, metadata: &metadata, below: &below, real: &real };
        if visit(found)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !metadata.is_dir() || at.depth >= self.depth.min(MAX_DEPTH) {
            return GO_ON;
        }
        let Ok(inner) = open_folder(at.folder, name) else { return GO_ON };
        // What was opened counts, not what was looked at before.
        match inner.dir_metadata() {
            Ok(opened) if !self.guard.hides_folder(&real, &opened, &inner) => {}
            _ => return GO_ON,
        }
        self.folder(&At { folder: &inner, real: &real, below: &below, depth: at.depth + 1 }, ignored, visit)
    }

    fn passes_over(&self, name: &OsStr, real: &Path, metadata: &Metadata, ignored: &Ignored) -> bool {
        let hidden = name.as_encoded_bytes().first() == Some(&b'.');
        (self.skip.hidden && hidden)
            || (self.skip.ignored && (name == ".git" || ignored.names(real, metadata.is_dir())))
    }

    /// Names in a folder, sorted; none for a folder that cannot be read.
    fn names(&self, folder: &Dir) -> Result<Vec<OsString>, Failure> {
        let mut names = Vec::new();
        for entry in folder.entries().into_iter().flatten().flatten() {
            self.stop.check()?;
            names.push(entry.file_name());
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// A path from a walk as results hold it.
pub(super) fn spell(guard: &Guard<'_>, start: &Path, below: &Path) -> String {
    let path = if below.as_os_str().is_empty() { start.to_path_buf() } else { start.join(below) };
    guard.policy().display(&path)
}
