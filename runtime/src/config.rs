//! What a cognet says of itself: the table of `defineCognet`.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{ABI_VERSION, VerbError, error::code, nearest::did_you_mean};

const DEFAULT_MAX_TICKS_PER_WAKE: u32 = 32;

const FIELDS: [&str; 6] = ["name", "version", "abi", "mode", "maxTicksPerWake", "wakeOn"];
const STIMULI: [&str; 4] = ["stimulus:text", "stimulus:audio", "stimulus:visual", "stimulus:field"];

/// A cognet's identity and how it is to be scheduled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CognetConfig {
    pub name: String,
    pub version: String,
    pub abi: String,
    pub mode: Mode,
    /// A wake that has not stopped after as many ticks fails.
    pub max_ticks_per_wake: u32,
    /// The stimuli that wake it; all of them for `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_on: Option<Vec<String>>,
}

/// When a cognet is awake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Asleep until a stimulus is admitted.
    #[default]
    Invocation,
    /// Woken on a period.
    Continuous,
}

/// The identity alone, which stands even where the rest is of another ABI and cannot be read.
pub(crate) fn identity(table: &Value) -> Option<CognetConfig> {
    let text = |field: &str| table.get(field).and_then(Value::as_str).map(str::to_owned);
    Some(CognetConfig {
        name: text("name")?,
        version: text("version")?,
        abi: text("abi")?,
        mode: Mode::default(),
        max_ticks_per_wake: DEFAULT_MAX_TICKS_PER_WAKE,
        wake_on: None,
    })
}

/// `COGNET_ABI_MISMATCH` naming both versions, unless they are the same.
pub(crate) fn check_abi(config: &CognetConfig) -> Result<(), VerbError> {
    if config.abi == ABI_VERSION {
        return Ok(());
    }
    let CognetConfig { name, version, abi, .. } = config;
    let message = format!("{name} {version} is written for ABI \"{abi}\", this kernel speaks ABI \"{ABI_VERSION}\"");
    Err(VerbError::new(code::ABI_MISMATCH, message))
}

/// Reads the whole table.
pub(crate) fn parse(table: &Value) -> Result<CognetConfig, VerbError> {
    let Value::Object(fields) = table else {
        return Err(invalid("a table with name, version and abi is wanted"));
    };
    if let Some(unknown) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        let near = did_you_mean(unknown, FIELDS);
        return Err(invalid(format!("unknown field `{unknown}`{near}. Accepted: {}", FIELDS.join(", "))));
    }
    let name = text(fields, "name")?;
    if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        return Err(invalid(format!("name {name:?} may hold letters, digits, `-`, `_` and `.` only")));
    }
    Ok(CognetConfig {
        name,
        version: text(fields, "version")?,
        abi: text(fields, "abi")?,
        mode: mode(fields.get("mode"))?,
        max_ticks_per_wake: max_ticks(fields.get("maxTicksPerWake"))?,
        wake_on: wake_on(fields.get("wakeOn"))?,
    })
}

fn text(fields: &Map<String, Value>, field: &str) -> Result<String, VerbError> {
    match fields.get(field) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(other) => Err(invalid(format!("{field} must be a string that is not empty, not {other}"))),
        None => Err(invalid(format!("{field} is missing"))),
    }
}

fn mode(value: Option<&Value>) -> Result<Mode, VerbError> {
    let Some(value) = value else { return Ok(Mode::default()) };
    let kinds = "mode = { kind = \"invocation\" } or { kind = \"continuous\" }";
    let Value::Object(fields) = value else { return Err(invalid(format!("mode must be a table: {kinds}"))) };
    if let Some(unknown) = fields.keys().find(|field| *field != "kind") {
        return Err(invalid(format!("unknown field `mode.{unknown}`: {kinds}")));
    }
    match fields.get("kind").and_then(Value::as_str) {
        Some("invocation") => Ok(Mode::Invocation),
        Some("continuous") => Ok(Mode::Continuous),
        _ => Err(invalid(format!("mode.kind is neither: {kinds}"))),
    }
}

fn max_ticks(value: Option<&Value>) -> Result<u32, VerbError> {
    let Some(value) = value else { return Ok(DEFAULT_MAX_TICKS_PER_WAKE) };
    let ticks = value.as_u64().and_then(|ticks| u32::try_from(ticks).ok()).filter(|ticks| *ticks > 0);
    ticks.ok_or_else(|| invalid(format!("maxTicksPerWake must be a whole number from 1, not {value}")))
}

fn wake_on(value: Option<&Value>) -> Result<Option<Vec<String>>, VerbError> {
    let Some(value) = value else { return Ok(None) };
    let Value::Array(kinds) = value else {
        return Err(invalid("wakeOn must be a list with at least one of the stimulus types"));
    };
    let known = |kind: &Value| match kind.as_str() {
        Some(kind) if STIMULI.contains(&kind) => Ok(kind.to_owned()),
        _ => {
            let near = did_you_mean(kind.as_str().unwrap_or_default(), STIMULI);
            Err(invalid(format!("wakeOn holds {kind}{near}. Accepted: {}", STIMULI.join(", "))))
        }
    };
    kinds.iter().map(known).collect::<Result<_, _>>().map(Some)
}

fn invalid(message: impl std::fmt::Display) -> VerbError {
    VerbError::new(code::INVALID, format!("defineCognet: {message}"))
}
