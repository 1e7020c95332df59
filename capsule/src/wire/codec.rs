//! The byte format of message bodies: little-endian integers, counted strings, tagged data.
//!
//! Both ends are one binary, so there is no version; what the other end sends is hostile all the same: every length is
//! checked against what is there, and nesting is bounded.

use crate::Datum;

/// How deep arrays and objects may nest in what crosses between a block and a tool.
pub const MAX_DATUM_DEPTH: usize = 128;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("the message ends too early")]
    Truncated,
    #[error("the message has {0} bytes too many")]
    Trailing(usize),
    #[error("unknown tag {tag} for {what}")]
    UnknownTag { what: &'static str, tag: u8 },
    #[error("text that is not UTF-8")]
    NotUtf8,
    #[error("data nested deeper than {MAX_DATUM_DEPTH} levels")]
    TooDeep,
}

/// Writes a message body.
#[derive(Default)]
pub struct Encoder(Vec<u8>);

impl Encoder {
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    pub fn u8(&mut self, n: u8) {
        self.0.push(n);
    }

    pub fn u64(&mut self, n: u64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    pub fn f64(&mut self, n: f64) {
        self.0.extend_from_slice(&n.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match value {
            None => self.u8(0),
            Some(value) => {
                self.u8(1);
                write(self, value);
            }
        }
    }

    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.u64(items.len() as u64);
        for item in items {
            write(self, item);
        }
    }

    pub fn datum(&mut self, datum: &Datum) {
        match datum {
            Datum::Undefined => self.u8(0),
            Datum::Null => self.u8(1),
            Datum::Bool(false) => self.u8(2),
            Datum::Bool(true) => self.u8(3),
            Datum::Number(n) => {
                self.u8(4);
                self.f64(*n);
            }
            Datum::String(s) => {
                self.u8(5);
                self.str(s);
            }
            Datum::Bytes(bytes) => {
                self.u8(6);
                self.bytes(bytes);
            }
            Datum::Date(ms) => {
                self.u8(7);
                self.f64(*ms);
            }
            Datum::Array(items) => {
                self.u8(8);
                self.list(items, Self::datum);
            }
            Datum::Object(fields) => {
                self.u8(9);
                self.list(fields, |out, (name, value)| {
                    out.str(name);
                    out.datum(value);
                });
            }
        }
    }
}

/// Reads a message body.
pub struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub fn new(body: &'a [u8]) -> Self {
        Self(body)
    }

    /// Fails if anything is left.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(DecodeError::Trailing(left)),
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.0.split_at_checked(count).ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array::<1>().map(|[n]| n)
    }

    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn f64(&mut self) -> Result<f64, DecodeError> {
        self.array().map(f64::from_le_bytes)
    }

    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            tag => Err(DecodeError::UnknownTag { what: "a boolean", tag }),
        }
    }

    fn len(&mut self) -> Result<usize, DecodeError> {
        usize::try_from(self.u64()?).map_err(|_| DecodeError::Truncated)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let len = self.len()?;
        self.take(len)
    }

    pub fn string(&mut self) -> Result<String, DecodeError> {
        let bytes = self.bytes()?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| DecodeError::NotUtf8)
    }

    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a counted list. Every item takes a byte at least, which bounds what a false count can reserve.
    pub fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let count = self.len()?;
        if count > self.0.len() {
            return Err(DecodeError::Truncated);
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    pub fn datum(&mut self) -> Result<Datum, DecodeError> {
        self.datum_within(MAX_DATUM_DEPTH)
    }

    fn datum_within(&mut self, depth: usize) -> Result<Datum, DecodeError> {
        Ok(match self.u8()? {
            0 => Datum::Undefined,
            1 => Datum::Null,
            2 => Datum::Bool(false),
            3 => Datum::Bool(true),
            4 => Datum::Number(self.f64()?),
            5 => Datum::String(self.string()?),
            6 => Datum::Bytes(self.bytes()?.to_vec()),
            7 => Datum::Date(self.f64()?),
            8 => {
                let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
                Datum::Array(self.list(|body| body.datum_within(depth))?)
            }
            9 => {
                let depth = depth.checked_sub(1).ok_or(DecodeError::TooDeep)?;
                Datum::Object(self.list(|body| Ok((body.string()?, body.datum_within(depth)?)))?)
            }
            tag => return Err(DecodeError::UnknownTag { what: "a datum", tag }),
        })
    }
}

/// Whether the other end would refuse `datum` for its nesting.
pub fn nests_too_deep(datum: &Datum) -> bool {
    fn exceeds(datum: &Datum, depth: usize) -> bool {
        match datum {
            Datum::Array(_) | Datum::Object(_) if depth == 0 => true,
            Datum::Array(items) => items.iter().any(|item| exceeds(item, depth - 1)),
            Datum::Object(fields) => fields.iter().any(|(_, value)| exceeds(value, depth - 1)),
            _ => false,
        }
    }
    exceeds(datum, MAX_DATUM_DEPTH)
}
