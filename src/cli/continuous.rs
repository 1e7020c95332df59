//! `axon chat` with a continuous cognet: it wakes on its beats, and what is typed is in the next one's stimuli.

use std::io;

use tokio::sync::watch;

use super::{
    chat::{Line, prompt},
    failure::Failure,
    interrupt::Interrupts,
    keyboard::Keyboard,
    run::judge,
};
use crate::{
    Beats, Inbox,
    log::LogError,
    session::{Session, WakeOutcome},
};

/// What the end of a talk leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Input {
    Open,
    /// One more wake for what was said last, then the end.
    Ended,
}

/// Lines in and wakes on the beat, until the input ends, `/exit` or Ctrl-C.
pub(super) async fn talk(
    session: &mut Session,
    mut beats: Beats,
    keyboard: &Keyboard,
    interrupts: &Interrupts,
    progress: &mut watch::Receiver<Option<u64>>,
    person: bool,
    json: bool,
) -> Result<(), Failure> {
    // A brain that wakes by itself is not spoken to in turns: the first Ctrl-C ends the wake and the talk.
    let leave = interrupts.guard();
    let inbox = session.inbox();
    let mut input = Input::Open;
    let mut woken = false;
    if person {
        prompt()?;
    }
    loop {
        if input == Input::Ended && woken && !session.has_stimuli()? {
            return Ok(());
        }
        let signal = leave.signal();
        let missed = tokio::select! {
            biased;
            () = signal.cancelled() => return Err(Failure::interrupted(signal.reason().unwrap_or_default())),
            line = keyboard.line(), if input == Input::Open => {
                match admit(&inbox, line, person).await? {
                    Said::Something => {}
                    Said::Nothing => input = Input::Ended,
                    Said::Exit => return Ok(()),
                }
                continue;
            }
            missed = beats.next() => missed,
        };
        let (outcome, said) = {
            let wake = session.wake_on_beat(&leave, missed);
            listen(wake, &inbox, keyboard, input, person).await?
        };
        woken = true;
        // What was said is on the screen before what failed, and before the next wake speaks.
        let tail = session.log().last_seq();
        let _ = progress.wait_for(|seen| *seen >= tail).await;
        match outcome {
            WakeOutcome::Complete { .. } => {}
            WakeOutcome::Interrupted { .. } => return judge(outcome),
            WakeOutcome::Failed { .. } => {
                if let Err(failure) = judge(outcome) {
                    failure.report(json);
                }
            }
        }
        match said {
            Said::Something => {}
            Said::Nothing => input = Input::Ended,
            Said::Exit => return Ok(()),
        }
    }
}

/// What came of waiting for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Something,
    /// The input has ended.
    Nothing,
    Exit,
}

async fn admit(inbox: &Inbox, line: Option<io::Result<String>>, person: bool) -> Result<Said, Failure> {
    let Some(line) = line.transpose()? else { return Ok(Said::Nothing) };
    match Line::of(&line) {
        Line::Exit => return Ok(Said::Exit),
        Line::Blank => {}
        Line::Text(text) => {
            inbox.admit_text(text, "chat").await?;
        }
    }
    if person {
        prompt()?;
    }
    Ok(Said::Something)
}

/// Runs a wake to its end and admits what is typed meanwhile.
async fn listen(
    wake: impl Future<Output = Result<WakeOutcome, LogError>>,
    inbox: &Inbox,
    keyboard: &Keyboard,
    input: Input,
    person: bool,
) -> Result<(WakeOutcome, Said), Failure> {
    let mut wake = std::pin::pin!(wake);
    let mut said = if input == Input::Open { Said::Something } else { Said::Nothing };
    loop {
        tokio::select! {
            biased;
            outcome = &mut wake => return Ok((outcome?, said)),
            line = keyboard.line(), if said == Said::Something => said = admit(inbox, line, person).await?,
        }
    }
}
