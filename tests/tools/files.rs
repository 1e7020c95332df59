//! Reading, listing, writing and managing files.

use std::{fs, os::unix::fs::PermissionsExt};

use axon_capsule::Datum;
use serde_json::json;

use crate::support::{Desk, o, p, s};

#[tokio::test]
async fn a_file_is_read_by_relative_and_absolute_path() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    assert_eq!(tools.text("read", [s("notes.md")]).await, "notes.md");
    assert_eq!(tools.text("read", [s("./src//main.rs")]).await, "src/main.rs");
    assert_eq!(tools.text("read", [p(desk.path("notes.md"))]).await, "notes.md");
}

#[tokio::test]
async fn ranges_of_text_never_split_a_character_and_bytes_are_exact() {
    let desk = Desk::new();
    desk.put("a.txt", "aäb");
    let tools = desk.tools(&["."], &[]);
    let read =
        async |start: u64, end: u64| tools.text("read", [s("a.txt"), o(json!({ "start": start, "end": end }))]).await;
    assert_eq!(read(0, 2).await, "aä");
    assert_eq!(read(2, 4).await, "b");
    assert_eq!(read(0, 100).await, "aäb");
    assert_eq!(read(50, 100).await, "");
    let bytes = tools.call("readBytes", [s("a.txt"), o(json!({ "start": 1, "end": 3 }))]).await;
    assert_eq!(bytes, Ok(Datum::Bytes("ä".into())));
}

#[tokio::test]
async fn binary_is_told_with_the_way_to_read_it() {
    let desk = Desk::new();
    desk.put("a.bin", [1, 2, 0xff]);
    let tools = desk.tools(&["."], &[]);
    let error = tools.refusal("read", [s("a.bin")]).await;
    assert!(error.message.contains("byte 2") && error.message.contains("fs.readBytes"), "{error}");
    assert_eq!(tools.call("readBytes", [s("a.bin")]).await, Ok(Datum::Bytes(vec![1, 2, 0xff])));
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused_whole_and_read_in_parts() {
    let desk = Desk::new();
    let large = fs::File::create(desk.path("large")).unwrap();
    large.set_len((16 << 20) + 1).unwrap();
    let tools = desk.tools(&["."], &[]);
    for function in ["read", "readBytes", "readLines"] {
        let error = tools.refusal(function, [s("large")]).await;
        assert!(error.code.as_deref() == Some("TOO_LARGE") && error.message.contains("{ start, end }"), "{error}");
    }
    let part = tools.call("readBytes", [s("large"), o(json!({ "start": 16 << 20 }))]).await;
    assert_eq!(part, Ok(Datum::Bytes(vec![0])));
}

#[tokio::test]
async fn lines_are_counted_from_one_and_lose_their_ends() {
    let desk = Desk::new();
    desk.put("a.txt", "one\r\ntwo\n\nfour");
    let tools = desk.tools(&["."], &[]);
    assert_eq!(tools.json("readLines", [s("a.txt")]).await, json!(["one", "two", "", "four"]));
    assert_eq!(tools.json("readLines", [s("a.txt"), o(json!({ "start": 2, "end": 3 }))]).await, json!(["two", ""]));
    assert_eq!(tools.json("readLines", [s("a.txt"), o(json!({ "start": 9 }))]).await, json!([]));
}

#[tokio::test]
async fn what_is_not_there_is_told_with_the_nearest_name() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    let error = tools.refusal("read", [s("src/mian.rs")]).await;
    assert_eq!(error.name, "NotFound");
    assert_eq!(error.message, r#"fs.read("src/mian.rs"): src/mian.rs does not exist; did you mean src/main.rs?"#);
    let error = tools.refusal("read", [s(".envy")]).await;
    assert!(!error.message.contains("did you mean"), "{error}");
}

#[tokio::test]
async fn arguments_of_the_wrong_kind_say_what_was_expected() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    for (function, args, wanted) in [
        ("read", vec![Datum::Number(3.0)], "path must be a string, got the number 3"),
        ("read", vec![], "path must be a string, got undefined"),
        ("read", vec![s("a"), s("utf8")], "options must be an object, got the string \"utf8\""),
        (
            "read",
            vec![s("a"), o(json!({ "strat": 1 }))],
            "no field \"strat\"; did you mean start? (accepted: start, end)",
        ),
        ("read", vec![s("a"), o(json!({ "start": 1.5 }))], "start must be a whole number"),
        ("read", vec![s("a"), o(json!({ "start": 5, "end": 2 }))], "end (2) lies before start (5)"),
        ("read", vec![s("a"), o(json!({})), s("x")], "takes at most 2 arguments, got 3"),
        (
            "write",
            vec![s("work/a"), o(json!({ "a": 1 }))],
            "content must be a string or a Uint8Array, got an object (JSON.stringify",
        ),
        (
            "write",
            vec![s("work/a"), s("x"), o(json!({ "mode": "w" }))],
            "mode must be \"replace\" or \"create\" or \"append\"",
        ),
        ("search", vec![o(json!({}))], "(of a RegExp, pass its source)"),
        ("list", vec![s("."), o(json!({ "limit": 0 }))], "limit must be a whole number from 1"),
        ("edit", vec![s("work/draft.txt"), s("x")], "edits must be"),
    ] {
        let error = tools.refusal(function, args).await;
        assert_eq!(error.name, "TypeError");
        assert!(error.message.contains(wanted), "{error}");
    }
}

#[tokio::test]
async fn a_folder_is_listed_by_name_with_kinds_sizes_and_paths_that_can_be_passed_on() {
    let desk = Desk::new();
    desk.put("b/inner.txt", "12345");
    desk.put("a.txt", "123");
    desk.put(".hidden", "");
    desk.link("a.txt", "link");
    let tools = desk.tools(&["."], &[]);
    let expected = json!([
        { "name": ".hidden", "path": ".hidden", "kind": "file", "size": 0 },
        { "name": "a.txt", "path": "a.txt", "kind": "file", "size": 3 },
        { "name": "b", "path": "b", "kind": "directory", "size": 0 },
        { "name": "link", "path": "link", "kind": "symlink", "size": 0 },
    ]);
    assert_eq!(tools.json("list", []).await, expected);
    assert_eq!(tools.json("list", [s(".")]).await, expected);
    let inner = json!([{ "name": "inner.txt", "path": "b/inner.txt", "kind": "file", "size": 5 }]);
    assert_eq!(tools.json("list", [s("b/")]).await, inner);
    let deep = tools.json("list", [s("."), o(json!({ "depth": 2 }))]).await;
    assert_eq!(deep.as_array().unwrap().len(), 5);
    let cut = tools.json("list", [s("."), o(json!({ "limit": 2 }))]).await;
    assert_eq!(cut.as_array().unwrap().len(), 2);
    let error = tools.refusal("list", [s("a.txt")]).await;
    assert!(error.message.contains("is not a folder: fs.read"), "{error}");
}

#[tokio::test]
async fn a_write_makes_the_folders_on_the_way_and_replaces_as_a_whole() {
    let desk = Desk::new();
    let tools = desk.tools(&[], &["work"]);
    assert!(!desk.path("work").exists());
    tools.call("write", [s("work/a/b.txt"), s("one")]).await.unwrap();
    assert_eq!(desk.text("work/a/b.txt"), "one");
    fs::set_permissions(desk.path("work/a/b.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    tools.call("write", [s("work/a/b.txt"), Datum::Bytes(vec![0, 255])]).await.unwrap();
    assert_eq!(fs::read(desk.path("work/a/b.txt")).unwrap(), [0, 255]);
    assert_eq!(fs::metadata(desk.path("work/a/b.txt")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(fs::read_dir(desk.path("work/a")).unwrap().count(), 1, "a temporary file was left");
}

#[tokio::test]
async fn new_content_does_not_inherit_the_right_to_run_as_somebody_else() {
    let desk = Desk::furnished();
    fs::set_permissions(desk.path("work/draft.txt"), fs::Permissions::from_mode(0o6755)).unwrap();
    let tools = desk.tools(&["."], &["work"]);
    tools.call("write", [s("work/draft.txt"), s("new")]).await.unwrap();
    assert_eq!(fs::metadata(desk.path("work/draft.txt")).unwrap().permissions().mode() & 0o7777, 0o755);
}

#[tokio::test]
async fn a_root_for_both_reading_and_writing_may_be_missing_until_the_first_write() {
    let desk = Desk::new();
    let tools = desk.tools(&["work"], &["work"]);
    let error = tools.refusal("read", [s("work/a.txt")]).await;
    assert_eq!(error.code.as_deref(), Some("NOT_FOUND"));
    assert_eq!(tools.json("glob", [s("**")]).await, json!([]));
    tools.call("write", [s("work/a.txt"), s("one")]).await.unwrap();
    assert_eq!(tools.text("read", [s("work/a.txt")]).await, "one");
    assert_eq!(tools.json("glob", [s("**")]).await, json!(["work/a.txt"]));
}

#[tokio::test]
async fn modes_of_write_create_and_append() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    let write = async |path: &str, mode: &str| tools.call("write", [s(path), s("+"), o(json!({ "mode": mode }))]).await;
    write("work/log", "append").await.unwrap();
    write("work/log", "append").await.unwrap();
    assert_eq!(desk.text("work/log"), "++");
    let error = write("work/log", "create").await.unwrap_err();
    assert_eq!(error.code.as_deref(), Some("ALREADY_EXISTS"));
    write("work/new", "create").await.unwrap();
    assert_eq!(desk.text("work/new"), "+");
}

#[tokio::test]
async fn a_write_through_a_link_changes_what_it_leads_to() {
    let desk = Desk::furnished();
    desk.link("draft.txt", "work/link");
    let tools = desk.tools(&["."], &["work"]);
    tools.call("write", [s("work/link"), s("new")]).await.unwrap();
    assert_eq!(desk.text("work/draft.txt"), "new");
    assert!(fs::symlink_metadata(desk.path("work/link")).unwrap().is_symlink());
}

#[tokio::test]
async fn edits_are_all_made_or_none() {
    let desk = Desk::new();
    desk.put("work/a.txt", "one two two");
    let tools = desk.tools(&["."], &["work"]);
    let edits = json!([{ "find": "one", "replace": "1" }, { "find": "three", "replace": "3" }]);
    let error = tools.refusal("edit", [s("work/a.txt"), o(edits)]).await;
    assert!(error.message.contains("edit 2 of 2") && error.message.contains("nothing was changed"), "{error}");
    assert_eq!(desk.text("work/a.txt"), "one two two");
    let edits = json!([{ "find": "one", "replace": "1" }, { "find": "two", "replace": "2", "all": true }]);
    assert_eq!(tools.json("edit", [s("work/a.txt"), o(edits)]).await, json!({ "replacements": 3 }));
    assert_eq!(desk.text("work/a.txt"), "1 2 2");
}

#[tokio::test]
async fn files_and_folders_are_made_moved_copied_and_removed() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &["work"]);
    tools.call("mkdir", [s("work/x/y")]).await.unwrap();
    tools.call("mkdir", [s("work/x/y")]).await.unwrap();
    tools.call("copy", [s("notes.md"), s("work/x/y/notes.md")]).await.unwrap();
    let error = tools.refusal("copy", [s("src/main.rs"), s("work/x/y/notes.md")]).await;
    assert!(error.message.contains("overwrite: true"), "{error}");
    tools.call("move", [s("work/x/y"), s("work/z")]).await.unwrap();
    assert_eq!(desk.text("work/z/notes.md"), "notes.md");
    let error = tools.refusal("move", [s("work/z"), s("work/z/inner")]).await;
    assert!(error.message.contains("into itself"), "{error}");
    let error = tools.refusal("remove", [s("work/z")]).await;
    assert!(error.message.contains("recursive: true"), "{error}");
    tools.call("remove", [s("work/z"), o(json!({ "recursive": true }))]).await.unwrap();
    assert!(!desk.path("work/z").exists());
    tools.denial("move", [s("notes.md"), s("work/notes.md")]).await;
    let error = tools.refusal("remove", [s("work"), o(json!({ "recursive": true }))]).await;
    assert!(error.message.contains("a root cannot be"), "{error}");
}

#[tokio::test]
async fn removing_a_link_leaves_what_it_leads_to() {
    let desk = Desk::furnished();
    desk.link("../src", "work/link");
    let tools = desk.tools(&["."], &["work"]);
    tools.call("remove", [s("work/link"), o(json!({ "recursive": true }))]).await.unwrap();
    assert!(desk.path("src/main.rs").exists() && !desk.path("work/link").exists());
}

#[tokio::test]
async fn stat_tells_kind_size_and_time() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    let Ok(Datum::Object(fields)) = tools.call("stat", [s("notes.md")]).await else { panic!("no object") };
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).unwrap().1.clone();
    assert_eq!(field("kind"), s("file"));
    assert_eq!(field("size"), Datum::Number(8.0));
    assert!(matches!(field("modified"), Datum::Date(ms) if ms > 1e12));
    assert_eq!(tools.json("stat", [s("src")]).await["kind"], "directory");
}

#[tokio::test]
async fn edits_at_the_same_time_lose_nothing() {
    let desk = Desk::new();
    let words: Vec<String> = (0..20).map(|n| format!("word{n:02}")).collect();
    desk.put("work/a.txt", words.join(" "));
    let tools = desk.tools(&["."], &["work"]);
    let edits = words.iter().map(|word| {
        let edit = json!({ "find": word, "replace": word.to_uppercase() });
        tools.call("edit", [s("work/a.txt"), o(edit)])
    });
    for answer in futures_util::future::join_all(edits).await {
        answer.unwrap();
    }
    assert_eq!(desk.text("work/a.txt"), words.join(" ").to_uppercase());
}
