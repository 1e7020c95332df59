//! What the documents show is what works.

use std::{fs, path::Path};

use crate::support::{Agent, Ran};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Markdown files of the project, and what is in each block of a language.
fn blocks(language: &str) -> Vec<(String, String)> {
    let mut files = vec![root().join("README.md")];
    files.extend(fs::read_dir(root().join("docs")).expect("docs").map(|entry| entry.expect("an entry").path()));
    let mut found = Vec::new();
    for path in files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = fs::read_to_string(&path).expect("a document");
        for (index, part) in text.split(&format!("\n```{language}\n")).enumerate().skip(1) {
            let block = part.split("\n```").next().unwrap_or_default();
            let name = path.file_name().expect("a name").to_string_lossy();
            found.push((format!("{name}, block {index}"), format!("{block}\n")));
        }
    }
    found
}

/// What Luau of the contract is, besides the documents here.
const CONTRACT: [&str; 5] = [
    "kernel.output(\"cognet:output:text\", { content = \"hi\", chunk = { of = \"c1\" } })\n\
     kernel.output(\"cognet:output:text\", { content = \"\", chunk = { of = \"c1\", final = true } })\n\
     kernel.output(\"cognet:output:field\", { reading = { value = 21.5, unit = \"C\" } })\n\
     kernel.output(\"cognet:output:audio\", { ref = \"a.wav\", transcript = \"hi\", durationMs = 10 })\n\
     kernel.output(\"cognet:output:visual\", { ref = \"a.png\", kind = \"image\", caption = \"a\" })",
    "for event in kernel.stream { messages = { { role = \"user\", content = \"x\" } }, signal = wake.signal } do assert(event.type) end",
    "local results = kernel.run({ \"1\", \"2\" }, { signal = wake.signal })\nassert(results[1].value == 1 and results[2].value == 2)\n\
     assert(#kernel.scope().dts > 0 and kernel.base() == \"\")\nkernel.emit(\"cognet:mine\", { n = 1 })\n\
     kernel.store.set(\"k\", { 1 })\nassert(kernel.store.get(\"k\")[1] == 1 and kernel.store.get(\"none\") == nil)\n\
     assert(#kernel.store.session.get { after = 0 } > 0 and #kernel.store.session.get() > 0)",
    "local e = world.spawn { a = 1, b = 2 }\nworld.set(e, \"c\", 3)\nassert(world.get(e, \"c\") == 3 and world.has(e, \"a\"))\n\
     for entity, a in world.query { with = { \"a\" }, without = { \"d\" }, where = function(_, a) return a == 1 end } do assert(entity == e and a == 1) end\n\
     world.watch(\"a\", print)\nworld.remove(e, \"a\")\nworld.despawn(e)",
    "assert(phase(\"p\", function() return system(\"s\", function() return 7 end) end) == 7)\n\
     assert(wake.signal.aborted == false and wake.signal.reason == nil and #wake.stimuli == 1)\nprint(\"said\")",
];

/// Runs a whole cognet, or what stands in a loop's body.
fn run(source: &str) -> Ran {
    let name = "defineCognet { name = \"shown\", version = \"0.1.0\", abi = \"9\" }\n";
    let source = match (source.contains("loop("), source.contains("defineCognet")) {
        (true, true) => source.to_owned(),
        (true, false) => format!("{name}{source}"),
        (false, _) => format!("{name}loop(function(wake)\nwake.stop()\n{source}\nend)\n"),
    };
    let agent = Agent::with(&[
        ("cognets/shown.lua", &source),
        ("model.json", r#"{"calls":[{"text":"<text>hi</text><done/>"}]}"#),
        ("reading.txt", "21"),
        ("axon.toml", "[policy.fs]\nread = [\".\"]\n"),
    ]);
    agent.run(&["run", "--engine", "script:model.json", "hello"])
}

#[test]
fn every_luau_example_of_the_documents_runs() {
    let shown = blocks("luau");
    assert!(shown.len() >= 8, "{}", shown.len());
    for (place, source) in shown {
        let ran = run(&source);
        assert_eq!(ran.code, Some(0), "{place}: {ran:?}");
    }
}

#[test]
fn every_part_of_the_contract_runs_as_it_is_written() {
    for source in CONTRACT {
        let ran = run(source);
        assert_eq!(ran.code, Some(0), "{source}: {ran:?}");
    }
}

#[test]
fn the_cookbook_shows_the_brains_of_the_examples_as_they_are() {
    let shown: Vec<String> = blocks("luau")
        .into_iter()
        .filter(|(place, _)| place.starts_with("cookbook.md"))
        .map(|(_, text)| text)
        .collect();
    let folder = root().join("examples/cookbook/cognets");
    let mut files = 0;
    for entry in fs::read_dir(folder).expect("the brains") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("a brain");
        assert!(shown.contains(&text), "{} is not in docs/cookbook.md as it is", path.display());
        files += 1;
    }
    assert_eq!(files, shown.len());
}
