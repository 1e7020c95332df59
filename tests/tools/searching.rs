//! `fs.glob` and `fs.search`.

use serde_json::{Value, json};

use crate::support::{Desk, o, s};

fn project() -> Desk {
    let desk = Desk::new();
    desk.put(".gitignore", "target/\n*.log\n!keep.log\n");
    desk.put("src/main.rs", "fn main() {\n    // TODO: one\n}\n");
    desk.put("src/deep/util.rs", "// todo: two\nlet ä = \"TODO\";\n");
    desk.put("src/deep/.gitignore", "generated.rs\n");
    desk.put("src/deep/generated.rs", "// TODO: generated");
    desk.put("target/out.rs", "// TODO: built");
    desk.put("run.log", "TODO");
    desk.put("keep.log", "TODO");
    desk.put(".git/config", "TODO");
    desk.put(".hidden/x.rs", "TODO");
    desk.put("image.rs", b"TODO\0TODO");
    desk
}

async fn glob(desk: &Desk, pattern: Value, options: Value) -> Value {
    desk.tools(&["."], &[]).json("glob", [o(pattern), o(options)]).await
}

#[tokio::test]
async fn a_glob_leaves_out_hidden_and_ignored_files_unless_asked() {
    let desk = project();
    assert_eq!(glob(&desk, json!("**/*.rs"), json!({})).await, json!(["image.rs", "src/deep/util.rs", "src/main.rs"]));
    assert_eq!(glob(&desk, json!("*.log"), json!({})).await, json!(["keep.log"]));
    let all = glob(&desk, json!("**/*.rs"), json!({ "hidden": true, "ignored": true })).await;
    assert_eq!(all.as_array().unwrap().len(), 6);
    assert_eq!(glob(&desk, json!(".hidden/*"), json!({})).await, json!([".hidden/x.rs"]));
    assert_eq!(glob(&desk, json!("target/*.rs"), json!({})).await, json!(["target/out.rs"]));
}

#[tokio::test]
async fn globs_take_lists_kinds_paths_and_limits() {
    let desk = project();
    assert_eq!(glob(&desk, json!(["*.log", "src/*.rs"]), json!({})).await, json!(["keep.log", "src/main.rs"]));
    assert_eq!(glob(&desk, json!("**"), json!({ "kind": "directory" })).await, json!(["src", "src/deep"]));
    assert_eq!(glob(&desk, json!("*.rs"), json!({ "path": "src" })).await, json!(["src/main.rs"]));
    assert_eq!(glob(&desk, json!("nowhere/*.rs"), json!({})).await, json!([]));
    let cut = glob(&desk, json!(["**", "src/*", "*.log"]), json!({ "limit": 1 })).await;
    assert_eq!(cut.as_array().unwrap().len(), 1);
    let tools = desk.tools(&["."], &[]);
    let error = tools.refusal("glob", [s("*"), o(json!({ "path": "scr" }))]).await;
    assert!(error.message.contains("did you mean src?"), "{error}");
    let error = tools.refusal("glob", [s("[")]).await;
    assert_eq!(error.code.as_deref(), Some("INVALID_PATTERN"));
    tools.denial("glob", [s("/etc/*")]).await;
    assert_eq!(tools.json("glob", [s("../*")]).await, json!([]));
    assert_eq!(tools.json("glob", [s("../agent/*.log")]).await, json!(["keep.log"]));
    tools.refusal("glob", [s("*/../../*")]).await;
}

#[tokio::test]
async fn where_the_folder_is_no_root_its_roots_are_searched() {
    let desk = project();
    desk.put("docs/a.md", "TODO");
    let tools = desk.tools(&["src", "docs"], &[]);
    assert_eq!(tools.json("glob", [s("**/*.md")]).await, json!(["docs/a.md"]));
    assert_eq!(tools.json("glob", [s("src/*.rs")]).await, json!(["src/main.rs"]));
    assert_eq!(tools.json("search", [s("TODO")]).await.as_array().unwrap().len(), 3);
    tools.denial("search", [s("TODO"), o(json!({ "path": ".git" }))]).await;
}

#[tokio::test]
async fn a_search_tells_path_line_column_and_text_of_text_files() {
    let desk = project();
    let tools = desk.tools(&["."], &[]);
    let found = tools.json("search", [s("TODO"), o(json!({ "glob": "*.rs" }))]).await;
    assert_eq!(
        found,
        json!([
            { "path": "src/deep/util.rs", "line": 2, "column": 10, "text": "let ä = \"TODO\";" },
            { "path": "src/main.rs", "line": 2, "column": 8, "text": "    // TODO: one" },
        ])
    );
    let found = tools.json("search", [s("todo"), o(json!({ "ignoreCase": true, "glob": ["src/**", "!*.rs"] }))]).await;
    assert_eq!(found, json!([]));
    let found = tools.json("search", [s("TODO"), o(json!({ "path": "src/main.rs" }))]).await;
    assert_eq!(found[0]["path"], "src/main.rs");
}

#[tokio::test]
async fn a_search_gives_the_lines_around_and_stops_at_its_limit() {
    let desk = Desk::new();
    desk.put("a.txt", "1\n2 x\n3 x\n4\n5\n6 x\n");
    let tools = desk.tools(&["."], &[]);
    let found = tools.json("search", [s("x"), o(json!({ "context": 1 }))]).await;
    assert_eq!(
        found,
        json!([
            { "path": "a.txt", "line": 2, "column": 3, "text": "2 x", "before": ["1"], "after": ["3 x"] },
            { "path": "a.txt", "line": 3, "column": 3, "text": "3 x", "before": ["2 x"], "after": ["4"] },
            { "path": "a.txt", "line": 6, "column": 3, "text": "6 x", "before": ["5"], "after": [] },
        ])
    );
    let cut = tools.json("search", [s("x"), o(json!({ "limit": 2, "context": 1 }))]).await;
    assert_eq!(cut.as_array().unwrap().len(), 2);
    assert_eq!(cut[1]["after"], json!(["4"]));
}

#[tokio::test]
async fn a_pattern_that_cannot_be_used_says_why_and_what_to_do() {
    let desk = Desk::furnished();
    let tools = desk.tools(&["."], &[]);
    for (pattern, hint) in
        [("(?=a)", "look-around"), ("a(", "literal: true"), ("a\nb", "cannot span lines"), ("", "empty")]
    {
        let error = tools.refusal("search", [s(pattern)]).await;
        assert!(error.code.as_deref() == Some("INVALID_PATTERN") && error.message.contains(hint), "{error}");
    }
    assert_eq!(tools.json("search", [s("a("), o(json!({ "literal": true }))]).await, json!([]));
}

#[tokio::test]
async fn long_lines_are_cut_and_the_cut_is_marked() {
    let desk = Desk::new();
    desk.put("a.txt", format!("x{}", "y".repeat(5_000)));
    let found = desk.tools(&["."], &[]).json("search", [s("x")]).await;
    let text = found[0]["text"].as_str().unwrap();
    assert!(text.ends_with('…') && text.chars().count() == 501);
}
