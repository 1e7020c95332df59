//! The kernel's pen: everything that is recorded during a wake carries the wake's id.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;

use crate::{
    engine::{SessionFacts, Telemetry},
    log::{ENGINE_INPUT, Envelope, Event, InputFolder, LogError, SessionLog},
    secrets::Secrets,
};

/// Writes to one session on behalf of one cognet instance. Clones share the current wake.
#[derive(Clone)]
pub(crate) struct Recorder {
    log: SessionLog,
    run: Arc<RwLock<Option<String>>>,
    inputs: Arc<Mutex<InputFolder>>,
    secrets: Secrets,
}

impl Recorder {
    /// The secrets are kept out of everything that is recorded, those included that they learn later.
    pub(crate) fn new(log: SessionLog, secrets: Secrets) -> Self {
        Self { log, run: Arc::default(), inputs: Arc::default(), secrets }
    }

    /// A pen of its own for the same log, with the same secrets: it belongs to no wake.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.log.clone(), self.secrets.clone())
    }

    /// What is kept out of everything that is recorded.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn log(&self) -> &SessionLog {
        &self.log
    }

    /// The wake that what follows belongs to; `None` outside a wake.
    pub(crate) fn set_run(&self, run: Option<String>) {
        *self.run.write().unwrap_or_else(PoisonError::into_inner) = run;
    }

    /// Returns once the event is in the log.
    pub(crate) async fn commit(&self, kind: &str, mut data: Value) -> Result<Arc<Envelope>, LogError> {
        self.secrets.hide_in_json(&mut data);
        narrate(kind, &data);
        self.log.commit(self.event(kind, data)).await
    }

    /// Queues telemetry; a failed write reaches nobody.
    pub(crate) fn emit(&self, kind: &str, mut data: Value) {
        self.secrets.hide_in_json(&mut data);
        narrate(kind, &data);
        self.log.emit(self.event(kind, data));
    }

    fn event(&self, kind: &str, data: Value) -> Event {
        let event = Event::new(kind, data);
        match &*self.run.read().unwrap_or_else(PoisonError::into_inner) {
            Some(run) => event.run(run.clone()),
            None => event,
        }
    }
}

impl Telemetry for Recorder {
    fn record(&self, kind: &'static str, mut data: Value, span: &str) {
        self.secrets.hide_in_json(&mut data);
        narrate(kind, &data);
        let record = |data| self.log.emit(self.event(kind, data).span(span));
        if kind != ENGINE_INPUT {
            record(data);
            return;
        }
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seq) = record(inputs.fold(&data)) {
            inputs.recorded(seq, data);
        }
    }
}

impl SessionFacts for Recorder {
    fn hide_secrets(&self, json: &mut Value) {
        self.secrets.hide_in_json(json);
    }

    fn last_result(&self) -> Option<String> {
        content_of_newest(&self.log, "cognet:action:result")
    }

    fn last_stimulus(&self) -> Option<String> {
        content_of_newest(&self.log, "stimulus:text")
    }
}

/// Diagnostics: the milestones at `info`, the whole of it at `debug`.
fn narrate(kind: &str, data: &Value) {
    const MILESTONES: [&str; 6] =
        ["kernel:run:", "kernel:engine:", "cognet:load:", "capsule:boot", "capsule:crash", "capsule:policy:"];
    let milestone = MILESTONES.iter().any(|family| kind.starts_with(family)) && kind != "kernel:engine:input";
    if milestone {
        tracing::info!("{kind} {data}");
    } else {
        tracing::debug!("{kind} {data}");
    }
}

fn content_of_newest(log: &SessionLog, kind: &str) -> Option<String> {
    let entry = log.latest(kind).ok().flatten()?;
    entry.data.get("content")?.as_str().map(str::to_owned)
}
