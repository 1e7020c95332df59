//! How deep a source nests, found without recursion before a recursive parser sees it.

/// Deeper sources are refused.
pub const MAX_NESTING: usize = 2_000;

/// Stack that one level of nesting costs the parser, the transforms and the printer at most. Unoptimised builds have
/// larger frames.
const STACK_BYTES_PER_LEVEL: usize = if cfg!(debug_assertions) { 32 << 10 } else { 6 << 10 };

/// What is needed whatever the source is.
const STACK_BYTES_BASE: usize = 1 << 20;

/// The stack that erasing a source of this nesting takes at most, in bytes.
pub fn stack_bytes(nesting: usize) -> usize {
    STACK_BYTES_BASE + nesting * STACK_BYTES_PER_LEVEL
}

/// An upper bound of how deep the syntax tree of `source` is.
///
/// Counts open brackets and, within each pair of them, the operators and words since the last `;` or `,`: those are
/// what can nest without a bracket (`!!!!x`, `a + b + c`, `x => y => z`, `if (a) if (b)`, `a.b().c()`). A line break ends
/// such a chain only where no operator touches it. Text in strings and comments is skipped; a regular expression
/// is read as operators, which errs to the safe side.
pub fn nesting(source: &str) -> usize {
    let bytes = source.as_bytes();
    let mut chains: Vec<usize> = vec![0];
    // Sum of `chains`, kept up to date.
    let mut depth = 0_usize;
    let mut deepest = 0;
    // Brackets opened by `${`, so that `}` leads back into the template.
    let mut templates: Vec<usize> = Vec::new();
    let mut at = 0;
    let mut after_operator = true;
    while let Some(&byte) = bytes.get(at) {
        let mut step = 1;
        match byte {
            b'"' | b'\'' => {
                step = quoted_len(&bytes[at..], byte);
                after_operator = false;
            }
            b'`' => {
                let (len, opens) = template_len(&bytes[at + 1..]);
                step = 1 + len;
                if opens {
                    templates.push(chains.len());
                    chains.push(1);
                    depth += 1;
                }
                after_operator = opens;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => step = line_len(&bytes[at..]),
            b'/' if bytes.get(at + 1) == Some(&b'*') => step = comment_len(&bytes[at..]),
            b'(' | b'[' | b'{' => {
                chains.push(1);
                depth += 1;
                after_operator = true;
            }
            b')' | b']' | b'}' => {
                if chains.len() > 1 {
                    depth -= chains.pop().unwrap_or(0);
                }
                after_operator = false;
                if byte == b'}' && templates.last() == Some(&chains.len()) {
                    let (len, opens) = template_len(&bytes[at + 1..]);
                    step = 1 + len;
                    if opens {
                        chains.push(1);
                        depth += 1;
                        after_operator = true;
                    } else {
                        templates.pop();
                    }
                } else {
                    extend_chain(&mut chains, &mut depth);
                }
            }
            b';' | b',' => {
                end_chain(&mut chains, &mut depth);
                after_operator = true;
            }
            b'\n' => {
                let next = bytes[at..].iter().find(|byte| !byte.is_ascii_whitespace());
                let continues = after_operator || next.is_some_and(|next| !starts_word(*next) && *next != b'}');
                let else_follows = source[at..].trim_start().starts_with("else");
                if !continues && !else_follows {
                    end_chain(&mut chains, &mut depth);
                }
            }
            _ if byte.is_ascii_whitespace() => {}
            _ if starts_word(byte) => {
                let word = bytes[at..].iter().take_while(|byte| starts_word(**byte) || byte.is_ascii_digit()).count();
                step = word.max(1);
                if !after_operator || is_nesting_word(&source[at..at + step]) {
                    extend_chain(&mut chains, &mut depth);
                }
                after_operator = is_nesting_word(&source[at..at + step]);
            }
            _ if byte.is_ascii_digit() => after_operator = false,
            _ => {
                extend_chain(&mut chains, &mut depth);
                after_operator = true;
            }
        }
        deepest = deepest.max(depth);
        at += step;
    }
    deepest
}

/// Words that stand before an operand, or join statements into one.
fn is_nesting_word(word: &str) -> bool {
    matches!(
        word,
        "await"
            | "case"
            | "delete"
            | "do"
            | "else"
            | "extends"
            | "for"
            | "if"
            | "in"
            | "instanceof"
            | "new"
            | "return"
            | "typeof"
            | "void"
            | "while"
            | "with"
            | "yield"
            | "keyof"
            | "as"
            | "satisfies"
    )
}

fn extend_chain(chains: &mut [usize], depth: &mut usize) {
    if let Some(chain) = chains.last_mut() {
        *chain += 1;
        *depth += 1;
    }
}

fn end_chain(chains: &mut [usize], depth: &mut usize) {
    let floor = usize::from(chains.len() > 1);
    if let Some(chain) = chains.last_mut() {
        *depth -= *chain - floor.min(*chain);
        *chain = floor.min(*chain);
    }
}

fn starts_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$' | b'#' | b'@') || byte >= 0x80
}

fn quoted_len(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Length of template text up to and with its end or its next `${`; whether it was the latter.
fn template_len(bytes: &[u8]) -> (usize, bool) {
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b'`' => return (at + 1, false),
            b'$' if bytes.get(at + 1) == Some(&b'{') => return (at + 2, true),
            _ => at += 1,
        }
    }
    (bytes.len(), false)
}

fn line_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len())
}

fn comment_len(bytes: &[u8]) -> usize {
    bytes.windows(2).skip(2).position(|pair| pair == b"*/").map_or(bytes.len(), |at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::nesting;

    #[test]
    fn nesting_grows_with_every_way_to_nest() {
        for unit in [
            "(", "[", "{", "!", "- ", "a+", "a.", "a=>", "a?b:", "new ", "await ", "if(1)", "f()(", "`${", "a**",
            "a=\n",
        ] {
            let deep = unit.repeat(10_000);
            assert!(nesting(&deep) >= 10_000, "{unit} × 10000 counts as {}", nesting(&deep));
        }
        assert!(nesting(&("if (a) {} else ".repeat(5_000) + "{}")) >= 5_000);
        assert!(nesting(&("if (a) {\n}\nelse ".repeat(5_000) + "{}")) >= 5_000);
    }

    #[test]
    fn long_flat_sources_count_as_shallow() {
        for line in [
            "const a = f(1, 2) + g(3);\n",
            "console.log(a, `x ${b} y`)\n",
            "foo.bar = 1\n",
            "// ((((((\n",
            "x = '((((';\n",
            "if (a) { b() } else { c() }\n",
        ] {
            let count = nesting(&line.repeat(5_000));
            assert!(count < 60, "{line:?} counts as {count}");
        }
        assert!(nesting(&format!("[{}]", "1,".repeat(100_000))) < 10);
        assert!(nesting(&format!("[{}]", "{a: [1], b: 'x'},\n".repeat(10_000))) < 10);
    }
}
