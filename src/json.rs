//! What must be known of JSON that is written to be read again.

use serde_json::Value;

/// How many lists and objects may lie within one another in a text that `serde_json` is to read back.
pub(crate) const MAX_NESTING: usize = 127;

/// Whether more than `levels` lists and objects lie within one another.
pub(crate) fn nests_deeper_than(value: &Value, levels: usize) -> bool {
    let Some(inner_levels) = levels.checked_sub(1) else { return value.is_array() || value.is_object() };
    let deeper = |inner: &Value| nests_deeper_than(inner, inner_levels);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(members) => members.values().any(deeper),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, level| match level % 2 {
            0 => Value::Array(vec![inner]),
            _ => Value::Object([("x".to_owned(), inner)].into_iter().collect()),
        })
    }

    #[test]
    fn the_limit_is_what_can_be_read_back() {
        for levels in [0, 1, 5, MAX_NESTING - 1, MAX_NESTING, MAX_NESTING + 1, MAX_NESTING + 50] {
            let value = nested(levels);
            let read = serde_json::from_str::<Value>(&value.to_string());
            assert_eq!(nests_deeper_than(&value, MAX_NESTING), read.is_err(), "{levels}");
        }
    }
}
