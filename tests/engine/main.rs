//! Engines: decoders, the script engine, the OpenAI-compatible provider, retries and faults.

mod decoders;
mod inference;
mod openai;
mod script;
mod server;
mod spec;
mod support;
