//! `axon exec`: blocks in the capsule, without a brain.

use std::{fs, io, io::Read, path::Path};

use axon_runtime::{AbortController, RunErrorKind, RunResult};

use super::{
    approve::approver,
    args::{Common, Exec},
    console::Console,
    failure::{Exit, Failure},
    follow::{View, follow},
    interrupt::{Interrupts, USER},
    keyboard::Keyboard,
    run::chosen_session,
};
use crate::{agent::Agent, kernel::text_of, session::Workbench};

pub(super) async fn exec(common: &Common, exec: Exec) -> Result<(), Failure> {
    let sources = sources(exec)?;
    let agent = Agent::open(&common.agent)?;
    let interrupts = Interrupts::listen()?;
    let abort = interrupts.guard();
    let approver = approver(&Keyboard::default(), &interrupts);
    let bench = Workbench::open(&agent, chosen_session(common, &agent)?, approver).await?;
    let printer = common
        .json
        .map(|json| tokio::spawn(follow(bench.log().subscribe(bench.opened_after()), View::Envelopes(json))));
    let ran = run_all(&bench, sources, &abort, common).await;
    bench.close().await?;
    if let Some(printer) = printer {
        printer.await.map_err(io::Error::other)??;
    }
    ran
}

/// One block after another; the first that fails is the last.
async fn run_all(
    bench: &Workbench,
    sources: Vec<Source>,
    abort: &AbortController,
    common: &Common,
) -> Result<(), Failure> {
    let mut console = Console::stdout();
    for source in sources {
        let mut results = bench.run(vec![source.code], abort.signal()).await?;
        let Some(result) = results.pop() else { continue };
        if common.json.is_none() {
            print(&mut console, &result)?;
        }
        if let Some(error) = result.error {
            let kind = match error.kind {
                RunErrorKind::Interrupt => return Err(Failure::interrupted(USER)),
                RunErrorKind::Timeout => "timeout",
                RunErrorKind::Exception => "exception",
            };
            let failure = Failure::new(Exit::Failed, error.code.unwrap_or_else(|| kind.into()), error.message);
            return Err(match source.name {
                Some(name) => failure.hint(format!("in {name}")),
                None => failure,
            });
        }
    }
    Ok(())
}

fn print(console: &mut Console, result: &RunResult) -> io::Result<()> {
    for line in &result.stdout {
        console.line(line)?;
    }
    match &result.value {
        Some(value) => console.line(&text_of(value)),
        None => Ok(()),
    }
}

/// One block and where it came from.
struct Source {
    name: Option<String>,
    code: String,
}

fn sources(exec: Exec) -> Result<Vec<Source>, Failure> {
    let mut sources: Vec<Source> = exec.code.into_iter().map(|code| Source { name: None, code }).collect();
    for path in exec.files {
        sources.push(read(&path)?);
    }
    Ok(sources)
}

fn read(path: &Path) -> Result<Source, Failure> {
    let bytes = if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        fs::read(path)
    };
    let name = path.display().to_string();
    let unreadable = |why: String| Failure::new(Exit::Usage, "UNREADABLE", format!("{name} could not be read: {why}"));
    let bytes = bytes.map_err(|error| unreadable(error.to_string()))?;
    let code = String::from_utf8(bytes).map_err(|error| unreadable(format!("it is not UTF-8 ({error})")))?;
    Ok(Source { name: (name != "-").then_some(name), code })
}
