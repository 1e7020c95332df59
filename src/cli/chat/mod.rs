//! `axon chat` and `axon dev`: a conversation, in `dev` with a cognet that is being written.

mod ahead;
mod commands;
mod editor;
mod fold;
mod prose;
mod question;
mod screen;
mod supervisor;
mod talk;
pub(super) mod terminal;

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
};

use tokio::sync::{mpsc, watch};

use super::{
    args::{Common, Dev},
    console::{DIM, YELLOW, harmless},
    failure::Failure,
    follow::{Printer, View},
    interrupt::{Interrupts, USER},
    run,
};
use crate::{
    Watcher,
    agent::Agent,
    engine::Recording,
    log::Observer,
    policy::{Approver, Unattended},
    session::{Session, Survey},
};
use commands::{Command, Then, Typist};
use editor::{Editor, Status};
use question::questions;
use screen::{Detail, Screen};
use supervisor::{Place, Supervisor};
use talk::{Feed, MidWake, Talk};

/// What a person, or whoever writes to standard input, has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Typed {
    Line(String),
    /// Ctrl-C while a line was edited.
    Interrupt,
    /// The input has ended.
    End,
}

/// Where lines come from.
enum Input {
    Editor(Editor),
    Pipe { lines: mpsc::Receiver<io::Result<Piped>>, face: Face },
}

/// A line of standard input.
struct Piped {
    /// What is not UTF-8 is a replacement character.
    text: String,
    is_utf8: bool,
    /// From 1.
    number: u64,
}

/// Where things are shown.
#[derive(Clone)]
enum Face {
    Screen(Screen),
    /// The answer goes to standard output, what is said about it to standard error.
    Plain(View),
}

/// How often the screen shows that something goes on.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

pub(super) async fn chat(common: &Common) -> Result<(), Failure> {
    converse(common, None).await
}

pub(super) async fn dev(common: &Common, dev: &Dev) -> Result<(), Failure> {
    converse(common, Some(dev)).await
}

async fn converse(common: &Common, dev: Option<&Dev>) -> Result<(), Failure> {
    let interrupts = Interrupts::listen()?;
    let headless = dev.is_some_and(|dev| dev.headless);
    let on_terminal = !headless && common.json.is_none() && has_terminal();
    let detail = if dev.is_some() { Detail::Development } else { Detail::Answer };
    let face = if on_terminal { Face::Screen(Screen::new(detail)) } else { Face::Plain(View::of(common.json)) };
    let recording = run::recording(common)?;
    let mut watcher = dev.map(|_| Watcher::new());
    let (asking, questions) = questions();
    let approver: Arc<dyn Approver> = if on_terminal { Arc::new(asking) } else { Arc::new(Unattended) };
    let status = Status::default();
    let (mut input, quiet) = match &face {
        Face::Screen(screen) => {
            let history = common.agent.join(".axon").join("history");
            let quiet = terminal::Quiet::begin()?;
            (Input::Editor(Editor::new(screen.clone(), status.clone(), Some(history))), Some(quiet))
        }
        Face::Plain(_) => (Input::Pipe { lines: lines(), face: face.clone() }, None),
    };
    let Some(Opened { agent, survey, session, before }) =
        open(common, &face, recording.clone(), approver, watcher.as_mut(), &mut input).await?
    else {
        return Ok(());
    };

    if dev.is_some() {
        for rule in session.idle_rules(&agent) {
            face.note(&talk::doubtful(&rule))?;
        }
    }

    let (printed, progress) = watch::channel(None);
    let observer = session.log().subscribe(session.opened_after());
    let printer = tokio::spawn(print(observer, face.clone(), printed));
    if let Face::Screen(screen) = &face {
        screen.note(&greeting(&session))?;
    }
    let price = agent.config().engine.price;
    let dir = agent.dir().to_owned();
    let types = dev.map(|_| dir.clone());
    let place = Place { dir, engine: common.engine.clone() };
    let supervisor = Supervisor::start(session.reloader(agent, survey), place, watcher);
    let talk = Talk {
        feed: if headless { Feed::AsItComes } else { Feed::OneByOne },
        mid_wake: if dev.is_some_and(|dev| dev.interrupt) { MidWake::Interrupt } else { MidWake::LetEnd },
        status: dev.map(|_| status),
        session,
        input,
        questions,
        face,
        supervisor,
        interrupts,
        progress,
        json: common.json.is_some(),
        price,
        types,
    };
    let (session, talked) = talk.go(before).await;
    drop(quiet);
    let closed = session.close().await;
    printer.await.map_err(io::Error::other)??;
    run::finish(recording, talked.and(closed.map_err(Failure::from)))
}

/// An agent that a conversation can begin with.
struct Opened {
    agent: Agent,
    survey: Survey,
    session: Session,
    /// What was typed until then.
    before: Vec<Typed>,
}

/// Opens the session. While somebody writes the agent, one that does not load yet is waited for; `None` when a person would
/// not wait.
async fn open(
    common: &Common,
    face: &Face,
    recording: Option<Recording>,
    approver: Arc<dyn Approver>,
    mut watcher: Option<&mut Watcher>,
    input: &mut Input,
) -> Result<Option<Opened>, Failure> {
    let mut before = Vec::new();
    // One session, however often it takes.
    let mut chosen = None;
    let place = Place { dir: common.agent.clone(), engine: common.engine.clone() };
    loop {
        let survey = supervisor::look(&place, watcher.as_deref_mut()).await;
        let opened = async {
            let agent = Agent::open(&common.agent)?;
            let id = match chosen.take() {
                Some(id) => id,
                None => run::chosen_session(common, &agent)?.unwrap_or_default(),
            };
            chosen = Some(id.clone());
            let session = run::open_as(common, &agent, Some(id), recording.clone(), approver.clone()).await?;
            Ok::<_, Failure>((agent, session))
        };
        match (opened.await, watcher.as_deref_mut()) {
            (Ok((agent, session)), _) => return Ok(Some(Opened { agent, survey, session, before })),
            (Err(failure), Some(watcher)) if failure.is_of_files() => {
                face.note(&failure.text())?;
                let file = failure.file().map_or_else(|| "the agent's files".to_owned(), harmless);
                let leave = if matches!(face, Face::Screen(_)) { "; /exit or Ctrl-D leaves" } else { "" };
                face.note(&format!("{DIM}waiting for a change of {file}{leave}{DIM:#}"))?;
                if wait(watcher, input, &mut before).await? == Then::Leave {
                    return Ok(None);
                }
            }
            (Err(failure), _) => return Err(failure),
        }
    }
}

/// Waits for a change of the agent's files, and keeps what a person says to the agent meanwhile.
async fn wait(watcher: &mut Watcher, input: &mut Input, before: &mut Vec<Typed>) -> Result<Then, Failure> {
    let is_person = matches!(input, Input::Editor(_));
    loop {
        let typed = tokio::select! {
            () = watcher.changed() => return Ok(Then::GoOn),
            typed = input.next(), if is_person => typed?,
        };
        match typed {
            Typed::End => return Ok(Then::Leave),
            Typed::Interrupt => return Err(Failure::interrupted(USER)),
            Typed::Line(line) => match Command::of(&line, Typist::Person) {
                Some(Command::Exit) => return Ok(Then::Leave),
                _ => before.push(Typed::Line(line)),
            },
        }
    }
}

impl Input {
    /// Keeps what was typed and has not been read for later, where a person types.
    fn put_aside(&self) -> io::Result<()> {
        match self {
            Self::Editor(editor) => editor.put_aside(),
            Self::Pipe { .. } => Ok(()),
        }
    }

    /// Takes an answer too many from what a person has typed since the last one.
    fn take_surplus(&self) -> io::Result<Option<String>> {
        match self {
            Self::Editor(editor) => editor.take_surplus(),
            Self::Pipe { .. } => Ok(None),
        }
    }

    /// The next thing that is typed, for a question: what was put aside is no answer.
    async fn answer(&mut self) -> io::Result<Typed> {
        match self {
            Self::Editor(editor) => editor.answer().await,
            Self::Pipe { .. } => self.next().await,
        }
    }

    async fn next(&mut self) -> io::Result<Typed> {
        match self {
            Self::Editor(editor) => editor.next().await,
            Self::Pipe { lines, face } => {
                let Some(Piped { text, is_utf8, number }) = lines.recv().await.transpose()? else {
                    return Ok(Typed::End);
                };
                if !is_utf8 {
                    let what =
                        format!("line {number} of the input is not UTF-8: what could not be read is now \u{fffd}");
                    face.note(&format!("{YELLOW}!{YELLOW:#} {what}"))?;
                }
                Ok(Typed::Line(text))
            }
        }
    }
}

impl Face {
    /// Says something about the conversation; styles included.
    fn note(&self, text: &str) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.note(text),
            Self::Plain(_) => {
                let mut err = anstream::stderr().lock();
                err.write_all(text.as_bytes())?;
                if text.ends_with('\n') { Ok(()) } else { err.write_all(b"\n") }
            }
        }
    }

    /// Tells of a failure that the conversation survives.
    fn fail(&self, failure: &Failure, json: bool) -> io::Result<()> {
        match self {
            Self::Screen(screen) => screen.note(&failure.text()),
            Self::Plain(_) => {
                failure.report(json);
                Ok(())
            }
        }
    }
}

/// Shows what happens, and tells how far it is.
async fn print(mut observer: Observer, face: Face, printed: watch::Sender<Option<u64>>) -> io::Result<()> {
    let screen = match face {
        Face::Screen(screen) => screen,
        Face::Plain(view) => return print_plain(observer, view, printed).await,
    };
    let mut ticks = tokio::time::interval(TICK);
    loop {
        tokio::select! {
            next = observer.next() => match next {
                Some(Ok(envelope)) => {
                    screen.show(&envelope)?;
                    printed.send_replace(Some(envelope.time.seq));
                }
                // An observer that lagged goes on where it was: nothing is lost, since the log holds it.
                Some(Err(_)) => {}
                None => return Ok(()),
            },
            _ = ticks.tick() => screen.tick()?,
        }
    }
}

async fn print_plain(mut observer: Observer, view: View, printed: watch::Sender<Option<u64>>) -> io::Result<()> {
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

/// Lines of standard input. A thread of its own reads them, since a read cannot be interrupted.
fn lines() -> mpsc::Receiver<io::Result<Piped>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for (line, number) in io::BufRead::split(io::stdin().lock(), b'\n').zip(1..) {
            let piped = line.map(|bytes| match String::from_utf8(bytes) {
                Ok(text) => Piped { text, is_utf8: true, number },
                Err(error) => {
                    Piped { text: String::from_utf8_lossy(error.as_bytes()).into_owned(), is_utf8: false, number }
                }
            });
            let failed = piped.is_err();
            if sender.blocking_send(piped).is_err() || failed {
                return;
            }
        }
    });
    receiver
}

/// Whether all three streams are a terminal that can do more than print: what is typed, said and told share one screen.
fn has_terminal() -> bool {
    io::stdin().is_terminal()
        && io::stdout().is_terminal()
        && io::stderr().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn greeting(session: &Session) -> String {
    format!("{DIM}{} · session {} · /help{DIM:#}", session.cognet(), session.log().id())
}
