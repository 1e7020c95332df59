//! `axon completions` and `axon man`: made from the command line itself, so that they are never out of date.

use std::io::{self, Write};

use clap_complete::Shell;

use super::args::command_line;

/// Completions for a shell, to standard output.
pub(super) fn completions(shell: Shell) -> io::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command_line(), "axon", &mut script);
    write(&script)
}

/// The manual, every command after the program itself, to standard output.
pub(super) fn man() -> io::Result<()> {
    let mut page = Vec::new();
    let mut command = command_line();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    commands(&command, "axon", &mut page)?;
    write(&page)
}

fn commands(command: &clap::Command, path: &str, page: &mut Vec<u8>) -> io::Result<()> {
    for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
        let path = format!("{path} {}", inner.get_name());
        let man = clap_mangen::Man::new(inner.clone());
        writeln!(page, ".SH {path}")?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        man.render_extra_section(page)?;
        commands(inner, &path, page)?;
    }
    Ok(())
}

fn write(bytes: &[u8]) -> io::Result<()> {
    match io::stdout().write_all(bytes) {
        // As with `| head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
