//! A conversation on a terminal: the answer as it streams, blocks as one line each, and a sign that something goes on.

use std::{
    collections::HashMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{
    fold::{Running, clip, duration},
    prose::Prose,
    terminal::{columns, has_typed},
};
use crate::{
    cli::{
        console::{DIM, GREEN, RED, YELLOW, harmless},
        follow::spoken,
    },
    log::Envelope,
};

/// How long something takes before the screen says that it goes on.
const PATIENCE: Duration = Duration::from_millis(500);

/// One a tick.
const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

const ERASE_LINE: &str = "\r\x1b[K";
const ERASE_BELOW: &str = "\r\x1b[J";

/// What is shown beside the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Answer,
    /// What the cognet prints, too: somebody is writing it.
    Development,
}

/// The screen, shared by all who have something to show.
#[derive(Clone)]
pub(super) struct Screen(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// Set while there is something to show above the line that is being edited.
    news: Arc<AtomicBool>,
}

struct State {
    out: anstream::AutoStream<io::Stdout>,
    detail: Detail,
    prose: Prose,
    /// The chunk group that is spoken.
    group: Option<String>,
    running: HashMap<String, Running>,
    /// Since when there was nothing to show in a wake.
    waiting: Option<Instant>,
    tick: usize,
    /// The sign that something goes on is on the screen.
    sign: bool,
    /// A line is being edited: what comes is held until the editor lets go.
    editing: bool,
    held: String,
}

impl Screen {
    pub(super) fn new(detail: Detail) -> Self {
        let state = State {
            out: anstream::AutoStream::auto(io::stdout()),
            detail,
            prose: Prose::new(),
            group: None,
            running: HashMap::new(),
            waiting: None,
            tick: 0,
            sign: false,
            editing: false,
            held: String::new(),
        };
        Self(Arc::new(Shared { state: Mutex::new(state), news: Arc::default() }))
    }

    /// Becomes true when the editor is to let go of the line for a moment.
    pub(super) fn news(&self) -> Arc<AtomicBool> {
        self.0.news.clone()
    }

    /// Shows what happened in the session.
    pub(super) fn show(&self, envelope: &Envelope) -> io::Result<()> {
        let mut state = self.state();
        let text = state.render(envelope);
        self.put(&mut state, &text)
    }

    /// Shows lines of our own, styles included; wraps nothing.
    pub(super) fn note(&self, text: &str) -> io::Result<()> {
        let mut state = self.state();
        let mut shown = state.end_prose();
        shown.push_str(text);
        if !shown.ends_with('\n') {
            shown.push('\n');
        }
        self.put(&mut state, &shown)
    }

    /// Shows that something goes on, if it does.
    pub(super) fn tick(&self) -> io::Result<()> {
        let mut state = self.state();
        state.tick();
        state.flush()
    }

    /// From here on a line is edited.
    pub(super) fn begin_edit(&self) -> io::Result<()> {
        let mut state = self.state();
        state.waiting = None;
        let rest = state.end_prose();
        state.write(&rest)?;
        state.editing = true;
        state.flush()
    }

    /// Writes what was held back. Called by the editor while it does not have the terminal; `erase` takes its line from the
    /// screen first.
    pub(super) fn let_through(&self, erase: impl FnOnce() -> String) -> io::Result<()> {
        let mut state = self.state();
        self.0.news.store(false, Ordering::SeqCst);
        if state.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut state.held);
        let shown = erase() + &held;
        state.out.write_all(shown.as_bytes())?;
        state.flush()
    }

    /// Takes the line that was edited from the screen, with what the editor says does so.
    pub(super) fn erase(&self, erase: &str) -> io::Result<()> {
        let mut state = self.state();
        state.out.write_all(erase.as_bytes())?;
        state.flush()
    }

    /// The line is edited no more.
    pub(super) fn end_edit(&self) -> io::Result<()> {
        let mut state = self.state();
        state.editing = false;
        self.0.news.store(false, Ordering::SeqCst);
        let held = std::mem::take(&mut state.held);
        state.write(&held)?;
        state.flush()
    }

    fn put(&self, state: &mut State, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if state.editing {
            state.held.push_str(text);
            // A line that is still being said waits for its end.
            if state.held.ends_with('\n') {
                self.0.news.store(true, Ordering::SeqCst);
            }
            return Ok(());
        }
        state.write(text)?;
        state.flush()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes an empty prompt of so many rows, on the last of which the cursor is, from the screen.
pub(super) fn erase_rows(rows: usize) -> String {
    match rows.checked_sub(1) {
        Some(0) | None => ERASE_BELOW.to_owned(),
        Some(above) => format!("\x1b[{above}A{ERASE_BELOW}"),
    }
}

impl State {
    fn render(&mut self, envelope: &Envelope) -> String {
        let data = &envelope.data;
        if let Some(text) = spoken(&envelope.kind, data) {
            return self.speak(&harmless(&text), data);
        }
        let text = |field: &str| data.get(field).and_then(Value::as_str).unwrap_or_default();
        let at = envelope.time.ms;
        let shown = match envelope.kind.as_str() {
            "kernel:run:start" => {
                self.waiting = Some(Instant::now());
                return String::new();
            }
            "kernel:run:complete" | "kernel:run:failed" | "kernel:run:interrupted" => {
                self.waiting = None;
                self.running.clear();
                return self.end_prose();
            }
            "cognet:action:typescript" => {
                self.running.insert(text("id").to_owned(), Running::new(text("content"), at));
                return self.end_prose();
            }
            "capsule:tool:start" => {
                if let Some(block) = self.running.get_mut(text("block")) {
                    block.call(text("namespace"), text("fn"));
                }
                return String::new();
            }
            "cognet:action:result" => match self.running.remove(text("for")) {
                Some(block) => block.settle(data, at, columns()),
                None => return String::new(),
            },
            "system:interrupt" => format!("{YELLOW}■ {}{YELLOW:#}\n", harmless(text("reason"))),
            "system:notice" if text("code") != "COGNET_RELOADED" => {
                format!("{YELLOW}! {}{YELLOW:#}\n", harmless(text("message")))
            }
            "kernel:engine:retry" => {
                let fault = data.get("fault").and_then(|fault| fault.get("code")).and_then(Value::as_str);
                let wait = data.get("delayMs").and_then(Value::as_u64).unwrap_or(0);
                format!("{DIM}{}: asking again in {}{DIM:#}\n", fault.unwrap_or("the engine failed"), duration(wait))
            }
            "cognet:log:warning" => format!("{YELLOW}! {}{YELLOW:#}\n", harmless(&printed(data))),
            "cognet:log:error" => format!("{RED}! {}{RED:#}\n", harmless(&printed(data))),
            // A table is telemetry for programs: nobody printed it.
            "cognet:log:info"
                if self.detail == Detail::Development && data.get("value").is_some_and(Value::is_string) =>
            {
                format!("{DIM}· {}{DIM:#}\n", harmless(&printed(data)))
            }
            _ => return String::new(),
        };
        self.end_prose() + &shown
    }

    fn speak(&mut self, text: &str, data: &Value) -> String {
        let chunk = data.get("chunk");
        let group = chunk.and_then(|chunk| chunk.get("of")).and_then(Value::as_str);
        let closes = chunk.and_then(|chunk| chunk.get("final")).and_then(Value::as_bool).unwrap_or(group.is_none());
        let mut shown = if self.group.as_deref() == group { String::new() } else { self.end_prose() };
        self.group = group.map(str::to_owned);
        shown.push_str(&self.prose.push(text, columns()));
        if closes {
            shown.push_str(&self.end_prose());
        }
        shown
    }

    fn end_prose(&mut self) -> String {
        self.group = None;
        self.prose.finish()
    }

    fn tick(&mut self) {
        if self.editing {
            return;
        }
        self.tick += 1;
        let rest = self.prose.flush();
        let _ = self.write(&rest);
        let Some(since) = self.waiting.filter(|since| since.elapsed() >= PATIENCE && !self.prose.is_open()) else {
            return;
        };
        let doing = self.running.values().next().map_or_else(|| "thinking".to_owned(), Running::doing);
        let spinner = SPINNER[self.tick % SPINNER.len()];
        let ms = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let typed = if has_typed() { " · what was typed waits its turn" } else { "" };
        let line = clip(&format!("{spinner} {doing} {}{typed}", duration(ms)), columns().saturating_sub(1));
        // A terminal that is gone is noticed by what has to be shown.
        let _ = self.out.write_all(format!("{ERASE_LINE}{DIM}{line}{DIM:#}").as_bytes());
        self.sign = true;
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if std::mem::take(&mut self.sign) {
            self.out.write_all(ERASE_LINE.as_bytes())?;
        }
        if self.waiting.is_some() {
            self.waiting = Some(Instant::now());
        }
        self.out.write_all(text.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn printed(data: &Value) -> String {
    data.get("value").map(crate::kernel::text_of).unwrap_or_default()
}

/// One line of success.
pub(super) fn good(text: &str) -> String {
    format!("{GREEN}↻{GREEN:#} {text}\n")
}
