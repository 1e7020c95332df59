//! Declarations live on from block to block, also over the end of the process.

use std::fs;

use crate::support::{Agent, of_kind};

#[test]
fn exec_carries_declarations_from_one_file_to_the_next() {
    let agent = Agent::with(&[
        ("a.ts", "const n: number = 20; function twice(x: number) { return x * n }"),
        ("b.ts", "twice(2)"),
    ]);
    let path = |name: &str| agent.path().join(name).to_str().expect("UTF-8").to_owned();
    let ran = agent.run(&["exec", &path("a.ts"), &path("b.ts")]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "40\n"), "{ran:?}");
}

#[test]
fn declarations_survive_the_process_and_their_loss_is_announced() {
    let agent = Agent::empty();
    let exec = |code: &str| agent.run(&["exec", "--session", "s", "-e", code]);
    assert_eq!(exec("let kept = [1]; const gone = Promise.resolve()").code, Some(0));
    let ran = exec("kept.push(2); kept");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "[1,2]\n"), "{ran:?}");
    let ran = exec("gone");
    assert!(
        ran.stderr.contains("declared in an earlier block, but its value, a Promise, cannot be carried over"),
        "{ran:?}"
    );
    assert!(of_kind(&agent.log(), "system:notice").is_empty());

    fs::remove_dir_all(agent.path().join("data/state")).expect("it is a cache");
    let ran = exec("typeof kept");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "undefined\n"), "{ran:?}");
    assert_eq!(exec("1").code, Some(0));
    let log = agent.log();
    let notices = of_kind(&log, "system:notice");
    assert_eq!(notices.len(), 1, "said once: {notices:?}");
    assert_eq!(notices[0]["data"]["code"], "BINDINGS_LOST");
}

#[test]
fn what_is_too_much_is_dropped_with_a_notice() {
    let agent = Agent::empty();
    let ran =
        agent.run(&["exec", "-e", "const a = 'x'.repeat(10 << 20); const b = 'y'.repeat(9 << 20); const c = 1; 0"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let log = agent.log();
    let notice = &of_kind(&log, "system:notice")[0]["data"];
    assert_eq!(notice["code"], "BINDINGS_DROPPED");
    assert!(notice["message"].as_str().expect("text").contains("a (10240 KiB)"), "{notice}");
}
