//! Arguments of a call, checked one by one.

use std::iter;

use axon_capsule::Datum;

use super::{
    fault::{Failure, FaultKind},
    limits::Limit,
};

/// The arguments of one call. Each is taken once, by position.
pub(super) struct Args(Vec<Datum>);

impl Args {
    /// `max` is how many the function takes.
    pub fn new(args: Vec<Datum>, max: usize) -> Result<Self, Failure> {
        let given = args.len();
        if given > max && args[max..].iter().any(|arg| *arg != Datum::Undefined) {
            return Err(wrong(format!("takes at most {max} arguments, got {given}")));
        }
        Ok(Self(args))
    }

    pub fn take(&mut self, index: usize) -> Datum {
        self.0.get_mut(index).map_or(Datum::Undefined, |arg| std::mem::replace(arg, Datum::Undefined))
    }

    pub fn string(&mut self, index: usize, name: &str) -> Result<String, Failure> {
        as_string(self.take(index), name)
    }

    pub fn optional_string(&mut self, index: usize, name: &str) -> Result<Option<String>, Failure> {
        match self.take(index) {
            Datum::Undefined => Ok(None),
            value => as_string(value, name).map(Some),
        }
    }

    /// Text or bytes.
    pub fn content(&mut self, index: usize, name: &str) -> Result<Vec<u8>, Failure> {
        match self.take(index) {
            Datum::String(text) => Ok(text.into_bytes()),
            Datum::Bytes(bytes) => Ok(bytes),
            other => {
                let hint = match other {
                    Datum::Object(_) | Datum::Array(_) => " (JSON.stringify makes text of it)",
                    _ => "",
                };
                Err(expected(name, "a string or a Uint8Array", &other, hint))
            }
        }
    }

    /// The options object; `accepted` are all the fields it may have.
    pub fn options(&mut self, index: usize, accepted: &'static [&'static str]) -> Result<Options, Failure> {
        Options::new(self.take(index), "options", accepted)
    }
}

/// An object with known fields.
pub(super) struct Options(Vec<(String, Datum)>);

impl Options {
    pub fn new(value: Datum, name: &str, accepted: &[&str]) -> Result<Self, Failure> {
        let fields = match value {
            Datum::Undefined => Vec::new(),
            Datum::Object(fields) => fields,
            other => return Err(expected(name, "an object", &other, "")),
        };
        if let Some((field, _)) = fields.iter().find(|(field, _)| !accepted.contains(&field.as_str())) {
            let nearest = nearest(field, accepted.iter().copied());
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_default();
            return Err(wrong(format!("{name} has no field \"{field}\"{hint} (accepted: {})", accepted.join(", "))));
        }
        Ok(Self(fields))
    }

    pub fn take(&mut self, name: &str) -> Datum {
        let found = self.0.iter_mut().find(|(field, _)| field == name);
        found.map_or(Datum::Undefined, |(_, value)| std::mem::replace(value, Datum::Undefined))
    }

    pub fn string(&mut self, name: &str) -> Result<Option<String>, Failure> {
        match self.take(name) {
            Datum::Undefined => Ok(None),
            value => as_string(value, name).map(Some),
        }
    }

    pub fn required_string(&mut self, name: &str) -> Result<String, Failure> {
        as_string(self.take(name), name)
    }

    /// One string or a list of them.
    pub fn strings(&mut self, name: &str) -> Result<Vec<String>, Failure> {
        match self.take(name) {
            Datum::Undefined => Ok(Vec::new()),
            Datum::String(text) => Ok(vec![text]),
            Datum::Array(items) => items.into_iter().map(|item| as_string(item, name)).collect(),
            other => Err(expected(name, "a string or an array of strings", &other, "")),
        }
    }

    pub fn flag(&mut self, name: &str) -> Result<bool, Failure> {
        match self.take(name) {
            Datum::Undefined => Ok(false),
            Datum::Bool(value) => Ok(value),
            other => Err(expected(name, "a boolean", &other, "")),
        }
    }

    /// A whole number of at least `min`.
    pub fn whole(&mut self, name: &str, min: u64) -> Result<Option<u64>, Failure> {
        const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
        match self.take(name) {
            Datum::Undefined => Ok(None),
            Datum::Number(n) if n.fract() == 0.0 && n >= min as f64 && n <= MAX_SAFE => Ok(Some(n as u64)),
            other => Err(expected(name, &format!("a whole number from {min} up"), &other, "")),
        }
    }

    pub fn limited(&mut self, name: &str, limit: Limit) -> Result<usize, Failure> {
        let min = limit.default.min(1);
        match self.whole(name, min as u64)? {
            None => Ok(limit.default),
            Some(n) if n <= limit.max as u64 => Ok(n as usize),
            Some(n) => Err(wrong(format!("{name} can be at most {}, got {n}", limit.max))),
        }
    }

    /// One of a few words; the first of `accepted` is the default.
    pub fn word<T: Copy>(&mut self, name: &str, accepted: &[(&str, T)]) -> Result<T, Failure> {
        let value = self.take(name);
        let chosen = match &value {
            Datum::Undefined => accepted.first(),
            Datum::String(text) => accepted.iter().find(|(word, _)| word == text),
            _ => None,
        };
        chosen.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let words: Vec<_> = accepted.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            expected(name, &words.join(" or "), &value, "")
        })
    }
}

fn as_string(value: Datum, name: &str) -> Result<String, Failure> {
    match value {
        Datum::String(text) => Ok(text),
        other => Err(expected(name, "a string", &other, "")),
    }
}

pub(super) fn expected(name: &str, wanted: &str, got: &Datum, hint: &str) -> Failure {
    wrong(format!("{name} must be {wanted}, got {}{hint}", describe(got)))
}

pub(super) fn wrong(detail: impl Into<String>) -> Failure {
    FaultKind::InvalidArgument.because(detail).into()
}

fn describe(value: &Datum) -> String {
    match value {
        Datum::Undefined => "undefined".into(),
        Datum::Null => "null".into(),
        Datum::Bool(value) => format!("the boolean {value}"),
        Datum::Number(n) => format!("the number {n}"),
        Datum::String(text) => format!("the string {}", quote(text, 40)),
        Datum::Bytes(_) => "a Uint8Array".into(),
        Datum::Date(_) => "a Date".into(),
        Datum::Array(_) => "an array".into(),
        Datum::Object(_) => "an object".into(),
    }
}

/// Text in quotes on one line, cut after `max` characters.
pub(super) fn quote(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => format!("{text:?}"),
        Some((cut, _)) => format!("{:?}", format!("{}…", &text[..cut])),
    }
}

/// The word that is spelled most like `wanted`, if any is near.
pub(super) fn nearest<'a>(wanted: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.5;
    let scored = words.zip(iter::repeat(wanted)).map(|(word, wanted)| (score(word, wanted), word));
    scored.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, word)| word)
}

fn score(word: &str, wanted: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(&word.to_lowercase(), &wanted.to_lowercase())
}
