//! `fs.list`.

use std::ops::ControlFlow;

use axon_capsule::Datum;

use super::{
    super::{
        args::Args,
        fault::{Failure, FaultKind},
        limits::{LIST_LIMIT, Limit, MAX_DEPTH},
        table::Context,
    },
    file::{kind, object, size},
    walk::{Skip, Walk, spell},
};
use crate::policy::{Access, Guard, Target};

const DEPTH: Limit = Limit { default: 1, max: MAX_DEPTH };

pub(in crate::tools) fn list(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.optional_string(0, "path")?.unwrap_or_else(|| ".".into());
    let mut options = args.options(1, &["depth", "limit"])?;
    let depth = options.limited("depth", DEPTH)?;
    let limit = options.limited("limit", LIST_LIMIT)?;
    let guard = Guard::new(context.policy);
    let place = guard.locate(Access::Read, &path)?;
    let Target::Folder { folder, .. } = &place.target else {
        return Err(FaultKind::NotAFolder
            .because("is not a folder: fs.read reads a file, fs.stat tells what it is")
            .into());
    };
    let skip = Skip { hidden: false, ignored: false };
    let walk = Walk { guard: &guard, stop: context.stop, skip, depth };
    let mut entries = Vec::new();
    let _ = walk.run(folder, &place.real, &mut |found| {
        entries.push(object([
            ("name", Datum::String(found.name.to_string_lossy().into_owned())),
            ("path", Datum::String(spell(&guard, &place.spelled, found.below))),
            ("kind", Datum::String(kind(found.metadata).into())),
            ("size", size(found.metadata)),
        ]));
        Ok(if entries.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(Datum::Array(entries))
}
