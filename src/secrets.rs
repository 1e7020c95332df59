//! Values that must not be seen: not in the log, not in an error, not by a model.

use std::sync::Arc;

use axon_capsule::Datum;
use serde_json::Value;

/// Shorter values are too common to be looked for.
const MIN_CHARS: usize = 4;

/// The values of granted secrets. Wherever one appears, the name of its variable takes its place.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[(String, String)]>);

impl Secrets {
    /// From names of variables and their values.
    pub fn new(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut known: Vec<_> = variables
            .into_iter()
            .filter(|(_, value)| value.chars().count() >= MIN_CHARS)
            .map(|(name, value)| (format!("[{name}]"), value))
            .collect();
        // A value that holds another one goes first.
        known.sort_by_key(|(_, value)| std::cmp::Reverse(value.len()));
        known.dedup();
        Self(known.into())
    }

    pub fn hide_in_text(&self, text: &mut String) {
        for (name, value) in &*self.0 {
            if text.contains(value.as_str()) {
                *text = text.replace(value.as_str(), name);
            }
        }
    }

    pub fn hide_in_json(&self, json: &mut Value) {
        if self.0.is_empty() {
            return;
        }
        match json {
            Value::String(text) => self.hide_in_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide_in_json(item)),
            Value::Object(fields) => {
                if fields.keys().any(|key| self.shows(key)) {
                    let renamed = std::mem::take(fields).into_iter().map(|(mut key, value)| {
                        self.hide_in_text(&mut key);
                        (key, value)
                    });
                    *fields = renamed.collect();
                }
                fields.values_mut().for_each(|value| self.hide_in_json(value));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub fn hide_in_datum(&self, datum: &mut Datum) {
        match datum {
            Datum::String(text) => self.hide_in_text(text),
            Datum::Bytes(bytes) => self.hide_in_bytes(bytes),
            Datum::Array(items) => items.iter_mut().for_each(|item| self.hide_in_datum(item)),
            Datum::Object(fields) => fields.iter_mut().for_each(|(name, value)| {
                self.hide_in_text(name);
                self.hide_in_datum(value);
            }),
            Datum::Undefined | Datum::Null | Datum::Bool(_) | Datum::Number(_) | Datum::Date(_) => {}
        }
    }

    fn hide_in_bytes(&self, bytes: &mut Vec<u8>) {
        for (name, value) in &*self.0 {
            let value = value.as_bytes();
            while let Some(at) = bytes.windows(value.len()).position(|window| window == value) {
                bytes.splice(at..at + value.len(), name.bytes());
            }
        }
    }

    fn shows(&self, text: &str) -> bool {
        self.0.iter().any(|(_, value)| text.contains(value.as_str()))
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
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
    fn values_too_short_to_be_secrets_hide_nothing() {
        let mut text = "a1b".to_owned();
        Secrets::new([("N".to_owned(), "1".to_owned())]).hide_in_text(&mut text);
        assert_eq!(text, "a1b");
    }
}
