//! A brain that folds the log knows what a brain knows that was there.

use std::{collections::BTreeMap, fs, io::Write, thread};

use axon::log::{Event, SessionLog};
use axon_runtime::Entry;
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Sessions, telemetry};

/// A resident model: everything it keeps depends on every entry and on their order.
#[derive(Clone, Debug, Default, PartialEq)]
struct Brain {
    seen: Option<u64>,
    count_of: BTreeMap<String, u64>,
    story: String,
}

impl Brain {
    fn take(&mut self, entry: &Entry) {
        assert!(self.seen.is_none_or(|seen| seen < entry.time.seq), "each once, in order");
        self.seen = Some(entry.time.seq);
        *self.count_of.entry(entry.kind.clone()).or_default() += 1;
        self.story.push_str(&format!("{}={};", entry.id, entry.data));
    }

    /// Takes what is new to it.
    fn sync(&mut self, log: &SessionLog) {
        for entry in log.entries_after(self.seen).unwrap() {
            self.take(&entry);
        }
    }

    fn folded(log: &SessionLog) -> Self {
        let mut brain = Self::default();
        brain.sync(log);
        brain
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append(usize, String),
    Emit(u64),
    /// Several writers at once, so many entries each.
    Burst(u64),
    /// The brain takes what is new.
    Sync,
    Restart,
    /// The process died in the middle of a line.
    Crash(String),
}

const KINDS: [&str; 4] = ["stimulus:text", "cognet:output:text", "cognet:action:result", "system:notice"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..KINDS.len(), "\\PC{0,20}").prop_map(|(kind, content)| Step::Append(kind, content)),
        3 => any::<u32>().prop_map(|n| Step::Emit(n.into())),
        1 => (1..8u64).prop_map(Step::Burst),
        3 => Just(Step::Sync),
        1 => Just(Step::Restart),
        1 => "[{\"a-z]{0,30}".prop_map(Step::Crash),
    ]
}

/// Appends from several threads. Returns the entries in the order of the log.
fn burst(log: &SessionLog, each: u64) -> Vec<Entry> {
    let write = |writer: usize| {
        let kinds = KINDS.iter().cycle().skip(writer).take(each as usize);
        kinds.map(|kind| log.append(Event::new(*kind, json!({ "by": writer }))).unwrap().to_entry()).collect::<Vec<_>>()
    };
    let mut entries: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|writer| scope.spawn(move || write(writer))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    entries.sort_by_key(|entry| entry.time.seq);
    entries
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn folding_the_log_gives_the_state_of_a_brain_that_saw_its_entries_live(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let sessions = Sessions::new();
        let mut log = sessions.open();
        // Never restarted, never reads the log. The resident one lives as cognets do: it syncs, and folds when restarted.
        let mut live = Brain::default();
        let mut resident = Brain::default();
        for step in steps {
            match step {
                Step::Append(kind, content) => {
                    live.take(&log.append(Event::new(KINDS[kind], json!({ "content": content }))).unwrap().to_entry());
                }
                Step::Emit(n) => prop_assert!(log.emit(telemetry(n)).is_some()),
                Step::Burst(each) => burst(&log, each).iter().for_each(|entry| live.take(entry)),
                Step::Sync => {
                    resident.sync(&log);
                    prop_assert_eq!(&resident, &live);
                }
                Step::Restart | Step::Crash(_) => {
                    drop(log);
                    if let Step::Crash(torn) = step {
                        fs::OpenOptions::new().append(true).open(sessions.path()).unwrap().write_all(torn.as_bytes()).unwrap();
                    }
                    log = sessions.open();
                    resident = Brain::folded(&log);
                    prop_assert_eq!(&resident, &live);
                }
            }
        }
        prop_assert_eq!(Brain::folded(&log), live);
    }
}
