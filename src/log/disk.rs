//! What a session's writer does to its file, in one place, so that the tests can put a disk that fails there.

use std::{fs::File, io};

use super::file;

pub(super) trait Disk: Send + Sync {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Makes the file end there.
    fn cut(&self, file: &File, end: u64) -> io::Result<()>;

    fn sync(&self, file: &File) -> io::Result<()>;
}

/// The operating system's.
pub(super) struct SystemDisk;

impl Disk for SystemDisk {
    fn write_all_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        file::write_all_at(file, bytes, offset)
    }

    fn cut(&self, file: &File, end: u64) -> io::Result<()> {
        file.set_len(end)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}
