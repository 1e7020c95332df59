//! Opening by one name below an open folder, never through a link.

use std::{ffi::OsStr, io};

use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

/// Which file it is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl From<&Metadata> for FileId {
    fn from(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

impl FileId {
    pub fn of_std(metadata: &std::fs::Metadata) -> Self {
        Self {
            device: std::os::unix::fs::MetadataExt::dev(metadata),
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        }
    }
}

/// A handle that passes through folders which may be searched but not read.
#[cfg(target_os = "linux")]
const PASS_THROUGH: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASS_THROUGH: OFlags = OFlags::empty();

fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// The folder `name` in `parent`; fails for anything else, links included.
pub(crate) fn open_folder(parent: &Dir, name: &OsStr) -> io::Result<Dir> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags(OFlags::DIRECTORY | OFlags::NOFOLLOW | PASS_THROUGH));
    let file = parent.open_with(name, &options)?;
    Ok(Dir::from_std_file(file.into_std()))
}

/// The file `name` in `parent`, never through a link. Does not wait for the other end of a FIFO: the caller asks
/// the handle what it is before reading.
pub(crate) fn open_file(parent: &Dir, name: &OsStr, options: &mut OpenOptions) -> io::Result<File> {
    options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    parent.open_with(name, options)
}
