//! Commands and flags. Every example in a help text works as it stands.

use std::path::PathBuf;

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use super::log::LogCommand;

/// Hosts cognets: agent brains written as Luau scripts, whose TypeScript runs in a capsule.
#[derive(Debug, Parser)]
#[command(
    name = "axon",
    version,
    after_help = "\
Examples:
  axon new my-agent && cd my-agent && axon run \"hello\"
  axon run --cognet @axon/repl 'const n: number = 20; n + 1'
  axon exec -e '[1, 2, 3].map(n => n * n)'

Documentation: README.md and docs/ of the project."
)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// The agent folder
    #[arg(short = 'C', long = "agent", value_name = "DIR", default_value = ".", global = true)]
    pub(super) agent: PathBuf,
    /// The cognet to run: a name in cognets/ or @axon/zero, @axon/repl, @axon/echo
    #[arg(long, value_name = "NAME", global = true)]
    pub(super) cognet: Option<String>,
    /// The engine to ask: openai:MODEL, script:FILE, replay:FILE
    #[arg(long, value_name = "SPEC", global = true)]
    pub(super) engine: Option<String>,
    /// Put each request to the engine and its answer into a new file, for --engine replay:FILE
    #[arg(long, value_name = "FILE", global = true)]
    pub(super) record: Option<PathBuf>,
    /// A session to resume, or to create under this name
    #[arg(long, value_name = "ID", global = true)]
    pub(super) session: Option<String>,
    /// Take the last session
    #[arg(long = "continue", conflicts_with = "session", global = true)]
    pub(super) last: bool,
    /// Print envelopes, one a line: this run's entries, or with --json=all its telemetry too
    #[arg(
        long,
        value_name = "WHAT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "entries",
        global = true
    )]
    pub(super) json: Option<Json>,
    /// Say on standard error what is going on; twice says more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    pub(super) verbose: u8,
}

/// What `--json` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Json {
    /// Stimuli, outputs, actions and system entries
    Entries,
    /// Telemetry too
    All,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Make a runnable agent folder
    #[command(after_help = "Example:\n  axon new my-agent && cd my-agent && axon run \"hello\"")]
    New {
        /// Where; it must not exist yet, or be empty
        dir: PathBuf,
    },
    /// Copy a bundled cognet into cognets/, ready to change
    #[command(after_help = "Example:\n  axon clone @axon/zero mind")]
    Clone {
        /// @axon/zero, @axon/repl or @axon/echo
        #[arg(value_name = "COGNET")]
        bundled: String,
        /// What to call the copy
        name: Option<String>,
    },
    /// One stimulus, one wake; what the agent says goes to standard output
    #[command(after_help = "\
Examples:
  axon run --cognet @axon/echo hello
  echo 'long text' | axon run --cognet @axon/echo
  axon run --json --cognet @axon/echo hello

Exit codes: 0 done, 1 the wake failed, 2 usage, configuration or loading, 130 interrupted.")]
    Run {
        /// The words of the stimulus; standard input when there are none
        text: Vec<String>,
    },
    /// Talk with the agent
    #[command(after_help = "\
Example:
  axon chat --cognet @axon/repl

Ctrl-C interrupts a wake, a second one leaves; /exit or Ctrl-D ends; /help says what else there is.
Where the input is no terminal, each line is a stimulus.")]
    Chat,
    /// Talk with the agent while its files are written: what is saved is loaded at once
    #[command(after_help = "\
Examples:
  axon dev
  echo hello | axon dev --headless --json

Cognets, tools, boot.md, axon.toml, .env and the script of a scripted engine are watched. What does not load changes nothing: the
old cognet goes on.")]
    Dev(Dev),
    /// Run TypeScript blocks in the capsule under the agent's policy
    #[command(after_help = "\
Examples:
  axon exec -e '[1, 2, 3].map(n => n * n)'
  echo 'await Promise.resolve(42)' | axon exec -")]
    Exec(Exec),
    /// What the capsule can execute
    #[command(after_help = "Example:\n  axon scope --dts > scope.d.ts")]
    Scope {
        /// As a TypeScript declaration file
        #[arg(long, conflicts_with = "json")]
        dts: bool,
    },
    /// Versions, the capsule and its sandbox, and whether the engine can be reached
    #[command(after_help = "Example:\n  axon doctor")]
    Doctor,
    /// Completions for a shell
    #[command(after_help = "\
Example:
  mkdir -p ~/.local/share/bash-completion/completions
  axon completions bash > ~/.local/share/bash-completion/completions/axon")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// The manual page
    #[command(after_help = "Example:\n  axon man > axon.1\n\n`man -l axon.1` shows it.")]
    Man,
    /// Check configuration, policy and cognets without a model, and write types into .axon/
    #[command(after_help = "Example:\n  axon prepare")]
    Prepare,
    /// Let a fresh brain live through a session again, with the recorded answers, and compare what it says
    #[command(after_help = "\
Examples:
  axon replay
  axon replay --json

Nothing is asked of a model and no block is run. With --cognet, wakes of other cognets are replayed with that one too.
Exit codes: 0 every wake that was replayed says what it said, 1 one does not, 2 usage, configuration, loading, or nothing
to replay.")]
    Replay {
        /// The session; the last one that was woken without
        #[arg(value_name = "SESSION")]
        id: Option<String>,
        /// Take it for a difference, too, when a model is asked otherwise
        #[arg(long)]
        strict: bool,
    },
    /// Read sessions, check them, and remove old ones
    #[command(after_help = "\
Examples:
  axon log list
  axon log show --last 20")]
    Log {
        #[command(subcommand)]
        command: LogCommand,
    },
}

#[derive(Debug, clap::Args)]
pub(super) struct Dev {
    /// Each line of standard input is a stimulus; no prompt, no editing
    #[arg(long)]
    pub(super) headless: bool,
    /// End a wake that runs when another cognet is ready, in place of waiting for it
    #[arg(long)]
    pub(super) interrupt: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Exec {
    /// Files to run one after another; - is standard input
    #[arg(required_unless_present = "code", value_name = "FILE.ts")]
    pub(super) files: Vec<PathBuf>,
    /// Code to run, before any files
    #[arg(short = 'e', value_name = "CODE")]
    pub(super) code: Vec<String>,
}

/// The common flags that mean something to each command, and what `--json` prints where it is not envelopes. Whatever a flag
/// means, every command takes it; `-v` means the same to all.
const MEANT: [(&[&str], &[&str], Option<&str>); 20] = [
    (&["new"], &[], None),
    (&["clone"], &["agent"], None),
    (&["run"], &["agent", "cognet", "engine", "record", "session", "last", "json"], None),
    (&["chat"], &["agent", "cognet", "engine", "record", "session", "last", "json"], None),
    (&["dev"], &["agent", "cognet", "engine", "record", "session", "last", "json"], None),
    (&["exec"], &["agent", "session", "last", "json"], None),
    (&["scope"], &["agent", "json"], Some("As JSON")),
    (&["doctor"], &["agent", "cognet", "engine", "json"], Some("As JSON")),
    (&["completions"], &[], None),
    (&["man"], &[], None),
    (&["prepare"], &["agent", "cognet", "engine", "json"], Some("Print nothing but what fails, as JSON")),
    (&["replay"], &["agent", "cognet", "json"], Some("As JSON, one wake a line")),
    (&["log"], &["agent"], None),
    (&["log", "list"], &["agent", "json"], Some("As JSON, one session a line")),
    (&["log", "show"], &["agent", "json"], Some("Print envelopes, one a line; --json=all is --json --all")),
    (&["log", "tail"], &["agent", "json"], Some("Print envelopes, one a line; --json=all is --json --all")),
    (&["log", "export"], &["agent"], None),
    (&["log", "check"], &["agent", "json"], Some("As JSON")),
    (&["log", "flame"], &["agent"], None),
    (&["log", "prune"], &["agent", "json"], Some("As JSON, one session a line")),
];

/// The command line: the help of each command shows the flags that mean something to it.
pub(super) fn command_line() -> clap::Command {
    let root = Args::command();
    let common: Vec<Arg> = root.get_arguments().filter(|arg| arg.is_global_set()).cloned().collect();
    MEANT.iter().fold(root, |root, (path, meant, json)| {
        with(root, path, &|command| {
            let own = common.iter().filter(|arg| arg.get_id() != "verbose").map(|arg| {
                let shown = arg.clone().hide(!meant.contains(&arg.get_id().as_str()));
                match json {
                    Some(text) if arg.get_id() == "json" => shown.help(*text),
                    _ => shown,
                }
            });
            command.args(own)
        })
    })
}

fn with(command: clap::Command, path: &[&str], change: &dyn Fn(clap::Command) -> clap::Command) -> clap::Command {
    match path.split_first() {
        Some((name, rest)) => command.mut_subcommand(name, |inner| with(inner, rest, change)),
        None => change(command),
    }
}

impl Args {
    /// What the program was called with.
    pub(super) fn read() -> Result<Self, clap::Error> {
        let mut command = command_line();
        Self::from_arg_matches_mut(&mut command.try_get_matches_from_mut(std::env::args_os())?)
            .map_err(|error| error.format(&mut command))
    }
}

#[cfg(test)]
mod tests {
    use super::{MEANT, command_line};

    #[test]
    fn the_command_line_is_consistent_and_says_of_each_command_which_flags_mean_something() {
        let mut command = command_line();
        command.clone().debug_assert();
        command.build();
        let mut commands = Vec::new();
        let mut open: Vec<(Vec<String>, &clap::Command)> = vec![(Vec::new(), &command)];
        while let Some((path, command)) = open.pop() {
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                let path = [path.clone(), vec![inner.get_name().to_owned()]].concat();
                commands.push(path.clone());
                open.push((path, inner));
            }
        }
        let mut known: Vec<_> = MEANT.iter().map(|(path, ..)| path.to_vec()).collect();
        commands.sort();
        known.sort();
        assert_eq!(commands, known);
    }
}
