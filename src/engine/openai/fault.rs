//! From what a server, or the way to it, says in failure to a fault.

use std::{sync::Arc, time::Duration};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde_json::Value;

use super::NAME;
use crate::engine::fault::{Fault, FaultCode};

/// Characters of a server's own words that a fault quotes.
const MAX_QUOTED_CHARS: usize = 300;
/// Secrets shorter than this are not looked for in texts: they would be found everywhere.
const MIN_SECRET_BYTES: usize = 6;
const REDACTED: &str = "[redacted]";

/// Makes the faults of one attempt: names the model, shortens what servers say, and takes secrets out of it.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    model: String,
    secrets: Arc<[String]>,
}

impl Faults {
    pub fn new(model: String, secrets: Arc<[String]>) -> Self {
        Self { model, secrets }
    }

    pub fn fault(&self, code: FaultCode, message: impl Into<String>) -> Fault {
        Fault::new(code, NAME, self.clean(message.into())).model(&self.model)
    }

    /// For a request or an answer that did not get through.
    pub fn transport(&self, error: reqwest::Error) -> Fault {
        let what = if error.is_connect() {
            "cannot connect"
        } else if error.is_timeout() {
            "timed out"
        } else {
            "the connection broke off"
        };
        // An address can hold secrets, and whoever reads this knows which one is configured.
        let error = error.without_url();
        let mut message = what.to_owned();
        let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(error) = cause {
            message = format!("{message}: {error}");
            cause = error.source();
        }
        let code = if error.is_builder() { FaultCode::InvalidRequest } else { FaultCode::Transport };
        self.fault(code, message)
    }

    /// For an answer with a status that is not a success.
    pub fn status(&self, status: u16, headers: &HeaderMap, body: &str) -> Fault {
        let error = ServerError::parse(body);
        let by_status = FaultCode::from_status(status);
        let code = match error.code {
            // Whatever else a server says with a 401, it is about the key.
            _ if status == 401 => by_status,
            // The kind that many servers give to every error says less than the status.
            Some(FaultCode::InvalidRequest) | None => by_status,
            Some(code) => code,
        };
        self.fault(code, error.message).status(status).retry_after(retry_after(headers))
    }

    /// For an error that the server sends instead of the rest of its answer.
    pub fn in_stream(&self, error: &Value) -> Fault {
        let parsed = ServerError::from_value(error);
        let status = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
        let code = parsed.code.or(status.map(FaultCode::from_status)).unwrap_or(FaultCode::Unknown);
        let fault = self.fault(code, parsed.message);
        match status {
            Some(status) => fault.status(status),
            None => fault,
        }
    }

    fn clean(&self, message: String) -> String {
        let mut message = message;
        for secret in self.secrets.iter().filter(|secret| secret.len() >= MIN_SECRET_BYTES) {
            message = message.replace(secret.as_str(), REDACTED);
        }
        let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
        match message.char_indices().nth(MAX_QUOTED_CHARS) {
            Some((end, _)) => format!("{}…", &message[..end]),
            None => message,
        }
    }
}

/// What a server says in failure, in one of the shapes that are about.
struct ServerError {
    message: String,
    /// What its words say, where they say more than the status does.
    code: Option<FaultCode>,
}

impl ServerError {
    fn parse(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_value(value.get("error").unwrap_or(&value)),
            Err(_) if body.trim().is_empty() => Self { message: "the server gave no reason".to_owned(), code: None },
            Err(_) => Self { message: body.to_owned(), code: classify("", body) },
        }
    }

    fn from_value(error: &Value) -> Self {
        let message = [error, &error["message"], &error["detail"], &error["error"]]
            .into_iter()
            .find_map(Value::as_str)
            .map_or_else(|| error.to_string(), str::to_owned);
        let kinds =
            [&error["code"], &error["type"]].into_iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
        let code = classify(&kinds, &message);
        Self { message, code }
    }
}

/// What the identifiers in `kinds`, or else the words of `message`, say.
fn classify(kinds: &str, message: &str) -> Option<FaultCode> {
    const BY_KIND: &[(&str, FaultCode)] = &[
        ("insufficient_quota", FaultCode::Quota),
        ("billing", FaultCode::Quota),
        ("context_length_exceeded", FaultCode::ContextTooLong),
        ("exceed_context_size", FaultCode::ContextTooLong),
        ("content_filter", FaultCode::ContentFilter),
        ("content_policy", FaultCode::ContentFilter),
        ("rate_limit", FaultCode::RateLimit),
        ("invalid_api_key", FaultCode::Auth),
        ("authentication_error", FaultCode::Auth),
        ("server_error", FaultCode::Transport),
        ("overloaded", FaultCode::Transport),
        ("invalid_request_error", FaultCode::InvalidRequest),
    ];
    const BY_WORDS: &[(&str, FaultCode)] = &[
        ("maximum context length", FaultCode::ContextTooLong),
        ("context length", FaultCode::ContextTooLong),
        ("context window", FaultCode::ContextTooLong),
        ("context size", FaultCode::ContextTooLong),
        ("prompt is too long", FaultCode::ContextTooLong),
        ("content management policy", FaultCode::ContentFilter),
    ];
    let find = |table: &[(&str, FaultCode)], text: &str| {
        table.iter().find(|(part, _)| text.contains(part)).map(|(_, code)| *code)
    };
    let (by_kind, by_words) = (find(BY_KIND, kinds), find(BY_WORDS, &message.to_lowercase()));
    match by_kind {
        // The broadest of kinds: many servers say only in words what was invalid.
        Some(FaultCode::InvalidRequest) | None => by_words.or(by_kind),
        Some(_) => by_kind,
    }
}

/// How long the server asks to wait. A date instead of seconds is not understood and left to the usual wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms");
    let seconds = number(RETRY_AFTER.as_str());
    Duration::try_from_secs_f64(millis.map(|millis| millis / 1000.0).or(seconds)?).ok()
}
