//! Finds where a block of TypeScript ends: at the first `</typescript>` that is not part of a string, a template, a
//! comment or a regular expression.
//!
//! The scan looks at each byte once and survives code that is not TypeScript: what cannot be balanced ends at its
//! first literal close tag, so that broken code never swallows the blocks behind it.

use super::{
    block,
    tag::{self, Reading, TagKind},
};

/// Models put fences of Markdown around their code, and no program has three of these in a row outside of a token.
const FENCE: &[u8] = b"```";

/// Words after which `/` begins a regular expression.
const OPERATOR_WORDS: &[&[u8]] = &[
    b"return",
    b"typeof",
    b"case",
    b"in",
    b"of",
    b"instanceof",
    b"new",
    b"delete",
    b"void",
    b"throw",
    b"do",
    b"else",
    b"yield",
    b"await",
];
/// Words whose parenthesis is followed by a statement, so that `/` behind it begins a regular expression.
const CONTROL_WORDS: &[&[u8]] = &[b"if", b"while", b"for", b"with"];

/// Where the scan of one block stands. Offsets are bytes from the start of the block's content.
#[derive(Debug)]
pub(super) struct CodeScanner {
    tag: &'static str,
    rule: CloseRule,
    at: usize,
    token: Token,
    previous: Previous,
    word_at: Option<usize>,
    after_dot: bool,
    brackets: Brackets,
    first_close: Option<CloseTag>,
    /// The token that the scan is in holds a close tag.
    close_in_token: bool,
    /// A close tag inside a token, until what follows it is known.
    followed: Option<Followed>,
    /// A close tag inside a token was followed by another block of AIR.
    suspicious: bool,
}

/// Which close tag ends a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloseRule {
    Balanced,
    FirstLiteral,
}

/// A literal close tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CloseTag {
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// No end yet. When nothing follows, there is none.
    Open,
    Closed(CloseTag),
    /// The code cannot be balanced; this is its first literal close tag.
    Unbalanced(CloseTag),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Code,
    Quoted { quote: u8, escaped: bool },
    Template { escaped: bool },
    LineComment,
    BlockComment,
    Regex { in_class: bool, escaped: bool },
}

/// What stands before a `/`, as far as it decides between a division and a regular expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Previous {
    Operator,
    Control,
    Value,
}

#[derive(Clone, Copy, Debug)]
struct Followed {
    close: CloseTag,
    in_line_comment: bool,
}

enum Step {
    Consume(usize),
    /// The token cannot go on here.
    Broken,
    /// The next byte is needed.
    Wait,
}

impl CodeScanner {
    /// A scan for the end of a block `tag`, whose content begins.
    pub fn new(tag: &'static str, rule: CloseRule) -> Self {
        Self {
            tag,
            rule,
            at: 0,
            token: Token::Code,
            previous: Previous::Operator,
            word_at: None,
            after_dot: false,
            brackets: Brackets::default(),
            first_close: None,
            close_in_token: false,
            followed: None,
            suspicious: false,
        }
    }

    pub fn tag(&self) -> &'static str {
        self.tag
    }

    /// Goes on with `code`, the block's content so far. With `ending`, nothing follows it.
    pub fn scan(&mut self, code: &str, ending: bool) -> Scan {
        let bytes = code.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            if byte == b'<' {
                match tag::read_close(&bytes[self.at..], self.tag, ending) {
                    Reading::Is(len) => match self.close_tag(len) {
                        Some(scan) => return scan,
                        None => continue,
                    },
                    Reading::Undecided => return Scan::Open,
                    Reading::IsNot => {}
                }
                match self.block_behind_close(&code[self.at..], ending) {
                    Reading::Is(scan) => return scan,
                    Reading::Undecided => return Scan::Open,
                    Reading::IsNot => {}
                }
            } else if !byte.is_ascii_whitespace() {
                self.followed = None;
            }

            let next = bytes.get(self.at + 1).copied();
            match self.step(bytes, byte, next, ending) {
                Step::Consume(len) => self.at += len,
                Step::Wait => return Scan::Open,
                Step::Broken => match self.first_close {
                    Some(close) if self.close_in_token => return Scan::Unbalanced(close),
                    _ => self.leave(),
                },
            }
        }
        match (self.followed, self.first_close) {
            _ if !ending => Scan::Open,
            (Some(Followed { close, in_line_comment: true }), _) => Scan::Closed(close),
            (_, Some(close)) => Scan::Unbalanced(close),
            (_, None) => Scan::Open,
        }
    }

    /// Takes a literal close tag of `len` bytes: the end of the block, or part of a token that is then gone past.
    fn close_tag(&mut self, len: usize) -> Option<Scan> {
        let close = CloseTag { start: self.at, end: self.at + len };
        let first = *self.first_close.get_or_insert(close);
        if self.rule == CloseRule::FirstLiteral {
            return Some(Scan::Closed(close));
        }
        match &mut self.token {
            Token::Code if self.suspicious && !self.brackets.balanced() => return Some(Scan::Unbalanced(first)),
            // Outside of a class, the slash of the tag would end the expression and leave flags that do not exist.
            Token::Code | Token::Regex { in_class: false, .. } => return Some(Scan::Closed(close)),
            Token::Quoted { escaped, .. } | Token::Template { escaped } | Token::Regex { escaped, .. } => {
                *escaped = false;
            }
            Token::LineComment | Token::BlockComment => {}
        }
        self.close_in_token = true;
        self.followed = Some(Followed { close, in_line_comment: self.token == Token::LineComment });
        self.at += len;
        None
    }

    /// Looks at a `<` behind a close tag that is part of a token. In a line comment the two tags together are the end
    /// of the block: models put comments behind the last statement and go on with the next block.
    fn block_behind_close(&mut self, text: &str, ending: bool) -> Reading<Scan> {
        let Some(followed) = self.followed else { return Reading::IsNot };
        match tag::read_tag(text, ending) {
            Reading::Undecided => return Reading::Undecided,
            Reading::Is(tag) if tag.kind != TagKind::Close && block(tag.name).is_some() => {
                if followed.in_line_comment {
                    return Reading::Is(Scan::Closed(followed.close));
                }
                self.suspicious = true;
            }
            _ => {}
        }
        self.followed = None;
        Reading::IsNot
    }

    fn step(&mut self, bytes: &[u8], byte: u8, next: Option<u8>, ending: bool) -> Step {
        let rest = bytes.len() - self.at;
        let lookahead = match byte {
            b'/' | b'*' | b'$' | b'+' | b'-' | b'\r' => 1,
            b'`' if self.token == Token::Code => FENCE.len() - 1,
            _ => 0,
        };
        if rest <= lookahead && !ending {
            return Step::Wait;
        }
        match &mut self.token {
            Token::Code => return self.code(bytes, byte, next),
            Token::Quoted { escaped, .. } | Token::Template { escaped } | Token::Regex { escaped, .. } if *escaped => {
                *escaped = false;
                return Step::Consume(if (byte, next) == (b'\r', Some(b'\n')) { 2 } else { 1 });
            }
            Token::Quoted { escaped, .. } | Token::Template { escaped } | Token::Regex { escaped, .. }
                if byte == b'\\' =>
            {
                *escaped = true;
            }
            Token::Quoted { .. } | Token::Regex { .. } if matches!(byte, b'\n' | b'\r') => return Step::Broken,
            Token::Quoted { quote, .. } if byte == *quote => self.leave_value(),
            Token::Template { .. } if byte == b'`' => self.leave_value(),
            Token::Template { .. } if (byte, next) == (b'$', Some(b'{')) => {
                self.brackets.open(Bracket::Substitution);
                self.leave();
                self.previous = Previous::Operator;
                return Step::Consume(2);
            }
            Token::LineComment if matches!(byte, b'\n' | b'\r') => self.leave(),
            Token::BlockComment if (byte, next) == (b'*', Some(b'/')) => {
                self.leave();
                return Step::Consume(2);
            }
            Token::Regex { in_class, .. } => match byte {
                b'[' => *in_class = true,
                b']' => *in_class = false,
                b'/' if !*in_class => self.leave_value(),
                _ => {}
            },
            _ => {}
        }
        Step::Consume(1)
    }

    fn code(&mut self, bytes: &[u8], byte: u8, next: Option<u8>) -> Step {
        if is_word_byte(byte) {
            self.word_at.get_or_insert(self.at);
            return Step::Consume(1);
        }
        if let Some(start) = self.word_at.take() {
            self.word(&bytes[start..self.at]);
        }
        if byte.is_ascii_whitespace() {
            return Step::Consume(1);
        }
        self.after_dot = byte == b'.';
        match (byte, next) {
            (b'\'' | b'"', _) => self.enter(Token::Quoted { quote: byte, escaped: false }),
            (b'`', _) if bytes[self.at..].starts_with(FENCE) => return Step::Consume(FENCE.len()),
            (b'`', _) => self.enter(Token::Template { escaped: false }),
            (b'/', Some(b'/')) => {
                self.enter(Token::LineComment);
                return Step::Consume(2);
            }
            (b'/', Some(b'*')) => {
                self.enter(Token::BlockComment);
                return Step::Consume(2);
            }
            (b'/', _) if self.previous != Previous::Value => {
                self.enter(Token::Regex { in_class: false, escaped: false });
            }
            (b'+', Some(b'+')) | (b'-', Some(b'-')) => {
                self.previous = Previous::Value;
                return Step::Consume(2);
            }
            // A postfix `!` of TypeScript leaves a value; `!=` is settled by its `=`.
            (b'!', _) if self.previous == Previous::Value => {}
            (b'(' | b'[' | b'{', _) => {
                self.brackets.open(match byte {
                    b'(' => Bracket::Paren { control: self.previous == Previous::Control },
                    b'[' => Bracket::Square,
                    _ => Bracket::Curly,
                });
                self.previous = Previous::Operator;
            }
            (b')' | b']', _) => {
                let statement_follows = self.brackets.close(byte) == Some(Bracket::Paren { control: true });
                self.previous = if statement_follows { Previous::Operator } else { Previous::Value };
            }
            (b'}', _) => {
                self.previous = Previous::Operator;
                if self.brackets.close_curly() == Some(Bracket::Substitution) {
                    self.enter(Token::Template { escaped: false });
                }
            }
            _ => self.previous = Previous::Operator,
        }
        Step::Consume(1)
    }

    fn word(&mut self, word: &[u8]) {
        self.previous = if self.after_dot {
            Previous::Value
        } else if CONTROL_WORDS.contains(&word) {
            Previous::Control
        } else if OPERATOR_WORDS.contains(&word) {
            Previous::Operator
        } else {
            Previous::Value
        };
        self.after_dot = false;
    }

    fn enter(&mut self, token: Token) {
        self.token = token;
        self.close_in_token = false;
    }

    fn leave(&mut self) {
        self.enter(Token::Code);
    }

    fn leave_value(&mut self) {
        self.leave();
        self.previous = Previous::Value;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bracket {
    Paren {
        control: bool,
    },
    Square,
    Curly,
    /// `${` of a template.
    Substitution,
}

/// The brackets that are open. What does not match is noted and gone past.
#[derive(Debug, Default)]
struct Brackets {
    open: Vec<Bracket>,
    /// How many of `open` a `}` closes.
    curly: usize,
    mismatched: bool,
}

impl Brackets {
    fn balanced(&self) -> bool {
        self.open.is_empty() && !self.mismatched
    }

    fn open(&mut self, bracket: Bracket) {
        self.open.push(bracket);
        self.curly += usize::from(matches!(bracket, Bracket::Curly | Bracket::Substitution));
    }

    /// Closes with `)` or `]`.
    fn close(&mut self, byte: u8) -> Option<Bracket> {
        let closed = self.open.pop_if(|top| match top {
            Bracket::Paren { .. } => byte == b')',
            Bracket::Square => byte == b']',
            Bracket::Curly | Bracket::Substitution => false,
        });
        self.mismatched |= closed.is_none();
        closed
    }

    /// Closes with `}`, which also ends whatever was left open inside.
    fn close_curly(&mut self) -> Option<Bracket> {
        if self.curly == 0 {
            self.mismatched = true;
            return None;
        }
        self.curly -= 1;
        while let Some(top) = self.open.pop() {
            if matches!(top, Bracket::Curly | Bracket::Substitution) {
                return Some(top);
            }
            self.mismatched = true;
        }
        None
    }
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}
