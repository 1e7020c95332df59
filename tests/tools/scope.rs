//! The scope holds what policy grants, in two spellings of one decision.

use std::fs;

use axon::policy::{Policy, PolicyRules, Rule};

use crate::support::{Desk, ruled, s};

fn names(members: &[&str]) -> Vec<String> {
    members.iter().map(|member| member.to_string()).collect()
}

#[test]
fn what_no_root_allows_is_not_in_scope() {
    let desk = Desk::furnished();
    let members = |read: &[&str], write: &[&str]| -> Vec<String> {
        let namespaces = desk.tools(read, write).toolbox.namespaces();
        namespaces.iter().flat_map(|namespace| namespace.members.clone()).collect()
    };
    let reading = names(&["read", "readBytes", "readLines", "list", "glob", "search", "stat"]);
    assert_eq!(members(&[], &[]), names(&[]));
    assert_eq!(members(&["."], &[]), reading);
    assert_eq!(members(&[], &["work"]), names(&["write", "mkdir", "remove"]));
    let all = members(&["."], &["work"]);
    assert!(reading.iter().all(|name| all.contains(name)) && all.contains(&"edit".to_owned()));
}

#[test]
fn modules_namespaces_and_declarations_name_the_same_members() {
    let desk = Desk::furnished();
    for (read, write) in [(&["."][..], &["work"][..]), (&["."], &[]), (&[], &["work"]), (&[], &[])] {
        let toolbox = desk.tools(read, write).toolbox;
        let scope = toolbox.scope();
        let namespaces = toolbox.namespaces();
        assert_eq!(scope.modules.iter().filter(|module| !module.flat).count(), namespaces.len());
        for (module, namespace) in scope.modules.iter().zip(namespaces.iter()) {
            let members: Vec<_> = module.members.iter().map(|member| member.name.clone()).collect();
            assert_eq!((&module.name, &members), (&namespace.name, &namespace.members));
            for member in &module.members {
                let declared = member.declaration.lines().next().unwrap();
                assert!(declared.starts_with(&format!("function {}(", member.name)), "{declared}");
                assert!(scope.dts.contains(&member.declaration), "{declared}");
                assert!(member.jsdoc.as_ref().is_some_and(|doc| !doc.contains("*/")));
            }
            let declared = scope.dts.lines().filter(|line| line.trim_start().starts_with("function ")).count();
            assert_eq!(declared, members.len());
        }
    }
}

#[tokio::test]
async fn every_member_in_scope_can_be_called() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    for member in &tools.toolbox.namespaces()[0].members {
        let code = tools.call(member, [s("work/absent")]).await.err().and_then(|error| error.code);
        assert_ne!(code.as_deref(), Some("UNKNOWN_TOOL"), "fs.{member}");
    }
}

#[test]
fn a_rule_that_cannot_be_held_says_which_why_and_what_to_do() {
    let desk = Desk::furnished();
    desk.link(desk.outside(""), "work/planted");
    let error = |rules: PolicyRules| Policy::new(&desk.agent(), rules).unwrap_err().to_string();
    let missing = error(desk.rules(&["docs"], &[]));
    assert!(
        missing.starts_with("policy.fs.read: \"docs\" does not exist") && missing.contains("create it"),
        "{missing}"
    );
    assert!(error(desk.rules(&[""], &[])).contains("the path is empty"));
    assert!(error(desk.rules(&[], &["notes.md/x"])).contains("leads through a file"));
    let planted = error(desk.rules(&["work/planted"], &["work"]));
    assert!(planted.contains("leads through a link inside the writable root work/"), "{planted}");
    assert!(error(ruled(desk.rules(&[], &[]), &[("fs", Rule::Ask)])).starts_with("policy.tools: \"fs\""));
    assert!(error(PolicyRules { net: vec!["http://x".into()], ..PolicyRules::default() }).starts_with("policy.net"));
    assert!(error(PolicyRules { run: vec!["".into()], ..PolicyRules::default() }).starts_with("policy.run"));
    let absent = Policy::new(&desk.path("absent"), PolicyRules::default()).unwrap_err().to_string();
    assert!(absent.contains("agent folder"), "{absent}");
}

#[test]
fn a_missing_writable_root_is_not_made_before_it_is_written_to() {
    let desk = Desk::new();
    desk.tools(&[], &["work"]).toolbox.scope();
    assert_eq!(fs::read_dir(desk.agent()).unwrap().count(), 0);
}
