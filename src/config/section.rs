//! A table of `axon.toml` while it is read: each key is asked for by name, what nobody asked for is a mistake.

use std::{
    collections::BTreeMap,
    ops::{Range, RangeInclusive},
};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    error::{Place, Problem},
    schema::Words,
};
use crate::text::nearest;

/// How many mistakes are told one by one: to find the line of one takes as long as the file is.
const MAX_TOLD: usize = 20;

/// The mistakes found so far.
#[derive(Default)]
pub(super) struct Problems {
    found: Vec<Mistake>,
}

struct Mistake {
    span: Range<usize>,
    /// What stands in the place of a line that may hold a secret.
    shown: Option<String>,
    message: String,
    help: Option<String>,
}

impl Problems {
    pub fn add(&mut self, span: Range<usize>, message: String, help: Option<String>) {
        self.found.push(Mistake { span, shown: None, message, help });
    }

    /// For a line that may hold a secret: `shown` stands in its place.
    pub fn add_concealed(&mut self, span: Range<usize>, shown: &str, message: String, help: String) {
        self.found.push(Mistake { span, shown: Some(shown.to_owned()), message, help: Some(help) });
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Leaves the first `count` that were found.
    pub fn truncate(&mut self, count: usize) {
        self.found.truncate(count);
    }

    /// In the order of the file, of which `source` is the text.
    pub fn told(mut self, source: &str) -> Vec<Problem> {
        self.found.sort_by_key(|mistake| mistake.span.start);
        let more = self.found.len().saturating_sub(MAX_TOLD);
        let told = self.found.into_iter().take(MAX_TOLD).map(|Mistake { span, shown, message, help }| {
            let place = Place::of(source, span);
            let place = match shown {
                Some(text) => Place { column: 1, width: text.chars().count(), text, ..place },
                None => place,
            };
            Problem { place: Some(place), message, help }
        });
        let rest =
            (more > 0).then(|| Problem { place: None, message: format!("and {more} more mistakes"), help: None });
        told.chain(rest).collect()
    }
}

/// Whether a value under that name must not be repeated where others may read it.
fn may_be_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    ["key", "token", "secret", "password"].iter().any(|word| name.contains(word))
}

/// A table while it is read.
pub(super) struct Section<'t, 's> {
    /// As in `[policy.fs]`; empty for the whole file.
    path: String,
    table: Option<&'t DeTable<'s>>,
    accepted: Vec<&'static str>,
}

type Value<'s> = Spanned<DeValue<'s>>;

impl<'t, 's> Section<'t, 's> {
    pub fn root(table: &'t DeTable<'s>) -> Self {
        Self { path: String::new(), table: Some(table), accepted: Vec::new() }
    }

    fn named(path: String, table: Option<&'t DeTable<'s>>) -> Self {
        Self { path, table, accepted: Vec::new() }
    }

    /// Reports the keys that nobody asked for.
    pub fn finish(self, problems: &mut Problems) {
        for key in self.table.into_iter().flat_map(|table| table.keys()) {
            let name = key.get_ref().as_ref();
            if self.accepted.contains(&name) {
                continue;
            }
            let place = if self.path.is_empty() { String::new() } else { format!(" in [{}]", self.path) };
            let help = suggest(name, &self.accepted, "accepted keys");
            let message = format!("unknown key `{name}`{place}");
            if may_be_secret(name) {
                problems.add_concealed(key.span(), &format!("{name} = …"), message, help);
            } else {
                problems.add(key.span(), message, Some(help));
            }
        }
    }

    /// A table in this one. Without it all that it holds is absent.
    pub fn section(&mut self, key: &'static str, problems: &mut Problems) -> Section<'t, 's> {
        let path = self.path_of(key);
        let table = self.get(key).and_then(|value| table_of(&path, value, problems));
        Section::named(path, table)
    }

    /// The tables in this one, whatever their names.
    pub fn sections(&mut self, problems: &mut Problems) -> Vec<(String, Section<'t, 's>)> {
        let entries = self.table.take().into_iter().flat_map(|table| table.iter());
        let named = entries.filter_map(|(key, value)| {
            let name = key.get_ref().to_string();
            let path = self.path_of(&name);
            table_of(&path, value, problems).map(|table| (name, Section::named(path, Some(table))))
        });
        named.collect()
    }

    /// The values in this table, whatever their keys, in the order of the file.
    pub fn entries(&mut self) -> Vec<(String, &'t Value<'s>)> {
        let entries = self.table.take().into_iter().flat_map(|table| table.iter());
        let mut entries: Vec<_> = entries.map(|(key, value)| (key.span().start, key.get_ref(), value)).collect();
        entries.sort_by_key(|(start, ..)| *start);
        entries.into_iter().map(|(_, key, value)| (key.to_string(), value)).collect()
    }

    pub fn string(&mut self, key: &'static str, problems: &mut Problems) -> Option<String> {
        let path = self.path_of(key);
        self.get(key).and_then(|value| string_of(&path, value, problems))
    }

    /// A list of texts, each of which `check` accepts or says what is wrong with it.
    pub fn checked_strings(
        &mut self,
        key: &'static str,
        problems: &mut Problems,
        check: impl Fn(&str) -> Result<(), String>,
    ) -> Option<Vec<String>> {
        let path = self.path_of(key);
        let value = self.get(key)?;
        let DeValue::Array(items) = value.get_ref() else {
            wrong_type(&path, "a list of texts, as in [\"a\", \"b\"]", value, problems);
            return None;
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            let Some(text) = string_of(&path, item, problems) else { continue };
            match check(&text) {
                Ok(()) => texts.push(text),
                Err(why) => problems.add(item.span(), format!("`{path}`: {why}"), None),
            }
        }
        Some(texts)
    }

    /// Texts by name.
    pub fn string_map(&mut self, key: &'static str, problems: &mut Problems) -> BTreeMap<String, String> {
        let path = self.path_of(key);
        let entries = self.section(key, problems).entries();
        let texts = entries.into_iter().filter_map(|(name, value)| {
            let text = string_of(&format!("{path}.{name}"), value, problems)?;
            Some((name, text))
        });
        texts.collect()
    }

    pub fn word<T: Words>(&mut self, key: &'static str, problems: &mut Problems) -> Option<T> {
        let path = self.path_of(key);
        self.get(key).and_then(|value| word_of(&path, value, problems))
    }

    /// A whole number within a range; `default` when absent or wrong.
    pub fn number(
        &mut self,
        key: &'static str,
        range: RangeInclusive<u64>,
        default: u64,
        problems: &mut Problems,
    ) -> u64 {
        let path = self.path_of(key);
        let Some(value) = self.get(key) else { return default };
        let DeValue::Integer(integer) = value.get_ref() else {
            wrong_type(&path, "a whole number", value, problems);
            return default;
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| u64::try_from(n).ok());
        match number.filter(|number| range.contains(number)) {
            Some(number) => number,
            None => {
                let (least, most) = (range.start(), range.end());
                problems.add(value.span(), format!("`{path}` must be from {least} to {most}, not {integer}"), None);
                default
            }
        }
    }

    /// An amount that is not negative; 0 when absent or wrong.
    pub fn amount(&mut self, key: &'static str, problems: &mut Problems) -> f64 {
        let path = self.path_of(key);
        let Some(value) = self.get(key) else { return 0.0 };
        let amount = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse::<f64>().ok(),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| n as f64),
            _ => {
                wrong_type(&path, "a number", value, problems);
                return 0.0;
            }
        };
        match amount.filter(|amount| amount.is_finite() && *amount >= 0.0) {
            Some(amount) => amount,
            None => {
                problems.add(value.span(), format!("`{path}` must be a number that is not negative"), None);
                0.0
            }
        }
    }

    pub fn is_present(&self) -> bool {
        self.table.is_some()
    }

    pub fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Where the value of a key stands.
    pub fn span(&self, key: &str) -> Option<Range<usize>> {
        self.table.and_then(|table| table.get(key)).map(Spanned::span)
    }

    fn get(&mut self, key: &'static str) -> Option<&'t Value<'s>> {
        self.accepted.push(key);
        self.table.and_then(|table| table.get(key))
    }
}

pub(super) fn word_of<T: Words>(path: &str, value: &Value<'_>, problems: &mut Problems) -> Option<T> {
    let text = string_of(path, value, problems)?;
    let found = T::WORDS.iter().find(|(word, _)| *word == text).map(|&(_, value)| value);
    if found.is_none() {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        let help = suggest(&text, &words, "accepted values");
        problems.add(value.span(), format!("`{path}` cannot be \"{text}\""), Some(help));
    }
    found
}

fn string_of(path: &str, value: &Value<'_>, problems: &mut Problems) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        _ => {
            wrong_type(path, "a text in quotes", value, problems);
            None
        }
    }
}

fn table_of<'t, 's>(path: &str, value: &'t Value<'s>, problems: &mut Problems) -> Option<&'t DeTable<'s>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => {
            wrong_type(path, "a table", value, problems);
            None
        }
    }
}

fn wrong_type(path: &str, wanted: &str, value: &Value<'_>, problems: &mut Problems) {
    let given = match value.get_ref() {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    problems.add(value.span(), format!("`{path}` must be {wanted}, not {given}"), None);
}

/// The nearest of the accepted words, if one is near, and all of them.
fn suggest(given: &str, accepted: &[&str], what: &str) -> String {
    let all = accepted.join(", ");
    match nearest(given, accepted.iter().copied()) {
        Some(word) => format!("did you mean `{word}`? {what}: {all}"),
        None => format!("{what}: {all}"),
    }
}
