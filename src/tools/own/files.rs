//! The files of `tools/`: which are namespaces, and whether their names can be.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use axon_capsule::{ToolFile, ToolProblem};

use crate::tools::table::MODULES;

/// Bytes of one file, files together, and folders in folders.
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_FILES: usize = 1_000;
const MAX_DEPTH: usize = 16;

/// Words that cannot name a namespace, and globals that one would hide.
const TAKEN: &str = "\
    arguments await break case catch class const continue debugger default delete do else enum eval export extends \
    false finally for function if implements import in instanceof interface let new null package private protected \
    public return static super switch this throw true try typeof undefined var void while with yield \
    AbortController AbortSignal Array ArrayBuffer Atomics BigInt Boolean CustomEvent DOMException DataView Date Error \
    Event EventTarget Function Infinity Intl Iterator JSON Map Math NaN Number Object Promise Proxy RangeError \
    ReferenceError Reflect RegExp Set String Symbol SyntaxError Temporal TextDecoder TextEncoder TypeError URIError \
    URL URLSearchParams Uint8Array WeakMap WeakRef WeakSet atob btoa clearInterval clearTimeout console crypto \
    decodeURI decodeURIComponent encodeURI encodeURIComponent env fetch globalThis isFinite isNaN parseFloat parseInt \
    performance queueMicrotask setInterval setTimeout signal structuredClone";

/// What lies in `tools/`; nothing without the folder.
pub(super) fn read(folder: &Path) -> io::Result<(Vec<ToolFile>, Vec<ToolProblem>)> {
    let mut found = Found { folder: folder.into(), files: Vec::new(), problems: Vec::new() };
    match found.walk("", 0) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !folder.exists() => {}
        walked => walked?,
    }
    Ok((found.files, found.problems))
}

struct Found {
    folder: PathBuf,
    files: Vec<ToolFile>,
    problems: Vec<ToolProblem>,
}

impl Found {
    fn walk(&mut self, below: &str, depth: usize) -> io::Result<()> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder.join(below))? {
            names.push(entry?.file_name());
        }
        names.sort();
        for name in names {
            let Some(name) = name.to_str() else { continue };
            let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
            // What a link leads to is not looked at: it may lie anywhere.
            let kind = fs::symlink_metadata(self.folder.join(&path))?.file_type();
            if kind.is_dir() && depth < MAX_DEPTH && name != "node_modules" && !name.starts_with('.') {
                self.walk(&path, depth + 1)?;
            } else if kind.is_file() && name.ends_with(".ts") && !name.ends_with(".d.ts") {
                self.file(path)?;
            } else if kind.is_symlink() && name.ends_with(".ts") {
                self.refuse(&path, "is a link; put the file itself into tools/");
            }
        }
        Ok(())
    }

    fn file(&mut self, path: String) -> io::Result<()> {
        let file = self.folder.join(&path);
        if self.files.len() >= MAX_FILES {
            self.refuse(&path, &format!("is one file too many: tools/ can hold {MAX_FILES}"));
            return Ok(());
        }
        if fs::metadata(&file)?.len() > MAX_FILE_BYTES {
            self.refuse(&path, &format!("is larger than {} MiB", MAX_FILE_BYTES >> 20));
            return Ok(());
        }
        if !path.chars().all(|c| c.is_ascii_alphanumeric() || "_-./$".contains(c)) {
            self.refuse(&path, "has a name with other characters than letters, digits, _, $, - and .");
            return Ok(());
        }
        let Ok(source) = String::from_utf8(fs::read(&file)?) else {
            self.refuse(&path, "is not UTF-8");
            return Ok(());
        };
        let namespace = if path.contains('/') { None } else { path.strip_suffix(".ts").map(str::to_owned) };
        if let Some(problem) = namespace.as_deref().and_then(bad_name) {
            self.refuse(&path, &problem);
        } else {
            self.files.push(ToolFile { path, source, namespace });
        }
        Ok(())
    }

    fn refuse(&mut self, path: &str, message: &str) {
        self.problems.push(ToolProblem { path: path.into(), line: 1, column: 1, message: message.into() });
    }
}

/// Why a file's name cannot be a namespace.
pub(in crate::tools) fn bad_name(name: &str) -> Option<String> {
    if MODULES.iter().any(|module| module.name == name) {
        return Some(format!("{name} is built in; give the file another name"));
    }
    if TAKEN.split_whitespace().any(|word| word == name) {
        return Some(format!("{name} already means something in TypeScript; give the file another name"));
    }
    let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_' || c == '$');
    let plain = start && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    if plain {
        return None;
    }
    let suggestion: String =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
    let suggestion = suggestion.trim_start_matches(|c: char| c.is_ascii_digit() || c == '_').to_owned();
    let hint = if suggestion.is_empty() { String::new() } else { format!("; {suggestion}.ts would be one") };
    Some(format!("the file's name is the name of a namespace, and \"{name}\" is no identifier{hint}"))
}
