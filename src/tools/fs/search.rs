//! `fs.search`.

use std::{collections::VecDeque, ffi::OsStr, io, ops::ControlFlow, path::Path};

use axon_capsule::Datum;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::{
    super::{
        args::{Args, expected},
        fault::{Failure, FaultKind},
        limits::{
            CONTEXT_LIMIT, MAX_DEPTH, MAX_LINE_CHARS, MAX_SEARCH_FILE_BYTES, PATTERN_BYTES, PATTERN_TABLE_BYTES,
            SEARCH_HEAP_BYTES, SEARCH_LIMIT,
        },
        stop::Stop,
        table::Context,
    },
    pattern::Filter,
    walk::{Skip, Walk, spell},
};
use crate::policy::{Access, Guard, Target, open_file};

pub(in crate::tools) fn search(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let pattern = match args.take(0) {
        Datum::String(pattern) => pattern,
        other => {
            let hint = if matches!(other, Datum::Object(_)) { " (of a RegExp, pass its source)" } else { "" };
            return Err(expected("pattern", "a string", &other, hint));
        }
    };
    let accepted = &["path", "glob", "literal", "ignoreCase", "context", "hidden", "ignored", "limit"];
    let mut options = args.options(1, accepted)?;
    let path = options.string("path")?.unwrap_or_else(|| ".".into());
    let filter = Filter::parse(&options.strings("glob")?)?;
    let matcher = matcher(&pattern, options.flag("literal")?, options.flag("ignoreCase")?)?;
    let around = options.limited("context", CONTEXT_LIMIT)?;
    let skip = Skip { hidden: !options.flag("hidden")?, ignored: !options.flag("ignored")? };
    let limit = options.limited("limit", SEARCH_LIMIT)?;

    let guard = Guard::new(context.policy);
    let base = context.policy.absolute(Path::new(&path));
    let mut search = Search {
        guard: &guard,
        stop: context.stop,
        searcher: SearcherBuilder::new()
            .line_number(true)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(SEARCH_HEAP_BYTES))
            .before_context(around)
            .after_context(around)
            .build(),
        matcher,
        around,
        limit,
        matches: Vec::new(),
    };
    for place in guard.starts(&path)? {
        match &place.target {
            Target::Folder { folder, .. } => {
                let prefix = place.spelled.strip_prefix(&base).unwrap_or(Path::new("")).to_path_buf();
                let walk = Walk { guard: &guard, stop: context.stop, skip, depth: MAX_DEPTH };
                let _ = walk.run(folder, &place.real, &mut |found| {
                    let wanted = found.metadata.is_file() && filter.admits(&prefix.join(found.below));
                    if wanted && found.metadata.len() <= MAX_SEARCH_FILE_BYTES {
                        let path = spell(&guard, &place.spelled, found.below);
                        search.file(found.folder, found.name, found.real, path)?;
                    }
                    Ok(search.flow())
                })?;
            }
            Target::Entry { folder, name, metadata } => {
                super::file::regular(metadata)?;
                if metadata.len() > MAX_SEARCH_FILE_BYTES {
                    let detail = format!(
                        "{} bytes are more than the {MAX_SEARCH_FILE_BYTES} that a search looks into",
                        metadata.len()
                    );
                    return Err(FaultKind::TooLarge.because(detail).into());
                }
                let path = spell(&guard, &place.spelled, Path::new(""));
                search.file(folder, name, &place.real, path)?;
            }
            Target::Missing { .. } => {}
        }
        if search.flow().is_break() {
            break;
        }
    }
    Ok(Datum::Array(search.matches.into_iter().map(|found| found.into_datum(around)).collect()))
}

fn matcher(pattern: &str, literal: bool, ignore_case: bool) -> Result<RegexMatcher, Failure> {
    if pattern.is_empty() {
        return Err(FaultKind::InvalidPattern.because("the pattern is empty").into());
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(ignore_case)
        .fixed_strings(literal)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_TABLE_BYTES);
    builder.build(pattern).map_err(|error| {
        let hint = match () {
            () if pattern.contains("(?=") || pattern.contains("(?!") || pattern.contains("(?<") => {
                "; look-around is not supported"
            }
            () if pattern.contains('\n') || pattern.contains("\\n") => "; a match cannot span lines",
            () => "; pass { literal: true } to search text as it is",
        };
        FaultKind::InvalidPattern.because(format!("the pattern cannot be used: {error}{hint}")).into()
    })
}

struct Search<'a> {
    guard: &'a Guard<'a>,
    stop: &'a Stop,
    searcher: Searcher,
    matcher: RegexMatcher,
    around: usize,
    limit: usize,
    matches: Vec<Found>,
}

struct Found {
    path: String,
    line: u64,
    column: usize,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
}

impl Found {
    fn into_datum(self, around: usize) -> Datum {
        let lines = |lines: Vec<String>| Datum::Array(lines.into_iter().map(Datum::String).collect());
        let mut fields = vec![
            ("path".to_owned(), Datum::String(self.path)),
            ("line".to_owned(), Datum::Number(self.line as f64)),
            ("column".to_owned(), Datum::Number(self.column as f64)),
            ("text".to_owned(), Datum::String(self.text)),
        ];
        if around > 0 {
            fields.push(("before".to_owned(), lines(self.before)));
            fields.push(("after".to_owned(), lines(self.after)));
        }
        Datum::Object(fields)
    }
}

impl Search<'_> {
    fn flow(&self) -> ControlFlow<()> {
        if self.matches.len() < self.limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    /// Searches one file. One that cannot be opened or read is passed over, as one that is no text.
    fn file(&mut self, folder: &Dir, name: &OsStr, real: &Path, path: String) -> Result<(), Failure> {
        let Ok(file) = open_file(folder, name, OpenOptions::new().read(true)) else { return Ok(()) };
        // What was opened counts, not what was looked at before.
        let readable =
            |metadata: &Metadata| metadata.is_file() && self.guard.check(Access::Read, real, Some(metadata)).is_ok();
        if !file.metadata().as_ref().is_ok_and(readable) {
            return Ok(());
        }
        let mut sink = Lines {
            matcher: &self.matcher,
            stop: self.stop,
            path,
            around: self.around as u64,
            limit: self.limit - self.matches.len(),
            recent: VecDeque::new(),
            found: Vec::new(),
            binary: false,
        };
        let _ = self.searcher.search_file(&self.matcher, &file.into_std(), &mut sink);
        self.stop.check()?;
        if !sink.binary {
            self.matches.append(&mut sink.found);
        }
        Ok(())
    }
}

/// Collects the matches of one file.
struct Lines<'a> {
    matcher: &'a RegexMatcher,
    stop: &'a Stop,
    path: String,
    around: u64,
    limit: usize,
    /// The last lines seen, for what stands before the next match.
    recent: VecDeque<(u64, String)>,
    found: Vec<Found>,
    binary: bool,
}

impl Lines<'_> {
    /// A line that stands after the matches before it and before the matches after it.
    fn line(&mut self, number: u64, text: &str) {
        if self.around == 0 {
            return;
        }
        for found in self.found.iter_mut().rev().take_while(|found| found.line + self.around >= number) {
            found.after.push(text.to_owned());
        }
        self.recent.push_back((number, text.to_owned()));
        if self.recent.len() as u64 > self.around {
            self.recent.pop_front();
        }
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, matched: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.len() >= self.limit || self.stop.check().is_err() {
            return Ok(false);
        }
        let bytes = matched.bytes();
        let line = matched.line_number().unwrap_or(0);
        let at = self.matcher.find(bytes).ok().flatten().map_or(0, |found| found.start());
        let column = 1 + String::from_utf8_lossy(&bytes[..at]).chars().count();
        let text = line_text(bytes);
        let near = self.recent.iter().filter(|(number, _)| number + self.around >= line);
        let before = near.map(|(_, text)| text.clone()).collect();
        self.line(line, &text);
        self.found.push(Found { path: self.path.clone(), line, column, text, before, after: Vec::new() });
        Ok(self.found.len() < self.limit || self.around > 0)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.line(context.line_number().unwrap_or(0), &line_text(context.bytes()));
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// A line without its end, cut where it is too long to be read.
fn line_text(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}
