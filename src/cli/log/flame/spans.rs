//! From events to spans: what began when, within what, and how it ended.

use std::collections::HashMap;

use serde_json::Value;

use crate::log::Envelope;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Wake,
    Tick,
    Phase,
    System,
    Engine,
    Block,
    Tool,
    Capsule,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Complete,
    Failed,
    Interrupted,
    /// The log ends before it does.
    Unfinished,
}

/// Something that took time. Times are microseconds since the Unix epoch.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) class: Class,
    pub(super) name: String,
    pub(super) start: u64,
    pub(super) stop: u64,
    pub(super) end: End,
    /// Positions in the wake's spans, in the order in which they began.
    pub(super) children: Vec<usize>,
}

/// The spans of one wake; the first is the wake itself.
#[derive(Debug)]
pub(super) struct Wake {
    pub(super) run: String,
    pub(super) spans: Vec<Span>,
}

/// Takes the events of one wake in order.
#[derive(Default)]
pub(super) struct SpanBuilder {
    run: String,
    spans: Vec<Span>,
    /// Those that are open one within the other: the wake, ticks, phases, systems.
    stack: Vec<usize>,
    /// Open engine calls by span id; blocks and tool calls by id.
    open: HashMap<String, usize>,
    /// The first line of each block's code.
    sources: HashMap<String, String>,
    /// Events carry whole milliseconds, durations are finer: this never runs backwards.
    clock: u64,
}

impl SpanBuilder {
    pub(super) fn take(&mut self, envelope: &Envelope) {
        let data = &envelope.data;
        self.clock = self.clock.max(envelope.time.ms * 1000);
        let Some((family, suffix)) = envelope.kind.rsplit_once(':') else { return };
        let text = |field: &str| data.get(field).and_then(Value::as_str).unwrap_or_default();
        let of = |field: &str| text(field).to_owned();
        let ended = match suffix {
            "complete" => End::Complete,
            "failed" => End::Failed,
            _ => End::Interrupted,
        };
        match (family, suffix) {
            ("kernel:run", "start") => {
                self.run = envelope.context.run_id.clone().unwrap_or_default();
                self.nest(Class::Wake, "wake".into());
            }
            ("kernel:run", _) => self.unnest(Class::Wake, ended, data),
            ("cognet:tick", "start") => {
                let tick = data.get("tick").and_then(Value::as_u64).unwrap_or_default();
                self.nest(Class::Tick, format!("tick {tick}"));
            }
            ("cognet:tick", _) => self.unnest(Class::Tick, ended, data),
            ("cognet:phase", "start") => self.nest(Class::Phase, of("phase")),
            ("cognet:phase", _) => self.unnest(Class::Phase, ended, data),
            ("cognet:system", "start") => self.nest(Class::System, of("system")),
            ("cognet:system", _) => self.unnest(Class::System, ended, data),
            ("kernel:engine", "start") => {
                let name = format!("engine {}:{}", text("provider"), text("model"));
                let parent = self.innermost();
                self.begin(engine_key(envelope), parent, Class::Engine, name);
            }
            ("kernel:engine", "complete" | "failed") => self.end(&engine_key(envelope), ended, data),
            ("cognet:action", "typescript") => {
                let first = text("content").lines().map(str::trim).find(|line| !line.is_empty());
                self.sources.insert(of("id"), first.unwrap_or_default().to_owned());
            }
            ("capsule:block", "start") => {
                let source = self.sources.get(text("id")).map_or("", String::as_str);
                let name = format!("block {source}");
                let parent = self.innermost();
                self.begin(of("id"), parent, Class::Block, name);
            }
            ("capsule:tool", "start") => {
                let parent = self.open.get(text("block")).copied().or_else(|| self.innermost());
                self.begin(of("id"), parent, Class::Tool, format!("{}.{}", text("namespace"), text("fn")));
            }
            ("capsule:block" | "capsule:tool", _) => self.end(text("id"), ended, data),
            ("capsule", "boot") => {
                let Some(parent) = self.innermost() else { return };
                let (stop, took) = (self.clock, micros(data).unwrap_or_default());
                let start = stop.saturating_sub(took).max(self.spans[parent].start);
                let boot = self.add(Some(parent), Class::Capsule, "capsule boot".into(), start);
                self.spans[boot].stop = stop;
                self.spans[boot].end = End::Complete;
            }
            _ => {}
        }
    }

    /// The wake, if it began in what was taken.
    pub(super) fn finish(mut self) -> Option<Wake> {
        for span in &mut self.spans {
            if span.end == End::Unfinished {
                span.stop = span.stop.max(self.clock);
            }
        }
        (!self.spans.is_empty()).then_some(Wake { run: self.run, spans: self.spans })
    }

    fn innermost(&self) -> Option<usize> {
        self.stack.last().copied()
    }

    fn add(&mut self, parent: Option<usize>, class: Class, name: String, start: u64) -> usize {
        let position = self.spans.len();
        self.spans.push(Span { class, name, start, stop: start, end: End::Unfinished, children: Vec::new() });
        if let Some(parent) = parent {
            self.spans[parent].children.push(position);
        }
        position
    }

    fn nest(&mut self, class: Class, name: String) {
        // Whatever a log may hold, one wake is one tree.
        if self.spans.is_empty() != (class == Class::Wake) {
            return;
        }
        let span = self.add(self.innermost(), class, name, self.clock);
        self.stack.push(span);
    }

    /// Ends the innermost span of the class, and what it left open.
    fn unnest(&mut self, class: Class, end: End, data: &Value) {
        let Some(depth) = self.stack.iter().rposition(|&span| self.spans[span].class == class) else { return };
        let span = self.stack[depth];
        self.stack.truncate(depth);
        self.settle(span, end, data);
    }

    fn begin(&mut self, key: String, parent: Option<usize>, class: Class, name: String) {
        if parent.is_some() {
            let span = self.add(parent, class, name, self.clock);
            self.open.insert(key, span);
        }
    }

    fn end(&mut self, key: &str, end: End, data: &Value) {
        if let Some(span) = self.open.remove(key) {
            self.settle(span, end, data);
        }
    }

    /// A span ends in the millisecond that its event carries, as exactly as its duration tells.
    fn settle(&mut self, span: usize, end: End, data: &Value) {
        let now = self.clock;
        let span = &mut self.spans[span];
        let exact = micros(data).map_or(now, |took| span.start + took);
        span.stop = exact.clamp(now, now - now % 1000 + 999);
        span.end = end;
        self.clock = span.stop;
    }
}

fn engine_key(envelope: &Envelope) -> String {
    envelope.context.span_id.clone().unwrap_or_default()
}

fn micros(data: &Value) -> Option<u64> {
    data.get("durationMs")?.as_f64().map(|ms| (ms * 1000.0) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log::{Context, ENVELOPE_VERSION, Time};

    fn wake(events: &[(u64, &str, Value)]) -> Wake {
        let mut builder = SpanBuilder::default();
        for (seq, (ms, kind, data)) in events.iter().enumerate() {
            builder.take(&Envelope {
                v: ENVELOPE_VERSION,
                id: String::new(),
                kind: (*kind).to_owned(),
                time: Time { ms: *ms, seq: seq as u64 },
                context: Context {
                    agent_id: String::new(),
                    session_id: String::new(),
                    run_id: Some("r".into()),
                    span_id: Some("call".into()),
                },
                data: data.clone(),
            });
        }
        builder.finish().unwrap()
    }

    fn told(wake: &Wake) -> Vec<(&str, u64, u64, End, &[usize])> {
        wake.spans.iter().map(|s| (s.name.as_str(), s.start, s.stop, s.end, s.children.as_slice())).collect()
    }

    #[test]
    fn events_become_a_tree_and_blocks_may_overlap() {
        let wake = wake(&[
            (10, "kernel:run:start", json!({})),
            (10, "cognet:tick:start", json!({ "tick": 1 })),
            (10, "cognet:phase:start", json!({ "phase": "act" })),
            (11, "cognet:action:typescript", json!({ "id": "a", "content": "\n 1 + 1\n2" })),
            (11, "capsule:block:start", json!({ "id": "a" })),
            (12, "capsule:block:start", json!({ "id": "b" })),
            (13, "capsule:tool:start", json!({ "id": "t", "block": "b", "namespace": "fs", "fn": "read" })),
            (14, "capsule:block:complete", json!({ "id": "a" })),
            (15, "capsule:tool:failed", json!({ "id": "t", "durationMs": 2.25 })),
            (16, "capsule:block:complete", json!({ "id": "b" })),
            (16, "cognet:phase:complete", json!({ "phase": "act", "durationMs": 6.5 })),
            (17, "cognet:tick:complete", json!({ "tick": 1 })),
            (18, "kernel:run:complete", json!({})),
        ]);
        assert_eq!(
            told(&wake),
            [
                ("wake", 10_000, 18_000, End::Complete, [1].as_slice()),
                ("tick 1", 10_000, 17_000, End::Complete, &[2]),
                ("act", 10_000, 16_500, End::Complete, &[3, 4]),
                ("block 1 + 1", 11_000, 14_000, End::Complete, &[]),
                ("block ", 12_000, 16_000, End::Complete, &[5]),
                ("fs.read", 13_000, 15_250, End::Failed, &[]),
            ]
        );
    }

    #[test]
    fn what_a_crash_left_open_lasts_until_the_last_event() {
        let wake = wake(&[
            (1, "kernel:run:start", json!({})),
            (2, "kernel:engine:start", json!({ "provider": "p", "model": "m" })),
            (9, "kernel:engine:input", json!({})),
        ]);
        assert_eq!(
            told(&wake),
            [
                ("wake", 1_000, 9_000, End::Unfinished, [1].as_slice()),
                ("engine p:m", 2_000, 9_000, End::Unfinished, &[]),
            ]
        );
    }
}
