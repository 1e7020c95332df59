//! OpenAI-compatible chat completions, streamed: OpenAI, OpenRouter, vLLM, llama.cpp, LM Studio, Ollama and others.
//!
//! Written here on `reqwest` and not on the `genai` crate (looked at in version 0.7.2): its stream reports failures as
//! boxed errors of whichever layer failed, has no place for the limits on first token and silence that end a call with
//! the right fault, sends a request that cannot be recorded as it went out, and brings about twenty crates more. One
//! protocol of this size costs less than that; the choice is worth another look when native protocols are added.

mod fault;
mod sse;
mod wire;

use std::{collections::VecDeque, future::Future, sync::Arc, sync::OnceLock, time::Duration};

use axon_runtime::{BoxFuture, Usage};
use reqwest::{
    Client, Response, Url,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION},
    redirect,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use self::{
    fault::Faults,
    sse::SseParser,
    wire::{ChatChunk, ChatRequest, TokenLimitField},
};
use super::{
    fault::{Fault, FaultCode},
    provider::{ModelCall, ModelEvent, ModelStream, Provider},
    spec::{EngineConfigError, EngineSpec, Timeouts},
};

pub(super) const NAME: &str = "openai";
pub(super) const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const OPENAI_HOST: &str = "api.openai.com";
const DEFAULT_KEY_VARIABLE: &str = "OPENAI_API_KEY";
/// The data of the event that ends an answer.
const END_OF_ANSWER: &str = "[DONE]";
/// Longer limits are as good as none, and a clock cannot hold all of them.
const MAX_WAIT: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Bytes of an error's body that are read.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

pub(super) struct OpenAiProvider {
    model: String,
    endpoint: Url,
    headers: HeaderMap,
    /// The name of the variable that the key is from.
    key_variable: Option<String>,
    /// What must not appear in any message.
    secrets: Arc<[String]>,
    timeouts: Timeouts,
    /// Made for the first call: reading the system's certificates takes milliseconds.
    client: OnceLock<Client>,
}

impl OpenAiProvider {
    /// A provider as `spec` describes it. Only OpenAI itself gets the key of `OPENAI_API_KEY` without being told to.
    pub fn from_spec(spec: &EngineSpec, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, EngineConfigError> {
        let model = spec.model.clone().ok_or(EngineConfigError::Missing {
            provider: NAME,
            key: "model",
            usage: "openai:MODEL",
        })?;
        let base_url = spec.base_url.as_deref().unwrap_or(DEFAULT_BASE_URL);
        let endpoint = endpoint(base_url)?;

        let mut headers = HeaderMap::new();
        let mut secrets = Vec::new();
        for (name, value) in &spec.headers {
            let invalid = || EngineConfigError::InvalidHeader { name: name.clone() };
            let header = HeaderName::try_from(name).map_err(|_| invalid())?;
            headers.insert(header, sensitive(value).ok_or_else(invalid)?);
            secrets.push(value.clone());
        }
        let default_variable = (endpoint.host_str() == Some(OPENAI_HOST)).then_some(DEFAULT_KEY_VARIABLE);
        let key_variable = spec.api_key_env.as_deref().or(default_variable);
        if let Some(variable) = key_variable {
            let key =
                env(variable).map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()).ok_or_else(|| {
                    EngineConfigError::MissingKey { variable: variable.to_owned(), base_url: base_url.to_owned() }
                })?;
            let bearer = sensitive(&format!("Bearer {key}"))
                .ok_or_else(|| EngineConfigError::InvalidKey { variable: variable.to_owned() })?;
            headers.insert(AUTHORIZATION, bearer);
            secrets.push(key);
        }
        Ok(Self {
            model,
            endpoint,
            headers,
            key_variable: key_variable.map(str::to_owned),
            secrets: secrets.into(),
            timeouts: spec.timeouts,
            client: OnceLock::new(),
        })
    }

    fn client(&self) -> Result<&Client, reqwest::Error> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let builder = Client::builder()
            .user_agent(concat!("axon/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.timeouts.connect)
            // A redirected POST would lose its body or show the key to somebody else.
            .redirect(redirect::Policy::none());
        // A proxy of the environment has no way to this machine's own servers.
        let builder = if is_loopback(&self.endpoint) { builder.no_proxy() } else { builder };
        let client = builder.build()?;
        Ok(self.client.get_or_init(|| client))
    }

    fn token_limit_field(&self) -> TokenLimitField {
        if self.endpoint.host_str() == Some(OPENAI_HOST) {
            TokenLimitField::MaxCompletionTokens
        } else {
            TokenLimitField::MaxTokens
        }
    }

    async fn attempt(&self, call: ModelCall) -> Result<ChatStream, Fault> {
        let faults = Faults::new(call.model.clone(), self.secrets.clone());
        let request = self
            .client()
            .map_err(|error| faults.transport(error))?
            .post(self.endpoint.clone())
            .headers(self.headers.clone())
            .json(&ChatRequest::new(&call, self.token_limit_field()));
        let first_token = Deadline::first_token(self.timeouts.first_token);
        let response = first_token.enforce(request.send(), &faults).await?;

        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let answers_with = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if response.status().is_success() {
            // Some servers stream with no type or a wrong one; these two are never a stream.
            if !answers_with.starts_with("text/html") && !answers_with.starts_with("application/json") {
                return Ok(ChatStream::new(response, faults, first_token, self.timeouts.silence));
            }
            let body = error_body(response, self.timeouts.silence, &faults).await?;
            if let Ok(ChatChunk { error: Some(error), .. }) = serde_json::from_str(&body) {
                return Err(faults.in_stream(&error));
            }
            let message = format!(
                "the server answered with {answers_with} and not with a stream of events; is `base_url` right? It said: \
                 {body}"
            );
            return Err(faults.fault(FaultCode::Protocol, message).status(status));
        }
        if let Some(location) = headers.get(LOCATION).filter(|_| response.status().is_redirection()) {
            let location = String::from_utf8_lossy(location.as_bytes());
            let message = format!("the server answers elsewhere, at {location}; correct `base_url` under [engine]");
            return Err(faults.fault(FaultCode::InvalidRequest, message).status(status));
        }
        let body = error_body(response, self.timeouts.silence, &faults).await?;
        let mut fault = faults.status(status, &headers, &body);
        if fault.code == FaultCode::Auth {
            fault.message.push_str(&match &self.key_variable {
                Some(variable) => format!(" (the key is the one in {variable})"),
                None => " (no key was sent: name its variable with `api_key_env` under [engine])".to_owned(),
            });
        }
        Err(fault)
    }
}

impl Provider for OpenAiProvider {
    fn name(&self) -> &str {
        NAME
    }

    fn model(&self) -> &str {
        &self.model
    }

    fn sent(&self, call: &ModelCall) -> Option<Value> {
        let body = ChatRequest::new(call, self.token_limit_field());
        // What else stands in an address may be a key.
        let mut url = self.endpoint.clone();
        url.set_query(None);
        let _ = url.set_password(None).and_then(|()| url.set_username(""));
        Some(json!({ "url": url.as_str(), "body": body }))
    }

    fn open(&self, call: ModelCall) -> BoxFuture<'_, Result<Box<dyn ModelStream>, Fault>> {
        Box::pin(async move { Ok(Box::new(self.attempt(call).await?) as _) })
    }
}

/// The address of chat completions below `base_url`.
fn endpoint(base_url: &str) -> Result<Url, EngineConfigError> {
    let invalid = |reason: String| EngineConfigError::InvalidBaseUrl { given: base_url.to_owned(), reason };
    let mut url = Url::parse(base_url).map_err(|error| invalid(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(format!("its scheme is {}", url.scheme())));
    }
    if !url.path().trim_end_matches('/').ends_with("/chat/completions")
        && let Ok(mut path) = url.path_segments_mut()
    {
        path.pop_if_empty().extend(["chat", "completions"]);
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn sensitive(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The start of an answer that is no stream.
async fn error_body(mut response: Response, silence: Duration, faults: &Faults) -> Result<String, Fault> {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BODY_BYTES {
        match Deadline::silence(silence).enforce(response.chunk(), faults).await {
            Ok(Some(bytes)) => body.extend_from_slice(&bytes),
            // What there is of it tells more than that it broke off.
            Ok(None) | Err(_) => break,
        }
    }
    body.truncate(MAX_ERROR_BODY_BYTES);
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// A limit on waiting for the server.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    limit: Duration,
    waits_for: Wait,
}

#[derive(Clone, Copy, Debug)]
enum Wait {
    FirstToken,
    AnyByte,
}

impl Deadline {
    fn first_token(limit: Duration) -> Self {
        Self::new(limit, Wait::FirstToken)
    }

    fn silence(limit: Duration) -> Self {
        Self::new(limit, Wait::AnyByte)
    }

    fn new(limit: Duration, waits_for: Wait) -> Self {
        Self { at: Instant::now() + limit.min(MAX_WAIT), limit, waits_for }
    }

    async fn enforce<T>(
        self,
        answer: impl Future<Output = Result<T, reqwest::Error>>,
        faults: &Faults,
    ) -> Result<T, Fault> {
        let Ok(answer) = tokio::time::timeout_at(self.at, answer).await else {
            let limit = self.limit.as_millis();
            let message = match self.waits_for {
                Wait::FirstToken => {
                    format!("no token of the answer arrived within {limit} ms (timeout_ms.first_token)")
                }
                Wait::AnyByte => format!("the server fell silent for {limit} ms (timeout_ms.silence)"),
            };
            return Err(faults.fault(FaultCode::Transport, message));
        };
        answer.map_err(|error| faults.transport(error))
    }
}

/// The answer as it arrives.
struct ChatStream {
    response: Response,
    faults: Faults,
    /// Until the first token has arrived.
    first_token: Option<Deadline>,
    silence: Duration,
    parser: SseParser,
    events: VecDeque<ModelEvent>,
    finish_reason: Option<String>,
    usage: Option<Usage>,
    model: Option<String>,
    /// A failure that comes behind `events`: how the bytes were split does not decide what is told first.
    failed: Option<Fault>,
    finished: bool,
}

impl ChatStream {
    fn new(response: Response, faults: Faults, first_token: Deadline, silence: Duration) -> Self {
        Self {
            response,
            faults,
            first_token: Some(first_token),
            silence,
            parser: SseParser::default(),
            events: VecDeque::new(),
            finish_reason: None,
            usage: None,
            model: None,
            failed: None,
            finished: false,
        }
    }

    /// Reads on until something is known to tell.
    async fn read(&mut self) {
        while self.events.is_empty() && self.failed.is_none() {
            let deadline = self.first_token.unwrap_or_else(|| Deadline::silence(self.silence));
            let bytes = match deadline.enforce(self.response.chunk(), &self.faults).await {
                Ok(Some(bytes)) => bytes,
                // Some servers close, drop or keep the connection instead of saying that they are done; a reason to
                // stop says it as well.
                Ok(None) | Err(_) if self.finish_reason.is_some() => return self.finish(),
                Ok(None) => {
                    let message = "the connection was closed before the end of the answer";
                    return self.failed = Some(self.faults.fault(FaultCode::Transport, message));
                }
                Err(fault) => return self.failed = Some(fault),
            };
            let mut data = Vec::new();
            let fed = self.parser.feed(&bytes, &mut data);
            let taken = data.iter().try_for_each(|data| self.take(data));
            let fed = fed.map_err(|error| self.faults.fault(FaultCode::Protocol, error.to_string()));
            self.failed = taken.and(fed).err();
        }
    }

    fn take(&mut self, data: &str) -> Result<(), Fault> {
        if self.finished || data.is_empty() {
            return Ok(());
        }
        if data.trim() == END_OF_ANSWER {
            self.finish();
            return Ok(());
        }
        let chunk: ChatChunk = serde_json::from_str(data).map_err(|error| {
            self.faults
                .fault(FaultCode::Protocol, format!("the server sent what is no chunk of an answer: {error}: {data}"))
        })?;
        if let Some(error) = chunk.error {
            return Err(self.faults.in_stream(&error));
        }
        if chunk.model.as_deref().is_some_and(|model| !model.is_empty()) {
            self.model = chunk.model;
        }
        if let Some(usage) = chunk.usage {
            self.usage = Some(usage.into());
        }
        let Some(choice) = chunk.choices.and_then(|choices| choices.into_iter().next()) else { return Ok(()) };
        if let Some(delta) = choice.delta {
            let (reasoning, text) = delta.pieces();
            self.events.extend(Some(reasoning).filter(|piece| !piece.is_empty()).map(ModelEvent::Reasoning));
            self.events.extend(Some(text).filter(|piece| !piece.is_empty()).map(ModelEvent::Text));
            if !self.events.is_empty() {
                self.first_token = None;
            }
        }
        match choice.finish_reason {
            Some(reason) if reason == "content_filter" => {
                let message = "the provider's content filter stopped the answer";
                return Err(self.faults.fault(FaultCode::ContentFilter, message));
            }
            Some(reason) if !reason.is_empty() => self.finish_reason = Some(reason),
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) {
        self.finished = true;
        self.events.push_back(ModelEvent::Finished {
            stop_reason: self.finish_reason.take().unwrap_or_else(|| "stop".to_owned()),
            usage: self.usage.take(),
            model: self.model.take(),
        });
    }
}

impl ModelStream for ChatStream {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<ModelEvent>, Fault>> {
        Box::pin(async move {
            if self.events.is_empty() && !self.finished && self.failed.is_none() {
                self.read().await;
            }
            match self.events.pop_front() {
                Some(event) => Ok(Some(event)),
                None => self.failed.take().map_or(Ok(None), Err),
            }
        })
    }
}
