//! `fs.read`, `fs.readBytes`, `fs.readLines`.

use std::io::{BufRead, BufReader, Read};

use axon_capsule::Datum;

use super::{
    super::{
        args::{Args, wrong},
        fault::{Failure, Fault, FaultKind},
        limits::MAX_READ_BYTES,
        table::Context,
    },
    file::{open_to_read, read_range},
};
use crate::policy::{Access, Guard};

/// Bytes of the longest character beyond its first.
const LONGEST_TAIL: usize = 3;

pub(in crate::tools) fn read(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let part = read_part(context, &mut args, LONGEST_TAIL)?;
    Ok(Datum::String(text(part)?))
}

pub(in crate::tools) fn read_bytes(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    Ok(Datum::Bytes(read_part(context, &mut args, 0)?.bytes))
}

/// A part of a file.
struct Part {
    /// The bytes asked for, and a few more.
    bytes: Vec<u8>,
    start: u64,
    /// How many of the bytes were asked for.
    length: usize,
}

/// Reads the part that the arguments name, and up to `more` bytes beyond it.
fn read_part(context: &Context, args: &mut Args, more: usize) -> Result<Part, Failure> {
    let path = args.string(0, "path")?;
    let mut options = args.options(1, &["start", "end"])?;
    let (start, end) = range(options.whole("start", 0)?.unwrap_or(0), options.whole("end", 0)?)?;
    let guard = Guard::new(context.policy);
    let place = guard.locate(Access::Read, &path)?;
    let (mut file, metadata) = open_to_read(&guard, &place)?;
    let size = metadata.len().max(start);
    let wanted = end.unwrap_or(size).min(size) - start;
    if wanted > MAX_READ_BYTES {
        let detail = format!(
            "{wanted} bytes are more than the {MAX_READ_BYTES} that one call reads: \
             pass {{ start, end }} in bytes, or use fs.search"
        );
        return Err(FaultKind::TooLarge.because(detail).into());
    }
    // A file may grow while it is read, and some do not tell their size: the limit holds all the same.
    let length = end.map_or(MAX_READ_BYTES, |end| (end - start).min(MAX_READ_BYTES));
    let bytes = read_range(&mut file, start, length + more as u64, context.stop)?;
    let length = bytes.len().min(length as usize);
    Ok(Part { bytes, start, length })
}

fn range(start: u64, end: Option<u64>) -> Result<(u64, Option<u64>), Failure> {
    match end {
        Some(end) if end < start => Err(wrong(format!("end ({end}) lies before start ({start})"))),
        _ => Ok((start, end)),
    }
}

/// A character that a cut splits belongs to the part where it begins, so that neighbouring parts join without loss.
fn text(Part { mut bytes, start, length }: Part) -> Result<String, Failure> {
    let tail = |bytes: &[u8]| bytes.iter().take(LONGEST_TAIL).take_while(|byte| **byte & 0xc0 == 0x80).count();
    let end = length + tail(&bytes[length..]);
    bytes.truncate(end);
    if start > 0 {
        let before = tail(&bytes);
        bytes.drain(..before);
    }
    String::from_utf8(bytes).map_err(|error| not_text(start + error.utf8_error().valid_up_to() as u64).into())
}

fn not_text(at: u64) -> Fault {
    FaultKind::NotText.because(format!("is not UTF-8 text (byte {at}): fs.readBytes reads it as a Uint8Array"))
}

pub(in crate::tools) fn read_lines(context: &Context, mut args: Args) -> Result<Datum, Failure> {
    let path = args.string(0, "path")?;
    let mut options = args.options(1, &["start", "end"])?;
    let (start, end) = range(options.whole("start", 1)?.unwrap_or(1), options.whole("end", 0)?)?;
    let guard = Guard::new(context.policy);
    let place = guard.locate(Access::Read, &path)?;
    let (file, _) = open_to_read(&guard, &place)?;
    let mut reader = BufReader::with_capacity(64 << 10, file);
    let mut lines = Vec::new();
    let mut held = 0;
    let mut offset = 0;
    for number in 1..=end.unwrap_or(u64::MAX) {
        context.stop.check()?;
        let mut line = Vec::new();
        // One byte more than the limit tells a line that fits from one that does not.
        let got = reader.by_ref().take(MAX_READ_BYTES + 1).read_until(b'\n', &mut line)? as u64;
        if got == 0 {
            break;
        }
        held = if number >= start { held + got } else { got };
        if held > MAX_READ_BYTES {
            let detail = format!(
                "the text up to line {number} is more than the {MAX_READ_BYTES} bytes that one call reads: \
                 pass {{ start, end }}, or use fs.read with byte offsets"
            );
            return Err(FaultKind::TooLarge.because(detail).into());
        }
        if number >= start {
            if line.pop_if(|last| *last == b'\n').is_some() {
                line.pop_if(|last| *last == b'\r');
            }
            let line = String::from_utf8(line).map_err(|e| not_text(offset + e.utf8_error().valid_up_to() as u64))?;
            lines.push(Datum::String(line));
        }
        offset += got;
    }
    Ok(Datum::Array(lines))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn part(whole: &[u8], start: usize, length: usize) -> Result<String, Failure> {
        let bytes = &whole[start..(start + length + LONGEST_TAIL).min(whole.len())];
        text(Part { bytes: bytes.to_vec(), start: start as u64, length })
    }

    #[test]
    fn bytes_that_are_no_text_are_an_error_that_names_the_place() {
        let Err(Failure::Fault(fault)) = part(&[b'a', 0xff, b'b'], 0, 3) else { panic!("read as text") };
        assert!(fault.detail.contains("byte 1") && fault.detail.contains("fs.readBytes"), "{}", fault.detail);
    }

    proptest! {
        #[test]
        fn neighbouring_parts_of_a_text_join_to_the_whole(whole in ".{0,12}", at in 0usize..48) {
            let bytes = whole.as_bytes();
            let at = at.min(bytes.len());
            let head = part(bytes, 0, at).unwrap();
            let tail = part(bytes, at, bytes.len() - at).unwrap();
            prop_assert_eq!(head + &tail, whole);
        }
    }
}
