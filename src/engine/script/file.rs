//! The file of a scripted model.

use std::{num::NonZeroUsize, path::Path};

use axon_runtime::Usage;
use serde::Deserialize;

use crate::engine::{fault::FaultCode, spec::EngineConfigError};

/// What a scripted model answers, call by call.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFile {
    pub calls: Vec<ScriptCall>,
    /// A call behind the last one is a fault. Without it the last call repeats.
    #[serde(default)]
    pub strict: bool,
}

/// The answer to one call.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "CallKeys")]
pub(super) struct ScriptCall {
    pub answer: ScriptAnswer,
    /// The only model that is answered so; any for `None`.
    pub model: Option<String>,
    /// The wait before each piece, and before a fault.
    pub delay_ms: u64,
}

#[derive(Clone, Debug)]
pub(super) enum ScriptAnswer {
    Says { message: ScriptMessage, reasoning: Option<String>, end: ScriptEnd },
    Fails(ScriptFault),
}

#[derive(Clone, Debug)]
pub(super) enum ScriptMessage {
    /// Sent just as split.
    Deltas(Vec<String>),
    /// Sent in pieces of `chunk` characters, or at once.
    Text { text: String, chunk: Option<NonZeroUsize> },
}

#[derive(Clone, Debug)]
pub(super) enum ScriptEnd {
    Finished { stop_reason: String, usage: Option<Usage> },
    Disconnect,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScriptFault {
    pub code: Option<FaultCode>,
    pub status: Option<u16>,
    pub message: Option<String>,
    #[serde(rename = "retryAfterMs")]
    pub retry_after_ms: Option<u64>,
}

/// A call as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallKeys {
    model: Option<String>,
    deltas: Option<Vec<String>>,
    text: Option<String>,
    chunk: Option<NonZeroUsize>,
    delay_ms: Option<u64>,
    fault: Option<ScriptFault>,
    then: Option<Then>,
    usage: Option<UsageKeys>,
    stop_reason: Option<String>,
    reasoning: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Then {
    Disconnect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageKeys {
    input: Option<u64>,
    output: Option<u64>,
    #[serde(rename = "cachedInput")]
    cached_input: Option<u64>,
    reasoning: Option<u64>,
}

impl TryFrom<CallKeys> for ScriptCall {
    type Error = &'static str;

    fn try_from(keys: CallKeys) -> Result<Self, Self::Error> {
        let delay_ms = keys.delay_ms.unwrap_or_default();
        let message = match (keys.deltas, keys.text, keys.fault) {
            (Some(deltas), None, None) if keys.chunk.is_none() => ScriptMessage::Deltas(deltas),
            (Some(_), None, None) => return Err("`chunk` splits `text`; `deltas` are split already"),
            (None, Some(text), None) => ScriptMessage::Text { text, chunk: keys.chunk },
            (None, None, Some(fault)) => {
                let more = keys.chunk.is_some()
                    || keys.then.is_some()
                    || keys.usage.is_some()
                    || keys.stop_reason.is_some()
                    || keys.reasoning.is_some();
                return match fault {
                    _ if more => Err("a call with `fault` may have `delay_ms` and `model`, and nothing else"),
                    ScriptFault { code: None, status: None, .. } => Err("`fault` needs `status` or `code`"),
                    fault => Ok(Self { answer: ScriptAnswer::Fails(fault), model: keys.model, delay_ms }),
                };
            }
            _ => return Err("a call needs just one of `deltas`, `text` and `fault`"),
        };
        let end = match keys.then {
            Some(Then::Disconnect) if keys.usage.is_some() || keys.stop_reason.is_some() => {
                return Err("a call that ends in a disconnect has neither `usage` nor `stop_reason`");
            }
            Some(Then::Disconnect) => ScriptEnd::Disconnect,
            None => ScriptEnd::Finished {
                stop_reason: keys.stop_reason.unwrap_or_else(|| "stop".to_owned()),
                usage: keys.usage.map(|usage| Usage {
                    input: usage.input,
                    output: usage.output,
                    cached_input: usage.cached_input,
                    reasoning: usage.reasoning,
                }),
            },
        };
        Ok(Self { answer: ScriptAnswer::Says { message, reasoning: keys.reasoning, end }, model: keys.model, delay_ms })
    }
}

/// How much of a line is told, in characters.
const EXCERPT_CHARS: usize = 160;

fn excerpt(line: &str) -> String {
    line.trim().chars().take(EXCERPT_CHARS).collect()
}

impl ScriptFile {
    /// `name` is what errors call the file.
    pub fn read(path: &Path, name: &Path) -> Result<Self, EngineConfigError> {
        let text = crate::files::read_text(path)
            .map_err(|source| EngineConfigError::UnreadableScript { path: name.to_owned(), source })?;
        let invalid = |line: usize, column, message| EngineConfigError::InvalidScript {
            path: name.to_owned(),
            line,
            column,
            message,
            source_line: text.lines().nth(line.saturating_sub(1)).map(excerpt),
        };
        let file: Self = serde_json::from_str(&text).map_err(|error| {
            let position = format!(" at line {} column {}", error.line(), error.column());
            let message = error.to_string();
            let message = message.strip_suffix(&position).unwrap_or(&message).to_owned();
            invalid(error.line(), error.column(), message)
        })?;
        if file.calls.is_empty() {
            return Err(invalid(1, 1, "`calls` is empty; a script needs at least one call".to_owned()));
        }
        Ok(file)
    }
}
