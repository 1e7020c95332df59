//! What crosses between a block and a tool: JSON, bytes and dates.

use serde_json::{Map, Number, Value};

/// JSON plus `Uint8Array` and `Date`.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// `undefined`; a missing argument or a function without a result.
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    String(String),
    Bytes(Vec<u8>),
    /// Milliseconds since the Unix epoch.
    Date(f64),
    Array(Vec<Datum>),
    Object(Vec<(String, Datum)>),
}

impl From<Value> for Datum {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(b),
            Value::Number(n) => Self::Number(n.as_f64().unwrap_or(f64::NAN)),
            Value::String(s) => Self::String(s),
            Value::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Value::Object(map) => Self::Object(map.into_iter().map(|(k, v)| (k, Self::from(v))).collect()),
        }
    }
}

impl Datum {
    /// As telemetry shows it: bytes and dates as text, numbers that JSON lacks as `null`.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Undefined | Self::Null => Value::Null,
            Self::Bool(b) => Value::Bool(*b),
            Self::Number(n) => json_number(*n),
            Self::String(s) => Value::String(s.clone()),
            Self::Bytes(bytes) => Value::String(format!("<{} bytes>", bytes.len())),
            Self::Date(ms) => Value::String(format!("<date {ms}>")),
            Self::Array(items) => Value::Array(items.iter().map(Self::to_json).collect()),
            Self::Object(fields) => {
                Value::Object(fields.iter().map(|(k, v)| (k.clone(), v.to_json())).collect::<Map<_, _>>())
            }
        }
    }
}

/// Integers that f64 holds exactly are written as integers.
fn json_number(n: f64) -> Value {
    const MAX_SAFE: f64 = 9_007_199_254_740_991.0;
    if n.fract() == 0.0 && n.abs() <= MAX_SAFE {
        Value::Number(Number::from(n as i64))
    } else {
        Number::from_f64(n).map_or(Value::Null, Value::Number)
    }
}
