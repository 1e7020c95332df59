//! The command line: one file a command, one place for failures and one for what is printed.

mod approve;
mod args;
mod chat;
mod clone;
mod console;
mod doctor;
mod exec;
mod failure;
mod follow;
mod generate;
mod interrupt;
mod keyboard;
mod log;
mod new;
mod prepare;
mod replay;
mod run;
mod scope;
mod types;

use std::{io::IsTerminal, process::ExitCode};

use tracing_subscriber::EnvFilter;

use args::{Args, Command};
use failure::{Exit, Failure};

/// Runs the program's command line. Call [`crate::init`] first.
pub fn main() -> ExitCode {
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => return failure::usage(&error),
    };
    start_tracing(args.common.verbose);
    let json = args.common.json.is_some();
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Usage, "RUNTIME", format!("the async runtime did not start: {error}")))
        .and_then(|runtime| {
            let result = runtime.block_on(dispatch(args));
            // A reader of standard input may still wait for a line that never comes.
            runtime.shutdown_background();
            result
        });
    crate::log::leave_held_sessions();
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

async fn dispatch(args: Args) -> Result<(), Failure> {
    let common = args.common;
    let asks_a_model = matches!(args.command, Command::Run { .. } | Command::Chat | Command::Dev(_));
    if common.record.is_some() && !asks_a_model {
        let message = "--record is for `axon run`, `axon chat` and `axon dev`: nothing else asks a model";
        return Err(Failure::new(Exit::Usage, "USAGE", message));
    }
    match args.command {
        Command::New { dir } => new::new(&dir).await,
        Command::Clone { bundled, name } => clone::clone(&common, &bundled, name.as_deref()),
        Command::Run { text } => run::run(&common, text).await,
        Command::Chat => chat::chat(&common).await,
        Command::Dev(dev) => chat::dev(&common, &dev).await,
        Command::Exec(exec) => exec::exec(&common, exec).await,
        Command::Scope { dts } => scope::scope(&common, dts).await,
        Command::Doctor => doctor::doctor(&common).await,
        Command::Completions { shell } => Ok(generate::completions(shell)?),
        Command::Man => Ok(generate::man()?),
        Command::Replay { id, strict } => replay::replay(&common, id, strict).await,
        Command::Prepare => prepare::prepare(&common).await,
        Command::Log { command } => log::log(&common, command).await,
    }
}

/// Diagnostics go to standard error; `RUST_LOG` has the last word.
fn start_tracing(verbose: u8) {
    let default = match verbose {
        0 => "off",
        1 => "axon=info,axon_runtime=info,axon_capsule=info",
        2 => "axon=debug,axon_runtime=debug,axon_capsule=debug",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(colour)
        .init();
}
