//! What a child process may touch, enforced by the operating system where it can.

use std::os::fd::OwnedFd;

use super::{Policy, Program};

/// What holds a child process to the roots. It is put on between `fork` and `exec`.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// A Landlock ruleset.
    pub ruleset: OwnedFd,
}

impl Policy {
    /// The roots as a ruleset for a child process; `None` where the operating system has no such thing.
    #[cfg(target_os = "linux")]
    pub(crate) fn confinement(&self, program: &Program) -> std::io::Result<Option<Confinement>> {
        let ruleset = linux::ruleset(self, program).map_err(std::io::Error::other)?;
        Ok(ruleset.map(|ruleset| Confinement { ruleset }))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn confinement(&self, _program: &Program) -> std::io::Result<Option<Confinement>> {
        Ok(None)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        fs,
        os::fd::OwnedFd,
        path::{Path, PathBuf},
    };

    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
        Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
    };

    use crate::policy::{Access, Policy, Program, roots::Root};

    /// The newest version whose rights are used; an older kernel enforces what it knows.
    const VERSION: ABI = ABI::V6;

    /// What programs need of the system to start at all: code, and settings that hold no secrets.
    const SYSTEM: [&str; 27] = [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/etc/alternatives",
        "/etc/ca-certificates",
        "/etc/gitconfig",
        "/etc/group",
        "/etc/host.conf",
        "/etc/hosts",
        "/etc/ld.so.cache",
        "/etc/ld.so.conf",
        "/etc/ld.so.conf.d",
        "/etc/locale.alias",
        "/etc/localtime",
        "/etc/mime.types",
        "/etc/nsswitch.conf",
        "/etc/passwd",
        "/etc/pki/tls",
        "/etc/protocols",
        "/etc/resolv.conf",
        "/etc/services",
        "/etc/ssl/certs",
        "/etc/ssl/openssl.cnf",
    ];

    const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

    pub fn ruleset(policy: &Policy, program: &Program) -> Result<Option<OwnedFd>, RulesetError> {
        let read = AccessFs::from_read(VERSION);
        let write = AccessFs::from_write(VERSION) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        // The kernel knows ports, not hosts; where a rule leaves the port open there is nothing to enforce.
        let ports = policy.hosts().ports();
        let net = match ports {
            Some(_) => AccessNet::from_all(VERSION),
            None => AccessNet::BindTcp.into(),
        };
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(VERSION))?
            .handle_access(net)?
            .scope(Scope::from_all(VERSION))?
            .create()?;
        for path in SYSTEM {
            rules = allow(rules, Path::new(path), read)?;
        }
        for path in DEVICES {
            rules = allow(rules, Path::new(path), AccessFs::ReadFile | AccessFs::WriteFile)?;
        }
        rules = allow(rules, &program.file, AccessFs::Execute | AccessFs::ReadFile)?;
        for (access, rights) in [(Access::Read, read), (Access::Write, write)] {
            let mut granted = Granted::default();
            for root in policy.roots(access) {
                granted.add(policy, access, root, root.real());
            }
            for path in granted.whole {
                rules = allow(rules, &path, rights)?;
            }
            if access == Access::Read {
                for path in granted.listed {
                    rules = allow(rules, &path, AccessFs::ReadDir.into())?;
                }
            }
        }
        for port in ports.into_iter().flatten() {
            rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
        }
        Ok(rules.into())
    }

    /// A rule for a path; what does not exist is passed over.
    fn allow(rules: RulesetCreated, path: &Path, rights: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
        let Ok(handle) = PathFd::new(path) else { return Ok(rules) };
        let rights = if path.is_dir() { rights } else { rights & AccessFs::from_file(VERSION) };
        rules.add_rule(PathBeneath::new(handle, rights))
    }

    /// The roots without the protected parts of the agent folder: rules can only add.
    #[derive(Default)]
    struct Granted {
        whole: Vec<PathBuf>,
        /// Folders that hold protected parts.
        listed: Vec<PathBuf>,
    }

    impl Granted {
        fn add(&mut self, policy: &Policy, access: Access, root: &Root, path: &Path) {
            let agent = &policy.agent;
            let shielded =
                agent.part_by_name(path).is_some_and(|part| part.blocks(access) && !root.names_inside(part, path));
            if shielded {
                return;
            }
            if !agent.real.starts_with(path) {
                self.whole.push(path.into());
                return;
            }
            self.listed.push(path.into());
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                // Where a link leads is granted by its own place, or not at all.
                if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                    self.add(policy, access, root, &entry.path());
                }
            }
        }
    }
}
