//! JSON between Rust and Luau without loss.
//!
//! - `null` is `json.null`, a value of its own: a field that holds it is there.
//! - A table with the keys 1..n is an array. An empty table is `{}`; `json.array(t)` marks one that is `[]`, and every
//!   array that came from JSON is marked.
//! - Integers are exact up to 2^53; larger ones raise instead of being rounded.

use std::{cell::RefCell, collections::HashMap};

use mlua::{Lua, LuaString, Table, Value as LuaValue};
use serde_json::{Map, Number, Value};

use crate::limits::{MAX_JSON_TEXT_BYTES, MAX_VALUE_BYTES};

/// The largest integer that every side holds exactly: 2^53.
const MAX_EXACT: u64 = 1 << 53;

/// From here on a number is beyond every integer type and can only be a float: 2^64.
const BEYOND_INTEGERS: f64 = 18_446_744_073_709_551_616.0;

/// What a value costs besides its text, in bytes: about what it takes in memory as a field of an object.
const VALUE_BYTES: usize = 128;

/// How deep a value may nest: what `serde_json` parses.
const MAX_DEPTH: usize = 127;

/// Why a value could not cross.
#[derive(Debug)]
pub(crate) enum JsonError {
    /// It is not JSON, or not to be had exactly. The text begins with the path of the value.
    Refused(String),
    /// The VM failed on the way.
    Vm(mlua::Error),
}

impl From<mlua::Error> for JsonError {
    fn from(error: mlua::Error) -> Self {
        Self::Vm(error)
    }
}

/// Where the VM keeps the metatable that marks arrays.
const ARRAY: &str = "axon.array";

/// Before any other function here.
pub(crate) fn install(lua: &Lua) -> mlua::Result<()> {
    let metatable = lua.create_table()?;
    metatable.set_readonly(true);
    lua.set_named_registry_value(ARRAY, metatable)
}

fn array_metatable(lua: &Lua) -> mlua::Result<Table> {
    lua.named_registry_value(ARRAY)
}

/// Marks `table` as an array, whatever it holds.
pub(crate) fn mark_array(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.set_metatable(Some(array_metatable(lua)?))
}

pub(crate) fn to_lua(lua: &Lua, value: &Value) -> Result<LuaValue, JsonError> {
    Encoder::new(lua, Integers::Exact)?.value(value)
}

/// For a value of JavaScript, where every number is a double already, however JSON spells it.
pub(crate) fn doubles_to_lua(lua: &Lua, value: &Value) -> Result<LuaValue, JsonError> {
    Encoder::new(lua, Integers::Doubles)?.value(value)
}

#[derive(Clone, Copy)]
pub(crate) enum Integers {
    /// Those beyond 2^53 raise.
    Exact,
    Doubles,
}

/// How many words an [`Encoder`] keeps. Names of fields are few; data that is a table of its own words must not stay.
const MAX_WORDS: usize = 256;

/// Makes Luau values. One for many values makes the strings that stand in most of them once.
pub(crate) struct Encoder<'a> {
    lua: &'a Lua,
    array: Table,
    integers: Integers,
    words: RefCell<HashMap<Box<str>, LuaString>>,
}

impl<'a> Encoder<'a> {
    pub fn new(lua: &'a Lua, integers: Integers) -> mlua::Result<Self> {
        Ok(Self { array: array_metatable(lua)?, lua, integers, words: RefCell::default() })
    }

    pub fn value(&self, value: &Value) -> Result<LuaValue, JsonError> {
        Ok(match value {
            Value::Null => LuaValue::NULL,
            Value::Bool(flag) => LuaValue::Boolean(*flag),
            Value::Number(number) => LuaValue::Number(exact(number, self.integers)?),
            Value::String(text) => LuaValue::String(self.lua.create_string(text)?),
            Value::Array(items) => {
                let table = self.lua.create_table_with_capacity(items.len(), 0)?;
                for item in items {
                    table.raw_push(self.value(item)?)?;
                }
                table.set_metatable(Some(self.array.clone()))?;
                LuaValue::Table(table)
            }
            Value::Object(fields) => {
                let table = self.lua.create_table_with_capacity(0, fields.len())?;
                for (name, field) in fields {
                    table.raw_set(self.word(name)?, self.value(field)?)?;
                }
                LuaValue::Table(table)
            }
        })
    }

    /// A string that will come again.
    pub fn word(&self, text: &str) -> mlua::Result<LuaString> {
        if let Some(word) = self.words.borrow().get(text) {
            return Ok(word.clone());
        }
        let word = self.lua.create_string(text)?;
        let mut words = self.words.borrow_mut();
        if words.len() < MAX_WORDS {
            words.insert(text.into(), word.clone());
        }
        Ok(word)
    }
}

fn exact(number: &Number, integers: Integers) -> Result<f64, JsonError> {
    let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
    match (integers, magnitude, number.as_f64()) {
        (Integers::Exact, Some(magnitude), _) if magnitude > MAX_EXACT => Err(JsonError::Refused(too_large(number))),
        (_, _, Some(float)) => Ok(float),
        (_, _, None) => Err(JsonError::Refused(too_large(number))),
    }
}

fn too_large(number: impl std::fmt::Display) -> String {
    format!("the integer {number} is larger than 2^53 and would be rounded; carry it as a string")
}

pub(crate) fn from_lua(lua: &Lua, value: &LuaValue) -> Result<Value, JsonError> {
    Decoder { array: array_metatable(lua)?, path: Vec::new(), budget: MAX_VALUE_BYTES }.value(value)
}

struct Decoder {
    array: Table,
    path: Vec<String>,
    /// Bytes that may still leave.
    budget: usize,
}

impl Decoder {
    fn refuse(&self, what: impl std::fmt::Display) -> JsonError {
        if self.path.is_empty() {
            return JsonError::Refused(what.to_string());
        }
        JsonError::Refused(format!("{}: {what}", self.path.join(".")))
    }

    fn spend(&mut self, bytes: usize) -> Result<(), JsonError> {
        self.budget = self
            .budget
            .checked_sub(bytes)
            .ok_or_else(|| JsonError::Refused(format!("the value is larger than {} MiB", MAX_VALUE_BYTES >> 20)))?;
        Ok(())
    }

    fn value(&mut self, value: &LuaValue) -> Result<Value, JsonError> {
        self.spend(VALUE_BYTES)?;
        Ok(match value {
            LuaValue::Nil => Value::Null,
            LuaValue::LightUserData(pointer) if pointer.0.is_null() => Value::Null,
            LuaValue::Boolean(flag) => Value::Bool(*flag),
            LuaValue::Integer(integer) => self.number(*integer as f64)?,
            LuaValue::Number(number) => self.number(*number)?,
            LuaValue::String(text) => Value::String(self.text(text)?),
            LuaValue::Table(table) => {
                if self.path.len() >= MAX_DEPTH {
                    return Err(JsonError::Refused(format!(
                        "a table nests deeper than {MAX_DEPTH} levels, or holds itself, below {}",
                        self.path[..4].join(".")
                    )));
                }
                self.table(table)?
            }
            other => return Err(self.refuse(format_args!("a {} is not JSON", other.type_name()))),
        })
    }

    fn number(&self, number: f64) -> Result<Value, JsonError> {
        let whole = number.fract() == 0.0 && number.abs() < BEYOND_INTEGERS;
        if whole && number.abs() > MAX_EXACT as f64 {
            return Err(self.refuse(too_large(number)));
        }
        if whole && !(number == 0.0 && number.is_sign_negative()) {
            return Ok(Value::from(number as i64));
        }
        Number::from_f64(number).map(Value::Number).ok_or_else(|| self.refuse(format_args!("{number} is not JSON")))
    }

    fn text(&mut self, text: &LuaString) -> Result<String, JsonError> {
        self.spend(text.as_bytes().len())?;
        match text.to_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(self.refuse("a string is not UTF-8")),
        }
    }

    fn table(&mut self, table: &Table) -> Result<Value, JsonError> {
        let marked = table.metatable().is_some_and(|metatable| metatable == self.array);
        let length = table.raw_len();
        if marked || length > 0 {
            return self.array(table, length);
        }
        let mut fields = Vec::new();
        for pair in table.pairs::<LuaValue, LuaValue>() {
            let (key, field) = pair?;
            let LuaValue::String(name) = &key else {
                return Err(self.refuse(format_args!(
                    "a {} as a key is not JSON; the keys are strings, or 1 to n without holes",
                    key.type_name()
                )));
            };
            let name = self.text(name)?;
            self.path.push(name);
            let field = self.value(&field)?;
            fields.push((self.path.pop().unwrap_or_default(), field));
        }
        // Luau's own order depends on the table's history: the same data is always written the same way.
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Value::Object(Map::from_iter(fields)))
    }

    fn array(&mut self, table: &Table, length: usize) -> Result<Value, JsonError> {
        let mut items = Vec::with_capacity(length);
        for index in 1..=length {
            self.path.push(index.to_string());
            let item: LuaValue = table.raw_get(index)?;
            if item.is_nil() {
                return Err(self.refuse("an array has a hole; put json.null there"));
            }
            items.push(self.value(&item)?);
            self.path.pop();
        }
        let keys = table.pairs::<LuaValue, LuaValue>().take(length + 1).count();
        if keys > length {
            return Err(self.refuse("a table has both the keys 1 to n and others, or a hole between them"));
        }
        Ok(Value::Array(items))
    }
}

/// Parses `text`. Integers beyond 2^53 are refused however they are spelled out.
pub(crate) fn parse(text: &str) -> Result<Value, JsonError> {
    if text.len() > MAX_JSON_TEXT_BYTES {
        return Err(JsonError::Refused(format!("the text is larger than {} MiB", MAX_JSON_TEXT_BYTES >> 20)));
    }
    let value = serde_json::from_str(text).map_err(|error| JsonError::Refused(error.to_string()))?;
    match long_integer(text) {
        Some(integer) => Err(JsonError::Refused(too_large(integer))),
        None => Ok(value),
    }
}

/// An integer of `text`, which is JSON, that a double cannot hold. `serde_json` reads what exceeds 64 bits as a float.
fn long_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'0'..=b'9' => {
                let start = at;
                while at < bytes.len() && matches!(bytes[at], b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') {
                    at += 1;
                }
                let number = &text[start..at];
                let integer = number.bytes().all(|byte| byte.is_ascii_digit());
                if integer && number.parse::<u64>().map_or(true, |magnitude| magnitude > MAX_EXACT) {
                    return Some(number);
                }
            }
            _ => at += 1,
        }
    }
    None
}
