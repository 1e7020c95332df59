//! Every cognet passes `--!strict`, and the declarations catch what they are there to catch.

use std::{
    fs,
    path::{Path, PathBuf},
};

use luau_analyze::{CheckResult, Checker};

const DECLARATIONS: &str = include_str!("../../runtime/luau/types/kernel.d.luau");

fn checker() -> Checker {
    let mut checker = Checker::new().expect("a checker");
    checker.add_definitions(DECLARATIONS).expect("kernel.d.luau is a definition file");
    checker
}

fn check(source: &str) -> CheckResult {
    checker().check(&format!("--!strict\n{source}")).expect("the checker answers")
}

/// What `source` is told, one line each.
fn told(source: &str) -> Vec<String> {
    check(source).diagnostics.iter().map(|said| format!("{}: {}", said.line, said.message)).collect()
}

fn scripts(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            scripts(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lua" || extension == "luau") {
            found.push(path);
        }
    }
}

#[test]
fn every_cognet_of_the_repository_passes_strict() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for folder in ["cognets", "examples", "src/cli/new_agent"] {
        scripts(&root.join(folder), &mut found);
    }
    assert!(found.len() >= 8, "{found:?}");
    let mut faults = Vec::new();
    for path in found {
        let source = fs::read_to_string(&path).expect("a script");
        for line in told(&source) {
            faults.push(format!("{}:{line}", path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_is_wrong_with_a_cognet_is_seen_in_the_editor() {
    for (source, says) in [
        ("kernel.ouput(\"cognet:output:text\", { content = \"x\" })", "ouput"),
        ("kernel.run(7)", "number"),
        ("loop(function(wake) wake.stpo() end)", "stpo"),
        ("defineCognet { name = \"x\", version = \"1\" }", "abi"),
        ("for event in kernel.stream { mesages = {} } do end", "messages"),
        ("local n: number = kernel.base()", "string"),
        ("pritn(1)", "pritn"),
    ] {
        let told = told(source);
        assert!(told.iter().any(|line| line.contains(says)), "{source}: {told:?}");
    }
}
