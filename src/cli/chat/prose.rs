//! What an agent says, as it streams: wrapped at words, with a little of Markdown shown by style. The marks themselves stay, so
//! that nothing is lost without colour or when the text is copied.

use anstyle::Style;
use unicode_width::UnicodeWidthChar;

use crate::cli::console::{BOLD, CYAN};

/// Narrower windows are written to as if they had this many columns.
const MIN_COLUMNS: usize = 20;

/// Columns of a tab.
const TAB: usize = 4;

const FENCE: &str = "```";

/// Text on its way to a terminal.
pub(super) struct Prose {
    columns: usize,
    column: usize,
    word: Vec<(char, Style)>,
    /// Columns of space between what was written and the word.
    spaces: usize,
    /// The first characters of the line, as many as tell a fence.
    start: String,
    fenced: bool,
    heading: bool,
    code: bool,
    bold: bool,
    last: char,
}

impl Prose {
    pub(super) fn new() -> Self {
        Self {
            columns: MIN_COLUMNS,
            column: 0,
            word: Vec::new(),
            spaces: 0,
            start: String::new(),
            fenced: false,
            heading: false,
            code: false,
            bold: false,
            last: '\n',
        }
    }

    /// Whether a line has been begun.
    pub(super) fn is_open(&self) -> bool {
        self.column > 0 || !self.word.is_empty()
    }

    /// What can be written now that `text` has come. The end of a word shows only with what follows it.
    pub(super) fn push(&mut self, text: &str, columns: usize) -> String {
        self.columns = columns.max(MIN_COLUMNS);
        let mut out = String::new();
        for c in text.chars() {
            self.take(c, &mut out);
        }
        out
    }

    /// What is held back of a word.
    pub(super) fn flush(&mut self) -> String {
        let mut out = String::new();
        self.end_word(&mut out);
        out
    }

    /// Ends the line and everything that was open in it.
    pub(super) fn finish(&mut self) -> String {
        let mut out = self.flush();
        if self.column > 0 {
            out.push('\n');
        }
        *self = Self { columns: self.columns, ..Self::new() };
        out
    }

    fn take(&mut self, c: char, out: &mut String) {
        match c {
            '\n' => {
                self.end_word(out);
                out.push('\n');
                self.column = 0;
                self.spaces = 0;
                self.start.clear();
                self.heading = false;
                // A mark that was never closed is no mark.
                self.code = false;
                self.bold = false;
            }
            ' ' | '\t' if !self.fenced => {
                self.end_word(out);
                self.note_start(c);
                self.spaces += if c == '\t' { TAB } else { 1 };
            }
            _ => {
                let style = self.style_of(c);
                let wide = c.width().unwrap_or(0) > 1;
                if wide {
                    self.end_word(out);
                }
                self.word.push((c, style));
                if wide {
                    self.end_word(out);
                }
            }
        }
        self.last = c;
    }

    fn note_start(&mut self, c: char) {
        if self.start.len() < FENCE.len() {
            self.start.push(c);
        }
    }

    /// The style of a character, and what it opens or closes.
    fn style_of(&mut self, c: char) -> Style {
        let before = self.start.len();
        self.note_start(c);
        if self.start == FENCE && before < FENCE.len() {
            self.fenced = !self.fenced;
            self.code = false;
            return CYAN;
        }
        if self.fenced {
            return CYAN;
        }
        if before == 0 && c == '#' {
            self.heading = true;
        }
        if c == '`' {
            self.code = !self.code;
            return CYAN;
        }
        if self.code {
            return CYAN;
        }
        if c == '*' && self.last == '*' {
            self.bold = !self.bold;
            return BOLD;
        }
        if self.heading || self.bold { BOLD } else { Style::new() }
    }

    fn end_word(&mut self, out: &mut String) {
        let width: usize = self.word.iter().map(|(c, _)| c.width().unwrap_or(0)).sum();
        if self.word.is_empty() {
            return;
        }
        // Spaces that no word follows on the line are the break itself.
        let spaces = std::mem::take(&mut self.spaces);
        if self.column > 0 && self.column + spaces + width > self.columns && !self.fenced {
            out.push('\n');
            self.column = 0;
        } else {
            let spaces = spaces.min(self.columns.saturating_sub(self.column));
            out.extend(std::iter::repeat_n(' ', spaces));
            self.column += spaces;
        }
        let mut now = Style::new();
        for (c, style) in self.word.drain(..) {
            let width = c.width().unwrap_or(0);
            if self.column + width > self.columns {
                out.push('\n');
                self.column = 0;
            }
            if style != now {
                out.push_str(&format!("{now:#}{style}"));
                now = style;
            }
            out.push(c);
            self.column += width;
        }
        out.push_str(&format!("{now:#}"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use unicode_width::UnicodeWidthStr;

    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn written(text: &str, columns: usize) -> String {
        let mut prose = Prose::new();
        let mut out = prose.push(text, columns);
        out.push_str(&prose.finish());
        plain(&out)
    }

    #[test]
    fn lines_break_at_words_and_between_wide_characters() {
        assert_eq!(written("one two three four five six", 20), "one two three four\nfive six\n");
        assert_eq!(written(&"漢".repeat(12), 20), format!("{}\n{}\n", "漢".repeat(10), "漢".repeat(2)));
        assert_eq!(written(&"x".repeat(25), 20), format!("{}\n{}\n", "x".repeat(20), "x".repeat(5)));
    }

    #[test]
    fn code_is_not_wrapped_at_words() {
        let code = "```ts\nconst answer = 6 * 7 // short\n```";
        assert_eq!(written(code, 40), format!("{code}\n"));
    }

    #[test]
    fn marks_stay_and_are_styled() {
        let mut prose = Prose::new();
        let out = prose.push("**so** `it` is\n# Top\n", 80);
        assert_eq!(plain(&out), "**so** `it` is\n# Top\n");
        assert!(
            out.contains(&format!("{CYAN}`it`")) && out.contains(&format!("{BOLD}# "))
                || out.contains(&format!("{BOLD}#"))
        );
    }

    proptest! {
        #[test]
        fn however_text_is_split_it_comes_out_the_same(
            text in "[a-c漢é `*#\n]{0,80}",
            cuts in proptest::collection::vec(0usize..80, 0..6),
            columns in 20usize..60,
        ) {
            let chars: Vec<char> = text.chars().collect();
            let mut ends: Vec<usize> = cuts.into_iter().map(|cut| cut.min(chars.len())).collect();
            ends.push(chars.len());
            ends.sort_unstable();
            let mut prose = Prose::new();
            let (mut out, mut begin) = (String::new(), 0);
            for end in ends {
                out.push_str(&prose.push(&chars[begin..end].iter().collect::<String>(), columns));
                begin = end;
            }
            out.push_str(&prose.finish());
            let out = plain(&out);
            prop_assert_eq!(&out, &written(&text, columns));
            let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(letters(&out), letters(&text));
            for line in out.lines() {
                prop_assert!(line.width() <= columns, "{:?}", line);
            }
        }
    }
}
