//! From a path that a model wrote to a handle that policy has approved.

use std::{
    cell::OnceCell,
    collections::HashMap,
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use cap_std::fs::{Dir, Metadata, MetadataExt};

use super::{
    Access, Denied, FileId, Policy,
    handle::open_folder,
    path::{self, normalise},
    protected::{Part, Snapshot, is_process_file_system},
    roots::{Root, holder},
};

/// How many links one path may lead through.
const MAX_LINKS: usize = 40;
/// How many names of a folder are compared with one that was not found.
const MAX_NEIGHBOURS: usize = 1_000;
/// From 0 to 1: names this alike are suggested.
const ALIKE: f64 = 0.6;

/// Why there is no place for a path.
#[derive(Debug)]
pub(crate) enum Refusal {
    Denied(Denied),
    /// The path itself is no path.
    Invalid(String),
    /// Something on the way does not exist. `nearest` is a name beside it that is spelled alike.
    NotFound {
        missing: String,
        nearest: Option<String>,
    },
    /// Something on the way is no folder.
    NotAFolder(String),
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

/// Where a path leads, held open.
#[derive(Debug)]
pub(crate) struct Place {
    /// Absolute and normalised, as the model spelled it.
    pub spelled: PathBuf,
    /// Absolute and free of links.
    pub real: PathBuf,
    pub target: Target,
}

#[derive(Debug)]
pub(crate) enum Target {
    /// A folder, open; below its root also the folder that holds it and its name there.
    Folder { folder: Dir, parent: Option<(Dir, OsString)> },
    /// Something else that exists: its folder, its name, what it was when it was looked at.
    Entry { folder: Dir, name: OsString, metadata: Metadata },
    /// Nothing yet: the folder that exists, and the names from there, never empty.
    Missing { folder: Dir, names: Vec<OsString> },
}

/// Whether a link at the end of a path stands for itself or for where it leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    Followed,
    Itself,
}

/// Finds places for one tool call. What it knows of the protected parts is as of its first use.
pub(crate) struct Guard<'p> {
    policy: &'p Policy,
    snapshot: OnceCell<Snapshot>,
    linked: OnceCell<HashMap<FileId, &'static Part>>,
}

impl<'p> Guard<'p> {
    pub fn new(policy: &'p Policy) -> Self {
        Self { policy, snapshot: OnceCell::new(), linked: OnceCell::new() }
    }

    pub fn policy(&self) -> &'p Policy {
        self.policy
    }

    /// Whether the text of a path lies inside a root, without asking the file system: the rule that admits it.
    pub fn admits(&self, access: Access, path: &str) -> Result<String, Refusal> {
        path::check(path).map_err(Refusal::Invalid)?;
        let absolute = self.policy.absolute(Path::new(path));
        let (root, _) = self.holder(access, &absolute)?;
        if let Some(part) = self.policy.agent.part_by_name(&absolute) {
            self.shield(access, &absolute, part)?;
        }
        Ok(root.rule(&self.policy.owner))
    }

    /// Whether there is any root at all.
    pub fn granted(&self, access: Access) -> Result<(), Denied> {
        if self.policy.grants(access) { Ok(()) } else { Err(self.outside(access, "")) }
    }

    /// Walks to a path. For [`Access::Read`] it has to exist; a last name that is a link is followed.
    pub fn locate(&self, access: Access, path: &str) -> Result<Place, Refusal> {
        self.locate_last(access, path, Last::Followed)
    }

    /// As [`Guard::locate`], with a choice about a link at the end.
    pub fn locate_last(&self, access: Access, path: &str, last: Last) -> Result<Place, Refusal> {
        path::check(path).map_err(Refusal::Invalid)?;
        self.locate_from(access, &self.policy.absolute(Path::new(path)), last)
    }

    pub fn locate_absolute(&self, access: Access, spelled: &Path) -> Result<Place, Refusal> {
        self.locate_from(access, spelled, Last::Followed)
    }

    fn locate_from(&self, access: Access, spelled: &Path, last: Last) -> Result<Place, Refusal> {
        let mut absolute = spelled.to_path_buf();
        for _ in 0..=MAX_LINKS {
            match self.walk(access, &absolute, absolute != spelled, last)? {
                Step::Arrived { real, target } => {
                    return Ok(Place { spelled: spelled.to_path_buf(), real, target: *target });
                }
                Step::Link(next) => absolute = next,
            }
        }
        Err(Refusal::Invalid(format!("the path leads through more than {MAX_LINKS} links")))
    }

    /// The readable places at a path: the path itself, or the roots below it when it lies outside.
    pub fn starts(&self, path: &str) -> Result<Vec<Place>, Refusal> {
        match self.locate(Access::Read, path) {
            Err(Refusal::Denied(denied)) if denied.rule == self.policy.key(Access::Read) => {
                let absolute = self.policy.absolute(Path::new(path));
                let below = self.policy.read.iter().map(Root::real).filter(|root| root.starts_with(&absolute));
                let (mut outside, mut places) = (true, Vec::new());
                for root in below {
                    outside = false;
                    match self.locate_absolute(Access::Read, root) {
                        // Not made yet, or removed since.
                        Err(Refusal::NotFound { .. }) => {}
                        found => places.push(found?),
                    }
                }
                if outside { Err(denied.into()) } else { Ok(places) }
            }
            found => found.map(|place| vec![place]),
        }
    }

    /// The top of the readable root that holds a place.
    pub fn root_of(&self, place: &Path) -> Option<&'p Path> {
        holder(&self.policy.read, place).map(|(root, _)| root.real())
    }

    /// Whether something found while walking is out of reach: it is then left out without a word.
    pub fn hides(&self, real: &Path, metadata: &Metadata) -> bool {
        self.check(Access::Read, real, Some(metadata)).is_err()
    }

    /// As [`Guard::hides`], for a folder that was opened.
    pub fn hides_folder(&self, real: &Path, metadata: &Metadata, folder: &Dir) -> bool {
        self.hides(real, metadata) || is_process_file_system(folder)
    }

    /// Refuses what is protected by its place, its identity, or another of its names.
    pub fn check(&self, access: Access, real: &Path, metadata: Option<&Metadata>) -> Result<(), Denied> {
        let agent = &self.policy.agent;
        let by_name = match metadata {
            Some(_) => agent.part_by_name(real),
            None => agent.part_by_new_name(real),
        };
        let id = metadata.map(FileId::from);
        let snapshot = self.snapshot.get_or_init(|| Snapshot::take(agent));
        for part in [by_name, snapshot.part(real, id)].into_iter().flatten() {
            self.shield(access, real, part)?;
        }
        if let Some(metadata) = metadata.filter(|m| m.is_file() && m.nlink() > 1) {
            let linked = self.linked.get_or_init(|| snapshot.linked_files());
            if let Some(part) = linked.get(&FileId::from(metadata)) {
                self.shield(access, real, part)?;
            }
        }
        Ok(())
    }

    /// Refuses to take away a folder that holds the agent folder or a protected part.
    pub fn check_removable(&self, real: &Path) -> Result<(), Denied> {
        let agent = &self.policy.agent;
        let held = match self.snapshot.get_or_init(|| Snapshot::take(agent)).part_below(real) {
            _ if agent.real.starts_with(real) => "the agent folder",
            Some(part) => part.label,
            None => return Ok(()),
        };
        let detail = format!("it holds {held}, which cannot be moved or removed");
        Err(Denied { rule: format!("protected {held}"), detail })
    }

    fn shield(&self, access: Access, real: &Path, part: &Part) -> Result<(), Denied> {
        let named = self.policy.roots(access).iter().any(|root| root.names_inside(part, real));
        if !part.blocks(access) || named {
            return Ok(());
        }
        let verb = if part.readable { "cannot be written" } else { "is out of reach" };
        let detail = format!(
            "{} of the agent folder {verb}: it {}; only a rule of {} that names that very path allows it",
            part.label,
            part.why,
            self.policy.key(access)
        );
        Err(Denied { rule: format!("protected {}", part.label), detail })
    }

    fn holder<'a>(&self, access: Access, absolute: &'a Path) -> Result<(&'p Root, &'a Path), Denied> {
        holder(self.policy.roots(access), absolute).ok_or_else(|| self.outside(access, ""))
    }

    fn outside(&self, access: Access, how: &str) -> Denied {
        let labels: Vec<_> = self.policy.roots(access).iter().map(Root::label).collect();
        let key = self.policy.key(access);
        let detail = if labels.is_empty() {
            format!("nothing is {}: {key} in axon.toml lists no roots", access.adjective())
        } else {
            let roots = labels.join(", ");
            format!("{how}not inside the {} roots {roots} ({key} in axon.toml)", access.adjective())
        };
        Denied { rule: key, detail }
    }

    /// One walk from the root that holds `absolute` to its end, or to the first link.
    fn walk(&self, access: Access, absolute: &Path, linked: bool, last: Last) -> Result<Step, Refusal> {
        let how = if linked { "leads through a link to what is " } else { "" };
        let (root, rest) = holder(self.policy.roots(access), absolute).ok_or_else(|| self.outside(access, how))?;
        let (mut dir, mut real, names) = root.start(rest)?;
        let root_depth = names.len() - rest.components().count();
        let mut parent = None;
        let mut device = dir.dir_metadata()?.dev();
        self.check_folder(access, root, &mut real, &dir)?;
        for (index, name) in names.iter().enumerate() {
            let path = real.join(name);
            let metadata = match dir.symlink_metadata(name) {
                Ok(metadata) => metadata,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let names = names[index..].to_vec();
                    let end = real.join(names.iter().collect::<PathBuf>());
                    self.check(access, &end, None)?;
                    if access == Access::Read {
                        return Err(self.not_found(&dir, &real, &path));
                    }
                    return Ok(Step::Arrived { real: end, target: Target::Missing { folder: dir, names }.into() });
                }
                Err(error) => return Err(error.into()),
            };
            let at_end = index + 1 == names.len();
            if metadata.is_symlink() && !(at_end && last == Last::Itself) {
                // The link's own name may be protected even where it leads out of reach of the names.
                self.check(access, &path, Some(&metadata))?;
                let target = dir.read_link_contents(name)?;
                let rest = names[index + 1..].iter().collect::<PathBuf>();
                return Ok(Step::Link(normalise(&real.join(target).join(rest))));
            }
            if metadata.is_dir() {
                let inner = open_folder(&dir, name)?;
                let holder = std::mem::replace(&mut dir, inner);
                parent = (index >= root_depth).then(|| (holder, name.clone()));
                real = path;
                let entered = dir.dir_metadata()?.dev();
                if entered != device && is_process_file_system(&dir) {
                    return Err(process_files(&real).into());
                }
                device = entered;
                self.check_folder(access, root, &mut real, &dir)?;
            } else if !at_end {
                return Err(Refusal::NotAFolder(self.policy.display(&path)));
            } else {
                self.check(access, &path, Some(&metadata))?;
                let target = Target::Entry { folder: dir, name: name.clone(), metadata };
                return Ok(Step::Arrived { real: path, target: target.into() });
            }
        }
        Ok(Step::Arrived { real, target: Target::Folder { folder: dir, parent }.into() })
    }

    /// Checks an open folder. One that is the agent folder by another name takes its name.
    fn check_folder(&self, access: Access, root: &Root, real: &mut PathBuf, dir: &Dir) -> Result<(), Refusal> {
        let metadata = dir.dir_metadata()?;
        if FileId::from(&metadata) == self.policy.agent.id {
            *real = self.policy.agent.real.clone();
        }
        // On the way to a root nothing is handed out, and the rule may name what lies in a protected part.
        let on_the_way = root.real() != real && root.real().starts_with(&*real);
        if on_the_way { Ok(()) } else { Ok(self.check(access, real, Some(&metadata))?) }
    }

    /// What is not there, with the visible name beside it that is spelled most like it.
    fn not_found(&self, dir: &Dir, folder: &Path, path: &Path) -> Refusal {
        let lower = |name: &OsStr| name.to_string_lossy().to_lowercase();
        let wanted = lower(path.file_name().unwrap_or_default());
        let names = dir.entries().into_iter().flatten().flatten().take(MAX_NEIGHBOURS).map(|entry| entry.file_name());
        let scored = names.map(|name| (strsim::normalized_damerau_levenshtein(&lower(&name), &wanted), name));
        let mut alike: Vec<_> = scored.filter(|(score, _)| *score >= ALIKE).collect();
        alike.sort_by(|a, b| b.0.total_cmp(&a.0));
        let visible = |name: &OsString| {
            dir.symlink_metadata(name).is_ok_and(|metadata| !self.hides(&folder.join(name), &metadata))
        };
        let nearest = alike.into_iter().map(|(_, name)| name).find(visible);
        Refusal::NotFound {
            missing: self.policy.display(path),
            nearest: nearest.map(|name| self.policy.display(&folder.join(name))),
        }
    }
}

enum Step {
    Arrived { real: PathBuf, target: Box<Target> },
    Link(PathBuf),
}

fn process_files(real: &Path) -> Denied {
    let place = real.display();
    Denied {
        rule: format!("protected {place}"),
        detail: format!("{place} shows the state of processes, this one's secrets included, and no root reaches it"),
    }
}
