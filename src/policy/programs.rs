//! Programs: what `[policy] run` names, found once.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{
    Denied, Owner, PolicyError,
    path::normalise,
    roots::{Root, holder},
};

/// The key that errors of the rules name.
const RUN_KEY: &str = "policy.run";

/// The programs that the user listed.
#[derive(Debug, Default)]
pub(crate) struct Programs {
    owner: Owner,
    programs: Vec<Program>,
}

#[derive(Clone, Debug)]
pub(crate) struct Program {
    written: String,
    /// As it was found, for programs that look at their own name.
    pub called: PathBuf,
    /// The file itself, free of links.
    pub file: PathBuf,
}

impl Programs {
    /// Finds every program: a bare name on the `PATH` of this process, anything else relative to the agent folder.
    ///
    /// # Errors
    /// A program that is not there, cannot be executed, or could be replaced by what may write to a root.
    pub(super) fn resolve(
        owner: &Owner,
        agent: &Path,
        rules: &[String],
        writable: &[Root],
    ) -> Result<Self, PolicyError> {
        let programs =
            rules.iter().map(|written| Program::resolve(agent, written, writable)).collect::<Result<_, _>>()?;
        Ok(Self { owner: owner.clone(), programs })
    }

    pub fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// The key that grants them.
    pub fn key(&self) -> String {
        self.owner.key("run")
    }

    /// The rule that a program is, as the log names it.
    pub fn rule(&self, program: &Program) -> String {
        format!("{} = \"{}\"", self.key(), program.written)
    }

    /// The program of a call: named as the rule names it, or by the absolute path that the rule was resolved to.
    pub fn find(&self, name: &str) -> Result<&Program, Denied> {
        let found = self.programs.iter().find(|program| program.written == name || program.called == Path::new(name));
        found.ok_or_else(|| {
            let written: Vec<_> = self.programs.iter().map(|program| program.written.as_str()).collect();
            let key = self.key();
            let detail = match written.as_slice() {
                [] => format!("no program can be run: {key} in axon.toml lists none"),
                _ => format!("not among the programs of {key} ({})", written.join(", ")),
            };
            Denied { rule: key, detail }
        })
    }
}

impl Program {
    fn resolve(agent: &Path, written: &str, writable: &[Root]) -> Result<Self, PolicyError> {
        let refuse = |problem: String, remedy: &str| PolicyError::new(RUN_KEY, written, problem, remedy);
        if written.trim().is_empty() || written.contains('\0') {
            return Err(refuse(
                "is not the name of a program".into(),
                "write a name (\"git\") or a path (\"/usr/bin/git\")",
            ));
        }
        let called = if written.contains('/') { Some(normalise(&agent.join(written))) } else { search(written) };
        let Some(called) = called.filter(|path| is_program(path)) else {
            return Err(refuse("is no program that can be executed".into(), "install it, or take it out of the list"));
        };
        let file = called
            .canonicalize()
            .map_err(|error| refuse(format!("cannot be resolved: {error}"), "check the path and its rights"))?;
        if let Some((root, _)) = holder(writable, &file).or_else(|| holder(writable, &called)) {
            return Err(refuse(
                format!("lies in the writable root {}, so what may write there could replace it", root.label()),
                "move the program, or narrow the writable roots",
            ));
        }
        Ok(Self { written: written.into(), called, file })
    }
}

/// The first program of this name on the `PATH`, of which only absolute folders count.
fn search(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|p| is_program(p))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
