//! Whether the patterns of `[policy.tools]` name tools.
//!
//! A rule that was misspelt is no rule: what it was to deny stays allowed. Names that no tool can ever have are refused. Those
//! of tools that may still be written are told of, and hold once they are.

use axon_capsule::ToolModule;

use super::{own::why_no_namespace, table::MODULES};
use crate::{policy::PolicyError, text::nearest};

/// The key of the table.
const KEY: &str = "policy.tools";

/// Every function of a namespace.
const ALL: &str = "*";

/// Refuses a pattern that names something which can never be a tool, whatever is put into `tools/`.
pub(crate) fn refuse_impossible(pattern: &str) -> Result<(), PolicyError> {
    let Some((namespace, function)) = pattern.split_once('.') else { return Ok(()) };
    let problem = if is_built_in(namespace) {
        if function == ALL || built_in().any(|tool| tool == pattern) {
            return Ok(());
        }
        format!("names no tool: {namespace} is built in and has no function `{function}`")
    } else if why_no_namespace(namespace).is_some() {
        format!("names no tool: `{namespace}` is not built in and cannot be the name of a file in tools/")
    } else {
        return Ok(());
    };
    let tools: Vec<_> = built_in().collect();
    let of_namespace = tools.iter().filter(|tool| tool.split_once('.').is_some_and(|(own, _)| own == namespace));
    let known: Vec<_> = of_namespace.map(String::as_str).collect();
    let known = if known.is_empty() { tools.iter().map(String::as_str).collect() } else { known };
    let listed = known.join(", ");
    let remedy = match nearest(pattern, known) {
        Some(near) => format!("did you mean \"{near}\"? there are {listed}"),
        None => format!("there are {listed}"),
    };
    Err(PolicyError::new(KEY, pattern, problem, remedy))
}

/// What is to be told of a pattern that names no tool as things are, among the user's own tools and those built in.
pub(super) fn idle(pattern: &str, own: &[ToolModule]) -> Option<PolicyError> {
    let (namespace, function) = pattern.split_once('.').filter(|(namespace, _)| !is_built_in(namespace))?;
    let module = own.iter().find(|module| module.name == namespace);
    let problem = match module {
        Some(module) if function == ALL || module.members.iter().any(|member| member.name == function) => return None,
        Some(_) => format!("names no tool yet: tools/{namespace}.ts exports no function `{function}`"),
        None => format!("names no tool yet: there is no tools/{namespace}.ts"),
    };
    let own = own.iter().flat_map(|module| {
        let members = module.members.iter().map(|member| format!("{}.{}", module.name, member.name));
        members.chain([format!("{}.{ALL}", module.name)])
    });
    let namespaces = MODULES.iter().filter(|module| !module.flat).map(|module| format!("{}.{ALL}", module.name));
    let known: Vec<_> = built_in().chain(namespaces).chain(own).collect();
    let alike = known.iter().map(String::as_str).filter(|known| known.ends_with(".*") == (function == ALL));
    let remedy = match nearest(pattern, alike) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => "the rule holds once there is one".to_owned(),
    };
    Some(PolicyError::new(KEY, pattern, problem, remedy))
}

fn is_built_in(namespace: &str) -> bool {
    MODULES.iter().any(|module| !module.flat && module.name == namespace)
}

/// Every built-in tool as a rule names it.
fn built_in() -> impl Iterator<Item = String> {
    let namespaces = MODULES.iter().filter(|module| !module.flat);
    namespaces.flat_map(|module| module.members.iter().map(|member| format!("{}.{}", module.name, member.name)))
}

#[cfg(test)]
mod tests {
    use axon_capsule::ToolMember;

    use super::*;

    fn weather() -> Vec<ToolModule> {
        let member = ToolMember { name: "current".into(), declaration: String::new(), jsdoc: None };
        vec![ToolModule { name: "weather".into(), description: None, types: Vec::new(), members: vec![member] }]
    }

    #[test]
    fn what_is_built_in_is_named_as_it_is() {
        for pattern in ["*", "fs.*", "fs.read", "process.run", "http.request", "weather.*", "weather.current"] {
            assert_eq!(refuse_impossible(pattern), Ok(()));
            assert_eq!(idle(pattern, &weather()), None, "{pattern}");
        }
    }

    #[test]
    fn a_name_that_no_tool_can_have_is_refused_with_the_nearest() {
        for (pattern, near) in [
            ("fs.raed", Some("fs.read")),
            ("process.runn", Some("process.run")),
            ("http.requst", Some("http.request")),
            ("http.zzz", None),
            ("console.log", None),
            ("fetch.fetch", None),
        ] {
            let error = refuse_impossible(pattern).expect_err(pattern).to_string();
            assert!(error.contains(&format!("\"{pattern}\" names no tool: ")), "{error}");
            let meant = near.map(|near| format!("did you mean \"{near}\"?"));
            assert_eq!(error.contains("did you mean"), meant.is_some(), "{error}");
            assert!(meant.is_none_or(|meant| error.contains(&meant)), "{error}");
        }
    }

    #[test]
    fn a_name_that_a_tool_may_have_one_day_is_told_of() {
        for (pattern, says) in [
            ("proces.run", "there is no tools/proces.ts; did you mean \"process.run\"?"),
            ("proces.*", "did you mean \"process.*\"?"),
            ("weather.curent", "tools/weather.ts exports no function `curent`; did you mean \"weather.current\"?"),
            ("wether.*", "did you mean \"weather.*\"?"),
            ("github.*", "there is no tools/github.ts; the rule holds once there is one"),
        ] {
            assert_eq!(refuse_impossible(pattern), Ok(()), "{pattern}");
            let told = idle(pattern, &weather()).expect(pattern).to_string();
            assert!(told.contains(says), "{told}");
        }
    }
}
