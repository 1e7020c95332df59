//! Shapes of the arguments of verbs.

use mlua::{Lua, Table, Value as LuaValue};
use serde_json::Value;

use super::Raised;
use crate::{
    VerbError,
    error::code,
    json::{self, JsonError},
    nearest::did_you_mean,
};

pub(super) fn invalid(message: impl std::fmt::Display) -> VerbError {
    VerbError::new(code::ARGUMENT_INVALID, message.to_string())
}

pub(super) fn string(value: &LuaValue, what: &str) -> Result<String, VerbError> {
    let LuaValue::String(text) = value else {
        return Err(invalid(format_args!("{what} must be a string, not {}", described(value))));
    };
    Ok(text.to_str().map_err(|_| invalid(format_args!("{what} is not UTF-8")))?.to_owned())
}

pub(super) fn table<'a>(value: &'a LuaValue, what: &str) -> Result<&'a Table, VerbError> {
    match value {
        LuaValue::Table(table) => Ok(table),
        other => Err(invalid(format_args!("{what} must be a table, not {}", described(other)))),
    }
}

/// `value`, which must be a table, as JSON.
pub(super) fn data(lua: &Lua, value: &LuaValue, what: &str) -> Result<Value, Raised> {
    table(value, what)?;
    json::from_lua(lua, value).map_err(|error| match error {
        JsonError::Refused(why) => invalid(format_args!("{what}: {why}")).into(),
        JsonError::Vm(error) => error.into(),
    })
}

/// Refuses fields of `table` that nobody would look at.
pub(super) fn only(table: &Table, accepted: &[&str], what: &str) -> Result<(), Raised> {
    for pair in table.pairs::<LuaValue, LuaValue>() {
        let (key, _) = pair?;
        let name = match &key {
            LuaValue::String(name) => name.to_string_lossy(),
            other => described(other),
        };
        if !accepted.contains(&name.as_str()) {
            let near = did_you_mean(&name, accepted.iter().copied());
            let message = format!("{what} has no field `{name}`{near}. Accepted: {}", accepted.join(", "));
            return Err(VerbError::new(code::UNKNOWN_FIELD, message).into());
        }
    }
    Ok(())
}

/// The value of the word that is given.
pub(super) fn one_of<T: Copy>(value: &LuaValue, words: &[(&str, T)], what: &str) -> Result<T, VerbError> {
    let given = match value {
        LuaValue::String(text) => text.to_string_lossy(),
        other => return Err(invalid(format_args!("{what} must be {}, not {}", alternatives(words), described(other)))),
    };
    let known = words.iter().find(|(word, _)| *word == given);
    known.map(|&(_, value)| value).ok_or_else(|| {
        let near = did_you_mean(&given, words.iter().map(|&(word, _)| word));
        invalid(format_args!("{what} must be {}, not {given:?}{near}", alternatives(words)))
    })
}

/// `"a", "b" or "c"`.
fn alternatives<T>(words: &[(&str, T)]) -> String {
    let quoted: Vec<_> = words.iter().map(|(word, _)| format!("{word:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

pub(super) fn number(value: &LuaValue) -> Option<f64> {
    match value {
        LuaValue::Integer(number) => Some(*number as f64),
        LuaValue::Number(number) => Some(*number),
        _ => None,
    }
}

pub(super) fn described(value: &LuaValue) -> String {
    match value {
        LuaValue::Nil => "nil".to_owned(),
        LuaValue::Number(number) => format!("the number {number}"),
        LuaValue::Integer(number) => format!("the number {number}"),
        LuaValue::Boolean(flag) => flag.to_string(),
        other => format!("a {}", other.type_name()),
    }
}
