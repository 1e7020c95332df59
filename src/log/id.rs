//! The name of a session.

use std::fmt;

use uuid::Uuid;

use super::LogError;

/// Room for the suffixes of the files beside a session within the 255 bytes that file systems allow a name.
const MAX_BYTES: usize = 200;

/// The name of a session, safe as a file name: up to 200 ASCII letters, digits, `-`, `_` and `.`, not starting with
/// `.` or `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(String);

impl SessionId {
    /// A new name, unique and sorted by the time of its making (UUID v7).
    pub fn new() -> Self {
        Self(Uuid::now_v7().to_string())
    }

    /// Takes a name that a person or a file gave.
    ///
    /// # Errors
    /// [`LogError::SessionId`] when it is empty, too long or not safe as a file name.
    pub fn parse(name: &str) -> Result<Self, LogError> {
        let refuse = |why: &str| Err(LogError::SessionId { name: name.to_owned(), why: why.to_owned() });
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > MAX_BYTES {
            return refuse("it is longer than 200 bytes");
        }
        if name.starts_with(['.', '-']) {
            return refuse("it starts with `.` or `-`");
        }
        match name.chars().find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.')) {
            Some(c) => refuse(&format!("it contains {c:?}")),
            None => Ok(Self(name.to_owned())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_folder_or_hide_are_refused() {
        for name in ["", ".", "..", ".hidden", "-rf", "a/b", "a\\b", "a\0", "ä", "a b", "a\n", &"x".repeat(201)] {
            assert!(SessionId::parse(name).is_err(), "{name:?} was accepted");
        }
    }

    #[test]
    fn ordinary_names_and_new_ones_are_accepted() {
        for name in ["demo", "2026-11-30_a.b", "A", &"x".repeat(200), SessionId::new().as_str()] {
            assert_eq!(SessionId::parse(name).unwrap().as_str(), name);
        }
    }
}
