//! The line that a person types: history, pasted lines, and room for what comes in meanwhile.

use std::{
    borrow::Cow,
    io::{self, IsTerminal},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc as std_mpsc,
    },
    time::Duration,
};

use reedline::{
    Color, EditCommand, Emacs, FileBackedHistory, KeyCode, KeyModifiers, Prompt, PromptEditMode, PromptHistorySearch,
    Reedline, ReedlineEvent, Signal, default_emacs_keybindings,
};
use tokio::sync::mpsc;
use unicode_width::UnicodeWidthStr;

use super::{
    Typed,
    ahead::Ahead,
    fold::clip,
    screen::{Screen, erase_rows},
    terminal::columns,
};
use crate::cli::console::{DIM, harmless};

/// Lines that the history keeps.
const HISTORY_LINES: usize = 2_000;

/// How soon what comes in is shown while a line is edited.
const NEWS_PERIOD: Duration = Duration::from_millis(40);

const MARK: &str = "> ";
const MARK_OF_MORE: &str = ": ";

/// What stands above the line, if anything; whoever has the other end changes it.
pub(super) type Status = Arc<Mutex<String>>;

/// Reads lines on a thread of its own, one at a time and only when asked: between two of them the terminal is the
/// answer's.
pub(super) struct Editor {
    /// Each with what the line begins with.
    requests: std_mpsc::Sender<String>,
    typed: mpsc::Receiver<io::Result<Typed>>,
    screen: Screen,
    asked: bool,
    /// Shared with the thread, which puts a line aside for a question.
    ahead: Arc<Mutex<Ahead>>,
    /// The line that is being edited is to be put aside.
    put_aside: Arc<AtomicBool>,
}

impl Editor {
    /// `history` is made if it does not exist; without it nothing is remembered.
    pub(super) fn new(screen: Screen, status: Status, history: Option<PathBuf>) -> Self {
        let (requests, asked) = std_mpsc::channel();
        let (sender, typed) = mpsc::channel(1);
        let ahead = Arc::<Mutex<Ahead>>::default();
        let put_aside = Arc::<AtomicBool>::default();
        let desk = Desk { screen: screen.clone(), status, history, ahead: ahead.clone(), put_aside: put_aside.clone() };
        std::thread::spawn(move || {
            while let Ok(begun) = asked.recv() {
                let line = desk.read(begun);
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    return;
                }
            }
        });
        Self { requests, typed, screen, asked: false, ahead, put_aside }
    }

    /// Keeps what was typed so far for later: it answers no question that was not there to be read.
    pub(super) fn put_aside(&self) -> io::Result<()> {
        if self.asked {
            // The thread does it once it is shown that there is news.
            self.put_aside.store(true, Ordering::SeqCst);
            return Ok(());
        }
        self.ahead().read()
    }

    /// Takes an answer that was typed after the last one was taken, before what is said to the agent.
    pub(super) fn take_surplus(&self) -> io::Result<Option<String>> {
        if self.asked { Ok(None) } else { self.ahead().read_after_answer() }
    }

    /// The next thing that is typed. Nothing is lost when the future is dropped: the line goes on being edited.
    pub(super) async fn next(&mut self) -> io::Result<Typed> {
        if !self.asked {
            let (whole, begun) = {
                let mut ahead = self.ahead();
                let whole = ahead.next();
                let begun = if whole.is_none() { ahead.begun() } else { String::new() };
                (whole, begun)
            };
            if let Some(typed) = whole {
                if let Typed::Line(line) = &typed {
                    self.screen.note(&format!("{MARK}{}", harmless(line)))?;
                }
                return Ok(typed);
            }
            self.ask(begun)?;
        }
        self.typed().await
    }

    /// The next thing that is typed, other than what was put aside.
    pub(super) async fn answer(&mut self) -> io::Result<Typed> {
        if !self.asked {
            self.ask(String::new())?;
        }
        self.typed().await
    }

    fn ask(&mut self, begun: String) -> io::Result<()> {
        self.screen.begin_edit()?;
        self.asked = self.requests.send(begun).is_ok();
        Ok(())
    }

    fn ahead(&self) -> MutexGuard<'_, Ahead> {
        self.ahead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn typed(&mut self) -> io::Result<Typed> {
        let typed = self.typed.recv().await.unwrap_or(Ok(Typed::End));
        self.asked = false;
        typed
    }
}

/// What the editor's thread works with.
struct Desk {
    screen: Screen,
    status: Status,
    history: Option<PathBuf>,
    ahead: Arc<Mutex<Ahead>>,
    put_aside: Arc<AtomicBool>,
}

/// A line that was put aside, and where the cursor was in it.
#[derive(Default)]
struct Draft {
    text: String,
    cursor: usize,
}

impl Desk {
    fn read(&self, begun: String) -> io::Result<Typed> {
        let mut draft = Draft { cursor: begun.len(), text: begun };
        let typed = loop {
            // What came before the editor had the terminal.
            self.screen.let_through(String::new)?;
            let mut line = self.line(&draft)?;
            match line.read_line(&Mark { status: self.status.clone() })? {
                Signal::ExternalBreak(text) => {
                    draft = Draft { text, cursor: line.current_insertion_point() };
                    self.screen.let_through(|| self.aside(&draft))?;
                    if self.put_aside.swap(false, Ordering::SeqCst) {
                        let begun = std::mem::take(&mut draft).text;
                        self.ahead.lock().unwrap_or_else(PoisonError::into_inner).keep(&begun);
                    }
                }
                Signal::Success(text) => break Typed::Line(text),
                // Ctrl-C. A line that was begun is what it takes away, and nothing else.
                Signal::HostCommand(_) => {
                    let text = line.current_buffer_contents().to_owned();
                    draft = Draft { text, cursor: line.current_insertion_point() };
                    self.screen.erase(&self.aside(&draft))?;
                    if std::mem::take(&mut draft).text.is_empty() {
                        break Typed::Interrupt;
                    }
                }
                Signal::CtrlC => break Typed::Interrupt,
                _ => break Typed::End,
            }
        };
        self.screen.end_edit()?;
        Ok(typed)
    }

    /// An editor of its own for every time the terminal is taken: it finds its place on the screen anew.
    fn line(&self, draft: &Draft) -> io::Result<Reedline> {
        let mut keys = default_emacs_keybindings();
        for modifier in [KeyModifiers::ALT, KeyModifiers::SHIFT] {
            keys.add_binding(modifier, KeyCode::Enter, ReedlineEvent::Edit(vec![EditCommand::InsertNewline]));
        }
        keys.add_binding(
            KeyModifiers::CONTROL,
            KeyCode::Char('c'),
            ReedlineEvent::ExecuteHostCommand("interrupt".to_owned()),
        );
        let mut line = Reedline::create()
            .with_edit_mode(Box::new(Emacs::new(keys)))
            .use_bracketed_paste(true)
            .with_ansi_colors(colored())
            .with_transient_prompt(Box::new(Mark { status: Status::default() }))
            .with_break_signal(self.screen.news())
            .with_poll_interval(NEWS_PERIOD);
        if let Some(path) = &self.history {
            match FileBackedHistory::with_file(HISTORY_LINES, path.clone()) {
                Ok(history) => line = line.with_history(Box::new(history)),
                Err(error) => tracing::warn!(%error, path = %path.display(), "lines are not remembered"),
            }
        }
        if !draft.text.is_empty() {
            line.run_edit_commands(&[
                EditCommand::InsertString(draft.text.clone()),
                EditCommand::MoveToPosition { position: draft.cursor, select: false },
            ]);
        }
        Ok(line)
    }

    /// Makes room where the line is. A draft of one row is taken from the screen; a longer one stays above what comes.
    fn aside(&self, draft: &Draft) -> String {
        let above = usize::from(!status_row(&self.status).is_empty());
        let fits = MARK.width() + draft.text.width() < columns() && !draft.text.contains('\n');
        if fits { erase_rows(above + 1) } else { format!("{}\r\n", "\n".repeat(rows_below(draft))) }
    }
}

/// Rows of a draft below the one with the cursor.
fn rows_below(draft: &Draft) -> usize {
    let columns = columns();
    let rows = |text: &str| text.split('\n').map(|line| (MARK.width() + line.width()) / columns + 1).sum::<usize>();
    let before = draft.text.get(..draft.cursor).unwrap_or(&draft.text);
    rows(&draft.text).saturating_sub(rows(before))
}

fn colored() -> bool {
    io::stdout().is_terminal() && anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

fn status_row(status: &Status) -> String {
    let text = status.lock().unwrap_or_else(PoisonError::into_inner);
    clip(&text, columns().saturating_sub(1))
}

/// The prompt.
struct Mark {
    status: Status,
}

impl Prompt for Mark {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        let status = status_row(&self.status);
        if status.is_empty() {
            return Cow::Borrowed(MARK);
        }
        let style = if colored() { DIM } else { anstyle::Style::new() };
        Cow::Owned(format!("{style}{status}{style:#}\n{MARK}"))
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed(MARK_OF_MORE)
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }

    fn get_prompt_color(&self) -> Color {
        Color::Default
    }

    fn get_prompt_multiline_color(&self) -> Color {
        Color::Default
    }
}
