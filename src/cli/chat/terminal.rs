//! The terminal while a chat has it: what is typed during a wake is not echoed into the answer, and waits to be read.

use std::{
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

#[cfg(unix)]
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

/// Columns of a terminal that does not say.
const DEFAULT_COLUMNS: usize = 80;

/// How the terminal was before, for whoever ends the program.
#[cfg(unix)]
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// Ends what an editor may have switched on: bracketed paste, and a hidden cursor.
const RESET: &str = "\x1b[?2004l\x1b[?25h";

/// Quiet for as long as it lives.
pub(super) struct Quiet;

impl Quiet {
    /// Leaves Ctrl-C its meaning, and nothing else.
    pub(super) fn begin() -> io::Result<Self> {
        #[cfg(unix)]
        {
            let stdin = io::stdin();
            let before = tcgetattr(&stdin)?;
            let mut quiet = before.clone();
            quiet.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON);
            // Ctrl-C ends a wake; what was typed before it is not part of that.
            quiet.local_modes.insert(LocalModes::ISIG | LocalModes::NOFLSH);
            // Enter is to be Enter when the editor reads what was typed before it had the terminal.
            quiet.input_modes.remove(InputModes::ICRNL);
            *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
            tcsetattr(&stdin, OptionalActions::Now, &quiet)?;
        }
        Ok(Self)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back as it was. Does nothing where no chat has it.
pub(in crate::cli) fn restore() {
    #[cfg(unix)]
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // Nobody is left to tell when the terminal is gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        let _ = io::stdout().write_all(RESET.as_bytes()).and_then(|()| io::stdout().flush());
    }
}

/// Whether something was typed that nobody has read.
pub(super) fn has_typed() -> bool {
    #[cfg(unix)]
    {
        rustix::io::ioctl_fionread(io::stdin()).is_ok_and(|bytes| bytes > 0)
    }
    #[cfg(not(unix))]
    false
}

/// The width of the window.
pub(super) fn columns() -> usize {
    #[cfg(unix)]
    {
        let size = rustix::termios::tcgetwinsize(io::stdout()).map(|size| usize::from(size.ws_col));
        size.ok().filter(|columns| *columns > 0).unwrap_or(DEFAULT_COLUMNS)
    }
    #[cfg(not(unix))]
    DEFAULT_COLUMNS
}
