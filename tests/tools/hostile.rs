//! Random calls with random paths: whatever they do, nothing protected is read or changed.

use std::{collections::BTreeMap, fs, path::Path};

use axon_capsule::Datum;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Desk, Tools, o, s};

const NAMES: [&str; 18] = [
    "..",
    ".",
    "agent",
    "work",
    "src",
    "data",
    ".env",
    ".axon",
    "axon.toml",
    "cognets",
    "tools",
    "up",
    "root",
    "swap",
    "draft.txt",
    "secret.txt",
    "sessions",
    "s.jsonl",
];

fn path() -> impl Strategy<Value = String> {
    let names = prop::collection::vec(prop::sample::select(&NAMES[..]), 1..6);
    (names, any::<bool>()).prop_map(|(names, slash)| names.join("/") + if slash { "/" } else { "" })
}

#[derive(Clone, Debug)]
enum Call {
    Read(String),
    Search(String),
    List(String),
    Write(String),
    Append(String),
    Copy(String, String),
    Move(String, String),
    Remove(String),
    Mkdir(String),
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        path().prop_map(Call::Read),
        path().prop_map(Call::Search),
        path().prop_map(Call::List),
        path().prop_map(Call::Write),
        path().prop_map(Call::Append),
        (path(), path()).prop_map(|(from, to)| Call::Copy(from, to)),
        (path(), path()).prop_map(|(from, to)| Call::Move(from, to)),
        path().prop_map(Call::Remove),
        path().prop_map(Call::Mkdir),
    ]
}

async fn perform(tools: &Tools, call: &Call) -> Option<Datum> {
    let answer = match call.clone() {
        Call::Read(path) => tools.call("read", [s(path)]).await,
        Call::Search(path) => {
            let options = json!({ "path": path, "hidden": true, "ignored": true });
            tools.call("search", [s("."), o(options)]).await
        }
        Call::List(path) => tools.call("list", [s(path), o(json!({ "depth": 9 }))]).await,
        Call::Write(path) => tools.call("write", [s(path), s("changed")]).await,
        Call::Append(path) => tools.call("write", [s(path), s("changed"), o(json!({ "mode": "append" }))]).await,
        Call::Copy(from, to) => tools.call("copy", [s(from), s(to), o(json!({ "overwrite": true }))]).await,
        Call::Move(from, to) => tools.call("move", [s(from), s(to), o(json!({ "overwrite": true }))]).await,
        Call::Remove(path) => tools.call("remove", [s(path), o(json!({ "recursive": true }))]).await,
        Call::Mkdir(path) => tools.call("mkdir", [s(path)]).await,
    };
    answer.ok()
}

/// Every file outside what may be written, with its content.
fn untouchable(folder: &Path, writable: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if path == writable {
            continue;
        }
        let content = match () {
            () if kind.is_dir() => {
                untouchable(&path, writable, files);
                b"<folder>".to_vec()
            }
            () if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
            () => fs::read(&path).unwrap(),
        };
        files.insert(path.to_string_lossy().into_owned(), content);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_series_of_calls_reads_or_changes_what_is_out_of_reach(calls in prop::collection::vec(call(), 1..12)) {
        let desk = Desk::furnished();
        // What the protected files hold can be told from everything else.
        for file in [".env", ".env.local", "data/sessions/s.jsonl", ".axon/cache"] {
            desk.put(file, "KEEP-OUT");
        }
        fs::write(desk.outside("secret.txt"), "KEEP-OUT").unwrap();
        desk.link("../..", "work/up");
        desk.link("/", "work/root");
        desk.link(desk.agent(), "work/swap");
        fs::hard_link(desk.path(".env"), desk.path("work/secret.txt")).unwrap();
        let state = || {
            let mut files = BTreeMap::new();
            untouchable(&desk.outside(""), &desk.path("work"), &mut files);
            files
        };
        let before = state();
        let tools = desk.tools(&["."], &["work"]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for call in &calls {
            if let Some(answer) = runtime.block_on(perform(&tools, call)) {
                let answer = answer.to_json().to_string();
                prop_assert!(!answer.contains("KEEP-OUT"), "{call:?} answered {answer}");
                prop_assert!(!answer.contains("s.jsonl"), "{call:?} answered {answer}");
            }
        }
        prop_assert_eq!(before, state());
    }
}
