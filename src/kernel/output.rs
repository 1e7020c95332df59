//! The payloads of `kernel.output`, one table: what each type accepts.

use axon_runtime::VerbError;
use serde_json::{Map, Value};

/// What a field holds.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Milliseconds,
    Flag,
    OneOf(&'static [&'static str]),
    Anything,
    Fields(&'static [Field]),
}

#[derive(Clone, Copy)]
enum Need {
    Required,
    Optional,
}

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    shape: Shape,
    need: Need,
}

const fn required(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, need: Need::Required }
}

const fn optional(name: &'static str, shape: Shape) -> Field {
    Field { name, shape, need: Need::Optional }
}

const CHUNK: Field = optional("chunk", Shape::Fields(&[required("of", Shape::Text), optional("final", Shape::Flag)]));

const OUTPUTS: &[(&str, &[Field])] = &[
    ("cognet:output:text", &[required("content", Shape::Text), CHUNK]),
    (
        "cognet:output:audio",
        &[
            required("ref", Shape::Text),
            optional("transcript", Shape::Text),
            optional("durationMs", Shape::Milliseconds),
            CHUNK,
        ],
    ),
    (
        "cognet:output:visual",
        &[
            required("ref", Shape::Text),
            required("kind", Shape::OneOf(&["image", "video"])),
            optional("caption", Shape::Text),
            CHUNK,
        ],
    ),
    (
        "cognet:output:field",
        &[
            required("reading", Shape::Fields(&[required("value", Shape::Anything), optional("unit", Shape::Text)])),
            optional("ref", Shape::Text),
            CHUNK,
        ],
    ),
];

/// `OUTPUT_INVALID` names the field and what is accepted.
pub(crate) fn check(kind: &str, data: &Value) -> Result<(), VerbError> {
    let Some((_, fields)) = OUTPUTS.iter().find(|(name, _)| *name == kind) else {
        let known = names(OUTPUTS.iter().map(|(name, _)| *name));
        return Err(invalid(format!("{kind:?} is no output type; accepted are {known}")));
    };
    check_fields(kind, "", data, fields)
}

fn check_fields(kind: &str, path: &str, data: &Value, fields: &[Field]) -> Result<(), VerbError> {
    let accepted = || names(fields.iter().map(|field| field.name));
    let empty = Map::new();
    let object = match data {
        Value::Object(object) => object,
        // An empty Luau table may arrive as a list.
        Value::Array(items) if items.is_empty() => &empty,
        other => {
            let place =
                if path.is_empty() { "its data".to_owned() } else { format!("field {}", path.trim_end_matches('.')) };
            return Err(invalid(format!(
                "{kind}: {place} must be a table with {}, not {}",
                accepted(),
                name_of(other)
            )));
        }
    };
    for name in object.keys() {
        if !fields.iter().any(|field| field.name == name) {
            return Err(invalid(format!("{kind}: unknown field {path}{name}; accepted are {}", accepted())));
        }
    }
    for field in fields {
        let place = format!("{path}{}", field.name);
        match (object.get(field.name), field.need) {
            (None, Need::Optional) => {}
            (None, Need::Required) => {
                return Err(invalid(format!("{kind}: field {place} is missing; it must be {}", wanted(field.shape))));
            }
            (Some(value), _) => check_value(kind, &place, value, field.shape)?,
        }
    }
    Ok(())
}

fn check_value(kind: &str, place: &str, value: &Value, shape: Shape) -> Result<(), VerbError> {
    let fits = match (shape, value) {
        (Shape::Anything, _) | (Shape::Text, Value::String(_)) | (Shape::Flag, Value::Bool(_)) => true,
        (Shape::Milliseconds, Value::Number(n)) => n.as_f64().is_some_and(|n| n >= 0.0),
        (Shape::OneOf(words), Value::String(word)) => words.contains(&word.as_str()),
        (Shape::Fields(fields), value) => return check_fields(kind, &format!("{place}."), value, fields),
        _ => false,
    };
    if fits {
        return Ok(());
    }
    let got = match (shape, value) {
        (Shape::OneOf(_) | Shape::Milliseconds, value) => value.to_string(),
        (_, value) => name_of(value).to_owned(),
    };
    Err(invalid(format!("{kind}: field {place} must be {}, not {got}", wanted(shape))))
}

fn wanted(shape: Shape) -> String {
    match shape {
        Shape::Text => "a string".to_owned(),
        Shape::Milliseconds => "a number of milliseconds, 0 or more".to_owned(),
        Shape::Flag => "a boolean".to_owned(),
        Shape::OneOf(words) => names(words.iter().copied()),
        Shape::Anything => "a value".to_owned(),
        Shape::Fields(fields) => format!("a table with {}", names(fields.iter().map(|field| field.name))),
    }
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a table",
    }
}

fn names<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
}

fn invalid(message: String) -> VerbError {
    VerbError::new("OUTPUT_INVALID", message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    #[test]
    fn every_documented_payload_is_accepted() {
        for (kind, data) in [
            ("cognet:output:text", json!({"content": ""})),
            ("cognet:output:text", json!({"content": "x", "chunk": {"of": "a"}})),
            ("cognet:output:text", json!({"content": "x", "chunk": {"of": "a", "final": true}})),
            ("cognet:output:audio", json!({"ref": "a.wav", "transcript": "hi", "durationMs": 12.5})),
            ("cognet:output:visual", json!({"ref": "a.png", "kind": "image", "caption": "c"})),
            ("cognet:output:field", json!({"reading": {"value": 21.5, "unit": "C"}, "ref": "r"})),
            ("cognet:output:field", json!({"reading": {"value": null}})),
        ] {
            assert!(check(kind, &data).is_ok(), "{kind} {data}");
        }
    }

    #[test]
    fn a_malformed_payload_is_refused_naming_the_field_and_what_is_accepted() {
        for (kind, data, says) in [
            ("cognet:output:smell", json!({}), "accepted are \"cognet:output:text\""),
            ("cognet:output:text", json!([]), "field content is missing"),
            ("cognet:output:text", json!("hi"), "its data must be a table"),
            ("cognet:output:text", json!({"content": 1}), "field content must be a string, not a number"),
            ("cognet:output:text", json!({"content": "x", "contnt": "y"}), "unknown field contnt"),
            ("cognet:output:text", json!({"content": "x", "chunk": {}}), "field chunk.of is missing"),
            (
                "cognet:output:text",
                json!({"content": "x", "chunk": {"of": "a", "end": true}}),
                "unknown field chunk.end",
            ),
            (
                "cognet:output:audio",
                json!({"ref": "a", "durationMs": -1}),
                "durationMs must be a number of milliseconds",
            ),
            ("cognet:output:visual", json!({"ref": "a", "kind": "gif"}), "must be \"image\", \"video\", not \"gif\""),
            ("cognet:output:field", json!({"reading": 3}), "field reading must be a table"),
        ] {
            let error = check(kind, &data).unwrap_err();
            assert_eq!(error.code, "OUTPUT_INVALID");
            assert!(error.message.contains(says), "{}", error.message);
        }
    }
}
