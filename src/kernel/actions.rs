//! `kernel.run`: blocks in the capsule, each bracketed by its two entries.

use std::sync::Arc;

use axon_capsule::{Block, BlockErrorKind, Capsule, Outcome};
use axon_runtime::{AbortSignal, RunError, RunErrorKind, RunResult, VerbError};
use serde_json::{Map, Value, json};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use super::Recorder;
use crate::tools::Toolbox;

/// Runs blocks and records them. An action, once begun, is recorded to its end even when nobody waits for it any more.
pub(crate) struct Actions {
    recorder: Recorder,
    capsule: Capsule,
    toolbox: Toolbox,
    in_flight: TaskTracker,
}

impl Actions {
    pub(crate) fn new(recorder: Recorder, capsule: Capsule, toolbox: Toolbox) -> Self {
        Self { recorder, capsule, toolbox, in_flight: TaskTracker::new() }
    }

    /// All blocks at once; results in the order of `sources`.
    pub(crate) async fn run(&self, sources: Vec<String>, signal: AbortSignal) -> Result<Vec<RunResult>, VerbError> {
        let namespaces = self.toolbox.namespaces();
        let mut blocks = Vec::with_capacity(sources.len());
        for source in sources {
            let id = Uuid::now_v7().to_string();
            self.recorder.commit("cognet:action:typescript", json!({ "id": id, "content": source })).await?;
            blocks.push(Block { id, source, namespaces: namespaces.clone(), files: Arc::default() });
        }
        let running: Vec<_> = blocks
            .into_iter()
            .map(|block| {
                let (recorder, capsule, token) = (self.recorder.clone(), self.capsule.clone(), signal.token().clone());
                self.in_flight.spawn(async move {
                    let id = block.id.clone();
                    let outcome = capsule.run(block, token).await;
                    let (entry, result) = settle(&id, outcome);
                    recorder.commit("cognet:action:result", entry).await?;
                    Ok::<_, VerbError>(result)
                })
            })
            .collect();
        let mut results = Vec::with_capacity(running.len());
        for task in running {
            let result = task.await.map_err(|error| VerbError::new("KERNEL_FAILED", error.to_string()))?;
            results.push(result?);
        }
        Ok(results)
    }

    /// Waits until every action that was begun is recorded.
    pub(crate) async fn settled(&self) {
        self.in_flight.close();
        self.in_flight.wait().await;
        self.in_flight.reopen();
    }
}

/// The `cognet:action:result` entry of an outcome, and what the cognet is handed.
fn settle(id: &str, outcome: Outcome) -> (Value, RunResult) {
    let Outcome { result, stdout, truncated } = outcome;
    let mut lines = stdout.clone();
    if let Ok(Some(value)) = &result {
        lines.push(text_of(value));
    }
    let mut entry = Map::new();
    entry.insert("for".into(), id.into());
    entry.insert("ok".into(), result.is_ok().into());
    entry.insert("content".into(), lines.join("\n").into());
    let result = match result {
        Ok(value) => RunResult { ok: true, value, stdout, error: None },
        Err(error) => {
            let error = RunError { kind: kind_of(error.kind), message: error.message, code: error.code };
            entry.insert("error".into(), json!(error));
            RunResult { ok: false, value: None, stdout, error: Some(error) }
        }
    };
    if truncated {
        entry.insert("truncated".into(), true.into());
    }
    (Value::Object(entry), result)
}

/// A value as an entry shows it: strings as they are, anything else as JSON.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn kind_of(kind: BlockErrorKind) -> RunErrorKind {
    match kind {
        BlockErrorKind::Timeout => RunErrorKind::Timeout,
        BlockErrorKind::Interrupt => RunErrorKind::Interrupt,
        BlockErrorKind::Exception => RunErrorKind::Exception,
    }
}
