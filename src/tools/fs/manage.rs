//! `fs.stat`, `fs.mkdir`, `fs.move`, `fs.copy`, `fs.remove`.

use std::{
    ffi::OsString,
    io,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use axon_capsule::Datum;
use cap_std::fs::Dir;

use super::{
    super::{
        args::Args,
        fault::{Failure, FaultKind},
        limits::MAX_DEPTH,
        stop::Stop,
        table::Context,
    },
    file::{is_a_folder, kind, make_folders, object, open_to_read, replace, size},
    write::Spot,
};
use crate::policy::{Access, Guard, Last, Place, Target, open_folder};

pub(in crate::tools) fn stat(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.string(0, "path")?;
    let guard = Guard::new(context.policy);
    let place = guard.locate(Access::Read, &path)?;
    let metadata = match &place.target {
        Target::Folder { folder, .. } => folder.dir_metadata()?,
        Target::Entry { metadata, .. } => metadata.clone(),
        Target::Missing { .. } => return Err(FaultKind::NotFound.because("it does not exist").into()),
    };
    Ok(object([
        ("path", Datum::String(guard.policy().display(&place.spelled))),
        ("kind", Datum::String(kind(&metadata).into())),
        ("size", size(&metadata)),
        ("modified", Datum::Date(metadata.modified().map_or(f64::NAN, |time| milliseconds(time.into_std())))),
        ("readonly", Datum::Bool(metadata.permissions().readonly())),
    ]))
}

/// Milliseconds since the Unix epoch; negative before it.
fn milliseconds(time: SystemTime) -> f64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_millis() as f64,
        Err(before) => -(before.duration().as_millis() as f64),
    }
}

pub(in crate::tools) fn mkdir(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.string(0, "path")?;
    let _turn = context.turn()?;
    let guard = Guard::new(context.policy);
    match guard.locate(Access::Write, &path)?.target {
        Target::Folder { .. } => {}
        Target::Missing { folder, names } => {
            make_folders(folder, &names)?;
        }
        Target::Entry { .. } => return Err(FaultKind::AlreadyExists.because("a file has that name").into()),
    }
    Ok(Datum::Undefined)
}

pub(in crate::tools) fn copy(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let (from, to) = (args.string(0, "from")?, args.string(1, "to")?);
    let overwrite = args.options(2, &["overwrite"])?.flag("overwrite")?;
    let _turn = context.turn()?;
    let guard = Guard::new(context.policy);
    let source = guard.locate(Access::Read, &from)?;
    if matches!(source.target, Target::Folder { .. }) {
        return Err(is_a_folder("fs.copy copies files; fs.glob lists them").into());
    }
    let (mut source, _) = open_to_read(&guard, &source)?;
    let spot = Spot::of(guard.locate(Access::Write, &to)?, to.ends_with('/'))?;
    free(&spot, overwrite, &to)?;
    replace(&spot.folder, &spot.name, spot.old.as_ref(), context.stop, |file| {
        let mut source = Stoppable { inner: &mut source, stop: context.stop };
        let copied = io::copy(&mut source, file);
        context.stop.check()?;
        copied?;
        Ok(())
    })?;
    Ok(Datum::Undefined)
}

/// Ends a long copy when the call was stopped.
struct Stoppable<'a, R> {
    inner: &'a mut R,
    stop: &'a Stop,
}

impl<R: io::Read> io::Read for Stoppable<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.check() {
            Ok(()) => self.inner.read(buffer),
            Err(_) => Err(io::Error::other("stopped")),
        }
    }
}

pub(in crate::tools) fn rename(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let (from, to) = (args.string(0, "from")?, args.string(1, "to")?);
    let overwrite = args.options(2, &["overwrite"])?.flag("overwrite")?;
    let _turn = context.turn()?;
    let guard = Guard::new(context.policy);
    // What is moved can be read where it comes to lie, so it has to be readable where it is.
    guard.locate_last(Access::Read, &from, Last::Itself)?;
    let source = guard.locate_last(Access::Write, &from, Last::Itself)?;
    let (folder, name) = removable(&guard, &source)?;
    let is_folder = matches!(source.target, Target::Folder { .. });
    let target = guard.locate(Access::Write, &to)?;
    if is_folder && target.real.starts_with(&source.real) {
        return Err(FaultKind::InvalidPath.because(format!("a folder cannot be moved into itself ({to})")).into());
    }
    let spot = match target.target {
        Target::Folder { .. } => {
            let detail = format!("{to} is a folder: name the new path in full, \"{}/…\"", to.trim_end_matches('/'));
            return Err(FaultKind::AlreadyExists.because(detail).into());
        }
        _ => Spot::of(target, to.ends_with('/') && !is_folder)?,
    };
    free(&spot, overwrite && !is_folder, &to)?;
    context.stop.check()?;
    folder.rename(&name, &spot.folder, &spot.name).map_err(|error| match error.kind() {
        io::ErrorKind::CrossesDevices => {
            FaultKind::Io.because(format!("{to} is on another file system: fs.copy, then fs.remove")).into()
        }
        _ => Failure::from(error),
    })?;
    Ok(Datum::Undefined)
}

fn free(spot: &Spot, overwrite: bool, to: &str) -> Result<(), Failure> {
    if spot.old.is_none() || overwrite {
        return Ok(());
    }
    Err(FaultKind::AlreadyExists.because(format!("{to} exists already; {{ overwrite: true }} replaces a file")).into())
}

pub(in crate::tools) fn remove(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.string(0, "path")?;
    let recursive = args.options(1, &["recursive"])?.flag("recursive")?;
    let _turn = context.turn()?;
    let guard = Guard::new(context.policy);
    let place = guard.locate_last(Access::Write, &path, Last::Itself)?;
    let (parent, name) = removable(&guard, &place)?;
    match &place.target {
        Target::Folder { folder, .. } if recursive => {
            empty(&guard, folder, &place.real, context.stop, 1)?;
            parent.remove_dir(&name)?;
        }
        Target::Folder { .. } => parent.remove_dir(&name).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty => FaultKind::IsAFolder
                .because("is a folder with something in it; { recursive: true } removes it all")
                .into(),
            _ => Failure::from(error),
        })?,
        _ => parent.remove_file(&name)?,
    }
    Ok(Datum::Undefined)
}

/// The folder and the name by which a place can be taken away.
fn removable(guard: &Guard<'_>, place: &Place) -> Result<(Dir, OsString), Failure> {
    match &place.target {
        Target::Entry { folder, name, .. } => Ok((folder.try_clone()?, name.clone())),
        Target::Missing { .. } => {
            let path = guard.policy().display(&place.spelled);
            Err(FaultKind::NotFound.because(format!("{path} does not exist")).into())
        }
        Target::Folder { parent, .. } => {
            guard.check_removable(&place.real)?;
            match parent {
                Some((parent, name)) => Ok((parent.try_clone()?, name.clone())),
                None => {
                    Err(FaultKind::InvalidPath.because("a root cannot be moved or removed, only what is in it").into())
                }
            }
        }
    }
}

/// Removes all that is in a folder.
fn empty(guard: &Guard<'_>, folder: &Dir, real: &Path, stop: &Stop, depth: usize) -> Result<(), Failure> {
    if depth > MAX_DEPTH {
        return Err(FaultKind::TooLarge.because(format!("folders lie more than {MAX_DEPTH} deep")).into());
    }
    for entry in folder.entries()? {
        stop.check()?;
        let name = entry?.file_name();
        let real = real.join(&name);
        let metadata = folder.symlink_metadata(&name)?;
        guard.check(Access::Write, &real, Some(&metadata))?;
        if metadata.is_dir() {
            empty(guard, &open_folder(folder, &name)?, &real, stop, depth + 1)?;
            folder.remove_dir(&name)?;
        } else {
            folder.remove_file(&name)?;
        }
    }
    Ok(())
}
