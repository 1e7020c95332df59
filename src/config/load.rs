//! Reading `axon.toml`: one function for each table.

use std::{collections::BTreeMap, io, path::Path};

use toml::de::DeTable;

use super::{
    CONFIG_FILE, ConfigError,
    duplicate::Duplicates,
    schema::{
        AgentConfig, CapsuleConfig, CognetConfig, Config, EngineConfig, EngineTimeouts, FsPolicy, PolicyConfig, Price,
        SessionConfig, ToolGrants,
    },
    section::{Problems, Section, word_of},
};
use crate::files;

/// The longest time that may be configured: a day.
const MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// The most memory that may be configured: what one process can address in a heap is far less.
const MAX_MB: u64 = 64 * 1024;

/// The largest `axon.toml`, in bytes.
const MAX_SOURCE_BYTES: usize = 256 * 1024;

const MAX_BYTES: u64 = 1024 * 1024 * 1024;

impl Config {
    /// Reads `axon.toml` in the agent folder; without it, the defaults.
    ///
    /// # Errors
    /// All mistakes in the file, each with its line.
    pub fn load(agent_dir: &Path) -> Result<Self, ConfigError> {
        let path = agent_dir.join(CONFIG_FILE);
        match files::read_text(&path) {
            Ok(source) => Self::parse(agent_dir, &source),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::defaults(agent_dir)),
            Err(error) => Err(ConfigError::whole(&path, format!("cannot be read: {error}"))),
        }
    }

    /// Reads a configuration from the text of an `axon.toml` in the agent folder.
    ///
    /// # Errors
    /// All mistakes in the text, each with its line.
    pub fn parse(agent_dir: &Path, source: &str) -> Result<Self, ConfigError> {
        let path = agent_dir.join(CONFIG_FILE);
        if source.len() > MAX_SOURCE_BYTES {
            let message = format!("is larger than {} KiB, which no configuration is", MAX_SOURCE_BYTES >> 10);
            return Err(ConfigError::whole(&path, message));
        }
        let (table, syntax) = DeTable::parse_recoverable(source);
        let mut problems = Problems::default();
        let mut duplicates = Duplicates::new(source);
        let mut syntax_problems = 0;
        for error in &syntax {
            let span = error.span().unwrap_or_default();
            if let Some(message) = duplicates.told(&span, error.message()) {
                problems.add(span, message, None);
                syntax_problems += 1;
            }
        }
        let config = read(agent_dir, table.get_ref(), &mut problems);
        if problems.is_empty() {
            return Ok(config);
        }
        if !syntax.is_empty() {
            // What follows from broken syntax would only confuse.
            problems.truncate(syntax_problems);
        }
        Err(ConfigError { path, problems: problems.told(source) })
    }
}

fn read(agent_dir: &Path, table: &DeTable<'_>, problems: &mut Problems) -> Config {
    let mut root = Section::root(table);
    let defaults = Config::defaults(agent_dir);
    let config = Config {
        agent: agent(root.section("agent", problems), defaults.agent, problems),
        cognet: cognet(root.section("cognet", problems), problems),
        engine: engine(root.section("engine", problems), problems),
        capsule: capsule(root.section("capsule", problems), problems),
        policy: policy(root.section("policy", problems), problems),
        tools: tools(root.section("tools", problems), problems),
        session: session(root.section("session", problems), problems),
    };
    root.finish(problems);
    config
}

fn agent(mut section: Section<'_, '_>, default: AgentConfig, problems: &mut Problems) -> AgentConfig {
    let config = AgentConfig {
        name: section.string("name", problems).unwrap_or(default.name),
        cognet: section.string("cognet", problems),
    };
    section.finish(problems);
    config
}

fn cognet(mut section: Section<'_, '_>, problems: &mut Problems) -> CognetConfig {
    let default = CognetConfig::default();
    let config = CognetConfig {
        memory_mb: section.number("memory_mb", 1..=MAX_MB, default.memory_mb, problems),
        cpu_ms: section.number("cpu_ms", 1..=MAX_MS, default.cpu_ms, problems),
        tick_ms: section.number("tick_ms", 1..=MAX_MS, default.tick_ms, problems),
        wake_on: section.checked_strings("wake_on", problems, is_stimulus),
    };
    section.finish(problems);
    config
}

fn engine(mut section: Section<'_, '_>, problems: &mut Problems) -> EngineConfig {
    let config = EngineConfig {
        provider: section.word("provider", problems),
        model: section.string("model", problems),
        base_url: section.string("base_url", problems),
        api_key_env: section.string("api_key_env", problems),
        script: section.string("script", problems),
        recording: section.string("recording", problems),
        timeouts: engine_timeouts(section.section("timeout_ms", problems), problems),
        headers: section.string_map("headers", problems),
        price: price(section.section("price", problems), problems),
    };
    check_url(&section, config.base_url.as_deref(), problems);
    check_variable(&section, config.api_key_env.as_deref(), problems);
    section.finish(problems);
    config
}

fn engine_timeouts(mut section: Section<'_, '_>, problems: &mut Problems) -> EngineTimeouts {
    let default = EngineTimeouts::default();
    let config = EngineTimeouts {
        connect_ms: section.number("connect", 1..=MAX_MS, default.connect_ms, problems),
        first_token_ms: section.number("first_token", 1..=MAX_MS, default.first_token_ms, problems),
        silence_ms: section.number("silence", 1..=MAX_MS, default.silence_ms, problems),
    };
    section.finish(problems);
    config
}

fn price(mut section: Section<'_, '_>, problems: &mut Problems) -> Option<Price> {
    let given = section.is_present();
    let price = Price { input: section.amount("input", problems), output: section.amount("output", problems) };
    section.finish(problems);
    given.then_some(price)
}

fn capsule(mut section: Section<'_, '_>, problems: &mut Problems) -> CapsuleConfig {
    let default = CapsuleConfig::default();
    let config = CapsuleConfig {
        timeout_ms: section.number("timeout_ms", 1..=MAX_MS, default.timeout_ms, problems),
        total_timeout_ms: section.number("total_timeout_ms", 1..=MAX_MS, default.total_timeout_ms, problems),
        memory_mb: section.number("memory_mb", 8..=MAX_MB, default.memory_mb, problems),
        max_output_bytes: section.number("max_output_bytes", 256..=MAX_BYTES, default.max_output_bytes, problems),
        max_source_bytes: section.number("max_source_bytes", 1..=MAX_BYTES, default.max_source_bytes, problems),
        max_concurrent_blocks: section.number(
            "max_concurrent_blocks",
            1..=256,
            default.max_concurrent_blocks,
            problems,
        ),
        max_tool_calls: section.number("max_tool_calls", 0..=1_000_000_000, default.max_tool_calls, problems),
    };
    section.finish(problems);
    config
}

fn policy(mut section: Section<'_, '_>, problems: &mut Problems) -> PolicyConfig {
    let mut rules = Vec::new();
    let config = PolicyConfig {
        net: section.checked_strings("net", problems, is_host).unwrap_or_default(),
        run: section.checked_strings("run", problems, is_not_empty).unwrap_or_default(),
        fs: roots(section.section("fs", problems), problems),
        tools: {
            let mut tools = section.section("tools", problems);
            for (pattern, value) in tools.entries() {
                rules.extend(word_of(&tools.path_of(&pattern), value, problems).map(|rule| (pattern, rule)));
            }
            rules
        },
    };
    section.finish(problems);
    config
}

fn roots(mut section: Section<'_, '_>, problems: &mut Problems) -> FsPolicy {
    let config = FsPolicy {
        read: section.checked_strings("read", problems, is_not_empty).unwrap_or_default(),
        write: section.checked_strings("write", problems, is_not_empty).unwrap_or_default(),
    };
    section.finish(problems);
    config
}

fn tools(mut section: Section<'_, '_>, problems: &mut Problems) -> BTreeMap<String, ToolGrants> {
    let named = section.sections(problems);
    named.into_iter().map(|(name, section)| (name, grants(section, problems))).collect()
}

fn grants(mut section: Section<'_, '_>, problems: &mut Problems) -> ToolGrants {
    let config = ToolGrants {
        net: section.checked_strings("net", problems, is_host).unwrap_or_default(),
        run: section.checked_strings("run", problems, is_not_empty).unwrap_or_default(),
        fs: roots(section.section("fs", problems), problems),
        env: section.checked_strings("env", problems, is_variable).unwrap_or_default(),
    };
    section.finish(problems);
    config
}

fn session(mut section: Section<'_, '_>, problems: &mut Problems) -> SessionConfig {
    let config = SessionConfig { fsync: section.word("fsync", problems).unwrap_or_default() };
    section.finish(problems);
    config
}

fn check_url(section: &Section<'_, '_>, url: Option<&str>, problems: &mut Problems) {
    if let (Some(url), Some(span)) = (url, section.span("base_url"))
        && let Err(why) = is_http_url(url)
    {
        problems.add(span, format!("`engine.base_url`: {why}"), None);
    }
}

fn check_variable(section: &Section<'_, '_>, name: Option<&str>, problems: &mut Problems) {
    if let (Some(name), Some(span)) = (name, section.span("api_key_env"))
        && is_variable(name).is_err()
    {
        // It may be the key itself: it must not be repeated here.
        let help = "set the key in the environment or in .env, and give the variable's name here";
        let message = "`engine.api_key_env` must be the name of a variable, not a key".to_owned();
        problems.add_concealed(span, "api_key_env = …", message, help.to_owned());
    }
}

fn is_stimulus(kind: &str) -> Result<(), String> {
    match kind.strip_prefix("stimulus:") {
        Some(name) if !name.is_empty() => Ok(()),
        _ => Err(format!("`{kind}` is no type of stimulus, as `stimulus:text` is")),
    }
}

fn is_not_empty(text: &str) -> Result<(), String> {
    if text.trim().is_empty() { Err("an empty text allows nothing; remove it".to_owned()) } else { Ok(()) }
}

fn is_host(host: &str) -> Result<(), String> {
    if host.contains("://") || host.contains('/') {
        return Err(format!("`{host}` is an address of a page; name the host alone, as in `api.github.com`"));
    }
    if host.is_empty() || host.contains(char::is_whitespace) {
        return Err(format!("`{host}` is no host; write `name`, `*.name` or `name:port`"));
    }
    Ok(())
}

fn is_variable(name: &str) -> Result<(), String> {
    let named = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if named { Ok(()) } else { Err(format!("`{name}` is no name of a variable, as `WEATHER_KEY` is")) }
}

fn is_http_url(url: &str) -> Result<(), String> {
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && !url.contains(char::is_whitespace) => Ok(()),
        _ => Err(format!("`{url}` is no address, as `http://127.0.0.1:11434/v1` is")),
    }
}
