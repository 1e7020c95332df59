//! `process.run`: what a program gets, what comes back, and that it ends with its call.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use axon::policy::{Policy, PolicyRules};
use axon_capsule::Datum;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Desk, Tools, o, s, tool_call};

async fn run(tools: &Tools, program: &str, args: Value, options: Value) -> Value {
    tools.json("process.run", [s(program), o(args), o(options)]).await
}

async fn shell(tools: &Tools, script: &str) -> Value {
    run(tools, "sh", json!(["-c", script]), json!({})).await
}

/// Whether a process is there; a zombie is.
fn exists(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

async fn gone(pid: i32) {
    for _ in 0..1_000 {
        // What init has not collected yet does not run any more.
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if !exists(pid) || state.contains(") Z ") && !state.contains(&format!(" {} ", std::process::id())) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("process {pid} is still there");
}

#[tokio::test]
async fn exit_codes_and_both_streams_come_back() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh"]);
    let result = shell(&tools, "echo out; echo err >&2; exit 3").await;
    assert_eq!(result, json!({ "code": 3, "stdout": "out\n", "stderr": "err\n" }));
    assert_eq!(shell(&tools, "kill -9 $$").await["code"], 137);
    let allowed = tools.journal.data("capsule:policy:allowed");
    assert_eq!(allowed["rule"], "policy.run = \"sh\"");
    assert!(allowed["detail"].as_str().unwrap().contains(r#"process.run("sh", ["-c","echo out"#), "{allowed}");
}

#[tokio::test]
async fn arguments_arrive_as_they_are() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["printf"]);
    let hostile = ["a b", "$(id)", "`id`", "; id", "*", "\"'", "&& id", "\n", ""];
    let args: Vec<_> = ["[%s]"].iter().chain(&hostile).collect();
    let result = run(&tools, "printf", json!(args), json!({})).await;
    assert_eq!(result["stdout"], hostile.iter().map(|arg| format!("[{arg}]")).collect::<String>());
}

#[tokio::test]
async fn standard_input_is_what_was_given_and_else_nothing() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["cat", "true"]);
    assert_eq!(run(&tools, "cat", json!([]), json!({ "stdin": "words" })).await["stdout"], "words");
    assert_eq!(run(&tools, "cat", json!([]), json!({})).await["stdout"], "");
    // A program that does not read it is no error.
    let much = "x".repeat(1 << 20);
    assert_eq!(run(&tools, "true", json!([]), json!({ "stdin": much })).await["code"], 0);
}

#[tokio::test]
async fn the_environment_is_cleared_but_for_what_is_listed() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["env"]);
    let result = run(&tools, "env", json!([]), json!({ "env": { "MINE": "1" } })).await;
    let mut names: Vec<_> =
        result["stdout"].as_str().unwrap().lines().map(|line| line.split('=').next().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["MINE", "PATH"]);
    for name in ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"] {
        let message =
            tools.denial("process.run", [s("env"), o(json!([])), o(json!({ "env": { name: "work" } }))]).await;
        assert!(message.contains(name), "{message}");
    }
}

#[tokio::test]
async fn no_descriptor_is_inherited() {
    let desk = Desk::furnished();
    let open = fs::File::open(desk.path("notes.md")).unwrap();
    // As a library that knows nothing of it would leave it.
    leak_copy(&open);
    let tools = desk.tools_for(&[], &["sh"]);
    let result =
        shell(&tools, "for fd in 3 4 5 6 7 8 9; do (eval \"true <&$fd\") 2>/dev/null && echo $fd; done; true").await;
    assert_eq!(result["stdout"], "", "{result}");
}

fn leak_copy(file: &fs::File) {
    use std::os::fd::AsFd;
    // Without the flag that closes it: a copy that a child would inherit.
    let copy = rustix::io::dup(file.as_fd()).unwrap();
    std::mem::forget(copy);
}

#[tokio::test]
async fn the_working_folder_is_the_agent_folder_or_one_inside_the_roots() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["pwd"]);
    let line = |path: &Path| format!("{}\n", path.display());
    assert_eq!(run(&tools, "pwd", json!(["-P"]), json!({})).await["stdout"], line(&desk.agent()));
    assert_eq!(run(&tools, "pwd", json!(["-P"]), json!({ "cwd": "src" })).await["stdout"], line(&desk.path("src")));
    for outside in ["..", "/", "data", ".axon"] {
        tools.denial("process.run", [s("pwd"), o(json!([])), o(json!({ "cwd": outside }))]).await;
    }
    for wrong in ["notes.md", "absent"] {
        tools.refusal("process.run", [s("pwd"), o(json!([])), o(json!({ "cwd": wrong }))]).await;
    }
}

#[tokio::test]
async fn output_beyond_its_limit_is_dropped_and_the_program_goes_on() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh"]);
    let options = json!({ "maxOutputBytes": 1000 });
    let script = "head -c 3000000 /dev/zero; echo end >&2; exit 7";
    let result = run(&tools, "sh", json!(["-c", script]), options).await;
    assert_eq!((&result["code"], &result["stderr"], &result["truncated"]), (&json!(7), &json!("end\n"), &json!(true)));
    assert_eq!(result["stdout"].as_str().unwrap().len(), 1000);
}

#[tokio::test]
async fn a_program_that_takes_too_long_is_killed_with_its_group() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh"]);
    let script = "echo $$ > work/leader; sleep 1000 & echo $! > work/child; trap '' TERM INT; wait";
    let options = o(json!({ "timeoutMs": 500 }));
    let error = tools.refusal("process.run", [s("sh"), o(json!(["-c", script])), options]).await;
    assert_eq!(error.code.as_deref(), Some("TOOL_TIMEOUT"), "{error}");
    for file in ["work/leader", "work/child"] {
        gone(desk.text(file).trim().parse().unwrap()).await;
    }
}

#[tokio::test]
async fn an_abort_kills_the_whole_group_and_leaves_no_zombie() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh"]);
    let cancel = CancellationToken::new();
    let script = "echo $$ > work/leader; sleep 1000 & echo $! > work/child; wait";
    let call = tools.toolbox.call(
        tool_call("process.run", [s("sh"), o(json!(["-c", script]))]),
        &tools.journal,
        cancel.clone(),
    );
    let stop = async {
        while !fs::read_to_string(desk.path("work/child")).is_ok_and(|text| text.ends_with('\n')) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(call, stop);
    assert_eq!(answer.unwrap_err().code.as_deref(), Some("CANCELLED"));
    for file in ["work/leader", "work/child"] {
        gone(desk.text(file).trim().parse().unwrap()).await;
    }
}

#[tokio::test]
async fn what_a_program_leaves_running_ends_with_it() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh"]);
    let result = shell(&tools, "sleep 1000 & echo $!").await;
    assert_eq!(result["code"], 0);
    gone(result["stdout"].as_str().unwrap().trim().parse().unwrap()).await;
}

#[tokio::test]
async fn a_program_sees_no_more_than_the_roots() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["sh", "cat"]);
    if !confined(&desk, &tools).await {
        return;
    }
    assert_eq!(run(&tools, "cat", json!(["notes.md"]), json!({})).await["stdout"], "notes.md");
    let secret = desk.outside("secret.txt");
    let hidden = [
        ".env",
        "./src/../.env",
        ".env.local",
        "data/sessions/s.jsonl",
        ".axon/cache",
        "/etc/shadow",
        "/proc/self/environ",
        secret.to_str().unwrap(),
    ];
    for path in hidden {
        let result = run(&tools, "cat", json!([path]), json!({})).await;
        assert!(result["code"] != 0 && result["stdout"] == "", "{path}: {result}");
    }
    let scripts = [
        "echo x > axon.toml",
        "echo x > tools/t.ts",
        "echo x > tools/new.ts",
        "echo x > cognets/c.lua",
        "rm boot.md",
        "echo x > notes.md",
        "mv work/draft.txt tools/moved.ts",
        "ln .env work/linked",
        "ln -s ../.env work/s; cat work/s",
        "echo x > ../outside",
        "echo x > data/sessions/s.jsonl",
        "mkdir .axon/new",
    ];
    for script in scripts {
        let result = shell(&tools, script).await;
        assert_ne!(result["code"], 0, "{script}: {result}");
    }
    assert_eq!(shell(&tools, "echo new > work/made && cat work/made").await["stdout"], "new\n");
}

#[tokio::test]
async fn a_writable_agent_folder_does_not_open_its_protected_parts_to_programs() {
    let desk = Desk::furnished();
    let rules = PolicyRules { run: vec!["sh".into()], ..desk.rules(&["."], &["."]) };
    let tools = desk.tools_with(rules, std::sync::Arc::new(axon::policy::Unattended));
    if !confined(&desk, &tools).await {
        return;
    }
    for script in [
        "cat .env",
        "echo x >> .env",
        "echo x > axon.toml",
        "rm axon.toml",
        "mv axon.toml work/",
        "echo x > tools/new.ts",
        "mv tools work/tools",
        "rm -r cognets",
        "cat data/sessions/s.jsonl",
        "rm -r data",
    ] {
        assert_ne!(shell(&tools, script).await["code"], 0, "{script}");
    }
    assert_eq!(desk.text("axon.toml"), "axon.toml");
    assert_eq!(shell(&tools, "echo x > src/main.rs; echo y > notes.md").await["code"], 0);
    assert_eq!(desk.text("notes.md"), "y\n");
}

#[tokio::test]
async fn a_program_has_no_network_where_no_host_is_listed() {
    let desk = Desk::furnished();
    let tools = desk.tools_for(&[], &["bash"]);
    if !confined(&desk, &desk.tools_for(&[], &["sh"])).await {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let result = run(&tools, "bash", json!(["-c", script]), json!({})).await;
    assert!(result["code"] != 0 && result["stderr"].as_str().unwrap().contains("ermission"), "{result}");
}

/// Whether this system can confine a program at all.
async fn confined(desk: &Desk, tools: &Tools) -> bool {
    let secret = desk.outside("secret.txt");
    let holds = shell(tools, &format!("cat {}", secret.display())).await["code"] != 0;
    if !holds {
        assert!(!Path::new("/sys/kernel/security/landlock").exists(), "the system has landlock, and it is not used");
        println!("skipped: this kernel has no landlock");
    }
    holds
}

#[tokio::test]
async fn a_program_that_is_not_listed_is_denied_however_it_is_named() {
    let desk = Desk::furnished();
    desk.put("work/true", "#!/bin/sh\necho planted\n");
    fs::set_permissions(desk.path("work/true"), fs::Permissions::from_mode(0o755)).unwrap();
    let tools = desk.tools_for(&[], &["true"]);
    let absolute = desk.path("work/true");
    for program in [
        "sh",
        "/bin/sh",
        "./true",
        "work/true",
        "true ",
        " true",
        "TRUE",
        "true;id",
        "true\0",
        "../true",
        "",
        "tru",
        "*",
        "/usr/bin/../bin/sh",
        absolute.to_str().unwrap(),
    ] {
        let message = tools.denial("process.run", [s(program)]).await;
        assert!(message.contains("policy.run"), "{message}");
    }
    let result = tools.json("process.run", [s("true"), o(json!([])), o(json!({ "cwd": "work" }))]).await;
    assert_eq!(result["stdout"], "");
    for args in [json!("-c id"), json!([1]), json!(["a\u{0}b"])] {
        let error = tools.refusal("process.run", [s("true"), o(args)]).await;
        assert_eq!(error.code.as_deref(), Some("INVALID_ARGUMENT"), "{error}");
    }
    assert!(matches!(tools.call("process.run", [s("true")]).await, Ok(Datum::Object(_))));
}

#[test]
fn a_program_that_could_be_replaced_or_is_not_there_is_no_rule() {
    let desk = Desk::furnished();
    desk.put("work/tool", "#!/bin/sh\n");
    fs::set_permissions(desk.path("work/tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let error = |program: &str| {
        let rules = PolicyRules { run: vec![program.into()], ..desk.rules(&["."], &["work"]) };
        Policy::new(&desk.agent(), rules).unwrap_err().to_string()
    };
    assert!(error("work/tool").contains("lies in the writable root work/"), "{}", error("work/tool"));
    assert!(error("no-such-program-anywhere").contains("install it"));
    assert!(error("notes.md").contains("install it") && error("./notes.md").contains("no program"));
}
