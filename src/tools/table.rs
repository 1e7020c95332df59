//! The table of built-in tools.

use std::sync::{Mutex, MutexGuard, PoisonError};

use axon_capsule::Datum;

use super::{args::Args, fault::Failure, fs, stop::Stop};
use crate::policy::{Access, Policy};

/// Every built-in namespace.
pub(super) static MODULES: &[Module] = &[fs::MODULE];

/// A namespace in scope.
pub(super) struct Module {
    pub name: &'static str,
    pub description: &'static str,
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
    /// Serves a call on a thread that may block.
    pub run: fn(&Context, Args) -> Result<Datum, Failure>,
}

/// A grant that a tool needs, and the argument that holds the path it is needed for.
#[derive(Clone, Copy)]
pub(super) struct Need {
    pub access: Access,
    pub path: Option<usize>,
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
        let denied = policy.tool_rule(module.name, self.name).rule == crate::policy::Rule::Deny;
        !denied && self.needs.iter().all(|need| policy.grants(need.access))
    }
}

pub(super) fn find(namespace: &str, function: &str) -> Option<&'static Member> {
    let module = MODULES.iter().find(|module| module.name == namespace)?;
    module.members.iter().find(|member| member.name == function)
}
