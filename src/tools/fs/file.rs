//! Regular files, opened without waiting for anybody.

use std::io::{Read, Seek, SeekFrom, Write};

use axon_capsule::Datum;
use cap_std::fs::{Dir, File, FileType, FileTypeExt, Metadata, MetadataExt, OpenOptions, Permissions, PermissionsExt};
use uuid::Uuid;

use super::super::{
    fault::{Failure, Fault, FaultKind},
    stop::Stop,
};
use crate::policy::{Access, Guard, Place, Target, open_file, open_folder};

const CHUNK_BYTES: usize = 256 << 10;

/// Opens what has to be a file that can be read.
pub(super) fn open_to_read(guard: &Guard<'_>, place: &Place) -> Result<(File, Metadata), Failure> {
    match &place.target {
        Target::Folder { .. } => Err(is_a_folder("fs.list lists it").into()),
        Target::Missing { .. } => Err(FaultKind::NotFound.because("it does not exist").into()),
        Target::Entry { folder, name, metadata } => {
            regular(metadata)?;
            let file = open_file(folder, name, OpenOptions::new().read(true))?;
            // What was opened counts, not what was looked at before.
            let metadata = file.metadata()?;
            regular(&metadata)?;
            guard.check(Access::Read, &place.real, Some(&metadata))?;
            Ok((file, metadata))
        }
    }
}

pub(super) fn is_a_folder(hint: &str) -> Fault {
    FaultKind::IsAFolder.because(format!("is a folder: {hint}"))
}

/// Refuses devices, FIFOs and sockets: reading one may wait forever, and opening one may do something.
pub(super) fn regular(metadata: &Metadata) -> Result<(), Fault> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(FaultKind::NotAFile.because(format!("is {}, not a file", special(metadata))))
    }
}

fn special(metadata: &Metadata) -> &'static str {
    let kind: FileType = metadata.file_type();
    match () {
        () if kind.is_dir() => "a folder",
        () if kind.is_symlink() => "a link",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () if kind.is_char_device() || kind.is_block_device() => "a device",
        () => "something special",
    }
}

/// Reads `length` bytes from `start`, or what there is of them.
pub(super) fn read_range(file: &mut File, start: u64, length: u64, stop: &Stop) -> Result<Vec<u8>, Failure> {
    if start > 0 {
        file.seek(SeekFrom::Start(start))?;
    }
    let mut out = Vec::new();
    let mut left = length;
    while left > 0 {
        stop.check()?;
        let step = left.min(CHUNK_BYTES as u64);
        let got = file.take(step).read_to_end(&mut out)?;
        if got == 0 {
            break;
        }
        left -= got as u64;
    }
    Ok(out)
}

/// Writes a file beside its name and moves it there: readers see the old content or the new. Returns before the
/// move when the call was stopped.
pub(super) fn replace(
    folder: &Dir,
    name: &std::ffi::OsStr,
    old: Option<&Metadata>,
    stop: &Stop,
    fill: impl FnOnce(&mut File) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let temporary = format!(".axon-{}.tmp", Uuid::new_v4().simple());
    let written = (|| {
        let mut file = open_file(folder, temporary.as_ref(), OpenOptions::new().write(true).create_new(true))?;
        fill(&mut file)?;
        if let Some(old) = old {
            // Without the bits that would let new content run as somebody else.
            file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
        }
        stop.check()?;
        Ok(folder.rename(&temporary, folder, name)?)
    })();
    if written.is_err() {
        // Nothing better can be done where even this fails; the first error is the one to tell.
        let _ = folder.remove_file(&temporary);
    }
    written
}

/// Writes in steps between which the call can be stopped.
pub(super) fn write_all(file: &mut File, content: &[u8], stop: &Stop) -> Result<(), Failure> {
    for chunk in content.chunks(CHUNK_BYTES) {
        stop.check()?;
        file.write_all(chunk)?;
    }
    Ok(())
}

/// Makes the folders of `names` below `folder`, each checked, and opens the last.
pub(super) fn make_folders(folder: Dir, names: &[std::ffi::OsString]) -> Result<Dir, Failure> {
    let mut folder = folder;
    for name in names {
        match folder.create_dir(name) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
        folder = open_folder(&folder, name)?;
    }
    Ok(folder)
}

pub(super) fn kind(metadata: &Metadata) -> &'static str {
    match () {
        () if metadata.is_file() => "file",
        () if metadata.is_dir() => "directory",
        () if metadata.is_symlink() => "symlink",
        () => "other",
    }
}

pub(super) fn size(metadata: &Metadata) -> Datum {
    Datum::Number(if metadata.is_file() { metadata.len() as f64 } else { 0.0 })
}

pub(super) fn object<const N: usize>(fields: [(&str, Datum); N]) -> Datum {
    Datum::Object(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
