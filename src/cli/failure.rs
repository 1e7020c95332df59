//! Failures as people are told them: what happened, where, why, and what to do; the same in `--json`.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anstyle::Style;
use axon_runtime::{CognetError, Location, VerbError};
use serde_json::json;

use super::console::{BOLD, CYAN, RED, harmless};
use crate::{
    agent::AgentError,
    cognets::CognetLookupError,
    log::LogError,
    session::{CloseError, OpenError, ReloadError},
};

/// The exit codes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The wake failed, or a block of `exec` did.
    Failed = 1,
    /// Usage, configuration, loading.
    Usage = 2,
    Interrupted = 130,
}

/// A failure on its way to a person.
#[derive(Debug)]
pub(super) struct Failure {
    exit: Exit,
    code: String,
    message: String,
    at: Option<Place>,
    traceback: Vec<String>,
    /// The phase and the tick of the wake in which it happened.
    phase: Option<String>,
    tick: Option<u32>,
    hint: Option<String>,
}

#[derive(Debug)]
struct Place {
    file: String,
    line: u32,
    source: Option<String>,
    told: Told,
}

/// Whether a person has to be told the place, beside the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Not,
    /// The message says it, and shows the line.
    InMessage,
    /// The message says it; the line is still to be shown.
    LineLeft,
}

impl Place {
    fn of(at: Location, told: Told) -> Self {
        Self { file: at.file, line: at.line, source: at.source_line, told }
    }
}

impl Failure {
    pub(super) fn new(exit: Exit, code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        let message = without_code(message.into(), &code);
        Self { exit, code, message, at: None, traceback: Vec::new(), phase: None, tick: None, hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A cognet's failure: while loading it is the user's to mend first, during a wake it is the wake's.
    pub(super) fn cognet(exit: Exit, error: CognetError) -> Self {
        Self {
            exit,
            code: error.code,
            message: error.message,
            at: error.at.map(|at| Place::of(at, Told::Not)),
            traceback: error.traceback,
            phase: error.phase,
            tick: error.tick,
            hint: error.hint,
        }
    }

    pub(super) fn interrupted(reason: &str) -> Self {
        Self::new(Exit::Interrupted, "INTERRUPTED", reason)
    }

    /// Prints the failure; with `--json` one object on standard output, else text on standard error.
    pub(super) fn report(&self, as_json: bool) -> ExitCode {
        // Nobody is left to tell when these streams are gone.
        let _ = if as_json { self.print_json().or_else(|_| self.print_text()) } else { self.print_text() };
        ExitCode::from(self.exit as u8)
    }

    fn print_json(&self) -> io::Result<()> {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(at) = &self.at {
            error["file"] = at.file.clone().into();
            error["line"] = at.line.into();
            if let Some(source) = &at.source {
                error["sourceLine"] = source.clone().into();
            }
        }
        if !self.traceback.is_empty() {
            error["traceback"] = json!(self.traceback);
        }
        if let Some(phase) = &self.phase {
            error["phase"] = phase.clone().into();
        }
        if let Some(tick) = self.tick {
            error["tick"] = tick.into();
        }
        if let Some(hint) = &self.hint {
            error["hint"] = hint.clone().into();
        }
        writeln!(io::stdout(), "{}", json!({ "error": error }))
    }

    /// The failure as people read it, styles included; ends with a newline.
    pub(super) fn text(&self) -> String {
        let code = if self.code.is_empty() { String::new() } else { format!("{}: ", self.code) };
        let paint = |style: Style, text: &str| format!("{style}{text}{style:#}");
        let mut text = format!("{} {code}{}\n", paint(RED.bold(), "error:"), harmless(&self.message));
        if let Some(at) = self.at.as_ref().filter(|at| at.told != Told::InMessage) {
            if at.told == Told::Not {
                let file = harmless(&at.file).replace('\n', "␊");
                text.push_str(&format!("  {} {file}:{}\n", paint(CYAN, "-->"), at.line));
            }
            if let Some(source) = &at.source {
                let number = at.line.to_string();
                let source = harmless(source.trim_end());
                text.push_str(&format!("  {} {source}\n", paint(CYAN, &format!("{number} |"))));
            }
        }
        for frame in self.callers() {
            text.push_str(&format!("    at {}\n", harmless(frame)));
        }
        match (&self.phase, self.tick) {
            (Some(phase), Some(tick)) => text.push_str(&format!("  in phase {phase:?} of tick {tick}\n")),
            (Some(phase), None) => text.push_str(&format!("  in phase {phase:?}\n")),
            (None, Some(tick)) => text.push_str(&format!("  in tick {tick}\n")),
            (None, None) => {}
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("  {} {hint}\n", paint(BOLD, "hint:")));
        }
        text
    }

    /// The failure in a few words: code and place.
    pub(super) fn brief(&self) -> String {
        match &self.at {
            Some(at) => format!("{} {}:{}", self.code, at.file, at.line),
            None => self.code.clone(),
        }
    }

    /// The file that is to be mended, as far as it is known.
    pub(super) fn file(&self) -> Option<&str> {
        self.at.as_ref().map(|at| at.file.as_str())
    }

    /// Whether the user's own files are the reason.
    pub(super) fn is_of_files(&self) -> bool {
        self.exit == Exit::Usage && (self.at.is_some() || FILE_CODES.contains(&self.code.as_str()))
    }

    fn print_text(&self) -> io::Result<()> {
        anstream::stderr().lock().write_all(self.text().as_bytes())
    }
}

/// Failures that a person mends by changing a file of the agent.
const FILE_CODES: [&str; 15] = [
    "CONFIG_INVALID",
    "DOTENV_INVALID",
    "POLICY_INVALID",
    "TOOLS_INVALID",
    "ENGINE_INVALID",
    "UNREADABLE",
    "COGNET_NOT_FOUND",
    "COGNET_INVALID",
    "COGNET_ABI_MISMATCH",
    "COGNET_NO_LOOP",
    "COGNET_LOOP_TWICE",
    "COGNET_SYNTAX",
    "COGNET_RUNTIME",
    "COGNET_MEMORY",
    "COGNET_CPU",
];

/// The message without the code that it may begin with, spelled as a code (`NOT_FOUND: `) or as a class (`NotFound: `).
fn without_code(message: String, code: &str) -> String {
    let same = |first: &str| first.eq_ignore_ascii_case(&code.replace('_', "")) || first == code;
    match message.split_once(": ") {
        Some((first, rest)) if !code.is_empty() && same(first) => rest.to_owned(),
        _ => message,
    }
}

impl Failure {
    /// The traceback without a first frame that says no more than the place itself.
    fn callers(&self) -> &[String] {
        let place = self.at.as_ref().map(|at| format!("{}:{}", at.file, at.line));
        match self.traceback.split_first() {
            Some((first, callers)) if place.as_ref() == Some(first) => callers,
            _ => &self.traceback,
        }
    }
}

/// What clap has to say: help and version are answers, the rest is a usage failure.
pub(super) fn usage(error: &clap::Error) -> ExitCode {
    let wants_json =
        std::env::args_os().any(|arg| arg.to_str().is_some_and(|arg| arg == "--json" || arg.starts_with("--json=")));
    if !error.use_stderr() || !wants_json {
        return match (error.print(), error.use_stderr()) {
            (_, true) => ExitCode::from(Exit::Usage as u8),
            // A reader that went away has what it wanted.
            (Err(failed), false) if failed.kind() != io::ErrorKind::BrokenPipe => Failure::from(failed).report(false),
            (_, false) => ExitCode::SUCCESS,
        };
    }
    let text = error.render().to_string();
    let message = text.trim_start_matches("error: ").trim_end();
    Failure::new(Exit::Usage, "USAGE", message).report(true)
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Failed, "IO", error.to_string())
    }
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Self {
        let exit = match error {
            LogError::SessionId { .. }
            | LogError::Held { .. }
            | LogError::NotFound { .. }
            | LogError::Corrupt { .. }
            | LogError::Io { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        Self::new(exit, error.code(), error.to_string())
    }
}

impl From<VerbError> for Failure {
    fn from(error: VerbError) -> Self {
        Self::new(Exit::Failed, error.code, error.message)
    }
}

impl From<CognetLookupError> for Failure {
    fn from(error: CognetLookupError) -> Self {
        let failure = Self::new(Exit::Usage, error.code(), error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let told = match error {
            AgentError::Tools { .. } | AgentError::Engine(_) => Told::LineLeft,
            _ => Told::InMessage,
        };
        let at = error.place().map(|at| Place::of(at, told));
        let failure = Self { at, ..Self::new(Exit::Usage, error.code(), error.to_string()) };
        match error {
            AgentError::Cognet(error) => error.into(),
            AgentError::NoFolder { .. } => {
                failure.hint("name an agent folder with -C, or make one with `axon new DIR`")
            }
            _ => failure,
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Agent(error) => error.into(),
            OpenError::Log(error) => error.into(),
            OpenError::Cognet(error) => Self::cognet(Exit::Usage, *error),
        }
    }
}

impl From<ReloadError> for Failure {
    fn from(error: ReloadError) -> Self {
        match error {
            ReloadError::Agent(error) => error.into(),
            ReloadError::Cognet(error) => Self::cognet(Exit::Usage, *error),
        }
    }
}

impl From<CloseError> for Failure {
    fn from(error: CloseError) -> Self {
        match error {
            CloseError::Log(error) => error.into(),
            CloseError::Cognet(error) => Self::cognet(Exit::Failed, *error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::without_code;

    #[test]
    fn a_code_is_told_once_however_the_message_spells_it() {
        for (message, code, told) in [
            ("POLICY_DENIED: no", "POLICY_DENIED", "no"),
            ("PolicyDenied: no", "POLICY_DENIED", "no"),
            ("timeout: late", "timeout", "late"),
            ("TypeError: x: y", "exception", "TypeError: x: y"),
            ("no colon", "", "no colon"),
            (": x", "", ": x"),
        ] {
            assert_eq!(without_code(message.to_owned(), code), told);
        }
    }
}
