//! The scope: one decision about membership, spelled for cognets, for `tsc` and for the capsule.

use std::fmt::Write;

use axon_capsule::{Namespace, ToolModule};
use axon_runtime::{Scope, ScopeMember, ScopeModule};

use super::table::{MODULES, Member, Module};
use crate::policy::{Policy, Rule};

/// What policy leaves of the table; namespaces without members are left out.
fn granted(policy: &Policy) -> Vec<(&'static Module, Vec<&'static Member>)> {
    let members = |module: &'static Module| -> Vec<_> {
        module.members.iter().filter(|member| member.granted(module, policy)).collect()
    };
    MODULES.iter().map(|module| (module, members(module))).filter(|(_, members)| !members.is_empty()).collect()
}

pub(super) fn scope(policy: &Policy, own: &[ToolModule]) -> Scope {
    let built_in = granted(policy).into_iter().map(|(module, members)| describe(module, &members));
    let modules: Vec<_> = built_in.chain(own.iter().filter_map(|module| describe_own(module, policy))).collect();
    let dts = modules.iter().map(declare).collect::<Vec<_>>().join("\n");
    Scope { modules, dts }
}

/// The same membership for the capsule: globals are fronts of namespaces there.
pub(super) fn namespaces(scope: &Scope) -> Vec<Namespace> {
    let namespaces = scope.modules.iter().filter(|module| !module.flat);
    namespaces
        .map(|module| Namespace {
            name: module.name.clone(),
            members: module.members.iter().map(|member| member.name.clone()).collect(),
        })
        .collect()
}

/// What the user's own tools can be given, for their editor: every built-in tool, and `env`.
pub fn tool_declarations() -> String {
    let all = MODULES.iter().map(|module| describe(module, &module.members.iter().collect::<Vec<_>>()));
    let mut dts = all.map(|module| declare(&module)).collect::<Vec<_>>().join("\n");
    dts.push_str("\n/** The variables that `[tools.NAME] env` in axon.toml gives to the tool. */\n");
    dts.push_str("declare const env: Readonly<Record<string, string | undefined>>;\n");
    dts
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

/// A tool file of the user's; `None` when policy denies all of it.
fn describe_own(module: &ToolModule, policy: &Policy) -> Option<ScopeModule> {
    let allowed =
        module.members.iter().filter(|member| policy.tool_rule(&module.name, &member.name).rule != Rule::Deny);
    let members: Vec<_> = allowed
        .map(|member| ScopeMember {
            name: member.name.clone(),
            declaration: member.declaration.clone(),
            jsdoc: member.jsdoc.clone(),
        })
        .collect();
    // In the namespace, so that two files may give one name to their types.
    let types = (!module.types.is_empty()).then(|| {
        let indented = module.types.join("\n").lines().map(|line| format!("  {line}\n")).collect::<String>();
        format!("declare namespace {} {{\n{indented}}}", module.name)
    });
    (!members.is_empty()).then(|| ScopeModule {
        name: module.name.clone(),
        description: module.description.clone(),
        flat: false,
        members,
        ambient_types: types.into_iter().collect(),
    })
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
