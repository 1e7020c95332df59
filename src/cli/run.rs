//! `axon run`: one stimulus, one wake.

use std::{
    io::{self, IsTerminal, Read, Write},
    sync::Arc,
};

use axon_runtime::Mode;

use super::{
    approve::approver,
    args::Common,
    console::YELLOW,
    failure::{Exit, Failure},
    follow::{View, follow},
    interrupt::Interrupts,
    keyboard::Keyboard,
};
use crate::{
    agent::Agent,
    engine::Recording,
    log::{self, SessionId},
    policy::Approver,
    session::{Session, SessionOptions, WakeOutcome},
};

pub(super) async fn run(common: &Common, words: Vec<String>) -> Result<(), Failure> {
    let text = stimulus(words)?;
    let agent = Agent::open(&common.agent)?;
    let interrupts = Interrupts::listen()?;
    let abort = interrupts.guard();
    let recording = recording(common)?;
    let approver = approver(&Keyboard::default(), &interrupts);
    let mut session = open(common, &agent, recording.clone(), approver).await?;
    // One beat is as good as another for a continuous cognet: the wake is its first.
    if session.mode() == Mode::Invocation && !session.wakes_on("stimulus:text") {
        let name = session.cognet().to_owned();
        session.close().await?;
        let message = format!("the cognet {name} does not wake on stimulus:text, so there is nothing to run");
        return Err(Failure::new(Exit::Usage, "COGNET_DEAF", message)
            .hint("change its wakeOn, or `[cognet] wake_on` in axon.toml"));
    }
    let observer = session.log().subscribe(session.opened_after());
    let printer = tokio::spawn(follow(observer, View::of(common.json)));
    let ended = wake_once(&mut session, &text, &abort).await;
    let closed = session.close().await;
    printer.await.map_err(io::Error::other)??;
    let closed = closed.map_err(Failure::from);
    finish(recording, ended.and(closed))
}

/// The recording that `--record` asks for.
pub(super) fn recording(common: &Common) -> Result<Option<Recording>, Failure> {
    let Some(path) = &common.record else { return Ok(None) };
    let recording = Recording::create(path).map_err(|error| {
        let message = format!("cannot record into {}: {error}", path.display());
        let failure = Failure::new(Exit::Usage, "RECORDING_FAILED", message);
        match error.kind() {
            io::ErrorKind::AlreadyExists if path.is_file() => failure.hint("name another file, or remove that one"),
            _ => failure,
        }
    });
    recording.map(Some)
}

/// How a command ends whose calls were recorded: as `ended`, and says so if the recording is not whole or not there.
pub(super) fn finish(recording: Option<Recording>, ended: Result<(), Failure>) -> Result<(), Failure> {
    let Some(recording) = recording else { return ended };
    let finished = recording.finish().map_err(|error| {
        Failure::new(Exit::Failed, "RECORDING_FAILED", format!("the recording is not whole: {error}"))
    });
    match (ended, finished) {
        (Ok(()), Ok(0)) => {
            writeln!(
                anstream::stderr().lock(),
                "{YELLOW}note:{YELLOW:#} no model was asked, so there is no recording"
            )?;
            Ok(())
        }
        (Err(ended), Err(unfinished)) => {
            anstream::stderr().lock().write_all(unfinished.text().as_bytes())?;
            Err(ended)
        }
        (ended, finished) => ended.and(finished.map(|_| ())),
    }
}

async fn wake_once(session: &mut Session, text: &str, abort: &axon_runtime::AbortController) -> Result<(), Failure> {
    session.admit_text(text, "cli").await?;
    judge(session.wake(abort).await?)
}

/// What a wake's end means for the exit code.
pub(super) fn judge(outcome: WakeOutcome) -> Result<(), Failure> {
    match outcome {
        WakeOutcome::Complete { .. } => Ok(()),
        WakeOutcome::Failed { error, .. } => Err(Failure::cognet(Exit::Failed, *error)),
        WakeOutcome::Interrupted { reason, .. } => Err(Failure::interrupted(&reason)),
    }
}

/// Opens the session that the flags ask for.
async fn open(
    common: &Common,
    agent: &Agent,
    recording: Option<Recording>,
    approver: Arc<dyn Approver>,
) -> Result<Session, Failure> {
    let session = chosen_session(common, agent)?;
    open_as(common, agent, session, recording, approver).await
}

/// The same under a name of its own.
pub(super) async fn open_as(
    common: &Common,
    agent: &Agent,
    session: Option<SessionId>,
    recording: Option<Recording>,
    approver: Arc<dyn Approver>,
) -> Result<Session, Failure> {
    let (cognet, engine) = (common.cognet.clone(), common.engine.clone());
    let options = SessionOptions { session, cognet, engine, recording, approver };
    Ok(Session::open(agent, options).await?)
}

/// `--session`, or the last one for `--continue`, or none.
pub(super) fn chosen_session(common: &Common, agent: &Agent) -> Result<Option<SessionId>, Failure> {
    if common.last {
        let last = log::last_session(&agent.sessions_dir());
        return last.map(Some).ok_or_else(|| no_session(agent));
    }
    match &common.session {
        Some(id) => Ok(Some(SessionId::parse(id)?)),
        None => Ok(None),
    }
}

pub(super) fn no_session(agent: &Agent) -> Failure {
    let dir = agent.sessions_dir();
    let dir = dir.strip_prefix(agent.dir()).unwrap_or(&dir);
    let message = format!("there is no session yet in {}", dir.display());
    Failure::new(Exit::Usage, "SESSION_NOT_FOUND", message).hint("`axon run \"hello\"` begins one")
}

/// The words, or standard input when there are none.
fn stimulus(words: Vec<String>) -> Result<String, Failure> {
    if !words.is_empty() {
        return Ok(words.join(" "));
    }
    let nothing = || {
        Failure::new(Exit::Usage, "USAGE", "there is no text to run")
            .hint("give the words, `axon run \"hello\"`, or pipe a text in")
    };
    if io::stdin().is_terminal() {
        return Err(nothing());
    }
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes)
        .map_err(|error| Failure::new(Exit::Usage, "USAGE", format!("standard input is not UTF-8: {error}")))?;
    if text.trim().is_empty() {
        return Err(nothing());
    }
    Ok(text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text).to_owned())
}
