//! `.env` in the agent folder: variables that are not for the log, nor for a model.
//!
//! Values are taken as they are written: nothing is substituted, so that a secret with a `$` stays whole.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use crate::files;

/// Why a `.env` cannot be used. The text of a line is never repeated: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub enum DotenvError {
    #[error("{}: cannot be read: {cause}", named(path))]
    Io { path: PathBuf, cause: io::Error },
    #[error("{}:{line}: {why}", named(path))]
    Line { path: PathBuf, line: usize, why: &'static str },
}

/// By its path in the agent folder, as every file there.
fn named(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// The variables in a file of `NAME=value` lines; none when there is no such file. The last of a name stands.
///
/// Blank lines and those that start with `#` are passed over, `export` before a name is allowed. An unquoted value ends
/// at the end of the line or at a `#` after a blank. A value in `'` is literal; in `"`, `\n`, `\r`, `\t`, `\"` and `\\`
/// are escapes; both may go over several lines.
///
/// # Errors
/// [`DotenvError`] with the line.
pub fn read_dotenv(path: &Path) -> Result<BTreeMap<String, String>, DotenvError> {
    match files::read_text(path) {
        Ok(text) => parse(&text).map_err(|(line, why)| DotenvError::Line { path: path.to_owned(), line, why }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(cause) => Err(DotenvError::Io { path: path.to_owned(), cause }),
    }
}

/// What is wrong, and on which line.
type Mistake = (usize, &'static str);

fn parse(text: &str) -> Result<BTreeMap<String, String>, Mistake> {
    let mut variables = BTreeMap::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut number = 1;
    while !rest.is_empty() {
        let (line, _) = split_line(rest);
        let trimmed = line.trim_start();
        if trimmed.trim_end().is_empty() || trimmed.starts_with('#') {
            rest = split_line(rest).1;
            number += 1;
            continue;
        }
        let equals = line.find('=').ok_or((number, "a line is `NAME=value`; this one has no `=`"))?;
        let name = name(&line[..equals]).ok_or((number, "what stands before `=` is no name of a variable"))?;
        let (value, after) = value(&rest[equals + 1..]).map_err(|why| (number, why))?;
        number += rest[..rest.len() - after.len()].matches('\n').count();
        rest = after;
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}

fn name(text: &str) -> Option<&str> {
    let text = text.trim();
    let name = match text.strip_prefix("export") {
        Some(name) if name.starts_with([' ', '\t']) => name.trim_start(),
        _ => text,
    };
    let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
    valid.then_some(name)
}

/// A value, and what follows the line on which it ends.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let text = text.trim_start_matches([' ', '\t']);
    let (value, after) = match text.chars().next() {
        Some('\'') => {
            let (value, after) = text[1..].split_once('\'').ok_or("a `'` is not closed")?;
            (value.to_owned(), after)
        }
        Some('"') => double_quoted(&text[1..])?,
        _ => {
            let (line, after) = split_line(text);
            let comment = line.char_indices().find(|&(at, c)| c == '#' && line[..at].ends_with([' ', '\t']));
            let line = comment.map_or(line, |(at, _)| &line[..at]);
            return Ok((if line.starts_with('#') { "" } else { line.trim_end() }.to_owned(), after));
        }
    };
    let (rest, after) = split_line(after);
    if rest.trim().is_empty() || rest.trim_start().starts_with('#') {
        Ok((value, after))
    } else {
        Err("something follows the closing quote")
    }
}

fn double_quoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match chars.next().map(|(_, escaped)| escaped) {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some(c @ ('"' | '\\')) => value.push(c),
                Some(other) => value.extend(['\\', other]),
                None => break,
            },
            c => value.push(c),
        }
    }
    Err("a `\"` is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse(text).unwrap().into_iter().collect()
    }

    fn pair(text: &str) -> (String, String) {
        let mut pairs = pairs(text);
        assert_eq!(pairs.len(), 1, "{text}");
        pairs.remove(0)
    }

    #[test]
    fn values_are_taken_as_they_are_written() {
        for (line, value) in [
            ("A=b", "b"),
            ("A=", ""),
            ("A= # nothing", ""),
            ("A=#nothing", ""),
            (" export\tA = b c \r", "b c"),
            ("A=pa$$wo#rd # comment", "pa$$wo#rd"),
            ("A='it # $is \\n' # comment", "it # $is \\n"),
            ("A=\"a\\n\\\"b\\\" \\\\ \\$x # é\"", "a\n\"b\" \\ \\$x # é"),
            ("A='-----BEGIN\nkey\n-----END'", "-----BEGIN\nkey\n-----END"),
            ("A=it's", "it's"),
            ("\u{feff}A=x=y", "x=y"),
        ] {
            assert_eq!(pair(line), ("A".to_owned(), value.to_owned()), "{line}");
        }
    }

    #[test]
    fn comments_blank_lines_and_repeated_names_are_ordinary() {
        let text = "# a\n\n  # b = c\nA=1\nexport B='2\n'\r\nA=3";
        assert_eq!(pairs(text), [("A".into(), "3".into()), ("B".into(), "2\n".into())]);
        assert_eq!(pair("exportA=1").0, "exportA");
        assert_eq!(pair("export=1").0, "export");
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_without_its_text() {
        for (text, line) in [
            ("A=1\nsecret", 2),
            ("A='\n\n'\nB C=1", 4),
            ("A=1\n\n1A=x", 3),
            ("\n'A'=x", 2),
            ("A=\"secret", 1),
            ("A='secret\n\n", 1),
            ("A='x' secret", 1),
            ("=x", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().0, line, "{text}");
        }
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join(".env");
        std::fs::write(&path, "A=1\nsecret").unwrap();
        let error = read_dotenv(&path).unwrap_err().to_string();
        assert!(error.contains(".env:2: ") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_holds_nothing() {
        assert!(read_dotenv(Path::new("/nowhere/.env")).unwrap().is_empty());
    }
}
