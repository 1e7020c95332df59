//! Mistakes in `axon.toml`, told with their place.

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use toml::de::{DeTable, DeValue};

use super::CONFIG_FILE;

/// Why a configuration cannot be used: everything that is wrong with the file, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    pub path: PathBuf,
    pub problems: Vec<Problem>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Absent when the file as a whole is meant.
    pub place: Option<Place>,
    pub message: String,
    pub help: Option<String>,
}

/// A place in the file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
    /// The line itself.
    pub text: String,
}

impl ConfigError {
    /// A mistake that only shows when the configuration is used: it is told at the value of `keys` (`["policy", "fs",
    /// "read"]`), or at `item` in that list.
    pub fn at(agent_dir: &Path, keys: &[&str], item: Option<&str>, message: String) -> Self {
        let path = agent_dir.join(CONFIG_FILE);
        let source = std::fs::read_to_string(&path).unwrap_or_default();
        let place = find(&source, keys, item).map(|span| Place::of(&source, span));
        Self { path, problems: vec![Problem { place, message, help: None }] }
    }

    pub(super) fn whole(path: &Path, message: String) -> Self {
        Self { path: path.to_owned(), problems: vec![Problem { place: None, message, help: None }] }
    }
}

impl std::error::Error for ConfigError {}

fn find(source: &str, keys: &[&str], item: Option<&str>) -> Option<Range<usize>> {
    let root = DeTable::parse(source).ok()?;
    let (last, tables) = keys.split_last()?;
    let mut table = root.get_ref();
    for key in tables {
        let DeValue::Table(inner) = table.get(*key)?.get_ref() else { return None };
        table = inner;
    }
    let value = table.get(*last)?;
    let among = match value.get_ref() {
        DeValue::Array(items) => {
            items.iter().find(|value| value.get_ref().as_str().is_some() && value.get_ref().as_str() == item)
        }
        _ => None,
    };
    Some(among.unwrap_or(value).span())
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, problem) in self.problems.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            // By its path in the agent folder, as every file there.
            write!(f, "{CONFIG_FILE}")?;
            if let Some(place) = &problem.place {
                write!(f, ":{}:{}", place.line, place.column)?;
            }
            write!(f, ": {}", problem.message)?;
            if let Some(place) = &problem.place {
                let gutter = place.line.to_string();
                let place = place.clipped();
                let blank = " ".repeat(gutter.len());
                // Tabs stay tabs, so that the marks stand below what they mark.
                let before: String =
                    place.text.chars().take(place.column - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
                write!(f, "\n  {gutter} | {}", place.text)?;
                write!(f, "\n  {blank} | {before}{}", "^".repeat(place.width.max(1)))?;
            }
            if let Some(help) = &problem.help {
                write!(f, "\n  {help}")?;
            }
        }
        Ok(())
    }
}

/// How much of a long line is shown, in characters.
const EXCERPT_CHARS: usize = 160;

impl Place {
    /// The part of the line around what is meant, columns counted from its beginning.
    fn clipped(&self) -> Self {
        let first = (self.column - 1).saturating_sub(EXCERPT_CHARS / 2);
        let text: String = self.text.chars().skip(first).take(EXCERPT_CHARS).collect();
        let column = self.column - first;
        let width = self.width.min(EXCERPT_CHARS.saturating_sub(column - 1));
        Self { line: self.line, column, width, text }
    }

    pub(super) fn of(source: &str, span: Range<usize>) -> Self {
        let start = floor(source, span.start);
        let end = floor(source, span.end).max(start);
        let before = &source[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let text = source[line_start..].lines().next().unwrap_or_default();
        let column = source[line_start..start].chars().count() + 1;
        let line_end = line_start + text.len();
        Self {
            line: before.matches('\n').count() + 1,
            column,
            width: source[start..end.min(line_end).max(start)].chars().count(),
            text: text.to_owned(),
        }
    }
}

fn floor(source: &str, at: usize) -> usize {
    source.floor_char_boundary(at.min(source.len()))
}
