//! What authors are told is what is there.

use axon_runtime::{AUTHOR_FILES, LUAU_DECLARATIONS};

use crate::fake::outputs_of;

fn file(name: &str) -> &'static str {
    AUTHOR_FILES.iter().find(|(own, _)| *own == name).map(|(_, text)| *text).unwrap()
}

/// The names before a colon in the outermost braces of `text`, up to the next declaration.
fn fields(text: &str) -> Vec<String> {
    let own = text.split("\n\n").next().unwrap_or_default();
    let code: String = own.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let outside_quotes: String = code.split('"').step_by(2).collect();
    let (mut depth, mut name, mut names) = (0, String::new(), Vec::new());
    for c in outside_quotes.chars() {
        match c {
            '{' | '(' => depth += 1,
            '}' | ')' => depth -= 1,
            ':' if depth == 1 && !name.is_empty() => names.push(std::mem::take(&mut name)),
            c if c.is_ascii_alphanumeric() => name.push(c),
            c if !c.is_whitespace() => name.clear(),
            _ => {}
        }
        if c == ',' || c == '{' {
            name.clear();
        }
    }
    names.sort();
    names.dedup();
    names
}

/// The fields that the stub for LuaLS gives a class.
fn stub_fields(class: &str) -> Vec<String> {
    let stub = file("kernel.meta.lua");
    let head = format!("---@class {class}\n");
    let block = stub.split(&head).nth(1).unwrap_or_else(|| panic!("the stub has no class {class}"));
    let lines = block.lines().take_while(|line| line.starts_with("---@field "));
    let mut names: Vec<String> =
        lines.filter_map(|line| line.split(' ').nth(1)).map(|name| name.trim_end_matches('?').to_owned()).collect();
    names.sort();
    names
}

#[test]
fn the_stub_for_luals_has_the_types_of_the_declarations() {
    let mut seen = 0;
    for part in LUAU_DECLARATIONS.split("export type ").skip(1) {
        let (name, rest) = part.split_once(" =").unwrap();
        if name == "Json" {
            assert!(file("kernel.meta.lua").contains("---@alias Json any\n"));
            continue;
        }
        assert_eq!(stub_fields(name), fields(rest), "{name}");
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}

#[test]
fn the_stub_for_luals_has_the_globals_of_the_declarations() {
    let stub = file("kernel.meta.lua");
    for part in LUAU_DECLARATIONS.split("\ndeclare ").skip(1) {
        match part.strip_prefix("function ") {
            Some(function) => {
                let name = function.split(['(', '<']).next().unwrap();
                assert!(stub.contains(&format!("\nfunction {name}(")), "{name}");
            }
            None => {
                let (name, rest) = part.split_once(": ").unwrap();
                let class = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
                assert!(stub.contains(&format!("---@type {class}\n{name} = {{}}\n")), "{name}");
                assert_eq!(stub_fields(&class), fields(rest), "{name}");
            }
        }
    }
}

#[tokio::test]
async fn the_types_of_the_libraries_name_their_members() {
    for library in ["air", "json", "uuid"] {
        let body = format!(
            "local names = {{}}\nfor name in require('@axon/{library}') do table.insert(names, name) end\ntable.sort(names)\n\
             kernel.output('cognet:output:text', {{ content = table.concat(names, ' ') }})"
        );
        let text = file(&format!("lib/{library}.luau"));
        let mut declared: Vec<&str> = text
            .lines()
            .filter_map(|line| line.trim_start_matches("function ").strip_prefix(&format!("{library}.")))
            .filter_map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric()).next())
            .collect();
        declared.sort_unstable();
        assert_eq!(outputs_of(&body).await, [declared.join(" ")], "{library}");
    }
}
