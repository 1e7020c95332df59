//! The table of built-in tools.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use axon_capsule::{BoxFuture, Datum};
use tokio_util::sync::CancellationToken;

use super::{
    args::Args,
    fault::Failure,
    fs,
    http::{self, Client},
    process,
    stop::Stop,
};
use crate::policy::{Access, Policy};

/// Every built-in namespace.
pub(super) static MODULES: &[Module] = &[fs::MODULE, http::MODULE, http::FETCH, process::MODULE];

/// A namespace in scope.
pub(super) struct Module {
    pub name: &'static str,
    pub description: &'static str,
    /// Whether its members are globals. A global is a front of a namespace's member and never called by its own name.
    pub flat: bool,
    /// Types that the declarations speak of, as global declarations.
    pub types: &'static [TypeDeclaration],
    pub members: &'static [Member],
}

pub(super) struct TypeDeclaration {
    pub name: &'static str,
    pub declaration: &'static str,
}

/// A tool, declared once.
pub(super) struct Member {
    pub name: &'static str,
    /// As it stands inside its namespace.
    pub declaration: &'static str,
    /// What a model has to know to use it, without the marks of a comment.
    pub doc: &'static str,
    /// The grants that it needs.
    pub needs: &'static [Need],
    pub effect: Effect,
    /// How many arguments it takes.
    pub arity: usize,
    pub run: Run,
}

/// How a call is served.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// On a thread that may block.
    Blocking(fn(&Context, Args) -> Result<Datum, Failure>),
    /// By waiting for something outside. Keeps its own time, which the call may set.
    Waiting(fn(Caller, Args) -> BoxFuture<'static, Result<Datum, Failure>>),
    /// In the block, through another member.
    Front,
}

/// A grant that a tool needs.
#[derive(Clone, Copy)]
pub(super) enum Need {
    /// A root, and the argument that holds the path it is needed for.
    Path { access: Access, path: Option<usize> },
    /// A host; the first argument is the URL.
    Net,
    /// A program; the first argument is its name, the second its arguments.
    Program,
}

impl Need {
    /// How many arguments say what the call is about.
    pub fn subjects(self) -> usize {
        match self {
            Self::Path { path, .. } => path.map_or(1, |path| path + 1),
            Self::Net => 1,
            Self::Program => 2,
        }
    }

    fn granted(self, policy: &Policy) -> bool {
        match self {
            Self::Path { access, .. } => policy.grants(access),
            Self::Net => !policy.hosts().is_empty(),
            Self::Program => !policy.programs().is_empty(),
        }
    }
}

/// Whether a call leaves traces outside the session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Outside,
}

/// What a tool works with.
pub(super) struct Context<'a> {
    pub policy: &'a Policy,
    pub stop: &'a Stop,
    pub turn: &'a Mutex<()>,
}

/// What a tool that waits works with.
pub(super) struct Caller {
    pub policy: Arc<Policy>,
    pub http: Arc<Client>,
    /// How long the call may take unless it says otherwise.
    pub time: Duration,
    /// Fires when nobody wants the answer any more.
    pub stop: CancellationToken,
}

impl Context<'_> {
    /// One change of files at a time, so that an edit replaces what it has read.
    pub fn turn(&self) -> Result<MutexGuard<'_, ()>, Failure> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.check()?;
        Ok(turn)
    }
}

impl Member {
    /// What policy denies outright is not in scope.
    pub fn granted(&self, module: &Module, policy: &Policy) -> bool {
        let (namespace, function) = match self.run {
            Run::Front => http::FRONTED,
            _ => (module.name, self.name),
        };
        let denied = policy.tool_rule(namespace, function).rule == crate::policy::Rule::Deny;
        !denied && self.needs.iter().all(|need| need.granted(policy))
    }
}

pub(super) fn find(namespace: &str, function: &str) -> Option<&'static Member> {
    let module = MODULES.iter().find(|module| !module.flat && module.name == namespace)?;
    module.members.iter().find(|member| member.name == function)
}
