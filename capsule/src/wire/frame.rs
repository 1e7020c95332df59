//! Frames: a body's length in four little-endian bytes, then the body.

use std::io::{self, Read, Write};

use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest body that either end accepts, in bytes.
pub const MAX_FRAME_BYTES: usize = 64 << 20;

const HEADER_BYTES: usize = 4;

/// A body with its length before it, ready to be written.
///
/// # Errors
/// `InvalidInput` if the body is larger than [`MAX_FRAME_BYTES`].
pub fn frame(body: &[u8]) -> io::Result<Vec<u8>> {
    let len = checked_len(body.len()).map_err(|message| io::Error::new(io::ErrorKind::InvalidInput, message))?;
    let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(body);
    Ok(bytes)
}

pub fn write(to: &mut impl Write, body: &[u8]) -> io::Result<()> {
    to.write_all(&frame(body)?)
}

/// The next body; `None` at an end between two frames.
pub fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match from.read(&mut header[filled..]) {
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let mut body = vec![0; body_len(header)?];
    from.read_exact(&mut body)?;
    Ok(Some(body))
}

/// As [`read`], for the kernel's side.
pub async fn read_async(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match from.read(&mut header[filled..]).await? {
            0 if filled == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    let len = body_len(header)?;
    // Grows with what really arrives, so that a false length reserves nothing.
    let mut body = Vec::new();
    (&mut *from).take(len as u64).read_to_end(&mut body).await?;
    if body.len() < len { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Some(body)) }
}

fn body_len(header: [u8; HEADER_BYTES]) -> io::Result<usize> {
    let len = u32::from_le_bytes(header) as usize;
    checked_len(len).map_err(|message| io::Error::new(io::ErrorKind::InvalidData, message))?;
    Ok(len)
}

fn checked_len(len: usize) -> Result<u32, String> {
    u32::try_from(len)
        .ok()
        .filter(|_| len <= MAX_FRAME_BYTES)
        .ok_or_else(|| format!("a frame of {len} bytes is over the limit of {MAX_FRAME_BYTES}"))
}
