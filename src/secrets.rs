//! Values that must not be seen: not in the log, not in an error, not by a model.

use std::sync::{Arc, PoisonError, RwLock};

use axon_capsule::Datum;
use serde_json::Value;

/// Shorter values are too common to be looked for.
const MIN_CHARS: usize = 4;

/// A name in brackets, and the value whose place it takes.
type Secret = (String, String);

/// The values of granted secrets. Wherever one appears, the name of its variable takes its place.
///
/// Clones are one set: what one of them learns, all of them hide from then on. Nothing is ever forgotten, since what was
/// known before may come up again.
#[derive(Clone, Default)]
pub struct Secrets(Arc<RwLock<Arc<[Secret]>>>);

impl Secrets {
    /// From names of variables and their values.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let secrets = Self::default();
        secrets.learn(variables);
        secrets
    }

    /// Hides these too, from now on.
    pub fn learn(&self, variables: impl IntoIterator<Item = (String, String)>) {
        let mut secrets = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let long_enough = variables.into_iter().filter(|(_, value)| value.chars().count() >= MIN_CHARS);
        let new = long_enough.flat_map(|(name, value)| {
            let name = format!("[{name}]");
            spellings(value).into_iter().map(move |spelling| (name.clone(), spelling))
        });
        let mut known: Vec<_> = secrets.iter().cloned().chain(new).collect();
        // A value that holds another one goes first.
        known.sort_by(|(name, value), (other, longer)| longer.len().cmp(&value.len()).then(name.cmp(other)));
        known.dedup();
        *secrets = known.into();
    }

    pub fn hide_in_text(&self, text: &mut String) {
        in_text(&self.known(), text);
    }

    pub fn hide_in_json(&self, json: &mut Value) {
        let known = self.known();
        if !known.is_empty() {
            in_json(&known, json);
        }
    }

    pub fn hide_in_datum(&self, datum: &mut Datum) {
        let known = self.known();
        if !known.is_empty() {
            in_datum(&known, datum);
        }
    }

    fn known(&self) -> Arc<[Secret]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A value as it is, as it stands inside a string of JSON, and as it stands in a URL or a form.
fn spellings(value: String) -> Vec<String> {
    let quoted = Value::from(value.as_str()).to_string();
    let in_json = quoted[1..quoted.len() - 1].to_owned();
    let percent = |space: &str, kept: &str| {
        let byte = |byte: u8| match byte {
            b' ' => space.to_owned(),
            _ if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        };
        value.bytes().map(byte).collect::<String>()
    };
    // As `encodeURIComponent`, `encodeURI` and `URLSearchParams` write it.
    let mut all =
        vec![in_json, percent("%20", "-_.!~*'()"), percent("%20", "-_.!~*'();/?:@&=+$,#"), percent("+", "-_.*")];
    all.retain(|spelling| *spelling != value);
    all.push(value);
    all.dedup();
    all
}

fn in_text(known: &[Secret], text: &mut String) {
    for (name, value) in known {
        if text.contains(value.as_str()) {
            *text = text.replace(value.as_str(), name);
        }
    }
}

fn in_json(known: &[Secret], json: &mut Value) {
    match json {
        Value::String(text) => in_text(known, text),
        Value::Array(items) => items.iter_mut().for_each(|item| in_json(known, item)),
        Value::Object(fields) => {
            let shown = |key: &String| known.iter().any(|(_, value)| key.contains(value.as_str()));
            if fields.keys().any(shown) {
                let renamed = std::mem::take(fields).into_iter().map(|(mut key, value)| {
                    in_text(known, &mut key);
                    (key, value)
                });
                *fields = renamed.collect();
            }
            fields.values_mut().for_each(|value| in_json(known, value));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn in_datum(known: &[Secret], datum: &mut Datum) {
    match datum {
        Datum::String(text) => in_text(known, text),
        Datum::Bytes(bytes) => in_bytes(known, bytes),
        Datum::Array(items) => items.iter_mut().for_each(|item| in_datum(known, item)),
        Datum::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
            in_text(known, name);
            in_datum(known, value);
        }),
        Datum::Undefined | Datum::Null | Datum::Bool(_) | Datum::Number(_) | Datum::Date(_) => {}
    }
}

fn in_bytes(known: &[Secret], bytes: &mut Vec<u8>) {
    for (name, value) in known {
        let value = value.as_bytes();
        while let Some(at) = bytes.windows(value.len()).position(|window| window == value) {
            bytes.splice(at..at + value.len(), name.bytes());
        }
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.known().iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secrets() -> Secrets {
        Secrets::new([("KEY".to_owned(), "s3cret".to_owned()), ("LONG".to_owned(), "s3cret-and-more".to_owned())])
    }

    #[test]
    fn a_value_is_hidden_wherever_it_appears() {
        let mut json = json!({ "a": ["x s3cret y", { "s3cret": 1 }], "b": "s3cret-and-more" });
        secrets().hide_in_json(&mut json);
        assert_eq!(json, json!({ "a": ["x [KEY] y", { "[KEY]": 1 }], "b": "[LONG]" }));
        let mut datum = Datum::Array(vec![Datum::Bytes(b"<s3cret>".to_vec()), Datum::String("s3crets".into())]);
        secrets().hide_in_datum(&mut datum);
        assert_eq!(datum, Datum::Array(vec![Datum::Bytes(b"<[KEY]>".to_vec()), Datum::String("[KEY]s".into())]));
        assert!(!format!("{:?}", secrets()).contains("s3cret"));
    }

    #[test]
    fn what_one_learns_later_all_hide_and_what_was_known_before_stays_hidden() {
        let first = secrets();
        let made_before = first.clone();
        first
            .learn([("LATER".to_owned(), "s3cret-and-more-still".to_owned()), ("KEY".to_owned(), "s3cret".to_owned())]);
        let mut text = "s3cret, s3cret-and-more, s3cret-and-more-still".to_owned();
        made_before.hide_in_text(&mut text);
        assert_eq!(text, "[KEY], [LONG], [LATER]");
        assert_eq!(format!("{made_before:?}"), r#"["[LATER]", "[LONG]", "[KEY]"]"#);
    }

    #[test]
    fn a_value_is_hidden_in_the_spellings_of_json_and_of_urls() {
        let secrets = Secrets::new([("PEM".to_owned(), "-- \"KEY\" --\nab:c/d+e=é\\".to_owned())]);
        for spelled in [
            r#"-- \"KEY\" --\nab:c/d+e=é\\"#,
            "--%20%22KEY%22%20--%0Aab%3Ac%2Fd%2Be%3D%C3%A9%5C",
            "--%20%22KEY%22%20--%0Aab:c/d+e=%C3%A9%5C",
            "--+%22KEY%22+--%0Aab%3Ac%2Fd%2Be%3D%C3%A9%5C",
        ] {
            let mut text = format!("x={spelled}&");
            secrets.hide_in_text(&mut text);
            assert_eq!(text, "x=[PEM]&", "{spelled}");
        }
    }

    #[test]
    fn values_too_short_to_be_secrets_hide_nothing() {
        let mut text = "a1b".to_owned();
        Secrets::new([("N".to_owned(), "1".to_owned())]).hide_in_text(&mut text);
        assert_eq!(text, "a1b");
    }
}
