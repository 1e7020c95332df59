//! `axon replay`: a recorded session lived through again by a fresh brain.

use std::{io, sync::Arc};

use anstyle::Style;
use serde_json::{Value, json};

use super::{
    args::Common,
    console::{CYAN, Console, DIM, GREEN, RED, YELLOW, harmless},
    failure::{Exit, Failure},
    log::path_of,
};
use crate::{
    agent::Agent,
    log,
    policy::Unattended,
    replay::{Difference, Replay, ReplayError, ReplayOptions, ReplayedWake, Verdict, Whose, last_cognet},
    tools::Unobserved,
};

/// Lines of a changed request that a person is shown; `--json` has all of them.
const MAX_REQUEST_LINES: usize = 40;

pub(super) async fn replay(common: &Common, id: Option<String>) -> Result<(), Failure> {
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
    let mut report = Report { console: Console::stdout(), json: common.json.is_some(), same: 0, differ: 0, skipped: 0 };
    report.begin(&path, &found.name)?;
    let options = ReplayOptions {
        found,
        whose,
        base: agent.base()?,
        scope,
        limits: agent.brain_limits(),
        secrets: agent.secrets(),
    };
    let mut replay = Replay::open(&path, options)?;
    while let Some(wake) = replay.next().await? {
        report.wake(&wake)?;
    }
    report.end()?;
    if report.differ == 0 {
        return Ok(());
    }
    let message = format!("{} of {} says or does something else than it did", report.differ, wakes(report.replayed()));
    Err(Failure::new(Exit::Failed, "REPLAY_DIFFERS", message))
}

struct Report {
    console: Console,
    json: bool,
    same: usize,
    differ: usize,
    skipped: usize,
}

impl Report {
    fn begin(&mut self, path: &std::path::Path, cognet: &str) -> io::Result<()> {
        let session = path.file_stem().unwrap_or_default().to_string_lossy();
        if self.json { Ok(()) } else { self.console.line(&format!("session {session}, replayed with {cognet}")) }
    }

    fn wake(&mut self, wake: &ReplayedWake) -> io::Result<()> {
        match &wake.verdict {
            Verdict::Same { .. } => self.same += 1,
            Verdict::Differs { .. } => self.differ += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
        if self.json {
            return self.console.line(&as_json(wake).to_string());
        }
        let place = format!("wake at {}", wake.seq);
        match &wake.verdict {
            Verdict::Same { asked } => {
                self.console.raw(&format!("{GREEN}same   {GREEN:#} {place}\n"))?;
                self.asked(asked)
            }
            Verdict::Skipped(why) => self.console.raw(&format!("{DIM}skipped {place}: {}{DIM:#}\n", harmless(why))),
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
            self.console.raw(&format!("  {CYAN}it asks the model otherwise:{CYAN:#}\n"))?;
            self.difference(difference, MAX_REQUEST_LINES)?;
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
        if self.json {
            return Ok(());
        }
        let mut parts = Vec::new();
        for (count, what) in [
            (self.same, "same"),
            (self.differ, if self.differ == 1 { "differs" } else { "differ" }),
            (self.skipped, "skipped"),
        ] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let all = self.replayed() + self.skipped;
        let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        self.console.line(&format!("{}{parts}", wakes(all)))
    }

    fn replayed(&self) -> usize {
        self.same + self.differ
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
            ReplayError::Cognet(error) => Self::cognet(Exit::Usage, *error),
        }
    }
}
