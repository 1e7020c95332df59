//! `fs.edit`.

use axon_capsule::Datum;

use super::{
    super::{
        args::{Args, Options, expected, quote, wrong},
        fault::{Failure, FaultKind},
        limits::{MAX_READ_BYTES, MAX_WRITE_BYTES},
        table::Context,
    },
    file::{object, open_to_read, read_range, replace, write_all},
    write::Spot,
};
use crate::policy::{Access, Guard};

struct Edit {
    find: String,
    replace: String,
    all: bool,
}

pub(in crate::tools) fn edit(context: &Context, args: Args) -> Result<Datum, Failure> {
    let _turn = context.turn()?;
    let Edited { path, new, replacements, .. } = edited(context, args)?;
    let spot = Spot::of(Guard::new(context.policy).locate(Access::Write, &path)?, false)?;
    replace(&spot.folder, &spot.name, spot.old.as_ref(), context.stop, |file| {
        write_all(file, new.as_bytes(), context.stop)
    })?;
    Ok(object([("replacements", Datum::Number(replacements as f64))]))
}

/// A file before and after the edits of a call.
pub(super) struct Edited {
    pub path: String,
    pub old: String,
    pub new: String,
    pub replacements: usize,
}

/// What the edits of a call come to; nothing is changed.
pub(super) fn edited(context: &Context, mut args: Args) -> Result<Edited, Failure> {
    let path = args.string(0, "path")?;
    let edits = match args.take(1) {
        Datum::Array(items) => items.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?,
        one @ Datum::Object(_) => vec![parse(one)?],
        other => return Err(expected("edits", "{ find, replace } or an array of them", &other, "")),
    };
    let guard = Guard::new(context.policy);
    let (mut file, metadata) = open_to_read(&guard, &guard.locate(Access::Read, &path)?)?;
    if metadata.len() > MAX_READ_BYTES {
        let detail = format!("{} bytes are more than the {MAX_READ_BYTES} that can be edited", metadata.len());
        return Err(FaultKind::TooLarge.because(detail).into());
    }
    let bytes = read_range(&mut file, 0, MAX_READ_BYTES, context.stop)?;
    let old = String::from_utf8(bytes).map_err(|_| FaultKind::NotText.because("is not UTF-8 text"))?;
    let (new, replacements) = apply(old.clone(), &edits)?;
    Ok(Edited { path, old, new, replacements })
}

fn parse(value: Datum) -> Result<Edit, Failure> {
    let mut fields = Options::new(value, "an edit", &["find", "replace", "all"])?;
    let edit = Edit {
        find: fields.required_string("find")?,
        replace: fields.required_string("replace")?,
        all: fields.flag("all")?,
    };
    if edit.find.is_empty() { Err(wrong("find must not be empty")) } else { Ok(edit) }
}

fn apply(mut text: String, edits: &[Edit]) -> Result<(String, usize), Failure> {
    let mut replacements = 0;
    for (index, edit) in edits.iter().enumerate() {
        let count = text.matches(&edit.find).count();
        let which = if edits.len() == 1 { String::new() } else { format!("edit {} of {}: ", index + 1, edits.len()) };
        match count {
            0 => return Err(absent(&text, &edit.find, &which)),
            2.. if !edit.all => {
                let lines = line_numbers(&text, &edit.find).take(5).map(|line| line.to_string()).collect::<Vec<_>>();
                let detail = format!(
                    "{which}{} occurs {count} times (lines {}…): add text around it to name one, or pass all: true; \
                     nothing was changed",
                    quote(&edit.find, 60),
                    lines.join(", ")
                );
                return Err(FaultKind::NoMatch.because(detail).into());
            }
            _ => {}
        }
        let grown = (text.len() + count * edit.replace.len()).saturating_sub(count * edit.find.len());
        if grown > MAX_WRITE_BYTES {
            let detail = format!("{which}the file would have {grown} bytes, more than {MAX_WRITE_BYTES}");
            return Err(FaultKind::TooLarge.because(detail).into());
        }
        text = text.replace(&edit.find, &edit.replace);
        replacements += count;
    }
    Ok((text, replacements))
}

fn line_numbers<'a>(text: &'a str, find: &'a str) -> impl Iterator<Item = usize> + 'a {
    text.match_indices(find).map(|(at, _)| 1 + text[..at].matches('\n').count())
}

/// Why text was not found, as far as it can be told.
fn absent(text: &str, find: &str, which: &str) -> Failure {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = squeeze(find.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
    let alike = text.lines().enumerate().find(|(_, line)| !first.is_empty() && squeeze(line).contains(&first));
    let hint = match alike {
        Some((index, line)) => {
            format!(" (line {} differs from its first line in spaces at most: {})", index + 1, quote(line, 80))
        }
        None => " (fs.search finds text, fs.readLines shows it as it is)".into(),
    };
    let detail = format!("{which}{} does not occur{hint}; nothing was changed", quote(find, 60));
    FaultKind::NoMatch.because(detail).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(find: &str, replace: &str, all: bool) -> Edit {
        Edit { find: find.into(), replace: replace.into(), all }
    }

    fn detail(result: Result<(String, usize), Failure>) -> String {
        match result {
            Err(Failure::Fault(fault)) => fault.detail,
            other => panic!("no fault: {other:?}"),
        }
    }

    #[test]
    fn later_edits_see_what_earlier_ones_made() {
        let (text, count) = apply("a b".into(), &[edit("a", "c", false), edit("c b", "d", false)]).unwrap();
        assert_eq!((text.as_str(), count), ("d", 2));
    }

    #[test]
    fn text_that_occurs_more_than_once_has_to_be_named_or_all_replaced() {
        let detail = detail(apply("x\nx\n".into(), &[edit("x", "y", false)]));
        assert!(detail.contains("2 times (lines 1, 2"), "{detail}");
        assert_eq!(apply("x\nx\n".into(), &[edit("x", "y", true)]).unwrap().0, "y\ny\n");
    }

    #[test]
    fn text_that_differs_in_spaces_is_pointed_at() {
        let detail = detail(apply("a\n    let x = 1;\n".into(), &[edit("\tlet x = 1;", "", false)]));
        assert!(detail.contains("line 2 differs"), "{detail}");
    }
}
