//! What a line that begins with a slash does.

use serde_json::Value;

use super::{Face, supervisor::Supervisor};
use crate::{
    cli::{
        console::{BOLD, DIM},
        failure::Failure,
        log, scope,
    },
    config::Price,
    log::SessionReader,
    session::Session,
};

/// The commands of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Scope,
    Log,
    Reload,
    Cost,
    Session,
    Exit,
    Unknown(String),
}

/// Name and explanation of each.
const COMMANDS: [(&str, Command, &str); 7] = [
    ("/help", Command::Help, "this"),
    ("/scope", Command::Scope, "what TypeScript blocks may call"),
    ("/log", Command::Log, "this session, step by step"),
    ("/reload", Command::Reload, "load the cognet and the policy anew"),
    ("/cost", Command::Cost, "tokens of this session, and what they cost"),
    ("/session", Command::Session, "which session and cognet this is"),
    ("/exit", Command::Exit, "end; so does Ctrl-D"),
];

const KEYS: &str = "\
Alt-Enter begins another line, a pasted text stays one message, arrows and Ctrl-R look through what was typed.
Ctrl-C interrupts the agent; a second one leaves. A line that was begun it takes first.
";

/// Whether the conversation goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    GoOn,
    Leave,
}

/// Who types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Typist {
    Person,
    /// Only `/exit` is a command.
    #[default]
    Program,
}

impl Command {
    /// `None` for what is said to the agent.
    pub(super) fn of(line: &str, typist: Typist) -> Option<Self> {
        let word = line.trim();
        if typist == Typist::Program {
            return (word == "/exit").then_some(Self::Exit);
        }
        if let Some((_, command, _)) = COMMANDS.iter().find(|(name, ..)| *name == word) {
            return Some(command.clone());
        }
        // A path is no command.
        let looks_like_one =
            word.strip_prefix('/').is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase()));
        looks_like_one.then(|| Self::Unknown(word.to_owned()))
    }
}

/// Does what the command says, between two wakes.
pub(super) async fn run(
    command: Command,
    session: &mut Session,
    face: &Face,
    supervisor: &Supervisor,
    price: Option<Price>,
) -> Result<Then, Failure> {
    match command {
        Command::Help => face.note(&help())?,
        Command::Scope => face.note(&scope::readable(&session.scope()))?,
        Command::Log => face.note(&log::conversation(session.log().path())?)?,
        Command::Reload => supervisor.reload(),
        Command::Cost => face.note(&cost(session, price)?)?,
        Command::Session => face.note(&about(session))?,
        Command::Exit => return Ok(Then::Leave),
        Command::Unknown(word) => {
            let nearest = crate::text::nearest(&word, COMMANDS.iter().map(|(name, ..)| *name));
            let hint = nearest.map(|nearest| format!("; did you mean {nearest}?")).unwrap_or_else(|| ".".to_owned());
            face.note(&format!("there is no command {word}{hint} /help lists them"))?;
        }
    }
    Ok(Then::GoOn)
}

fn help() -> String {
    let mut text: String =
        COMMANDS.iter().map(|(name, _, about)| format!("{BOLD}{name:<9}{BOLD:#} {about}\n")).collect();
    text.push_str(&format!("{DIM}{KEYS}{DIM:#}"));
    text
}

fn about(session: &Session) -> String {
    format!(
        "{}, generation {}\nsession {}\n{}\n",
        session.cognet(),
        session.generation(),
        session.log().id(),
        session.log().path().display(),
    )
}

/// Tokens of all the session's inferences, as far as the engine reported them.
#[derive(Default)]
struct Spent {
    calls: u64,
    input: u64,
    output: u64,
    cached: u64,
}

fn cost(session: &Session, price: Option<Price>) -> Result<String, Failure> {
    let mut spent = Spent::default();
    for line in SessionReader::open(session.log().path())? {
        let line = line?;
        if line.kind.as_deref() != Some("kernel:engine:complete") {
            continue;
        }
        let Some(envelope) = line.envelope() else { continue };
        let tokens = |name: &str| {
            envelope.data.get("usage").and_then(|usage| usage.get(name)).and_then(Value::as_u64).unwrap_or(0)
        };
        spent.calls += 1;
        spent.input += tokens("input");
        spent.output += tokens("output");
        spent.cached += tokens("cachedInput");
    }
    Ok(spent.told(price))
}

impl Spent {
    fn told(&self, price: Option<Price>) -> String {
        let Self { calls, input, output, cached } = self;
        let mut text =
            format!("{calls} calls of the engine: {input} tokens in ({cached} of them cached), {output} out");
        match price {
            Some(price) => {
                const PER: f64 = 1_000_000.0;
                // Exact far beyond any session's tokens.
                let sum = (*input as f64 * price.input + *output as f64 * price.output) / PER;
                text.push_str(&format!("; {sum:.4} at the prices of axon.toml\n"));
            }
            None => text.push_str("; `[engine] price` in axon.toml tells what they cost\n"),
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_after_a_slash_is_a_command_and_a_path_is_none() {
        assert_eq!(Command::of(" /exit ", Typist::Program), Some(Command::Exit));
        assert_eq!(Command::of("/help", Typist::Program), None);
        assert_eq!(Command::of("/help", Typist::Person), Some(Command::Help));
        assert_eq!(Command::of("/halp", Typist::Person), Some(Command::Unknown("/halp".into())));
        for said in ["/etc/passwd", "/help me", "/", "/ help", "what is /help"] {
            assert_eq!(Command::of(said, Typist::Person), None, "{said}");
        }
    }

    #[test]
    fn a_cost_is_told_only_where_prices_are_known() {
        let spent = Spent { calls: 2, input: 1_000_000, output: 500_000, cached: 0 };
        assert!(spent.told(Some(Price { input: 1.0, output: 4.0 })).contains("3.0000"));
        assert!(spent.told(None).contains("[engine] price"));
    }
}
