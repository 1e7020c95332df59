//! The scope: one decision about membership, spelled for cognets, for `tsc` and for the capsule.

use std::fmt::Write;

use axon_capsule::Namespace;
use axon_runtime::{Scope, ScopeMember, ScopeModule};

use super::table::{MODULES, Member, Module};
use crate::policy::Policy;

/// What policy leaves of the table; namespaces without members are left out.
pub(super) fn granted(policy: &Policy) -> Vec<(&'static Module, Vec<&'static Member>)> {
    let members = |module: &'static Module| -> Vec<_> {
        module.members.iter().filter(|member| member.granted(module, policy)).collect()
    };
    MODULES.iter().map(|module| (module, members(module))).filter(|(_, members)| !members.is_empty()).collect()
}

pub(super) fn scope(policy: &Policy) -> Scope {
    let modules: Vec<_> = granted(policy).into_iter().map(|(module, members)| describe(module, &members)).collect();
    let dts = modules.iter().map(declare).collect::<Vec<_>>().join("\n");
    Scope { modules, dts }
}

pub(super) fn namespaces(policy: &Policy) -> Vec<Namespace> {
    let name = |member: &&Member| member.name.to_owned();
    let namespace = |(module, members): (&Module, Vec<&Member>)| Namespace {
        name: module.name.into(),
        members: members.iter().map(name).collect(),
    };
    granted(policy).into_iter().filter(|(module, _)| !module.flat).map(namespace).collect()
}

fn describe(module: &Module, members: &[&Member]) -> ScopeModule {
    let used = |name: &str| members.iter().any(|member| member.declaration.contains(name));
    let types = module.types.iter().filter(|declared| used(declared.name));
    ScopeModule {
        name: module.name.into(),
        description: Some(module.description.into()),
        flat: module.flat,
        members: members
            .iter()
            .map(|member| ScopeMember {
                name: member.name.into(),
                declaration: member.declaration.into(),
                jsdoc: Some(member.doc.into()),
            })
            .collect(),
        ambient_types: types.map(|declared| declared.declaration.into()).collect(),
    }
}

/// One module as TypeScript.
fn declare(module: &ScopeModule) -> String {
    let mut out = String::new();
    for declaration in &module.ambient_types {
        out.push_str(declaration);
        out.push_str("\n\n");
    }
    if let Some(description) = module.description.as_ref().filter(|_| !module.flat) {
        comment(&mut out, "", description);
    }
    if module.flat {
        for member in &module.members {
            if let Some(doc) = &member.jsdoc {
                comment(&mut out, "", doc);
            }
            let _ = writeln!(out, "declare {};", member.declaration);
        }
        return out;
    }
    let _ = writeln!(out, "declare namespace {} {{", module.name);
    for (index, member) in module.members.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        if let Some(doc) = &member.jsdoc {
            comment(&mut out, "  ", doc);
        }
        for line in member.declaration.lines() {
            let _ = writeln!(out, "  {line}");
        }
        out.truncate(out.trim_end().len());
        out.push_str(";\n");
    }
    out.push_str("}\n");
    out
}

fn comment(out: &mut String, indent: &str, text: &str) {
    // Text that would end the comment ends it no more.
    let text = text.replace("*/", "*\\/");
    if !text.contains('\n') {
        let _ = writeln!(out, "{indent}/** {text} */");
        return;
    }
    let _ = writeln!(out, "{indent}/**");
    for line in text.lines() {
        let _ = writeln!(out, "{}", format!("{indent} * {line}").trim_end());
    }
    let _ = writeln!(out, "{indent} */");
}
