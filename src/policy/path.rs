//! Paths as text: what is refused before anything is opened.

use std::path::{Component, Path, PathBuf};

/// In bytes; what Linux accepts.
const MAX_PATH_BYTES: usize = 4_096;
/// In bytes, of one name in a path; what common file systems accept.
const MAX_NAME_BYTES: usize = 255;

/// What no file system would take, in words.
pub(super) fn check(path: &str) -> Result<(), String> {
    if path.is_empty() {
        return Err("the path is empty (the agent folder is \".\")".into());
    }
    if path.contains('\0') {
        return Err("the path contains a NUL character".into());
    }
    if path == "~" || path.starts_with("~/") {
        return Err("~ is not expanded: paths are relative to the agent folder or absolute".into());
    }
    if path.starts_with("file:") {
        return Err("it is a URL: pass the path alone".into());
    }
    if path.len() > MAX_PATH_BYTES {
        return Err(format!("the path is {} bytes long, more than {MAX_PATH_BYTES}", path.len()));
    }
    match path.split('/').find(|name| name.len() > MAX_NAME_BYTES) {
        Some(name) => Err(format!("a name in the path is {} bytes long, more than {MAX_NAME_BYTES}", name.len())),
        None => Ok(()),
    }
}

/// Drops `.` and lets `..` take back the name before it, without asking the file system.
pub(super) fn normalise(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The longest part of a path that exists, and the rest.
pub(super) fn split_existing(path: &Path) -> (PathBuf, PathBuf) {
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    (existing.to_path_buf(), path.strip_prefix(existing).unwrap_or(Path::new("")).to_path_buf())
}

/// A path free of links as far as it exists.
pub(super) fn real_so_far(path: &Path) -> PathBuf {
    let (existing, rest) = split_existing(path);
    existing.canonicalize().unwrap_or(existing).join(rest)
}

/// Upper and lower case and characters that are not seen fold away: what two names share that some file system
/// could take for one.
pub(super) fn fold(name: &str) -> String {
    let seen = |c: &char| !matches!(*c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}');
    name.chars().filter(seen).collect::<String>().to_uppercase().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_dot_takes_back_the_name_before_it_and_stops_at_the_top() {
        assert_eq!(normalise(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(normalise(Path::new("/../../a")), Path::new("/a"));
    }

    #[test]
    fn names_that_a_case_insensitive_file_system_takes_for_one_fold_alike() {
        for spelling in ["COGNETS", "Cognets", "cognet\u{17f}", "cog\u{200b}nets"] {
            assert_eq!(fold(spelling), "cognets", "{spelling:?}");
        }
        assert_ne!(fold("cognets2"), "cognets");
    }

    #[test]
    fn what_no_file_system_takes_is_refused_in_words() {
        assert!(check("").unwrap_err().contains("empty"));
        assert!(check("a\0b").unwrap_err().contains("NUL"));
        assert!(check(&"a/".repeat(3_000)).unwrap_err().contains("4096"));
        assert!(check(&"a".repeat(256)).unwrap_err().contains("255"));
        assert!(check("~/a").unwrap_err().contains("not expanded"));
        assert!(check("file:///etc").unwrap_err().contains("URL"));
        assert!(check("ä/~ü.txt").is_ok());
    }
}
