//! `axon log tail`: a session as it grows.

use std::path::Path;

use super::{
    args::Filter,
    show::{LastTurns, Shown},
};
use crate::{
    cli::{args::Common, console::Console, failure::Failure, interrupt::Interrupts},
    log::Follow,
};

pub(super) async fn tail(common: &Common, path: &Path, filter: &Filter, last: Option<usize>) -> Result<(), Failure> {
    let mut session = Follow::open(path)?;
    let interrupts = Interrupts::listen()?;
    let signal = interrupts.guard().signal();
    let mut shown = Shown::new(common.json.is_some(), filter, Console::stdout());
    if let Some(count) = last {
        let mut turns = LastTurns::new(count, shown.json);
        while let Some(line) = session.ready() {
            if let Some(envelope) = line?.envelope().filter(|envelope| shown.takes(envelope)) {
                turns.push(envelope);
            }
        }
        for envelope in turns.into_envelopes() {
            shown.show(&envelope)?;
        }
    }
    loop {
        tokio::select! {
            line = session.next() => {
                let Some(envelope) = line?.envelope() else { continue };
                if shown.takes(&envelope) {
                    shown.show(&envelope)?;
                }
                if envelope.kind == "axon:session:closed" {
                    shown.finish()?;
                }
            }
            () = signal.cancelled() => return shown.finish(),
        }
    }
}
