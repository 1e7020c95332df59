//! What a change of a file would do, for the person who is asked.

use std::path::Path;

use axon_capsule::Datum;
use similar::TextDiff;

use super::{
    super::{args::Args, fault::Failure, limits::MAX_READ_BYTES, table::Context},
    edit,
    file::{open_to_read, read_range},
};
use crate::policy::{Access, Guard, Target};

/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// The difference that `fs.write` or `fs.edit` would make; `None` for other calls, and for those that will fail.
pub(in crate::tools) fn diff(function: &str, context: &Context, args: Vec<Datum>) -> Option<String> {
    let args = Args::new(args, 3).ok()?;
    let (path, old, new) = match function {
        "write" => written(context, args).ok()?,
        "edit" => edit::edited(context, args).ok().map(|edited| (edited.path, edited.old.into(), edited.new.into()))?,
        _ => return None,
    };
    let (Ok(old), Ok(new)) = (std::str::from_utf8(&old), std::str::from_utf8(&new)) else {
        return Some(format!("{path}: {} bytes become {} bytes that are not text", old.len(), new.len()));
    };
    let difference = TextDiff::from_lines(old, new);
    let text = difference.unified_diff().context_radius(CONTEXT_LINES).header(&path, &path).to_string();
    Some(if text.is_empty() { format!("{path}: no change") } else { text })
}

/// The path, what the file holds and what it would hold.
fn written(context: &Context, mut args: Args) -> Result<(String, Vec<u8>, Vec<u8>), Failure> {
    let path = args.string(0, "path")?;
    let content = args.content(1, "content")?;
    let appends = args.options(2, &["mode"])?.string("mode")?.as_deref() == Some("append");
    let guard = Guard::new(context.policy);
    let place = guard.locate(Access::Write, &path)?;
    let shown = context.policy.display(Path::new(&place.real));
    let old = match place.target {
        Target::Missing { .. } => Vec::new(),
        _ => read_range(&mut open_to_read(&guard, &place)?.0, 0, MAX_READ_BYTES, context.stop)?,
    };
    let new = if appends { [old.as_slice(), &content].concat() } else { content };
    Ok((shown, old, new))
}
