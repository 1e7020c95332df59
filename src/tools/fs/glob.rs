//! `fs.glob`, and the patterns that `fs.search` takes.

use std::{collections::BTreeSet, ops::ControlFlow, path::Path};

use axon_capsule::Datum;
use cap_std::fs::Metadata;

use super::{
    super::{
        args::{Args, expected},
        fault::Failure,
        limits::LIST_LIMIT,
        table::Context,
    },
    pattern::Pattern,
    walk::{Skip, Walk, spell},
};
use crate::policy::{Guard, Place, Refusal, Target};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
    Any,
}

pub(in crate::tools) fn glob(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let patterns = match args.take(0) {
        Datum::String(pattern) => vec![pattern],
        Datum::Array(items) => items.into_iter().map(as_pattern).collect::<Result<_, _>>()?,
        other => return Err(expected("pattern", "a string or an array of strings", &other, "")),
    };
    let mut options = args.options(1, &["path", "kind", "hidden", "ignored", "limit"])?;
    let path = options.string("path")?;
    let kind = options.word("kind", &[("file", Kind::File), ("directory", Kind::Folder), ("any", Kind::Any)])?;
    let skip = Skip { hidden: !options.flag("hidden")?, ignored: !options.flag("ignored")? };
    let limit = options.limited("limit", LIST_LIMIT)?;

    let guard = Guard::new(context.policy);
    if let Some(path) = &path {
        // A folder that was named has to be there; the folders of a pattern need not.
        guard.starts(path)?;
    }
    let mut paths = BTreeSet::new();
    'patterns: for pattern in patterns {
        let pattern = Pattern::parse(&pattern)?;
        let base = pattern.base(path.as_deref());
        let skip = Skip { hidden: skip.hidden && !pattern.names_hidden(), ..skip };
        for place in starts(&guard, &base)? {
            let mut add = |below: &Path, metadata: &Metadata| {
                let prefix = place.spelled.strip_prefix(context.policy.absolute(&base)).unwrap_or(Path::new(""));
                let fits = match kind {
                    Kind::File => metadata.is_file(),
                    Kind::Folder => metadata.is_dir(),
                    Kind::Any => true,
                };
                if fits && pattern.matches(&prefix.join(below)) {
                    paths.insert(spell(&guard, &place.spelled, below));
                }
                if paths.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            };
            let flow = match &place.target {
                Target::Folder { folder, .. } => {
                    let walk = Walk { guard: &guard, stop: context.stop, skip, depth: pattern.depth() };
                    walk.run(folder, &place.real, &mut |found| Ok(add(found.below, found.metadata)))?
                }
                Target::Entry { metadata, .. } => add(Path::new(""), metadata),
                Target::Missing { .. } => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                break 'patterns;
            }
        }
    }
    Ok(Datum::Array(paths.into_iter().map(Datum::String).collect()))
}

/// Where a pattern starts; nowhere if its folders do not exist.
fn starts(guard: &Guard<'_>, base: &Path) -> Result<Vec<Place>, Failure> {
    match guard.starts(&base.to_string_lossy()) {
        Err(Refusal::NotFound { .. } | Refusal::NotAFolder(_)) => Ok(Vec::new()),
        found => Ok(found?),
    }
}

fn as_pattern(item: Datum) -> Result<String, Failure> {
    match item {
        Datum::String(pattern) => Ok(pattern),
        other => Err(expected("pattern", "a string or an array of strings", &other, "")),
    }
}
