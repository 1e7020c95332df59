//! What was typed before there was a line to type into: a question is answered by what is typed after it, and what was
//! typed before it is said to the agent, later.

use std::{collections::VecDeque, io, time::Duration};

use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::Typed;
use crate::cli::approve::is_answer;

/// Lines, and the beginning of one.
#[derive(Default)]
pub(super) struct Ahead {
    whole: VecDeque<Typed>,
    begun: String,
}

impl Ahead {
    /// Takes what was typed and not read. Nobody else may be reading.
    pub(super) fn read(&mut self) -> io::Result<()> {
        let newer = Self::typed()?;
        self.join(newer);
        Ok(())
    }

    /// The same after a question was answered: an answer too many that comes first is given back.
    pub(super) fn read_after_answer(&mut self) -> io::Result<Option<String>> {
        let mut newer = Self::typed()?;
        let first = newer.whole.pop_front();
        let surplus = match first {
            Some(Typed::Line(line)) if is_answer(&line) => Some(line),
            other => {
                other.into_iter().for_each(|typed| newer.whole.push_front(typed));
                None
            }
        };
        self.join(newer);
        Ok(surplus)
    }

    fn typed() -> io::Result<Self> {
        let mut typed = Self::default();
        while event::poll(Duration::ZERO)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => typed.press(key),
                Event::Paste(text) => typed.begun.push_str(&text),
                _ => {}
            }
        }
        Ok(typed)
    }

    fn join(&mut self, newer: Self) {
        self.whole.extend(newer.whole);
        self.begun.push_str(&newer.begun);
    }

    /// Keeps a line that was being edited.
    pub(super) fn keep(&mut self, begun: &str) {
        self.begun.push_str(begun);
    }

    /// The first whole line.
    pub(super) fn next(&mut self) -> Option<Typed> {
        self.whole.pop_front()
    }

    /// What was begun, to be gone on with.
    pub(super) fn begun(&mut self) -> String {
        std::mem::take(&mut self.begun)
    }

    fn press(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            // As the editor has it.
            KeyCode::Enter if key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT) => {
                self.begun.push('\n')
            }
            KeyCode::Enter => {
                let line = self.begun();
                self.whole.push_back(Typed::Line(line));
            }
            KeyCode::Char('d') if control && self.begun.is_empty() => self.whole.push_back(Typed::End),
            KeyCode::Char(c) if !control => self.begun.push(c),
            KeyCode::Tab => self.begun.push('\t'),
            KeyCode::Backspace => {
                self.begun.pop();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_lines_and_the_beginning_of_one() {
        let mut ahead = Ahead::default();
        let plain = |code| KeyEvent::new(code, KeyModifiers::NONE);
        for key in [
            plain(KeyCode::Char('a')),
            plain(KeyCode::Char('x')),
            plain(KeyCode::Backspace),
            KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT),
            KeyEvent::new(KeyCode::Char('B'), KeyModifiers::SHIFT),
            KeyEvent::new(KeyCode::Char('k'), KeyModifiers::CONTROL),
            plain(KeyCode::Enter),
            KeyEvent::new(KeyCode::Char('d'), KeyModifiers::CONTROL),
            plain(KeyCode::Char('c')),
        ] {
            ahead.press(key);
        }
        assert_eq!(ahead.next(), Some(Typed::Line("a\nB".into())));
        assert_eq!(ahead.next(), Some(Typed::End));
        assert_eq!(ahead.next(), None);
        assert_eq!(ahead.begun(), "c");
    }
}
