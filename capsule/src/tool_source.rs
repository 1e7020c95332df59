//! The user's tools, as TypeScript files and as what they declare.

use serde::{Deserialize, Serialize};

/// A file below `tools/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFile {
    /// Relative to `tools/`, with `/` between names.
    pub path: String,
    pub source: String,
    /// The namespace that the file is; `None` for a file that others import.
    pub namespace: Option<String>,
}

/// What the files declare, and what is wrong with them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolReport {
    pub modules: Vec<ToolModule>,
    pub problems: Vec<ToolProblem>,
}

/// A namespace as its file declares it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolModule {
    pub name: String,
    /// The comment at the head of the file.
    pub description: Option<String>,
    /// Declarations of the types that the members speak of, as they stand inside the namespace.
    pub types: Vec<String>,
    pub members: Vec<ToolMember>,
}

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolMember {
    pub name: String,
    /// As a block calls it: whatever it returns is a promise.
    pub declaration: String,
    pub jsdoc: Option<String>,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("tools/{path}:{line}:{column}: {message}")]
pub struct ToolProblem {
    pub path: String,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    pub message: String,
}

/// How isolates name a file of `tools/`.
pub(crate) const TOOLS_URL: &str = "file:///tools/";

/// The file that an import leads to, if there is one. `.ts` may be left out.
pub(crate) fn resolve_import<'f>(
    specifier: &str,
    from: &str,
    mut exists: impl FnMut(&str) -> Option<&'f str>,
) -> Option<&'f str> {
    if !specifier.starts_with("./") && !specifier.starts_with("../") {
        return None;
    }
    let mut names: Vec<&str> = from.split('/').collect();
    names.pop();
    for name in specifier.split('/') {
        match name {
            "" | "." => {}
            // Above the folder there is nothing.
            ".." => drop(names.pop()?),
            name => names.push(name),
        }
    }
    let path = names.join("/");
    exists(&path).or_else(|| exists(&format!("{path}.ts")))
}
