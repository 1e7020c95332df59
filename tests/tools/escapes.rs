//! Ways out of the roots, each tried and each refused.

use std::{fs, os::unix::fs::PermissionsExt, process::Command, sync::Arc};

use axon::{
    policy::{Policy, Unattended},
    tools::Toolbox,
};
use axon_capsule::Datum;
use serde_json::json;

use crate::support::{Desk, Journal, Tools, o, p, s};

const PROTECTED_FROM_READING: [&str; 4] = [".env", ".env.local", "data/sessions/s.jsonl", ".axon/cache"];
const PROTECTED_FROM_WRITING: [&str; 4] = ["axon.toml", "boot.md", "cognets/c.lua", "tools/t.ts"];

async fn assert_unwritable(tools: &Tools, path: &str) -> String {
    let content = || s("changed");
    for (function, args) in [
        ("remove", vec![s(path)]),
        ("edit", vec![s(path), o(json!({ "find": "a", "replace": "b" }))]),
        ("move", vec![s(path), s("work/moved")]),
        ("copy", vec![s("notes.md"), s(path), o(json!({ "overwrite": true }))]),
        ("write", vec![s(path), content(), o(json!({ "mode": "append" }))]),
    ] {
        tools.denial(function, args).await;
    }
    tools.denial("write", [s(path), content()]).await
}

#[tokio::test]
async fn a_path_outside_is_denied_and_the_roots_are_named() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    assert_eq!(
        tools.denial("write", [s("/etc/passwd"), s("x")]).await,
        r#"fs.write("/etc/passwd"): not inside the writable roots work/ (policy.fs.write in axon.toml)"#
    );
    let outside = desk.outside("secret.txt");
    for path in ["../secret.txt", "src/../../secret.txt", "./././../secret.txt", outside.to_str().unwrap()] {
        let message = tools.denial("read", [s(path)]).await;
        assert!(message.ends_with("not inside the readable roots . (policy.fs.read in axon.toml)"), "{message}");
    }
    assert_eq!(tools.journal.data("capsule:policy:denied")["rule"], "policy.fs.write");
}

#[tokio::test]
async fn what_lies_beside_a_root_with_a_like_name_is_outside() {
    let desk = Desk::furnished();
    desk.put("workshop/a.txt", "a");
    let tools = desk.tools(&["work"], &["work"]);
    tools.denial("read", [s("workshop/a.txt")]).await;
    tools.denial("write", [s("work/../workshop/a.txt"), s("x")]).await;
}

#[tokio::test]
async fn a_link_out_of_the_roots_is_denied_whenever_it_was_made() {
    let desk = Desk::furnished();
    desk.link(desk.outside("secret.txt"), "before");
    desk.link("../secret.txt", "work/deep");
    let tools = desk.tools(&["."], &["work"]);
    desk.link(desk.outside(""), "after");
    desk.link("../..", "work/up");
    for path in ["before", "after/secret.txt", "work/up/secret.txt"] {
        let message = tools.denial("read", [s(path)]).await;
        assert!(message.contains("leads through a link"), "{message}");
    }
    tools.denial("write", [s("work/up/new.txt"), s("x")]).await;
    tools.denial("write", [s("work/deep"), s("x")]).await;
    tools.denial("list", [s("after")]).await;
    assert_eq!(fs::read_to_string(desk.outside("secret.txt")).unwrap(), "secret");
    assert!(!desk.outside("new.txt").exists());
}

#[tokio::test]
async fn a_link_inside_the_roots_and_from_one_root_to_another_is_followed() {
    let desk = Desk::furnished();
    fs::create_dir(desk.outside("library")).unwrap();
    fs::write(desk.outside("library/book.txt"), "book").unwrap();
    let library = desk.outside("library");
    desk.link("notes.md", "relative");
    desk.link(desk.path("src"), "absolute");
    desk.link(&library, "shelf");
    let tools = desk.tools(&[".", library.to_str().unwrap()], &[]);
    assert_eq!(tools.text("read", [s("relative")]).await, "notes.md");
    assert_eq!(tools.text("read", [s("absolute/main.rs")]).await, "src/main.rs");
    assert_eq!(tools.text("read", [s("shelf/book.txt")]).await, "book");
}

#[tokio::test]
async fn links_in_a_circle_end() {
    let desk = Desk::furnished();
    desk.link("b", "a");
    desk.link("a", "b");
    let error = desk.tools(&["."], &[]).refusal("read", [s("a")]).await;
    assert!(error.message.contains("links"), "{error}");
}

#[tokio::test]
async fn protected_files_are_out_of_reach_by_any_spelling() {
    let desk = Desk::furnished();
    let above = desk.outside("");
    desk.link(".env", "src/env-link");
    desk.link("../data", "src/data-link");
    fs::hard_link(desk.path(".env"), desk.path("src/innocent.txt")).unwrap();
    fs::hard_link(desk.path("data/sessions/s.jsonl"), desk.path("src/innocent.log")).unwrap();
    for roots in [".", above.to_str().unwrap(), "/"] {
        let tools = desk.tools(&[roots], &[roots]);
        for path in PROTECTED_FROM_READING {
            let absolute = desk.path(path);
            let spellings = [
                path.to_owned(),
                format!("./{path}"),
                format!("src/../{path}"),
                format!("../agent/{path}"),
                absolute.to_str().unwrap().to_owned(),
                format!("/proc/../{}", absolute.display()),
            ];
            for spelling in spellings {
                let message = tools.denial("read", [s(&spelling)]).await;
                assert!(message.contains("of the agent folder is out of reach"), "{message}");
                assert_unwritable(&tools, &spelling).await;
            }
        }
        for path in ["src/../src/innocent.txt", "src/innocent.log", "src/data-link/sessions/s.jsonl"] {
            tools.denial("read", [s(path)]).await;
            assert_unwritable(&tools, path).await;
        }
        tools.denial("read", [s("src/../src/env-link/../../.env")]).await;
        tools.denial("list", [s("data")]).await;
        tools.denial("list", [s("src/data-link/sessions")]).await;
    }
    assert_eq!(desk.text(".env"), ".env");
}

#[tokio::test]
async fn a_link_to_a_protected_file_shows_nothing() {
    let desk = Desk::furnished();
    desk.link("../.env", "src/env-link");
    let tools = desk.tools(&["."], &["."]);
    tools.denial("read", [s("src/env-link")]).await;
    tools.denial("stat", [s("src/env-link")]).await;
    tools.denial("copy", [s("src/env-link"), s("work/copy")]).await;
    tools.denial("write", [s("src/env-link"), s("x")]).await;
    assert_eq!(desk.text(".env"), ".env");
}

#[tokio::test]
async fn what_decides_over_the_agent_can_be_read_but_not_written() {
    let desk = Desk::furnished();
    let above = desk.outside("");
    for root in [".", above.to_str().unwrap()] {
        let tools = desk.tools(&[root], &[root]);
        for path in PROTECTED_FROM_WRITING {
            let absolute = desk.path(path);
            assert_eq!(tools.text("read", [s(path)]).await, path);
            for spelling in [path.to_owned(), format!("work/../{path}"), absolute.to_str().unwrap().to_owned()] {
                let message = assert_unwritable(&tools, &spelling).await;
                assert!(message.contains("cannot be written"), "{message}");
            }
            assert_eq!(desk.text(path), path);
        }
        for path in ["cognets", "tools", "data", ".axon"] {
            tools.denial("move", [s(path), s("work/gone")]).await;
            tools.denial("remove", [s(path), o(json!({ "recursive": true }))]).await;
        }
        tools.denial("move", [p(desk.agent()), p(desk.outside("elsewhere"))]).await;
        tools.denial("remove", [p(desk.agent()), o(json!({ "recursive": true }))]).await;
    }
}

#[tokio::test]
async fn protected_names_cannot_be_made_where_they_do_not_exist() {
    let desk = Desk::new();
    let tools = desk.tools(&["."], &["."]);
    for path in [".env", ".envrc", "data/x", ".axon/x", "axon.toml", "boot.md", "cognets/x.lua", "tools/x.ts"] {
        tools.denial("write", [s(path), s("x")]).await;
        tools.denial("mkdir", [s(path)]).await;
    }
    for path in ["Cognets/x.lua", "AXON.TOML", "cog\u{200b}nets/x.lua", "boot.md", ".ENV", "TOOL\u{17f}/x.ts"] {
        tools.denial("write", [s(path), s("x")]).await;
    }
    assert_eq!(fs::read_dir(desk.agent()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_rule_that_names_a_protected_path_allows_that_path_alone() {
    let desk = Desk::furnished();
    desk.put("data/exports/a.csv", "a");
    let tools = desk.tools(&[".", "data/exports", ".env.local"], &["work", "boot.md", "cognets"]);
    assert_eq!(tools.text("read", [s("data/exports/a.csv")]).await, "a");
    assert_eq!(tools.text("read", [s(".env.local")]).await, ".env.local");
    tools.denial("read", [s(".env")]).await;
    tools.denial("read", [s("data/sessions/s.jsonl")]).await;
    tools.denial("write", [s("data/exports/a.csv"), s("x")]).await;
    tools.call("write", [s("boot.md"), s("new")]).await.unwrap();
    tools.call("write", [s("cognets/new.lua"), s("new")]).await.unwrap();
    tools.denial("write", [s("tools/t.ts"), s("x")]).await;
    tools.denial("write", [s("axon.toml"), s("x")]).await;
    assert_eq!(desk.text("boot.md"), "new");
}

#[tokio::test]
async fn a_rule_may_name_what_does_not_exist_yet_in_a_protected_folder() {
    let desk = Desk::new();
    let tools = desk.tools(&["."], &["data/exports"]);
    tools.call("write", [s("data/exports/a.csv"), s("a")]).await.unwrap();
    tools.denial("write", [s("data/other.csv"), s("a")]).await;
    assert_eq!(desk.text("data/exports/a.csv"), "a");
}

#[tokio::test]
async fn a_protected_folder_that_is_itself_a_link_stays_protected_where_it_leads() {
    let desk = Desk::new();
    fs::create_dir_all(desk.outside("shared/tools")).unwrap();
    fs::write(desk.outside("shared/tools/t.ts"), "t").unwrap();
    desk.link("../shared/tools", "tools");
    let shared = desk.outside("shared");
    let tools = desk.tools(&[shared.to_str().unwrap()], &[shared.to_str().unwrap()]);
    let target = desk.outside("shared/tools/t.ts");
    assert_eq!(tools.text("read", [p(&target)]).await, "t");
    tools.denial("write", [p(&target), s("x")]).await;
    tools.denial("write", [p(desk.outside("shared/tools/new.ts")), s("x")]).await;
    tools.denial("remove", [p(desk.outside("shared/tools")), o(json!({ "recursive": true }))]).await;
    let inner = desk.outside("shared");
    fs::create_dir(inner.join("holder")).unwrap();
    fs::rename(inner.join("tools"), inner.join("holder/tools")).unwrap();
    fs::remove_file(desk.path("tools")).unwrap();
    desk.link("../shared/holder/tools", "tools");
    tools.denial("move", [p(inner.join("holder")), p(inner.join("gone"))]).await;
    fs::remove_dir_all(inner.join("holder")).unwrap();
    tools.denial("write", [p(inner.join("holder/tools/new.ts")), s("x")]).await;
}

#[tokio::test]
async fn lists_globs_and_searches_leave_protected_files_out_without_a_word() {
    let desk = Desk::furnished();
    fs::hard_link(desk.path(".env"), desk.path("src/innocent.txt")).unwrap();
    let tools = desk.tools(&["."], &[]);
    let every = json!({ "hidden": true, "ignored": true });
    let listed = tools.json("list", [s("."), o(json!({ "depth": 5 }))]).await;
    let globbed = tools.json("glob", [s("**"), o(every.clone())]).await;
    let found = tools.json("search", [s("env|jsonl|cache"), o(every)]).await;
    for answer in [listed, globbed, found] {
        let answer = answer.to_string();
        for part in [".env", "data", ".axon", "innocent"] {
            assert!(!answer.contains(part), "{part} in {answer}");
        }
    }
}

#[tokio::test]
async fn the_files_of_processes_are_out_of_reach_of_a_root_above() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let desk = Desk::furnished();
    let tools = desk.tools(&["/"], &["/"]);
    for path in ["/proc/self/environ", "/proc/self/root/etc/passwd", "/proc/self/fd/0", "/proc/self/cwd/Cargo.toml"] {
        let message = tools.denial("read", [s(path)]).await;
        assert!(message.contains("/proc"), "{message}");
    }
    tools.denial("write", [s("/proc/self/mem"), s("x")]).await;
    let tools = desk.tools(&["."], &["."]);
    tools.denial("read", [s("/proc/self/cwd/notes.md")]).await;
}

#[tokio::test]
async fn fifos_devices_and_folders_are_told_and_never_waited_for() {
    let desk = Desk::furnished();
    assert!(Command::new("mkfifo").arg(desk.path("work/fifo")).status().unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(desk.path("work/socket")).unwrap();
    let tools = desk.tools(&[".", "/dev"], &["work", "/dev"]);
    for (path, what) in [("work/fifo", "FIFO"), ("work/socket", "socket"), ("/dev/zero", "device")] {
        for function in ["read", "readBytes", "readLines"] {
            let error = tools.refusal(function, [s(path)]).await;
            assert!(error.message.contains(what) && error.code.as_deref() == Some("NOT_A_FILE"), "{error}");
        }
        for mode in ["replace", "append"] {
            let error = tools.refusal("write", [s(path), s("x"), o(json!({ "mode": mode }))]).await;
            assert!(error.message.contains(what), "{error}");
        }
        tools.refusal("copy", [s(path), s("work/copy")]).await;
    }
    assert_eq!(tools.json("search", [s("absent"), o(json!({ "path": "work" }))]).await, json!([]));
    let error = tools.refusal("read", [s("src")]).await;
    assert!(error.message.contains("is a folder: fs.list"), "{error}");
    let error = tools.refusal("write", [s("work"), s("x")]).await;
    assert!(error.message.contains("is a folder"), "{error}");
    let error = tools.refusal("read", [s("notes.md/x")]).await;
    assert!(error.message.contains("notes.md is not a folder"), "{error}");
    let error = tools.refusal("write", [s("work/draft.txt/x"), s("x")]).await;
    assert!(error.message.contains("is not a folder"), "{error}");
}

#[tokio::test]
async fn malformed_paths_are_told_in_words() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["."]);
    for (path, word) in [
        (String::new(), "empty"),
        ("a\0b".into(), "NUL"),
        ("notes.md\0.txt".into(), "NUL"),
        ("a/".repeat(4_000), "4096"),
        ("a".repeat(300), "255"),
    ] {
        for (function, args) in [("read", vec![s(&path)]), ("write", vec![s(&path), s("x")]), ("list", vec![s(&path)])]
        {
            let error = tools.refusal(function, args).await;
            assert!(error.message.contains(word) && error.code.as_deref() == Some("INVALID_PATH"), "{error}");
        }
    }
    let error = tools.refusal("write", [s("work/new/"), s("x")]).await;
    assert!(error.message.contains("fs.mkdir"), "{error}");
}

#[tokio::test]
async fn unicode_forms_of_a_name_are_different_names_and_none_leads_out() {
    let desk = Desk::furnished();
    desk.put("src/\u{e4}.txt", "composed");
    let tools = desk.tools(&["."], &[]);
    assert_eq!(tools.text("read", [s("src/\u{e4}.txt")]).await, "composed");
    for dots in
        ["\u{2024}\u{2024}/secret.txt", "\u{ff0e}\u{ff0e}/secret.txt", "%2e%2e/secret.txt", "..\u{2215}secret.txt"]
    {
        let error = tools.refusal("read", [s(dots)]).await;
        assert_eq!(error.code.as_deref(), Some("NOT_FOUND"), "{error}");
    }
}

#[tokio::test]
async fn names_that_are_no_unicode_can_be_listed_and_hurt_nothing() {
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::furnished();
    let name = std::ffi::OsStr::from_bytes(b"work/\xff\xfe.txt");
    fs::write(desk.agent().join(name), "x").unwrap();
    let tools = desk.tools(&["."], &[]);
    let listed = tools.json("list", [s("work")]).await.to_string();
    assert!(listed.contains("\u{fffd}\u{fffd}.txt"), "{listed}");
    tools.json("search", [s("x")]).await;
}

#[tokio::test]
async fn a_root_that_is_a_file_opens_that_file_alone() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["notes.md"], &["work/draft.txt"]);
    assert_eq!(tools.text("read", [s("notes.md")]).await, "notes.md");
    tools.denial("read", [s("src/main.rs")]).await;
    tools.denial("list", [s(".")]).await;
    tools.call("write", [s("work/draft.txt"), s("new")]).await.unwrap();
    tools.denial("write", [s("work/other.txt"), s("x")]).await;
    assert_eq!(tools.json("glob", [s("**")]).await, json!(["notes.md"]));
}

#[tokio::test]
async fn an_agent_folder_that_is_reached_through_a_link_is_protected_all_the_same() {
    let desk = Desk::furnished();
    let alias = desk.outside("alias");
    std::os::unix::fs::symlink(desk.agent(), &alias).unwrap();
    let policy = Policy::new(&alias, desk.rules(&["."], &["."])).unwrap();
    let tools = Tools { toolbox: Toolbox::new(policy, Arc::new(Unattended)), journal: Journal::default() };
    for folder in [alias, desk.agent()] {
        assert_eq!(tools.text("read", [p(folder.join("notes.md"))]).await, "notes.md");
        tools.denial("read", [p(folder.join(".env"))]).await;
        tools.denial("write", [p(folder.join("axon.toml")), s("x")]).await;
        tools.denial("write", [p(folder.join("tools/new.ts")), s("x")]).await;
    }
}

#[tokio::test]
async fn a_root_that_is_a_link_is_used_by_its_own_name_and_by_where_it_leads() {
    let desk = Desk::furnished();
    fs::create_dir(desk.outside("library")).unwrap();
    fs::write(desk.outside("library/book.txt"), "book").unwrap();
    desk.link("../library", "docs");
    let tools = desk.tools(&["docs"], &[]);
    assert_eq!(tools.text("read", [s("docs/book.txt")]).await, "book");
    assert_eq!(tools.text("read", [p(desk.outside("library/book.txt"))]).await, "book");
    assert_eq!(tools.json("list", [s("docs")]).await[0]["path"], "docs/book.txt");
    tools.denial("read", [s("docs/../notes.md")]).await;
}

#[tokio::test]
async fn of_two_paths_the_refused_one_is_named() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    let message = tools.denial("copy", [s("notes.md"), s("src/x")]).await;
    assert_eq!(
        message,
        r#"fs.copy("notes.md", "src/x"): "src/x" is not inside the writable roots work/ (policy.fs.write in axon.toml)"#
    );
}

#[tokio::test]
async fn a_root_that_is_swapped_for_a_link_leads_nowhere() {
    let desk = Desk::furnished();
    fs::create_dir(desk.outside("elsewhere")).unwrap();
    fs::write(desk.outside("elsewhere/a.txt"), "outside").unwrap();
    desk.put("area/a.txt", "inside");
    let tools = desk.tools(&["area"], &["area", "later"]);
    fs::rename(desk.path("area"), desk.path("area-old")).unwrap();
    desk.link(desk.outside("elsewhere"), "area");
    desk.link(desk.outside("elsewhere"), "later");
    assert_eq!(tools.text("read", [s("area/a.txt")]).await, "inside");
    tools.denial("write", [s("later/new.txt"), s("x")]).await;
    assert!(!desk.outside("elsewhere/new.txt").exists());
}

#[tokio::test]
async fn a_root_that_is_removed_and_made_again_serves_again() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["work"], &["work"]);
    fs::remove_dir_all(desk.path("work")).unwrap();
    tools.refusal("read", [s("work/draft.txt")]).await;
    desk.put("work/draft.txt", "again");
    assert_eq!(tools.text("read", [s("work/draft.txt")]).await, "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_swapped_in_while_calls_run_never_leads_out() {
    const ROUNDS: usize = 400;
    let desk = Desk::furnished();
    fs::create_dir(desk.outside("target")).unwrap();
    fs::write(desk.outside("target/a.txt"), "outside").unwrap();
    desk.put("work/swap/a.txt", "inside");
    let tools = Arc::new(desk.tools(&["work"], &["work"]));
    let (folder, aside, target) = (desk.path("work/swap"), desk.path("work/aside"), desk.outside("target"));
    let swapper = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            fs::rename(&folder, &aside).unwrap();
            // A write makes the folder that it misses, so any step here can find it in its way.
            if std::os::unix::fs::symlink(&target, &folder).is_ok() {
                fs::remove_file(&folder).unwrap();
            }
            while fs::rename(&aside, &folder).is_err() {
                let _ = fs::remove_dir_all(&folder);
            }
        }
    });
    while !swapper.is_finished() {
        if let Ok(Datum::String(text)) = tools.call("read", [s("work/swap/a.txt")]).await {
            assert_eq!(text, "inside");
        }
        let _ = tools.call("write", [s("work/swap/b.txt"), s("x")]).await;
        let found = tools.call("search", [s("outside"), o(json!({ "path": "work" }))]).await;
        assert!(found.is_err() || found == Ok(Datum::Array(vec![])), "{found:?}");
    }
    swapper.join().unwrap();
    assert!(!desk.outside("target/b.txt").exists());
}

#[tokio::test]
async fn without_roots_everything_is_denied_and_the_key_is_named() {
    let desk = Desk::furnished();
    let tools = desk.tools(&[], &[]);
    let message = tools.denial("read", [s("notes.md")]).await;
    assert!(message.contains("policy.fs.read in axon.toml lists no roots"), "{message}");
    tools.denial("glob", [s("**")]).await;
    tools.denial("write", [s("work/a"), s("x")]).await;
}

#[tokio::test]
async fn a_read_only_file_is_not_replaced() {
    let desk = Desk::furnished();
    fs::set_permissions(desk.path("work/draft.txt"), fs::Permissions::from_mode(0o444)).unwrap();
    let tools = desk.tools(&["."], &["work"]);
    let error = tools.refusal("write", [s("work/draft.txt"), s("x")]).await;
    assert!(error.message.contains("read-only"), "{error}");
    assert_eq!(desk.text("work/draft.txt"), "work/draft.txt");
}
