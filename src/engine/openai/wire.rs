//! What is said on the wire: the request and the chunks of the answer.

use axon_runtime::{Message, Usage};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::engine::provider::ModelCall;

#[derive(Serialize)]
pub(super) struct ChatRequest<'a> {
    model: &'a str,
    messages: &'a [Message],
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// How a server names the limit of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenLimitField {
    /// OpenAI, whose newer models refuse the older name.
    MaxCompletionTokens,
    /// Everybody else.
    MaxTokens,
}

impl<'a> ChatRequest<'a> {
    pub fn new(call: &'a ModelCall, limit: TokenLimitField) -> Self {
        Self {
            model: &call.model,
            messages: &call.messages,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_completion_tokens: call.max_tokens.filter(|_| limit == TokenLimitField::MaxCompletionTokens),
            max_tokens: call.max_tokens.filter(|_| limit == TokenLimitField::MaxTokens),
            temperature: call.temperature,
        }
    }
}

/// One event of the answer. Servers leave out, or set to null, what they have nothing to say about.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ChatChunk {
    pub choices: Option<Vec<Choice>>,
    pub usage: Option<ChatUsage>,
    pub model: Option<String>,
    pub error: Option<Value>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub delta: Option<Delta>,
    pub finish_reason: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Delta {
    content: Option<Content>,
    /// DeepSeek, vLLM, llama.cpp.
    reasoning_content: Option<String>,
    /// OpenRouter, Ollama.
    reasoning: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    /// Mistral, for models that reason.
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
    thinking: Option<Vec<Part>>,
}

impl Delta {
    /// What this piece adds to the reasoning and to the text.
    pub fn pieces(self) -> (String, String) {
        let mut reasoning = self.reasoning_content.or(self.reasoning).unwrap_or_default();
        let mut text = String::new();
        match self.content {
            Some(Content::Text(content)) => text = content,
            Some(Content::Parts(parts)) => {
                for part in parts {
                    text.extend(part.text);
                    reasoning.extend(part.thinking.into_iter().flatten().filter_map(|part| part.text));
                }
            }
            None => {}
        }
        (reasoning, text)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ChatUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Debug, Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl From<ChatUsage> for Usage {
    fn from(usage: ChatUsage) -> Self {
        Self {
            input: usage.prompt_tokens,
            output: usage.completion_tokens,
            cached_input: usage.prompt_tokens_details.and_then(|details| details.cached_tokens),
            reasoning: usage.completion_tokens_details.and_then(|details| details.reasoning_tokens),
        }
    }
}
