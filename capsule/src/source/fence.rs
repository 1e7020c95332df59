//! Models often wrap a block in a Markdown fence.

use std::borrow::Cow;

/// Blanks out a fence around the whole source. Lines stay where they were.
pub fn without_fence(source: &str) -> Cow<'_, str> {
    match inner_range(source) {
        None => Cow::Borrowed(source),
        Some(inner) => {
            let lines_before = source[..inner.start].matches('\n').count();
            Cow::Owned("\n".repeat(lines_before) + &source[inner])
        }
    }
}

/// The bytes between the line of the opening fence and the closing one. A fence that was never closed, because the
/// model's answer was cut there, counts to the end.
fn inner_range(source: &str) -> Option<std::ops::Range<usize>> {
    let opening_at = source.len() - source.trim_start().len();
    let opening = source[opening_at..].lines().next()?;
    let mark = ["```", "~~~"].into_iter().find(|mark| opening.starts_with(mark))?;
    let info = opening.trim_start_matches(&mark[..1]);
    if !info.trim().chars().all(|c| c.is_ascii_alphanumeric() || "-_+. {}=\"".contains(c)) {
        return None;
    }
    let start = opening_at + opening.len() + source[opening_at + opening.len()..].find('\n')? + 1;
    let text = source.trim_end();
    let closing_at = text.rfind('\n').map_or(0, |at| at + 1);
    let closing = text[closing_at..].trim();
    let closed = closing_at >= start && closing.starts_with(mark) && closing.trim_start_matches(&mark[..1]).is_empty();
    Some(start..if closed { closing_at } else { source.len() })
}

#[cfg(test)]
mod tests {
    use super::without_fence;

    #[test]
    fn a_fence_is_dropped_and_lines_stay() {
        assert_eq!(without_fence("```ts\n1 + 1\n```"), "\n1 + 1\n");
        assert_eq!(without_fence("\n  ```typescript\nlet a = 1\na\n```\n\n"), "\n\nlet a = 1\na\n");
        assert_eq!(without_fence("~~~~\nx\n~~~~"), "\nx\n");
    }

    #[test]
    fn a_fence_without_end_counts_to_the_end() {
        assert_eq!(without_fence("```js\n1"), "\n1");
    }

    #[test]
    fn what_is_no_fence_stays() {
        for source in ["`a`", "```a${1}```", "1 + 1", "", "```"] {
            assert_eq!(without_fence(source), source);
        }
    }
}
