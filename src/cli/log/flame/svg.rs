//! Spans as SVG: one picture for each wake, one below the other.

use std::fmt::Write as _;

use super::spans::{Class, End, Span, Wake};

/// Sizes in pixels.
const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
const TITLE_HEIGHT: f64 = 26.0;
const AXIS_HEIGHT: f64 = 18.0;
const ROW_HEIGHT: f64 = 18.0;
/// What took next to no time is still seen.
const MIN_WIDTH: f64 = 0.5;
/// The width of a letter of the font, at most.
const LETTER_WIDTH: f64 = 6.7;
/// Steps of the time axis, at most.
const MAX_STEPS: u64 = 10;

const STYLE: &str = "\
text{font:11px ui-monospace,monospace;fill:#1f2328;pointer-events:none}\
.title{font-weight:bold;font-size:13px}\
.axis{fill:#8a9099}\
line{stroke:#e3e6ea}\
rect{stroke:#fff;stroke-width:.5}\
g:hover>rect{opacity:.75}\
.failed{stroke:#c62828;stroke-width:2}\
.unfinished{stroke:#8a9099;stroke-width:1.5;stroke-dasharray:3 2}";

pub(super) fn draw(wakes: &[Wake]) -> String {
    let mut body = String::new();
    let mut top = MARGIN;
    for wake in wakes {
        top += draw_wake(wake, top, &mut body) + MARGIN;
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" viewBox=\"0 0 {WIDTH} {top}\">\n\
         <style>{STYLE}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{body}</svg>\n"
    )
}

/// Draws one wake from `top` down. Returns its height.
fn draw_wake(wake: &Wake, top: f64, body: &mut String) -> f64 {
    let spans = &wake.spans;
    let start = spans[0].start;
    let stop = spans.iter().map(|span| span.stop).max().unwrap_or(start).max(start + 1);
    let scale = (WIDTH - 2.0 * MARGIN) / (stop - start) as f64;
    let x = |at: u64| MARGIN + (at.saturating_sub(start)) as f64 * scale;

    let (rows, height) = layout(spans);
    let bars_top = top + TITLE_HEIGHT + AXIS_HEIGHT;
    let bottom = bars_top + height as f64 * ROW_HEIGHT;

    let title = format!("wake {} · {}", wake.run, duration(stop - start));
    write(
        body,
        format_args!("<text class=\"title\" x=\"{MARGIN}\" y=\"{:.1}\">{}</text>\n", top + 16.0, escaped(&title)),
    );
    let step = axis_step(stop - start);
    for at in (0..=stop - start).step_by(step as usize) {
        let (x, y) = (x(start + at), top + TITLE_HEIGHT + 11.0);
        write(
            body,
            format_args!(
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\"/>\
                 <text class=\"axis\" x=\"{:.1}\" y=\"{y:.1}\">{}</text>\n",
                y + 3.0,
                x + 2.0,
                duration(at)
            ),
        );
    }
    for (span, row) in spans.iter().zip(&rows) {
        let y = bars_top + *row as f64 * ROW_HEIGHT;
        draw_span(span, x(span.start), (x(span.stop) - x(span.start)).max(MIN_WIDTH), y, body);
    }
    bottom - top
}

fn draw_span(span: &Span, x: f64, width: f64, y: f64, body: &mut String) {
    let (class, note) = match span.end {
        End::Complete => ("", ""),
        End::Failed => (" class=\"failed\"", ", failed"),
        End::Interrupted => (" class=\"failed\"", ", interrupted"),
        End::Unfinished => (" class=\"unfinished\"", ", unfinished"),
    };
    let name = escaped(&span.name);
    write(
        body,
        format_args!(
            "<g><title>{name}: {}{note}</title><rect{class} x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{:.1}\" fill=\"{}\"/>",
            duration(span.stop - span.start),
            ROW_HEIGHT - 1.0,
            colour(span.class)
        ),
    );
    let letters = ((width - 6.0) / LETTER_WIDTH) as usize;
    if letters >= 3 {
        let mut label: String = span.name.chars().take(letters).collect();
        if span.name.chars().count() > letters {
            label.pop();
            label.push('…');
        }
        write(body, format_args!("<text x=\"{:.1}\" y=\"{:.1}\">{}</text>", x + 3.0, y + 12.5, escaped(&label)));
    }
    body.push_str("</g>\n");
}

/// The row of each span, and how many rows there are. Children lie below their parent; those that overlap in time go
/// below each other.
fn layout(spans: &[Span]) -> (Vec<usize>, usize) {
    // Of a span and all within it: how many rows it takes, and when the last of it stops.
    let mut heights = vec![1; spans.len()];
    let mut stops: Vec<u64> = spans.iter().map(|span| span.stop).collect();
    // Below the parent.
    let mut offsets = vec![0; spans.len()];
    // Children come after their parents.
    for (position, span) in spans.iter().enumerate().rev() {
        // Until when each row is taken.
        let mut taken: Vec<u64> = Vec::new();
        for &child in &span.children {
            let height = heights[child];
            let is_free = |at: &usize| taken.iter().skip(*at).take(height).all(|&until| until <= spans[child].start);
            let offset = (0..taken.len()).find(is_free).unwrap_or(taken.len());
            taken.resize(taken.len().max(offset + height), 0);
            taken[offset..offset + height].fill(stops[child]);
            offsets[child] = offset + 1;
            stops[position] = stops[position].max(stops[child]);
        }
        heights[position] += taken.len();
    }
    let mut rows = vec![0; spans.len()];
    for (position, span) in spans.iter().enumerate() {
        for &child in &span.children {
            rows[child] = rows[position] + offsets[child];
        }
    }
    (rows, heights[0])
}

fn colour(class: Class) -> &'static str {
    match class {
        Class::Wake => "#cfd8e3",
        Class::Tick => "#b3c6e7",
        Class::Phase => "#f6d58a",
        Class::System => "#f3e3b3",
        Class::Engine => "#c9b4e8",
        Class::Block => "#9fd3a8",
        Class::Tool => "#f2a97e",
        Class::Capsule => "#a8d8d8",
    }
}

/// A round step, in microseconds, of which few fit into the time.
fn axis_step(micros: u64) -> u64 {
    let mut step = 1;
    loop {
        for factor in [1, 2, 5] {
            if micros / (step * factor) < MAX_STEPS {
                return step * factor;
            }
        }
        step *= 10;
    }
}

fn duration(micros: u64) -> String {
    match micros {
        0 => "0".to_owned(),
        1..1_000 => format!("{micros} µs"),
        1_000..1_000_000 => format!("{} ms", micros as f64 / 1_000.0),
        _ => format!("{:.2} s", micros as f64 / 1_000_000.0),
    }
}

/// Text for XML, which has no place for control characters.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

fn write(body: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = body.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, stop: u64, children: &[usize]) -> Span {
        let (class, name, end) = (Class::Block, "a<b".to_owned(), End::Complete);
        Span { class, name, start, stop, end, children: children.to_vec() }
    }

    #[test]
    fn what_overlaps_in_time_never_overlaps_in_the_picture() {
        let spans = [
            span(0, 100, &[1, 3, 4, 5]),
            span(0, 50, &[2]),
            span(10, 20, &[]),
            span(5, 60, &[]),
            span(50, 90, &[]),
            span(60, 70, &[]),
        ];
        assert_eq!(layout(&spans), (vec![0, 1, 2, 3, 1, 2], 4));
    }

    #[test]
    fn names_are_text_and_not_markup() {
        let picture = draw(&[Wake { run: "r\"\u{1}".into(), spans: vec![span(0, 5, &[])] }]);
        assert!(picture.contains("wake r&quot;\u{fffd} · 5 µs") && picture.contains("a&lt;b: 5 µs"));
    }

    #[test]
    fn an_axis_has_few_round_steps() {
        assert_eq!((axis_step(1), axis_step(198_000), axis_step(0)), (1, 20_000, 1));
        for micros in [9, 10, 99, 1_234, 5_000_000, u64::from(u32::MAX)] {
            assert!(micros / axis_step(micros) < MAX_STEPS);
        }
    }
}
