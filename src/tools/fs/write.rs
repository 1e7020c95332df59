//! `fs.write`.

use std::ffi::OsString;

use axon_capsule::Datum;
use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::{
    super::{
        args::Args,
        fault::{Failure, FaultKind},
        limits::MAX_WRITE_BYTES,
        table::Context,
    },
    file::{is_a_folder, make_folders, regular, replace, write_all},
};
use crate::policy::{Access, Guard, Place, Target, open_file};

#[derive(Clone, Copy)]
enum Mode {
    Replace,
    Create,
    Append,
}

pub(in crate::tools) fn write(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.string(0, "path")?;
    let content = args.content(1, "content")?;
    let mut options = args.options(2, &["mode"])?;
    let modes = [("replace", Mode::Replace), ("create", Mode::Create), ("append", Mode::Append)];
    let mode = options.word("mode", &modes)?;
    if content.len() > MAX_WRITE_BYTES {
        let detail = format!("{} bytes are more than the {MAX_WRITE_BYTES} that one call writes", content.len());
        return Err(FaultKind::TooLarge.because(detail).into());
    }
    let _turn = context.turn()?;
    let guard = Guard::new(context.policy);
    let spot = Spot::of(guard.locate(Access::Write, &path)?, path.ends_with('/'))?;
    match (mode, &spot.old) {
        (Mode::Create, Some(_)) => Err(FaultKind::AlreadyExists.because("it exists already").into()),
        (Mode::Append, Some(_)) => append(&guard, &spot, &content, context),
        (Mode::Replace | Mode::Create | Mode::Append, _) => {
            replace(&spot.folder, &spot.name, spot.old.as_ref(), context.stop, |file| {
                write_all(file, &content, context.stop)
            })
        }
    }?;
    Ok(Datum::Undefined)
}

/// Where a file is or will be.
pub(super) struct Spot {
    pub folder: Dir,
    pub name: OsString,
    pub real: std::path::PathBuf,
    pub old: Option<Metadata>,
}

impl Spot {
    /// Makes the folders on the way.
    pub fn of(place: Place, names_a_folder: bool) -> Result<Self, Failure> {
        match place.target {
            Target::Folder { .. } => Err(is_a_folder("name a file in it").into()),
            Target::Entry { folder, name, metadata } => {
                regular(&metadata)?;
                if metadata.permissions().readonly() {
                    return Err(FaultKind::Io.because("the file is read-only").into());
                }
                Ok(Self { folder, name, real: place.real, old: Some(metadata) })
            }
            Target::Missing { .. } if names_a_folder => {
                Err(FaultKind::InvalidPath.because("the path ends with \"/\": fs.mkdir makes a folder").into())
            }
            Target::Missing { folder, mut names } => {
                let Some(name) = names.pop() else {
                    return Err(FaultKind::InvalidPath.because("the path names no file").into());
                };
                Ok(Self { folder: make_folders(folder, &names)?, name, real: place.real, old: None })
            }
        }
    }
}

fn append(guard: &Guard<'_>, spot: &Spot, content: &[u8], context: &Context) -> Result<(), Failure> {
    let mut file = open_file(&spot.folder, &spot.name, OpenOptions::new().append(true))?;
    // What was opened counts, not what was looked at before.
    let metadata = file.metadata()?;
    regular(&metadata)?;
    guard.check(Access::Write, &spot.real, Some(&metadata))?;
    write_all(&mut file, content, context.stop)
}
