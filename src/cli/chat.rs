//! `axon chat`: a line is a stimulus, a wake answers it. A continuous cognet is talked with in `continuous`.

use std::io::{self, IsTerminal, Write};

use tokio::sync::watch;

use super::{
    approve::approver,
    args::Common,
    console::{BOLD, DIM},
    continuous,
    failure::Failure,
    follow::{Printer, View},
    interrupt::Interrupts,
    keyboard::Keyboard,
    run::{judge, open},
};
use crate::{
    agent::Agent,
    log::Observer,
    session::{Session, WakeOutcome},
};

pub(super) async fn chat(common: &Common) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let interrupts = Interrupts::listen()?;
    let keyboard = Keyboard::default();
    let mut session = open(common, &agent, approver(&keyboard, &interrupts)).await?;
    let (printed, mut progress) = watch::channel(None);
    let observer = session.log().subscribe(session.opened_after());
    let printer = tokio::spawn(print(observer, View::of(common.json), printed));
    let person = io::stdin().is_terminal();
    if person {
        greet(&session)?;
    }
    let json = common.json.is_some();
    let talked = match session.beats() {
        Some(beats) => continuous::talk(&mut session, beats, &keyboard, &interrupts, &mut progress, person, json).await,
        None => talk(&mut session, &keyboard, &interrupts, &mut progress, person, json).await,
    };
    let closed = session.close().await;
    printer.await.map_err(io::Error::other)??;
    talked?;
    Ok(closed?)
}

/// What a line of input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Blank,
    /// `/exit`.
    Exit,
    Text(&'a str),
}

impl<'a> Line<'a> {
    pub(super) fn of(line: &'a str) -> Self {
        match line.trim() {
            "" => Self::Blank,
            "/exit" => Self::Exit,
            _ => Self::Text(line.trim_end_matches(['\n', '\r'])),
        }
    }
}

/// Lines in, wakes out, until the input ends or `/exit`.
async fn talk(
    session: &mut Session,
    keyboard: &Keyboard,
    interrupts: &Interrupts,
    progress: &mut watch::Receiver<Option<u64>>,
    person: bool,
    json: bool,
) -> Result<(), Failure> {
    loop {
        if person {
            prompt()?;
        }
        let Some(line) = keyboard.line().await.transpose()? else { return Ok(()) };
        let text = match Line::of(&line) {
            Line::Blank => continue,
            Line::Exit => return Ok(()),
            Line::Text(text) => text,
        };
        session.admit_text(text, "chat").await?;
        if !session.wakes_on("stimulus:text") {
            if person {
                deaf(session)?;
            }
            continue;
        }
        let abort = interrupts.guard();
        let outcome = session.wake(&abort).await?;
        interrupts.release();
        // The next prompt comes after all that was said.
        let tail = session.log().last_seq();
        let _ = progress.wait_for(|seen| *seen >= tail).await;
        if !matches!(outcome, WakeOutcome::Complete { .. })
            && let Err(failure) = judge(outcome)
        {
            failure.report(json);
        }
    }
}

/// Prints what happens, and tells how far it is.
async fn print(mut observer: Observer, view: View, printed: watch::Sender<Option<u64>>) -> io::Result<()> {
    let mut printer = Printer::new(view);
    while let Some(next) = observer.next().await {
        let Ok(envelope) = next else { continue };
        printer.print(&envelope)?;
        if envelope.kind.starts_with("kernel:run:") {
            printer.finish()?;
        }
        printed.send_replace(Some(envelope.time.seq));
    }
    printer.finish()
}

fn deaf(session: &Session) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    writeln!(err, "{DIM}{} does not wake on text; it is handed to the next wake{DIM:#}", session.cognet())
}

fn greet(session: &Session) -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    writeln!(
        err,
        "{DIM}{} in session {}; Ctrl-C interrupts, /exit or Ctrl-D ends{DIM:#}",
        session.cognet(),
        session.log().id()
    )
}

pub(super) fn prompt() -> io::Result<()> {
    let mut err = anstream::stderr().lock();
    write!(err, "{BOLD}>{BOLD:#} ")?;
    err.flush()
}
