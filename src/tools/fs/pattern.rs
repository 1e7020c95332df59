//! Glob patterns: where they start, how deep they go, what they match.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::super::{
    fault::{Failure, FaultKind},
    limits::MAX_DEPTH,
};

/// One pattern of `fs.glob`: folders without wildcards, then the rest.
#[derive(Debug)]
pub(super) struct Pattern {
    base: PathBuf,
    rest: String,
    matcher: GlobMatcher,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if text.is_empty() {
            return Err(bad(text, "it is empty"));
        }
        let plain = |name: &&str| !name.contains(['*', '?', '[', '{', '\\']);
        let names: Vec<&str> = text.split('/').collect();
        let last = names.len() - 1;
        let base_names = names[..last].iter().take_while(|name| plain(name)).count();
        let base = if text.starts_with('/') && base_names == 1 { "/".into() } else { names[..base_names].join("/") };
        let rest = names[base_names..].join("/");
        if rest.split('/').any(|name| name == "..") {
            return Err(bad(text, "\"..\" cannot follow a wildcard"));
        }
        Ok(Self { base: base.into(), matcher: matcher(&rest)?, rest })
    }

    /// The folder that the pattern starts in, below the one that the call names.
    pub fn base(&self, path: Option<&str>) -> PathBuf {
        Path::new(path.unwrap_or(".")).join(&self.base)
    }

    /// How many names a match can have below the base.
    pub fn depth(&self) -> usize {
        if self.rest.contains("**") { MAX_DEPTH } else { 1 + self.rest.matches('/').count() }
    }

    /// Whether the pattern speaks of a hidden name itself.
    pub fn names_hidden(&self) -> bool {
        self.rest.split(['/', '{', ',']).any(|name| name.len() > 1 && name.starts_with('.'))
    }

    pub fn matches(&self, below_base: &Path) -> bool {
        self.matcher.is_match(below_base)
    }
}

/// The patterns that limit `fs.search` to some files: without a `/` they match names anywhere, with `!` they exclude.
#[derive(Debug)]
pub(super) struct Filter {
    include: Vec<(GlobMatcher, Scope)>,
    exclude: Vec<(GlobMatcher, Scope)>,
}

#[derive(Clone, Copy, Debug)]
enum Scope {
    Name,
    Path,
}

impl Filter {
    pub fn parse(patterns: &[String]) -> Result<Self, Failure> {
        let mut filter = Self { include: Vec::new(), exclude: Vec::new() };
        for pattern in patterns {
            let (list, text) = match pattern.strip_prefix('!') {
                Some(text) => (&mut filter.exclude, text),
                None => (&mut filter.include, pattern.as_str()),
            };
            let text = text.strip_prefix("./").unwrap_or(text);
            let scope = if text.contains('/') { Scope::Path } else { Scope::Name };
            list.push((matcher(text)?, scope));
        }
        Ok(filter)
    }

    pub fn admits(&self, below: &Path) -> bool {
        let matches = |(matcher, scope): &(GlobMatcher, Scope)| match scope {
            Scope::Path => matcher.is_match(below),
            Scope::Name => below.file_name().is_some_and(|name| matcher.is_match(name)),
        };
        (self.include.is_empty() || self.include.iter().any(matches)) && !self.exclude.iter().any(matches)
    }
}

fn matcher(pattern: &str) -> Result<GlobMatcher, Failure> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).empty_alternates(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| bad(pattern, &error.kind().to_string()))
}

fn bad(pattern: &str, why: &str) -> Failure {
    FaultKind::InvalidPattern.because(format!("the glob \"{pattern}\" cannot be used: {why}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String) {
        let pattern = Pattern::parse(text).unwrap();
        (pattern.base.to_string_lossy().into_owned(), pattern.rest)
    }

    #[test]
    fn folders_without_wildcards_are_where_a_pattern_starts() {
        assert_eq!(parsed("src/tools/*.rs"), ("src/tools".into(), "*.rs".into()));
        assert_eq!(parsed("**/*.rs"), ("".into(), "**/*.rs".into()));
        assert_eq!(parsed("a.txt"), ("".into(), "a.txt".into()));
        assert_eq!(parsed("/*.txt"), ("/".into(), "*.txt".into()));
        assert_eq!(parsed("/a/b.txt"), ("/a".into(), "b.txt".into()));
        assert_eq!(parsed("./a/*"), ("./a".into(), "*".into()));
    }

    #[test]
    fn a_star_stays_within_a_name_and_two_cross_folders() {
        let matches = |pattern: &str, path: &str| Pattern::parse(pattern).unwrap().matches(Path::new(path));
        assert!(matches("*.rs", "a.rs") && !matches("*.rs", "b/a.rs"));
        assert!(matches("**/*.rs", "a.rs") && matches("**/*.rs", "b/c/a.rs"));
        assert!(matches("*.{ts,tsx}", "a.tsx"));
    }

    #[test]
    fn a_filter_without_a_slash_matches_names_anywhere_and_an_exclamation_mark_excludes() {
        let filter = Filter::parse(&["*.rs".into(), "!*_test.rs".into()]).unwrap();
        assert!(filter.admits(Path::new("a/b.rs")));
        assert!(!filter.admits(Path::new("a/b_test.rs")));
        assert!(!filter.admits(Path::new("a/b.txt")));
    }
}
