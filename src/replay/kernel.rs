//! The seven verbs over a recorded wake.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axon_runtime::{
    AbortController, AbortSignal, BoxFuture, EngineEvent, Entries, Entry, EntryTime, EventStream, Kernel, RunResult,
    Scope, StreamRequest, VerbError,
};
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    answers::{RecordedProvider, run_result},
    compare::{Difference, request_text, says_the_same},
    wakes::{RecordedAnswer, RecordedCall, RecordedWake},
};
use crate::{
    engine::{Engine, Fault, Telemetry, failure},
    kernel::{may_emit, may_output},
    secrets::Secrets,
    store::MemoryStore,
};

/// Entries that a brain may write in a wake beyond those that were recorded.
const MAX_MORE_ENTRIES: usize = 10_000;

/// What stands behind the verbs of a brain that is replayed. Nothing leaves it.
pub(super) struct ReplayKernel {
    base: String,
    scope: Scope,
    secrets: Secrets,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The session as it was recorded, up to here.
    recorded: Vec<Entry>,
    /// How much of it the brain in service has been loaded with,
    read: usize,
    /// and what has come to its sight since. What it has said itself stands in the place of what was recorded.
    since: Vec<Entry>,
    store: MemoryStore,
    wake: Option<Wake>,
}

/// The wake that is replayed.
struct Wake {
    recorded: RecordedWake,
    abort: AbortController,
    /// Recorded entries that are not the brain's doing and did not come to its sight yet.
    others: VecDeque<Entry>,
    /// Recorded outputs that the brain has not come to yet.
    outputs: VecDeque<Entry>,
    /// Recorded blocks that were not run yet.
    blocks: VecDeque<Entry>,
    /// Recorded results, by their block.
    results: HashMap<String, Entry>,
    own: Own,
}

/// What the brain has done in the wake.
#[derive(Debug, Default)]
pub(super) struct Own {
    /// Outputs, blocks and results.
    pub entries: Vec<Entry>,
    pub calls: usize,
    pub asked_differently: Vec<Difference>,
    /// Why the wake could not go on.
    pub left: Option<String>,
}

/// A wake that has ended.
pub(super) struct Replayed {
    pub recorded: RecordedWake,
    pub replayed: Own,
    /// The brain has written more than there is room for before the next recorded entry: it can see no more of the session.
    pub left_log: bool,
}

impl ReplayKernel {
    pub(super) fn new(base: String, scope: Scope, secrets: Secrets) -> Self {
        Self { base, scope, secrets, state: Arc::default() }
    }

    /// Takes in an entry between two wakes.
    pub(super) fn happened(&self, entry: Entry) {
        let mut state = self.state();
        state.recorded.push(entry.clone());
        state.show(entry);
    }

    /// Takes in a wake that is not replayed.
    pub(super) fn skip(&self, wake: RecordedWake) {
        self.state().recorded.extend(wake.entries);
    }

    /// What the next brain sees is the session as it was recorded, and nothing of another brain.
    pub(super) fn forget(&self) {
        let mut state = self.state();
        state.read = state.recorded.len();
        state.since.clear();
    }

    pub(super) fn begin(&self, recorded: RecordedWake, abort: AbortController) {
        let of_kind = |kind: &'static str| recorded.entries.iter().filter(move |entry| entry.kind == kind).cloned();
        let results = of_kind("cognet:action:result")
            .filter_map(|entry| Some((entry.data["for"].as_str()?.to_owned(), entry)))
            .collect();
        let family = |prefix: &'static str| recorded.entries.iter().filter(move |entry| entry.kind.starts_with(prefix));
        let is_other = |entry: &&Entry| !entry.kind.starts_with("cognet:");
        let wake = Wake {
            abort,
            others: recorded.entries.iter().filter(is_other).cloned().collect(),
            outputs: family("cognet:output:").cloned().collect(),
            blocks: of_kind("cognet:action:typescript").collect(),
            results,
            own: Own::default(),
            recorded,
        };
        self.state().wake = Some(wake);
    }

    pub(super) fn end(&self) -> Replayed {
        let mut state = self.state();
        state.show_others(u64::MAX);
        let Some(Wake { recorded, own, .. }) = state.wake.take() else {
            return Replayed { recorded: RecordedWake::default(), replayed: Own::default(), left_log: true };
        };
        state.recorded.extend(recorded.entries.iter().cloned());
        let left_log = state.newest().is_some_and(|newest| newest.time.seq > recorded.last_seq);
        Replayed { recorded, replayed: own, left_log }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Shows a recorded entry.
    fn show(&mut self, mut entry: Entry) {
        entry.time.seq = entry.time.seq.max(self.next_seq());
        self.since.push(entry);
    }

    fn newest(&self) -> Option<&Entry> {
        self.since.last().or_else(|| self.recorded[..self.read].last())
    }

    /// Shows those of the other entries that were recorded before `seq`.
    fn show_others(&mut self, seq: u64) {
        while let Some(entry) = self.wake.as_mut().and_then(|wake| wake.others.pop_front_if(|e| e.time.seq < seq)) {
            self.show(entry);
        }
    }

    /// Shows what a block has left behind to be said, which is in the log before the verb returns.
    fn show_notices(&mut self) {
        let is_of_block = |entry: &mut Entry| entry.kind == "system:notice" && entry.data["code"] == "BINDINGS_DROPPED";
        while let Some(entry) = self.wake.as_mut().and_then(|wake| wake.others.pop_front_if(is_of_block)) {
            self.show(entry);
        }
    }

    fn next_seq(&self) -> u64 {
        let after_entries = self.newest().map_or(0, |newest| newest.time.seq + 1);
        let in_wake = self.wake.as_ref().map_or(0, |wake| wake.recorded.seq + 1);
        after_entries.max(in_wake)
    }

    /// Writes what the brain has said or done.
    fn write(&mut self, mut entry: Entry) {
        entry.time.seq = entry.time.seq.max(self.next_seq());
        if let Some(wake) = &mut self.wake {
            wake.own.entries.push(entry.clone());
        }
        self.since.push(entry);
    }

    /// Whether the brain has said so much more than it did that it may never come to an end.
    fn says_too_much(&self) -> bool {
        self.wake.as_ref().is_some_and(|wake| wake.own.entries.len() > wake.recorded.entries.len() + MAX_MORE_ENTRIES)
    }

    /// Writes an output: with the time of the recorded one that says the same, if there is one.
    fn output(&mut self, kind: &str, data: Value) {
        let recorded = self.wake.as_mut().and_then(|wake| {
            let same = |entry: &Entry| entry.kind == kind && says_the_same(&entry.data, &data);
            let index = wake.outputs.iter().position(same)?;
            wake.outputs.drain(..=index).next_back()
        });
        let entry = match recorded {
            Some(recorded) => {
                self.show_others(recorded.time.seq);
                Entry { data, ..recorded }
            }
            None => self.own_entry(kind, data),
        };
        self.write(entry);
    }

    fn own_entry(&self, kind: &str, data: Value) -> Entry {
        let ms = self.newest().map_or(0, |newest| newest.time.ms);
        let time = EntryTime { ms, seq: self.next_seq() };
        Entry { id: Uuid::now_v7().to_string(), kind: kind.to_owned(), time, data }
    }

    /// Ends the wake, since nothing is recorded that it could go on with.
    fn leave(&mut self, why: String) -> VerbError {
        if let Some(wake) = &mut self.wake {
            wake.abort.abort(why.clone());
            wake.own.left.get_or_insert(why.clone());
        }
        VerbError::new("REPLAY_ENDED", why)
    }

    /// The recorded block with this source that was not run yet.
    fn take_block(&mut self, source: &str) -> Option<Entry> {
        let blocks = &mut self.wake.as_mut()?.blocks;
        let index = blocks.iter().position(|block| block.data["content"] == source)?;
        blocks.remove(index)
    }

    fn run(&mut self, sources: Vec<String>) -> Result<Vec<RunResult>, VerbError> {
        let mut ids = Vec::with_capacity(sources.len());
        for source in sources {
            let Some(block) = self.take_block(&source) else {
                let data = json!({ "id": Uuid::now_v7().to_string(), "content": source });
                let entry = self.own_entry("cognet:action:typescript", data);
                self.write(entry);
                return Err(self.leave("it runs a block that was not run then, and a replay runs nothing".to_owned()));
            };
            ids.push(block.data["id"].as_str().unwrap_or_default().to_owned());
            self.show_others(block.time.seq);
            self.write(block);
        }
        let results = ids.iter().map(|id| Some((id, self.wake.as_mut()?.results.remove(id)?)));
        let Some(results) = results.collect::<Option<Vec<_>>>() else {
            return Err(self.leave("a block's result is not in the log".to_owned()));
        };
        let mut in_order: Vec<_> = results.iter().map(|(_, result)| result.clone()).collect();
        in_order.sort_by_key(|result| result.time.seq);
        for result in in_order {
            self.show_others(result.time.seq);
            self.write(result);
        }
        self.show_notices();
        let shapes = self.wake.as_ref().map(|wake| &wake.recorded.blocks);
        let shape = |id: &String| shapes.and_then(|shapes| shapes.get(id)).copied().unwrap_or_default();
        Ok(results.iter().map(|(id, result)| run_result(result, shape(id))).collect())
    }

    /// The next recorded call, compared with what is asked now.
    fn take_call(&mut self, start: &Value, messages: &Value) -> Result<RecordedCall, VerbError> {
        let wake = self.wake.as_mut();
        let call = wake.and_then(|wake| {
            wake.own.calls += 1;
            wake.recorded.calls.get(wake.own.calls - 1).cloned()
        });
        let Some(call) = call else {
            return Err(self.leave("it asks a model more often than it did, and a replay asks none".to_owned()));
        };
        self.show_others(call.started);
        let mut start = start.clone();
        if start["model"].is_null() {
            start["model"] = call.start["model"].clone();
        }
        // A log from before the format was noted says nothing but the model.
        if call.start["format"].is_null() {
            start = json!({ "model": start["model"] });
        }
        let difference = Difference::of(&request_text(&call.start, &call.messages), &request_text(&start, messages));
        if let Some(wake) = &mut self.wake {
            wake.own.asked_differently.extend(difference);
        }
        Ok(call)
    }
}

impl Kernel for ReplayKernel {
    fn output(&self, kind: String, mut data: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move {
            may_output(&kind, &data)?;
            self.secrets.hide_in_json(&mut data);
            let mut state = self.state();
            if state.says_too_much() {
                return Err(state.leave("it says far more than it did, and may never end".to_owned()));
            }
            state.output(&kind, data);
            Ok(())
        })
    }

    fn stream(
        &self,
        request: StreamRequest,
        signal: AbortSignal,
    ) -> BoxFuture<'_, Result<Box<dyn EventStream>, VerbError>> {
        Box::pin(async move {
            let mut messages = json!(request.messages);
            self.secrets.hide_in_json(&mut messages);
            let start = json!({
                "model": request.model,
                "format": request.format,
                "maxTokens": request.max_tokens,
                "temperature": request.temperature,
            });
            let call = self.state().take_call(&start, &messages)?;
            let engine = Engine::with_provider(Arc::new(RecordedProvider::new(call.clone())));
            let events = engine.stream(request, signal, Arc::new(Untold));
            Ok(Box::new(RecordedEvents { events, call, state: self.state.clone() }) as _)
        })
    }

    fn run(&self, blocks: Vec<String>, _signal: AbortSignal) -> BoxFuture<'_, Result<Vec<RunResult>, VerbError>> {
        Box::pin(async move {
            let mut blocks = json!(blocks);
            self.secrets.hide_in_json(&mut blocks);
            self.state().run(serde_json::from_value(blocks).unwrap_or_default())
        })
    }

    fn scope(&self) -> BoxFuture<'_, Result<Scope, VerbError>> {
        Box::pin(async { Ok(self.scope.clone()) })
    }

    fn base(&self) -> String {
        self.base.clone()
    }

    /// Where a brain is in its wake shows in what it emits.
    fn emit(&self, kind: &str, _data: Option<Value>) -> Result<(), VerbError> {
        may_emit(kind)?;
        let mut state = self.state();
        let emitted = state.wake.as_mut().and_then(|wake| wake.recorded.emitted.get_mut(kind)?.pop_front());
        if let Some(seq) = emitted {
            state.show_others(seq);
        }
        Ok(())
    }

    fn session_get(&self, after: Option<u64>) -> Result<Entries<'_>, VerbError> {
        let state = self.state();
        let from =
            |entries: &[Entry]| entries.partition_point(|entry| after.is_some_and(|after| entry.time.seq <= after));
        let read = &state.recorded[..state.read];
        let entries = [&read[from(read)..], &state.since[from(&state.since)..]].concat();
        Ok(Box::new(entries.into_iter().map(Ok)))
    }

    fn store_get(&self, key: &str) -> Result<Option<Value>, VerbError> {
        Ok(self.state().store.get(key)?)
    }

    fn store_set(&self, key: String, value: Value) -> BoxFuture<'_, Result<(), VerbError>> {
        Box::pin(async move { Ok(self.state().store.set(key, value)?) })
    }
}

/// The events of a recorded call. Behind the last one the brain sees what came in meanwhile.
struct RecordedEvents {
    events: Box<dyn EventStream>,
    call: RecordedCall,
    state: Arc<Mutex<State>>,
}

impl RecordedEvents {
    /// The error as it was told.
    fn told(&self, error: VerbError) -> VerbError {
        let RecordedAnswer::Failed(data) = &self.call.answer else { return error };
        let (Ok(fault), Some(attempts)) = (Fault::deserialize(&data["fault"]), data["attempts"].as_u64()) else {
            return error;
        };
        failure(&fault, data.get("text").is_some(), u32::try_from(attempts).unwrap_or(u32::MAX))
    }
}

impl EventStream for RecordedEvents {
    fn next(&mut self) -> BoxFuture<'_, Result<Option<EngineEvent>, VerbError>> {
        Box::pin(async move {
            match self.events.next().await {
                Ok(Some(EngineEvent::Done(done))) => {
                    lock(&self.state).show_others(self.call.ended);
                    Ok(Some(EngineEvent::Done(self.call.done(done))))
                }
                Err(error) if error.code == "ENGINE_FAILED" => {
                    lock(&self.state).show_others(self.call.ended);
                    Err(self.told(error))
                }
                other => other,
            }
        })
    }
}

impl Drop for RecordedEvents {
    fn drop(&mut self) {
        lock(&self.state).show_others(self.call.ended);
    }
}

/// Telemetry of what was told long ago.
struct Untold;

impl Telemetry for Untold {
    fn record(&self, _kind: &'static str, _data: Value, _span: &str) {}
}
