//! The rules as `axon.toml` spells them.

use std::fmt;

use super::Owner;

/// `[policy]` of `axon.toml`. Nothing is allowed that is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRules {
    /// Whose rules they are: denials name them by their keys.
    pub owner: Owner,
    /// `[policy.fs] read`: files and folders, relative to the agent folder or absolute.
    pub fs_read: Vec<String>,
    /// `[policy.fs] write`.
    pub fs_write: Vec<String>,
    /// `[policy] net`: `host`, `host:port`, `*.host`, addresses.
    pub net: Vec<String>,
    /// `[policy] run`: programs.
    pub run: Vec<String>,
    /// `[policy.tools]`: patterns such as `process.run`, `fs.*`, `*`.
    pub tools: Vec<(String, Rule)>,
}

/// What a pattern of `[policy.tools]` says. The stricter one is the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    Allow,
    Ask,
    Deny,
}

/// A rule that cannot be held.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: \"{value}\" {problem}; {remedy}")]
pub struct PolicyError {
    /// `policy.fs.read`, `policy.tools`, ...
    pub key: &'static str,
    /// The value as it was written.
    pub value: String,
    pub problem: String,
    pub remedy: String,
}

impl PolicyError {
    pub(crate) fn new(
        key: &'static str,
        value: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { key, value: value.into(), problem: problem.into(), remedy: remedy.into() }
    }
}

/// What the rules say of one function, and which of them said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub rule: Rule,
    /// `policy.tools."fs.*"`; `None` when no pattern names the function.
    pub source: Option<String>,
}

/// From the widest to the most specific.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    Everything,
    Namespace(String),
    Function(String, String),
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let word = |s: &str| !s.is_empty() && s.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '$');
        match text.split_once('.') {
            None if text == "*" => Some(Self::Everything),
            Some((namespace, "*")) if word(namespace) => Some(Self::Namespace(namespace.into())),
            Some((namespace, function)) if word(namespace) && word(function) => {
                Some(Self::Function(namespace.into(), function.into()))
            }
            _ => None,
        }
    }

    fn covers(&self, namespace: &str, function: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Namespace(n) => n == namespace,
            Self::Function(n, f) => n == namespace && f == function,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => write!(f, "policy.tools.\"*\""),
            Self::Namespace(n) => write!(f, "policy.tools.\"{n}.*\""),
            Self::Function(n, m) => write!(f, "policy.tools.\"{n}.{m}\""),
        }
    }
}

/// `[policy.tools]`: the most specific pattern wins; among equals deny beats ask beats allow.
#[derive(Clone, Debug)]
pub(super) struct ToolRules(Vec<(Pattern, Rule)>);

impl ToolRules {
    pub fn new(rules: Vec<(String, Rule)>) -> Result<Self, PolicyError> {
        let mut parsed = Vec::with_capacity(rules.len());
        for (text, rule) in rules {
            let Some(pattern) = Pattern::parse(&text) else {
                return Err(PolicyError::new(
                    "policy.tools",
                    text,
                    "is not a pattern of tools",
                    "write a function (\"fs.write\"), a namespace (\"fs.*\") or \"*\"",
                ));
            };
            parsed.push((pattern, rule));
        }
        Ok(Self(parsed))
    }

    pub fn verdict(&self, namespace: &str, function: &str) -> Verdict {
        match self.0.iter().filter(|(pattern, _)| pattern.covers(namespace, function)).max() {
            Some((pattern, rule)) => Verdict { rule: *rule, source: Some(pattern.to_string()) },
            None => Verdict { rule: Rule::Allow, source: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rules: &[(&str, Rule)], namespace: &str, function: &str) -> Rule {
        let rules = rules.iter().map(|(pattern, rule)| (pattern.to_string(), *rule)).collect();
        ToolRules::new(rules).unwrap().verdict(namespace, function).rule
    }

    #[test]
    fn the_most_specific_pattern_wins_whatever_it_says() {
        let rules = [("*", Rule::Deny), ("fs.*", Rule::Ask), ("fs.read", Rule::Allow)];
        assert_eq!(verdict(&rules, "fs", "read"), Rule::Allow);
        assert_eq!(verdict(&rules, "fs", "write"), Rule::Ask);
        assert_eq!(verdict(&rules, "http", "request"), Rule::Deny);
    }

    #[test]
    fn among_equal_patterns_deny_beats_ask_beats_allow() {
        assert_eq!(verdict(&[("fs.*", Rule::Deny), ("fs.*", Rule::Allow)], "fs", "read"), Rule::Deny);
        assert_eq!(verdict(&[("fs.*", Rule::Ask), ("fs.*", Rule::Allow)], "fs", "read"), Rule::Ask);
    }

    #[test]
    fn a_function_that_no_pattern_names_is_left_to_the_other_rules() {
        let rules = ToolRules::new(vec![("github.*".into(), Rule::Deny)]).unwrap();
        assert_eq!(rules.verdict("fs", "read"), Verdict { rule: Rule::Allow, source: None });
    }

    #[test]
    fn a_malformed_pattern_is_an_error_that_shows_the_forms() {
        for bad in ["fs", "fs.", ".read", "fs.re*", "*.read", "fs.read.x", ""] {
            let error = ToolRules::new(vec![(bad.into(), Rule::Ask)]).unwrap_err().to_string();
            assert!(error.starts_with(&format!("policy.tools: \"{bad}\"")) && error.contains("fs.*"), "{error}");
        }
    }
}
