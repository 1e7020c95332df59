//! Reading the user's files: regular files only, so that a FIFO or a device never holds the program up. Replacing our own.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read},
    path::Path,
};

use uuid::Uuid;

/// Opens a regular file for reading.
///
/// # Errors
/// As of the file system, and for anything that is no file.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    regular(OpenOptions::new().read(true), path)
}

/// Opens what `options` say, if it is a regular file.
pub(crate) fn regular(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        // Opening a FIFO would wait for its other end.
        let without_waiting = rustix::fs::OFlags::NONBLOCK.bits();
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, without_waiting.cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        return Ok(file);
    }
    let what = if metadata.is_dir() { "a folder" } else { "a pipe, a socket or a device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}; a regular file belongs there")))
}

/// Replaces a file as a whole: a reader sees the old content or the new. It survives the death of this process, and not always
/// that of the machine.
///
/// # Errors
/// As of the file system; the old content stands then.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", Uuid::new_v4()));
    let written = fs::write(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // The first failure is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The text of a regular file.
///
/// # Errors
/// As [`open_regular`], and for a file that is not UTF-8.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_regular(path)?.read_to_string(&mut text).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => io::Error::new(error.kind(), "it is not UTF-8; save it as UTF-8"),
        _ => error,
    })?;
    Ok(text)
}
