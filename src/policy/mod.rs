//! Policy: what the user allowed, decided in ring 0 and nowhere else.
//!
//! Nothing is allowed that is not listed. Roots of `[policy.fs]` are held as capabilities: a path is walked from the
//! handle of its root, one name at a time and never through a link, so that neither `..` nor a link, nor a race
//! between the check and the use, leads anywhere else.

mod approval;
mod confinement;
mod denied;
mod guard;
mod handle;
mod net;
mod owner;
mod path;
mod programs;
mod protected;
mod roots;
mod rules;

use std::path::{Path, PathBuf};

pub use approval::{Approval, ApprovalRequest, Approver, Unattended};
pub use denied::Denied;
pub use owner::Owner;
pub use rules::{PolicyError, PolicyRules, Rule};

pub(crate) use confinement::Confinement;
pub(crate) use guard::{Guard, Last, Place, Refusal, Target};
pub(crate) use handle::{FileId, open_file, open_folder};
pub(crate) use net::{Destination, Host, Hosts};
pub(crate) use programs::{Program, Programs};
pub(crate) use roots::Access;

use protected::Agent;
use roots::Root;
use rules::{ToolRules, Verdict};

/// The user's rules, checked, with their roots opened.
#[derive(Debug)]
pub struct Policy {
    agent: Agent,
    read: Vec<Root>,
    write: Vec<Root>,
    hosts: Hosts,
    programs: Programs,
    tools: ToolRules,
    owner: Owner,
}

impl Policy {
    /// Opens the roots that the rules name, relative to the agent folder.
    ///
    /// A root has to exist, unless it can be written to: the first write then makes it.
    ///
    /// # Errors
    /// [`PolicyError`] names the key, the value, what is wrong with it and what to do.
    pub fn new(agent_dir: &Path, rules: PolicyRules) -> Result<Self, PolicyError> {
        let agent = Agent::open(agent_dir)?;
        let open = |access: Access, roots: &[String], writable: &[Root]| {
            roots.iter().map(|root| Root::open(&agent, access, root, writable)).collect::<Result<Vec<_>, _>>()
        };
        let write = open(Access::Write, &rules.fs_write, &[])?;
        let read = open(Access::Read, &rules.fs_read, &write)?;
        roots::refuse_planted_links(&read, &write)?;
        let hosts = Hosts::new(&rules.owner, &rules.net)?;
        let programs = Programs::resolve(&rules.owner, &agent.real, &rules.run, &write)?;
        let tools = ToolRules::new(rules.tools)?;
        Ok(Self { agent, read, write, hosts, programs, tools, owner: rules.owner })
    }

    /// The agent folder, absolute and free of links.
    pub fn agent_dir(&self) -> &Path {
        &self.agent.real
    }

    /// What `[policy.tools]` says of a function.
    pub(crate) fn tool_rule(&self, namespace: &str, function: &str) -> Verdict {
        self.tools.verdict(namespace, function)
    }

    /// The hosts that may be reached.
    pub(crate) fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The programs that may be run.
    pub(crate) fn programs(&self) -> &Programs {
        &self.programs
    }

    pub(crate) fn grants(&self, access: Access) -> bool {
        !self.roots(access).is_empty()
    }

    /// The key of `axon.toml` that grants an access.
    fn key(&self, access: Access) -> String {
        self.owner.key(access.grant())
    }

    fn roots(&self, access: Access) -> &[Root] {
        match access {
            Access::Read => &self.read,
            Access::Write => &self.write,
        }
    }

    /// A path as people and models write it: relative to the agent folder where it lies inside.
    pub(crate) fn display(&self, absolute: &Path) -> String {
        let inside = self.agent.spellings().into_iter().find_map(|agent| absolute.strip_prefix(agent).ok());
        match inside {
            Some(rest) if rest.as_os_str().is_empty() => ".".into(),
            Some(rest) => rest.to_string_lossy().into_owned(),
            None => absolute.to_string_lossy().into_owned(),
        }
    }

    /// An absolute path without `.` and `..`: `..` takes back the name before it.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        path::normalise(&self.agent.real.join(path))
    }
}
