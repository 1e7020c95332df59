//! The course of a conversation: what is typed becomes stimuli, stimuli wake the brain, and brains are changed in between.

use std::{collections::VecDeque, io, path::PathBuf, pin::pin, sync::PoisonError};

use axon_runtime::{AbortController, Mode};
use tokio::sync::watch;

use super::{
    Face, Input, Typed,
    commands::{self, Command, Then, Typist},
    editor::Status,
    fold::duration,
    question::{Question, Questions},
    screen::good,
    supervisor::Supervisor,
};
use crate::{
    Beats, Inbox,
    cli::{
        approve::is_answer,
        console::{DIM, RED, YELLOW, harmless},
        failure::{Exit, Failure},
        interrupt::{Interrupts, USER},
        run::judge,
        types,
    },
    config::{ConfigError, Price},
    session::{Candidate, Reload, Reloaded, Session, WakeOutcome},
};

/// Where a stimulus of a conversation says that it came from.
const SOURCE: &str = "chat";

/// The reason of a wake that is ended for another brain.
const RELOADING: &str = "interrupted: the cognet was reloaded";

/// When lines are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Feed {
    /// The next one when the last was answered.
    OneByOne,
    /// Also while a wake runs: what comes then is answered together.
    AsItComes,
}

/// What another brain means for a wake that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MidWake {
    LetEnd,
    Interrupt,
}

/// Everybody who takes part.
pub(super) struct Talk {
    pub(super) session: Session,
    pub(super) input: Input,
    pub(super) questions: Questions,
    pub(super) feed: Feed,
    pub(super) face: Face,
    pub(super) supervisor: Supervisor,
    pub(super) mid_wake: MidWake,
    /// The line above the prompt, while somebody writes the cognet.
    pub(super) status: Option<Status>,
    pub(super) interrupts: Interrupts,
    /// Up to which seq things were shown.
    pub(super) progress: watch::Receiver<Option<u64>>,
    pub(super) json: bool,
    pub(super) price: Option<Price>,
    /// The agent folder whose types follow what is reloaded.
    pub(super) types: Option<PathBuf>,
}

/// What has come up and is not done.
#[derive(Default)]
struct Agenda {
    /// A brain that waits for the wake to end.
    candidate: Option<Box<Candidate>>,
    commands: VecDeque<Command>,
    typist: Typist,
    /// There are stimuli that wake the brain.
    due: bool,
    ended: bool,
    /// The next line may be meant for a question that was withdrawn.
    surplus: bool,
    /// The last thing that was typed was Ctrl-C.
    warned: bool,
    wakes: u64,
    failed: u64,
    /// A continuous brain has been woken since it was loaded.
    woken: bool,
}

impl Talk {
    /// Goes on until the input ends or somebody leaves; answers the session for it to be closed. `before` was typed when there
    /// was no session yet.
    pub(super) async fn go(mut self, before: Vec<Typed>) -> (Session, Result<(), Failure>) {
        let result = self.converse(before).await;
        (self.session, result)
    }

    async fn converse(&mut self, before: Vec<Typed>) -> Result<(), Failure> {
        let typist = if matches!(self.face, Face::Screen(_)) { Typist::Person } else { Typist::Program };
        let due = self.session.has_stimuli()? && self.wakes_on_text();
        let mut agenda = Agenda { due, typist, ..Agenda::default() };
        let mut beats = self.session.beats();
        // A brain that wakes by itself is not spoken to in turns: without an editor, Ctrl-C ends the wake and the talk.
        let leave = (beats.is_some() && matches!(self.face, Face::Plain(_))).then(|| self.interrupts.guard());
        self.show_status(None);
        for typed in before {
            self.take(typed, &mut agenda).await?;
        }
        loop {
            if let Some(candidate) = agenda.candidate.take() {
                self.adopt(candidate).await?;
                beats = self.session.beats();
            }
            if let Some(command) = agenda.commands.pop_front() {
                let then = commands::run(command, &mut self.session, &self.face, &self.supervisor, self.price).await?;
                if then == Then::Leave {
                    return self.verdict(&agenda);
                }
                continue;
            }
            let answered = !agenda.due && (beats.is_none() || agenda.woken && !self.session.has_stimuli()?);
            if agenda.ended && answered {
                return self.verdict(&agenda);
            }
            let missed = if agenda.due {
                0
            } else {
                let left = leave.as_ref().map(AbortController::signal);
                tokio::select! {
                    biased;
                    () = cancelled(left.as_ref()) => return Err(Failure::interrupted(USER)),
                    reload = self.supervisor.next() => {
                        self.hear(reload, &mut agenda)?;
                        continue;
                    }
                    typed = self.input.next(), if !agenda.ended => {
                        self.take(typed?, &mut agenda).await?;
                        continue;
                    }
                    missed = beat(beats.as_mut()) => missed,
                }
            };
            agenda.due = false;
            agenda.woken = true;
            self.wake(missed, leave.as_ref(), &mut agenda).await?;
        }
    }

    /// A person has seen what failed; a program is told in the end, too.
    fn verdict(&self, agenda: &Agenda) -> Result<(), Failure> {
        let Agenda { wakes, failed, .. } = *agenda;
        if failed == 0 || matches!(self.face, Face::Screen(_)) {
            return Ok(());
        }
        Err(Failure::new(Exit::Failed, "WAKES_FAILED", format!("{failed} of {wakes} wakes failed")))
    }

    /// One wake, and what happens beside it.
    async fn wake(&mut self, missed: u64, leave: Option<&AbortController>, agenda: &mut Agenda) -> Result<(), Failure> {
        let abort = leave.cloned().unwrap_or_else(|| self.interrupts.guard());
        let listens = self.feed == Feed::AsItComes || self.session.mode() == Mode::Continuous;
        let inbox = self.session.inbox();
        let wakes_on_text = self.wakes_on_text();
        let Self { session, input, questions, supervisor, face, status, mid_wake, .. } = self;
        let mut open: Option<Question> = None;
        let mut answered = false;
        let outcome = {
            let mut wake = pin!(session.wake_on_beat(&abort, missed));
            loop {
                let is_asked = open.is_some();
                tokio::select! {
                    biased;
                    outcome = &mut wake => break outcome?,
                    reload = supervisor.next() => {
                        hear(reload, agenda, face, status.as_ref())?;
                        if agenda.candidate.is_some() && *mid_wake == MidWake::Interrupt {
                            abort.abort(RELOADING);
                        }
                    }
                    Some(question) = questions.recv(), if !is_asked => {
                        input.put_aside()?;
                        face.note(&question.text())?;
                        open = Some(question);
                    }
                    () = withdrawn(open.as_mut()) => {
                        face.note(&format!("{DIM}the question is withdrawn{DIM:#}"))?;
                        open = None;
                        agenda.surplus = true;
                    }
                    typed = next(input, is_asked), if (listens || is_asked) && !agenda.ended => match (typed?, open.take()) {
                        (typed, Some(question)) => {
                            question.answer(&typed);
                            answered = true;
                        }
                        (Typed::Interrupt, None) => abort.abort(USER),
                        (typed, None) => agenda.due |= note(typed, agenda, &inbox, face).await? && wakes_on_text,
                    }
                }
            }
        };
        if answered && let Some(answer) = input.take_surplus()? {
            unasked(&answer, face)?;
        }
        if leave.is_none() {
            self.interrupts.release();
        }
        // What was said is shown before what failed, and before the next prompt.
        let tail = self.session.log().last_seq();
        let _ = self.progress.wait_for(|seen| *seen >= tail).await;
        agenda.wakes += 1;
        agenda.failed += u64::from(matches!(outcome, WakeOutcome::Failed { .. }));
        match outcome {
            WakeOutcome::Complete { .. } => Ok(()),
            outcome @ WakeOutcome::Interrupted { .. } if leave.is_some_and(|leave| leave.signal().aborted()) => {
                judge(outcome)
            }
            // The screen has said so.
            WakeOutcome::Interrupted { reason, .. } if matches!(self.face, Face::Screen(_)) => {
                agenda.warned = reason == USER;
                if agenda.warned { self.warn() } else { Ok(()) }
            }
            outcome => match judge(outcome) {
                Ok(()) => Ok(()),
                Err(failure) => Ok(self.face.fail(&failure, self.json)?),
            },
        }
    }

    /// Something was typed between two wakes.
    async fn take(&mut self, typed: Typed, agenda: &mut Agenda) -> Result<(), Failure> {
        if typed == Typed::Interrupt {
            agenda.ended = agenda.warned;
            if !std::mem::replace(&mut agenda.warned, true) {
                self.warn()?;
            }
            return Ok(());
        }
        agenda.warned = false;
        if note(typed, agenda, &self.session.inbox(), &self.face).await? {
            if self.wakes_on_text() {
                agenda.due = true;
            } else if self.session.mode() == Mode::Invocation && matches!(self.face, Face::Screen(_)) {
                let name = self.session.cognet();
                self.face.note(&format!("{DIM}{name} does not wake on text; it is handed to the next wake{DIM:#}"))?;
            }
        }
        Ok(())
    }

    fn warn(&self) -> Result<(), Failure> {
        Ok(self.face.note(&format!("{DIM}Ctrl-C once more leaves{DIM:#}"))?)
    }

    fn hear(&mut self, reload: Reload, agenda: &mut Agenda) -> io::Result<()> {
        hear(reload, agenda, &self.face, self.status.as_ref())
    }

    async fn adopt(&mut self, candidate: Box<Candidate>) -> Result<(), Failure> {
        let reloaded = self.session.adopt(candidate).await?;
        // First, since each line that follows has the prompt shown anew.
        self.show_status(Some(&reloaded));
        self.face.note(&good(&told(&reloaded)))?;
        if !reloaded.at_next_start.is_empty() {
            let keys = reloaded.at_next_start.join(", ");
            self.face.note(&format!("{YELLOW}! from the next start on: {keys}{YELLOW:#}"))?;
        }
        for rule in &reloaded.idle_rules {
            self.face.note(&doubtful(rule))?;
        }
        if let Some(error) = &reloaded.unload_error {
            self.face.note(&format!("{YELLOW}! the old cognet did not end well: {error}{YELLOW:#}"))?;
        }
        if let Some(dir) = &self.types {
            types::write(dir, &self.session.scope())?;
        }
        Ok(())
    }

    fn show_status(&self, reloaded: Option<&Reloaded>) {
        let Some(status) = &self.status else { return };
        let mut text = format!("{} · generation {}", self.session.cognet(), self.session.generation());
        if let Some(reloaded) = reloaded {
            text.push_str(&format!(" · reloaded in {}", shown(reloaded)));
        }
        *status.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn wakes_on_text(&self) -> bool {
        self.session.wakes_on("stimulus:text")
    }
}

/// Something that holds and is perhaps not what was meant.
pub(super) fn doubtful(what: &ConfigError) -> String {
    format!("{YELLOW}!{YELLOW:#} {}", harmless(&what.to_string()))
}

/// What came of a change.
fn hear(reload: Reload, agenda: &mut Agenda, face: &Face, status: Option<&Status>) -> io::Result<()> {
    match reload {
        Reload::Unchanged => {}
        Reload::Ready(candidate) => agenda.candidate = Some(candidate),
        Reload::Restored => {
            agenda.candidate = None;
            clear_error(status);
            face.note(&good("as before: the cognet that serves is of these files"))?;
        }
        Reload::Failed(error) => {
            let failure = Failure::from(error);
            if let Some(status) = status {
                let mut text = status.lock().unwrap_or_else(PoisonError::into_inner);
                let kept = text.split(ERROR_MARK).next().unwrap_or_default().to_owned();
                *text = format!("{kept}{ERROR_MARK}{}", failure.brief());
            }
            face.note(&format!("{RED}✗{RED:#} not reloaded, the cognet that serves goes on\n{}", failure.text()))?;
        }
    }
    Ok(())
}

/// Between the state and the last error in the status line.
const ERROR_MARK: &str = " · ✗ ";

fn clear_error(status: Option<&Status>) {
    if let Some(status) = status {
        let mut text = status.lock().unwrap_or_else(PoisonError::into_inner);
        *text = text.split(ERROR_MARK).next().unwrap_or_default().to_owned();
    }
}

/// Puts what was typed where it belongs. Answers whether it was a stimulus.
async fn note(typed: Typed, agenda: &mut Agenda, inbox: &Inbox, face: &Face) -> Result<bool, Failure> {
    let Typed::Line(line) = typed else {
        agenda.ended = true;
        return Ok(false);
    };
    let text = line.trim_end_matches(['\n', '\r']);
    if text.trim().is_empty() {
        return Ok(false);
    }
    if let Some(command) = Command::of(text, agenda.typist) {
        agenda.commands.push_back(command);
        return Ok(false);
    }
    if std::mem::take(&mut agenda.surplus) && is_answer(text) {
        unasked(text, face)?;
        return Ok(false);
    }
    inbox.admit_text(text, SOURCE).await?;
    Ok(true)
}

fn unasked(answer: &str, face: &Face) -> io::Result<()> {
    face.note(&format!("{DIM}no question is open: {} was not said to the agent{DIM:#}", harmless(answer.trim())))
}

/// The next thing that is typed, to whatever it is for.
async fn next(input: &mut Input, is_asked: bool) -> io::Result<Typed> {
    if is_asked { input.answer().await } else { input.next().await }
}

async fn beat(beats: Option<&mut Beats>) -> u64 {
    match beats {
        Some(beats) => beats.next().await,
        None => std::future::pending().await,
    }
}

/// Nobody waits for the answer any more.
async fn withdrawn(question: Option<&mut Question>) {
    match question {
        Some(question) => question.withdrawn().await,
        None => std::future::pending().await,
    }
}

async fn cancelled(signal: Option<&axon_runtime::AbortSignal>) {
    match signal {
        Some(signal) => signal.cancelled().await,
        None => std::future::pending().await,
    }
}

fn told(reloaded: &Reloaded) -> String {
    let changed = match reloaded.changed.as_slice() {
        [] => "nothing has changed".to_owned(),
        [one] => one.clone(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    };
    format!("reloaded in {} (generation {}): {changed}", shown(reloaded), reloaded.generation)
}

fn shown(reloaded: &Reloaded) -> String {
    duration(u64::try_from(reloaded.took.as_millis()).unwrap_or(u64::MAX))
}
