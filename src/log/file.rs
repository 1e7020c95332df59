//! Reading and writing a file at a position, its lines one after another, and the names beside it.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

/// The longest line that the log takes, in bytes.
pub const MAX_LINE_BYTES: usize = 256 * 1024 * 1024;

const READ_BUFFER_BYTES: usize = 256 * 1024;

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, offset)
}

#[cfg(unix)]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Makes a created, renamed or removed name in `dir` survive a loss of power.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(dir)?.sync_all() } else { Ok(()) }
}

/// The file beside a session's file: `x.jsonl` and `torn` give `x.jsonl.torn`.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// A line as it stands in the file, without its newline.
pub(super) struct RawLine<'a> {
    /// From 1.
    pub number: u64,
    pub offset: u64,
    pub bytes: &'a [u8],
    /// Whether a newline ends it. Only the last line of a file can be without.
    pub terminated: bool,
}

/// The lines of a file in order, in memory one at a time.
pub(super) struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    number: u64,
    end: u64,
}

impl Lines {
    /// `file` stands at its beginning.
    pub fn new(file: File) -> Self {
        Self { reader: BufReader::with_capacity(READ_BUFFER_BYTES, file), line: Vec::new(), number: 0, end: 0 }
    }

    /// Goes to the first line that starts within the last `bytes`, unless that is the file's first, which stands there
    /// already. Returns whether it is.
    pub fn skip_to_last(&mut self, bytes: u64) -> io::Result<bool> {
        let size = self.reader.get_ref().metadata()?.len();
        let Some(before) = size.checked_sub(bytes).and_then(|start| start.checked_sub(1)) else { return Ok(true) };
        self.reader.seek(SeekFrom::Start(before))?;
        let skipped = self.reader.skip_until(b'\n')? as u64;
        self.end = before + skipped;
        Ok(false)
    }

    /// The next line; `None` at the end of the file.
    pub fn next(&mut self) -> io::Result<Option<RawLine<'_>>> {
        self.line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.line)? as u64;
        if read == 0 {
            return Ok(None);
        }
        let terminated = self.line.last() == Some(&b'\n');
        if !terminated && read == limit {
            return Err(io::Error::other(format!("line {} is longer than {MAX_LINE_BYTES} bytes", self.number + 1)));
        }
        let offset = self.end;
        self.end += read;
        self.number += 1;
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        Ok(Some(RawLine { number: self.number, offset, bytes, terminated }))
    }

    /// Whether nothing follows the line that was read last.
    pub fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }

    /// Goes back to the start of the line that was read last.
    pub fn unread(&mut self) -> io::Result<()> {
        self.number -= 1;
        self.end -= self.line.len() as u64;
        self.line.clear();
        self.reader.seek(SeekFrom::Start(self.end)).map(drop)
    }
}
