//! Tables and keys that are in the file twice: told once, with the place of the first.

use std::ops::Range;

/// What the parser says of each of them.
const DUPLICATE: &str = "duplicate key";

/// Mistakes of syntax, in the order of the file.
pub(super) struct Duplicates<'a> {
    lines: Vec<&'a str>,
    source: &'a str,
    /// The line of the last header that was there before: what follows it follows from that.
    below: Option<usize>,
}

impl<'a> Duplicates<'a> {
    pub(super) fn new(source: &'a str) -> Self {
        Self { lines: source.lines().collect(), source, below: None }
    }

    /// The mistake in words; `None` where it only follows from one that was told.
    pub(super) fn told(&mut self, span: &Range<usize>, message: &str) -> Option<String> {
        let as_it_is = || Some(format!("not TOML: {message}"));
        if message != DUPLICATE {
            return as_it_is();
        }
        let Some(before) = self.source.get(..span.start) else { return as_it_is() };
        let number = before.matches('\n').count();
        let header_here = self.lines.get(number).and_then(|line| header(line));
        if header_here.is_none() && self.below.is_some() && self.below == self.header_above(number) {
            return None;
        }
        let (what, first) = match header_here {
            Some(table) => {
                let first = self.lines[..number].iter().position(|line| header(line) == Some(table));
                self.below = Some(number);
                (table, first)
            }
            None => {
                let name = self.lines.get(number).and_then(|line| key(line))?;
                let table = self.header_above(number);
                let among = table.map_or(0, |table| table + 1);
                let first = self.lines[among..number].iter().position(|line| key(line) == Some(name));
                (name, first.map(|first| among + first))
            }
        };
        match first {
            Some(first) => {
                Some(format!("{what} is in line {} already; change it there, and take this one out", first + 1))
            }
            None => Some(format!("{what} is in the file already, in another spelling; keep one of them")),
        }
    }

    /// The line of the table that a line is in.
    fn header_above(&self, number: usize) -> Option<usize> {
        self.lines.iter().take(number).rposition(|line| header(line).is_some())
    }
}

/// `[table]` as it is written.
fn header(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.starts_with('[').then(|| line.split_inclusive(']').next()).flatten()
}

/// What stands before `=`.
fn key(line: &str) -> Option<&str> {
    line.split_once('=').map(|(key, _)| key.trim()).filter(|key| !key.starts_with('#'))
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn what_is_there_twice_is_told_once_with_the_place_of_the_first() {
        for (source, told) in [
            (
                "[engine]\nmodel = \"a\"\n\n[engine]\nmodel = \"b\"\nprovider = \"script\"\n",
                vec!["4:2: [engine] is in line 1"],
            ),
            ("[agent]\nname = \"a\"\nname = \"b\"\n", vec!["3:1: name is in line 2"]),
            (
                "[agent]\nname = \"a\"\n[engine]\nmodel = \"a\"\n[agent]\nname = \"b\"\n[engine]\nmodel = \"b\"\n",
                vec!["5:2: [agent] is in line 1", "7:2: [engine] is in line 3"],
            ),
            ("[policy]\nfs = { read = [] }\n[policy.fs]\nread = []\n", vec!["3:9: [policy.fs] is in the file already"]),
        ] {
            let error = Config::parse(std::path::Path::new("/x"), source).expect_err(source).to_string();
            for told in &told {
                assert!(error.contains(told), "{told} in {error}");
            }
            assert_eq!(error.matches("axon.toml:").count(), told.len(), "{error}");
        }
    }
}
