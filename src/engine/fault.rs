//! What goes wrong between the kernel and a model.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// Why an attempt failed. An abort is never a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum FaultCode {
    /// The model answered without a text.
    EmptyResponse,
    /// No connection, a connection that broke, a timeout, or a server in trouble.
    Transport,
    RateLimit,
    /// The key is missing or was refused.
    Auth,
    /// The account has nothing left to spend.
    Quota,
    InvalidRequest,
    ContextTooLong,
    ContentFilter,
    /// The server does not speak the protocol that was expected of it.
    Protocol,
    Unknown,
}

impl FaultCode {
    /// The name that the log and cognets see.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EmptyResponse => "EMPTY_RESPONSE",
            Self::Transport => "TRANSPORT",
            Self::RateLimit => "RATE_LIMIT",
            Self::Auth => "AUTH",
            Self::Quota => "QUOTA",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::ContextTooLong => "CONTEXT_TOO_LONG",
            Self::ContentFilter => "CONTENT_FILTER",
            Self::Protocol => "PROTOCOL",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Whether the same request may well succeed a moment later.
    pub fn retryable(self) -> bool {
        matches!(self, Self::EmptyResponse | Self::Transport | Self::RateLimit)
    }

    /// What an HTTP status alone says.
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Quota,
            429 => Self::RateLimit,
            408 | 409 | 425 | 500..=599 => Self::Transport,
            300..=499 => Self::InvalidRequest,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for FaultCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One failed attempt, as the log keeps it and the cognet's error tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub code: FaultCode,
    /// For people. It never holds a key.
    pub message: String,
    pub retryable: bool,
    pub provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// How long the server asked to wait, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl Fault {
    /// A fault that may be retried if its code says so.
    pub fn new(code: FaultCode, provider: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: code.retryable(),
            provider: provider.into(),
            model: None,
            status: None,
            retry_after_ms: None,
        }
    }

    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after_ms = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.code, self.provider)?;
        if let Some(model) = &self.model {
            write!(f, ", {model}")?;
        }
        if let Some(status) = self.status {
            write!(f, ", HTTP {status}")?;
        }
        write!(f, "): {}", self.message)
    }
}
