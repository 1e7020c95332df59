//! `axon replay`: a recorded session lived through again by a fresh brain.

use std::{collections::HashSet, io, sync::Arc};

use anstyle::Style;
use serde_json::{Value, json};

use super::{
    args::Common,
    console::{CYAN, Console, DIM, GREEN, RED, YELLOW, harmless},
    failure::{Exit, Failure},
    interrupt::{Interrupts, USER},
    log::path_of,
};
use crate::{
    agent::Agent,
    log,
    policy::Unattended,
    replay::{Asking, Difference, Replay, ReplayError, ReplayOptions, ReplayedWake, Verdict, Whose, last_cognet},
    tools::Unobserved,
};

/// Lines of a changed request that a person is shown; `--json` has all of them.
const MAX_REQUEST_LINES: usize = 40;

/// How much of the words that woke a brain is shown, in characters.
const MAX_WORDS_CHARS: usize = 60;

pub(super) async fn replay(common: &Common, id: Option<String>, strict: bool) -> Result<(), Failure> {
    let agent = Agent::open(&common.agent)?;
    let path = path_of(common, &agent, id, log::last_woken_session)?;
    let (name, whose) = match &common.cognet {
        Some(name) => (Some(name.clone()), Whose::Everybodys),
        None => (last_cognet(&path)?, Whose::Own),
    };
    let found = agent.cognet(name.as_deref())?;
    let toolbox = agent.toolbox(Arc::new(Unattended), Arc::new(Unobserved)).await?;
    let scope = toolbox.scope();
    toolbox.shutdown().await;
    let session = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut report = Report::new(session, found.name.clone(), common.json.is_some());
    report.begin()?;
    let options = ReplayOptions {
        found,
        whose,
        asking: if strict { Asking::Counts } else { Asking::Told },
        base: agent.base()?,
        scope,
        limits: agent.brain_limits(),
        secrets: agent.secrets(),
    };
    let interrupts = Interrupts::listen()?;
    let interrupt = interrupts.guard().signal();
    let mut replay = Replay::open(&path, options)?;
    let ended = loop {
        let next = tokio::select! {
            next = replay.next() => next,
            () = interrupt.cancelled() => break Err(Failure::interrupted(USER)),
        };
        match next {
            Ok(Some(wake)) => report.wake(&wake)?,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.into()),
        }
    };
    report.end()?;
    ended?;
    report.judge()
}

struct Report {
    console: Console,
    session: String,
    cognet: String,
    json: bool,
    same: usize,
    differ: usize,
    skipped: usize,
    /// Wakes that say the same and ask otherwise.
    ask: usize,
    /// Differences of requests that were shown, without their places.
    shown: HashSet<String>,
}

impl Report {
    fn new(session: String, cognet: String, json: bool) -> Self {
        let (same, differ, skipped, ask) = (0, 0, 0, 0);
        let shown = HashSet::new();
        Self { console: Console::stdout(), session, cognet, json, same, differ, skipped, ask, shown }
    }

    fn begin(&mut self) -> io::Result<()> {
        if self.json {
            return Ok(());
        }
        let line = format!("session {}, replayed with {}", self.session, self.cognet);
        self.console.line(&line)
    }

    fn wake(&mut self, wake: &ReplayedWake) -> io::Result<()> {
        match &wake.verdict {
            Verdict::Differs { .. } => self.differ += 1,
            Verdict::Same { asked } => {
                self.same += 1;
                self.ask += usize::from(!asked.is_empty());
            }
            Verdict::Skipped(_) => self.skipped += 1,
        }
        if self.json {
            return self.console.line(&as_json(wake).to_string());
        }
        let words: String = wake.words.iter().flat_map(|words| words.chars()).take(MAX_WORDS_CHARS).collect();
        let words = harmless(&words).replace(['\n', '\r'], " ");
        let words = if words.is_empty() { words } else { format!(" {DIM}{words}{DIM:#}") };
        let place = format!("wake at {}{words}", wake.seq);
        match &wake.verdict {
            Verdict::Same { asked } => {
                self.console.raw(&format!("{GREEN}same   {GREEN:#} {place}\n"))?;
                self.asked(asked)
            }
            Verdict::Skipped(why) => self.console.raw(&format!("{DIM}skipped{DIM:#} {place}: {}\n", harmless(why))),
            Verdict::Differs { said, asked, left } => {
                self.console.raw(&format!("{RED}differs{RED:#} {place} (- recorded, + replayed)\n"))?;
                self.difference(said, usize::MAX)?;
                if let Some(left) = left {
                    self.console.raw(&format!("  {YELLOW}!{YELLOW:#} it cannot go on: {left}\n"))?;
                }
                self.asked(asked)
            }
        }
    }

    fn asked(&mut self, asked: &[Difference]) -> io::Result<()> {
        for difference in asked {
            let lines = difference.0.lines().filter(|line| line.starts_with(['+', '-']));
            let is_new = self.shown.insert(lines.collect::<Vec<_>>().join("\n"));
            let above = if is_new { "" } else { " in the way shown above" };
            self.console.raw(&format!("  {CYAN}it asks the model otherwise{above}{CYAN:#}\n"))?;
            if is_new {
                self.difference(difference, MAX_REQUEST_LINES)?;
            }
        }
        Ok(())
    }

    fn difference(&mut self, difference: &Difference, most: usize) -> io::Result<()> {
        let mut lines = difference.0.lines();
        for line in lines.by_ref().take(most) {
            let style = match line.as_bytes().first() {
                Some(b'-') => RED,
                Some(b'+') => GREEN,
                Some(b'@') => CYAN,
                _ => Style::new(),
            };
            self.console.raw(&format!("  {style}{}{style:#}\n", harmless(line)))?;
        }
        match lines.count() {
            0 => Ok(()),
            more => self.console.raw(&format!("  {DIM}… and {more} lines more; --json has all of them{DIM:#}\n")),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        let (same, differ, skipped) = (self.same, self.differ, self.skipped);
        if self.json {
            let line = json!({
                "session": self.session, "cognet": self.cognet, "same": same, "differ": differ, "skipped": skipped,
            });
            return self.console.line(&line.to_string());
        }
        let same_how = match self.ask {
            0 => "same".to_owned(),
            ask => format!("same ({ask} of them {} otherwise)", if ask == 1 { "asks" } else { "ask" }),
        };
        let differ_how = if differ == 1 { "differs" } else { "differ" };
        let counts = [(same, same_how.as_str()), (differ, differ_how), (skipped, "skipped")];
        let parts: Vec<_> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, how)| format!("{n} {how}")).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        let line = format!("{}{parts}", wakes(same + differ + skipped));
        self.console.line(&line)
    }

    /// What the whole of it means for the exit code.
    fn judge(&self) -> Result<(), Failure> {
        let all = self.same + self.differ;
        if all == 0 {
            let message = format!("no wake of session {} could be replayed with {}", self.session, self.cognet);
            let hint = "with --cognet NAME, the wakes of other cognets are replayed, too";
            return Err(Failure::new(Exit::Usage, "REPLAY_EMPTY", message).hint(hint));
        }
        let how = match self.differ {
            0 => return Ok(()),
            1 => "says or does something else than it did",
            _ => "say or do something else than they did",
        };
        Err(Failure::new(Exit::Failed, "REPLAY_DIFFERS", format!("{} of {} {how}", self.differ, wakes(all))))
    }
}

fn wakes(count: usize) -> String {
    if count == 1 { "1 wake".to_owned() } else { format!("{count} wakes") }
}

fn as_json(wake: &ReplayedWake) -> Value {
    let texts = |asked: &[Difference]| asked.iter().map(|difference| difference.0.clone()).collect::<Vec<_>>();
    match &wake.verdict {
        Verdict::Same { asked } => json!({ "seq": wake.seq, "verdict": "same", "asked": texts(asked) }),
        Verdict::Skipped(why) => json!({ "seq": wake.seq, "verdict": "skipped", "reason": why }),
        Verdict::Differs { said, asked, left } => {
            let mut line = json!({ "seq": wake.seq, "verdict": "differs", "said": said.0, "asked": texts(asked) });
            if let Some(left) = left {
                line["reason"] = left.clone().into();
            }
            line
        }
    }
}

impl From<ReplayError> for Failure {
    fn from(error: ReplayError) -> Self {
        match error {
            ReplayError::Log(error) => error.into(),
            ReplayError::Load(error) => Self::cognet(Exit::Usage, *error),
            ReplayError::Shutdown(error) => Self::cognet(Exit::Failed, *error),
        }
    }
}
