//! The roots of `[policy.fs]`, as capabilities.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Component, Path, PathBuf},
};

use cap_std::{
    ambient_authority,
    fs::{Dir, MetadataExt},
};

use super::{
    Owner, PolicyError,
    handle::open_folder,
    path::{self, normalise, split_existing},
    protected::{Agent, Part},
};

/// What a call wants of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Access {
    /// The key of `axon.toml` that grants it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Read => "policy.fs.read",
            Self::Write => "policy.fs.write",
        }
    }

    /// The same, below the table that holds it.
    pub fn grant(self) -> &'static str {
        match self {
            Self::Read => "fs.read",
            Self::Write => "fs.write",
        }
    }

    pub fn adjective(self) -> &'static str {
        match self {
            Self::Read => "readable",
            Self::Write => "writable",
        }
    }
}

/// A file or folder that a rule names.
#[derive(Debug)]
pub(super) struct Root {
    access: Access,
    /// As `axon.toml` has it.
    written: String,
    /// Absolute spellings by which a path is recognised as inside; the first is free of links.
    spellings: Vec<PathBuf>,
    /// The nearest folder that existed at start: the root itself, or what holds it.
    anchor: Dir,
    anchor_path: PathBuf,
    /// From the anchor to the root; empty for a folder that existed at start.
    below: PathBuf,
    folder: bool,
    /// The protected part that the rule names itself.
    names: Option<&'static Part>,
}

impl Root {
    /// `writable` are the roots inside which a readable one may still be missing.
    pub fn open(agent: &Agent, access: Access, written: &str, writable: &[Root]) -> Result<Self, PolicyError> {
        let refuse = |problem: String, remedy: &str| PolicyError::new(access.key(), written, problem, remedy);
        path::check(written)
            .map_err(|problem| refuse(format!("is not a path: {problem}"), "name a file or a folder"))?;
        let named = normalise(&agent.real.join(written));
        let (existing, below) = split_existing(&named);
        let may_be_made = access == Access::Write || holder(writable, &named).is_some();
        if !may_be_made && !below.as_os_str().is_empty() {
            return Err(refuse(
                format!("does not exist ({})", named.display()),
                "create it, or take it out of the list",
            ));
        }
        let unusable = |error: io::Error| refuse(format!("cannot be opened: {error}"), "check the path and its rights");
        let existing = existing.canonicalize().map_err(unusable)?;
        let real = if below.as_os_str().is_empty() { existing.clone() } else { existing.join(&below) };
        let (anchor_path, below) = match (existing.is_dir(), existing.parent(), existing.file_name()) {
            (true, _, _) => (existing, below),
            (false, Some(parent), Some(name)) if below.as_os_str().is_empty() => {
                (parent.to_path_buf(), PathBuf::from(name))
            }
            _ => return Err(refuse("leads through a file".into(), "name a file or a folder")),
        };
        let anchor = Dir::open_ambient_dir(&anchor_path, ambient_authority()).map_err(unusable)?;
        let mut spellings = vec![real.clone(), named.clone()];
        spellings.extend(agent.spellings().map(|agent| normalise(&agent.join(written))));
        spellings.dedup();
        let folder = written.ends_with('/') || !real.is_file();
        let names = agent.part_by_name(&named);
        Ok(Self { access, written: written.into(), spellings, anchor, anchor_path, below, folder, names })
    }

    pub fn real(&self) -> &Path {
        &self.spellings[0]
    }

    /// As errors list it: `work/`, `notes.md`, `.`.
    pub fn label(&self) -> String {
        let written = self.written.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(&self.written);
        let plain = written == "." || written == ".." || written.ends_with('/') || !self.folder;
        if plain { written.into() } else { format!("{written}/") }
    }

    /// The rule that this root is, as the log names it.
    pub fn rule(&self, owner: &Owner) -> String {
        format!("{} = \"{}\"", owner.key(self.access.grant()), self.written)
    }

    /// The rest of an absolute path below this root, and how deep the root lies.
    fn strip<'a>(&self, absolute: &'a Path) -> Option<(usize, &'a Path)> {
        let inside = |root: &PathBuf| Some((root.components().count(), absolute.strip_prefix(root).ok()?));
        self.spellings.iter().filter_map(inside).max_by_key(|(depth, _)| *depth)
    }

    /// Whether the rule names the protected part itself, or something inside, and the path lies in what it names.
    pub fn names_inside(&self, part: &Part, real: &Path) -> bool {
        self.names == Some(part) && real.starts_with(self.real())
    }

    /// An open handle to start from, where it is, and the names from there to `rest`.
    pub fn start(&self, rest: &Path) -> io::Result<(Dir, PathBuf, Vec<OsString>)> {
        // A folder that was removed and made again is another file: its old handle leads nowhere.
        let gone = self.anchor.dir_metadata()?.nlink() == 0;
        let dir = if gone { open_from_top(&self.anchor_path)? } else { self.anchor.try_clone()? };
        let names = self.below.components().chain(rest.components()).map(|name| name.as_os_str().to_os_string());
        Ok((dir, self.anchor_path.clone(), names.collect()))
    }
}

/// The deepest root that holds a path, and the rest of the path below it.
pub(super) fn holder<'r, 'p>(roots: &'r [Root], absolute: &'p Path) -> Option<(&'r Root, &'p Path)> {
    let inside = roots.iter().filter_map(|root| root.strip(absolute).map(|(depth, rest)| (depth, root, rest)));
    inside.max_by_key(|(depth, _, _)| *depth).map(|(_, root, rest)| (root, rest))
}

/// A link inside a writable root could be turned to anywhere by what may write there, so it cannot be a root.
pub(super) fn refuse_planted_links(read: &[Root], write: &[Root]) -> Result<(), PolicyError> {
    for root in read.iter().chain(write) {
        let leads_away = |spelling: &&PathBuf| *spelling != root.real();
        for spelling in root.spellings.iter().filter(leads_away) {
            let holder = write.iter().find(|w| !std::ptr::eq(*w, root) && spelling.starts_with(w.real()));
            if let Some(holder) = holder {
                return Err(PolicyError::new(
                    root.access.key(),
                    &root.written,
                    format!("leads through a link inside the writable root {}", holder.label()),
                    format!("name the place itself: \"{}\"", root.real().display()),
                ));
            }
        }
    }
    Ok(())
}

/// Opens a path that is free of links, name by name.
fn open_from_top(real: &Path) -> io::Result<Dir> {
    let mut dir = Dir::open_ambient_dir("/", ambient_authority())?;
    for component in real.components() {
        if let Component::Normal(name) = component {
            dir = open_folder(&dir, OsStr::new(name))?;
        }
    }
    Ok(dir)
}
