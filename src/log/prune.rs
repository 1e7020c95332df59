//! Removing sessions.

use std::{
    fs,
    io::{self, ErrorKind},
    path::Path,
};

use super::{
    LogError, SessionId,
    file::{beside, sync_dir},
    lock::LockedFile,
};

/// Removes a session's file and what a repair or an opening moved beside it. There is no way back.
///
/// # Errors
/// [`LogError::Held`] while somebody writes it, [`LogError::NotFound`], [`LogError::Io`].
pub fn remove_session(path: &Path) -> Result<(), LogError> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let session = SessionId::parse(&stem)?;
    let locked = LockedFile::open(path, &session, false)?;
    let removed = remove_held(path);
    locked.release();
    removed
}

/// The same for whoever holds it.
pub(super) fn remove_held(path: &Path) -> Result<(), LogError> {
    let remove = |path: &Path| fs::remove_file(path).map_err(|cause| LogError::io("remove", path, cause));
    remove(path)?;
    for suffix in ["torn", "bad"] {
        let aside = beside(path, suffix);
        match remove(&aside) {
            Err(LogError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => {}
            other => other?,
        }
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    sync_dir(dir).map_err(|cause: io::Error| LogError::io("sync", dir, cause))
}
