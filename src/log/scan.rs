//! What must be known of a line before anybody asks for its content.

use std::{borrow::Cow, fmt};

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::{ENVELOPE_VERSION, Time, is_entry_type};

/// Written by `repair`: which seqs are missing for good.
pub(super) const REPAIRED: &str = "axon:log:repaired";

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What must be known of a line before anybody asks for its content.
pub(super) enum Head<'a> {
    Known {
        time: Time,
        kind: Cow<'a, str>,
    },
    /// An envelope of another version: kept and passed over.
    Foreign {
        seq: Option<u64>,
    },
}

/// Checks a whole line without building its data.
///
/// # Errors
/// Why it is no envelope.
pub(super) fn head(line: &[u8]) -> Result<Head<'_>, String> {
    if line.starts_with(BYTE_ORDER_MARK) {
        return Err("it begins with a byte order mark, which an editor added".to_owned());
    }
    let text = std::str::from_utf8(line).map_err(|e| format!("not UTF-8 at byte {}", e.valid_up_to() + 1))?;
    match serde_json::from_str::<EnvelopeHead>(text) {
        Ok(head) if head.v == ENVELOPE_VERSION => Ok(Head::Known { time: head.time, kind: head.kind }),
        Ok(head) => Ok(Head::Foreign { seq: Some(head.time.seq) }),
        Err(error) => foreign(text).ok_or_else(|| format!("not an envelope: {}", without_line(&error))),
    }
}

impl Head<'_> {
    pub fn seq(&self) -> Option<u64> {
        match self {
            Self::Known { time, .. } => Some(time.seq),
            Self::Foreign { seq } => *seq,
        }
    }

    /// `""` for a foreign line.
    pub fn kind(&self) -> &str {
        match self {
            Self::Known { kind, .. } => kind,
            Self::Foreign { .. } => "",
        }
    }

    pub fn is_entry(&self) -> bool {
        matches!(self, Self::Known { kind, .. } if is_entry_type(kind))
    }
}

#[derive(Deserialize)]
struct EnvelopeHead<'a> {
    v: u32,
    #[serde(borrow, rename = "id")]
    _id: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    time: Time,
    #[serde(borrow, rename = "context")]
    _context: ContextHead<'a>,
    #[serde(default, rename = "data")]
    _data: Checked,
}

#[derive(Deserialize)]
struct ContextHead<'a> {
    #[serde(borrow, rename = "agentId")]
    _agent_id: Cow<'a, str>,
    #[serde(borrow, rename = "sessionId")]
    _session_id: Cow<'a, str>,
    #[serde(borrow, default, rename = "runId")]
    _run_id: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "spanId")]
    _span_id: Option<Cow<'a, str>>,
}

/// Any JSON, checked as strictly as if it were built: what passes here can be read as an envelope later.
#[derive(Default)]
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> de::Visitor<'de> for Checked {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

fn foreign(text: &str) -> Option<Head<'static>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let version = value.get("v")?.as_u64()?;
    let seq = value.pointer("/time/seq").and_then(Value::as_u64);
    (version != u64::from(ENVELOPE_VERSION)).then_some(Head::Foreign { seq })
}

/// The line that serde counts is always 1: only the column helps.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line 1 column ") {
        Some(end) => format!("{} at column {}", &text[..end], error.column()),
        None => text,
    }
}

/// How a line's seq follows on those before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Next,
    /// Seqs `from..=to` are missing.
    Gap {
        from: u64,
        to: u64,
    },
    /// Not above the seqs before it.
    Backwards,
}

/// Follows the seqs of a file.
#[derive(Default)]
pub(super) struct Sequence {
    next: u64,
    /// A line of another version, whose seq cannot be read, stands between.
    uncertain: bool,
}

impl Sequence {
    /// Follows from whatever seq comes first.
    pub fn from_anywhere() -> Self {
        Self { next: 0, uncertain: true }
    }

    /// The seq that the next line must have.
    pub fn next(&self) -> u64 {
        self.next
    }

    pub fn follow(&mut self, seq: Option<u64>) -> Order {
        let Some(seq) = seq else {
            self.uncertain = true;
            return Order::Next;
        };
        let order = match seq {
            _ if seq < self.next => return Order::Backwards,
            _ if seq > self.next && !self.uncertain => Order::Gap { from: self.next, to: seq - 1 },
            _ => Order::Next,
        };
        self.next = seq.saturating_add(1);
        self.uncertain = false;
        order
    }
}

/// The gaps that an `axon:log:repaired` line accounts for: pairs of first and last missing seq.
pub(super) fn repaired_gaps(line: &[u8]) -> Vec<(u64, u64)> {
    #[derive(Deserialize)]
    struct Repaired {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        gaps: Vec<(u64, u64)>,
    }
    serde_json::from_slice::<Repaired>(line).map(|line| line.data.gaps).unwrap_or_default()
}

/// Why a line whose seq is not above those before it does not belong there.
pub(super) fn backwards(seq: u64, expected: u64) -> String {
    format!("seq {seq} where {expected} belongs")
}

/// Why a line after a gap cannot be where it is.
pub(super) fn missing(from: u64, to: u64) -> String {
    let lines = match to - from + 1 {
        1 => "a line is missing".to_owned(),
        n => format!("{n} lines are missing"),
    };
    format!("{lines} before it: seq {from} to {to}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONTEXT: &str = r#""context":{"agentId":"a","sessionId":"s"}"#;

    fn line(rest: &str) -> String {
        format!(r#"{{"v":1,"id":"i","type":"x:y","time":{{"ms":1,"seq":7}},{CONTEXT},{rest}}}"#)
    }

    #[test]
    fn a_line_of_another_version_is_passed_over_whatever_it_holds() {
        assert!(matches!(head(br#"{"v":2,"when":"now"}"#), Ok(Head::Foreign { seq: None })));
        assert!(matches!(head(br#"{"v":2,"time":{"seq":9}}"#), Ok(Head::Foreign { seq: Some(9) })));
        assert!(matches!(head(line("\"x\":1").replace("\"v\":1", "\"v\":3").as_bytes()), Ok(Head::Foreign { .. })));
    }

    #[test]
    fn an_unknown_type_or_field_is_kept() {
        assert!(
            matches!(head(line("\"data\":null,\"new\":1").as_bytes()), Ok(Head::Known { kind, .. }) if kind == "x:y")
        );
    }

    #[test]
    fn damage_anywhere_in_a_line_is_seen() {
        let good = line(r#""data":{"content":"é"}"#).into_bytes();
        assert!(head(&good).is_ok());
        for end in 0..good.len() {
            assert!(head(&good[..end]).is_err(), "cut at {end} was accepted");
        }
        let accent = good.iter().position(|b| !b.is_ascii()).unwrap();
        let mut bad = good.clone();
        bad[accent] = 0xff;
        assert!(head(&bad).is_err());
        assert!(head(&[0; 64]).is_err());
        assert!(head(b"{\"v\":1}").is_err());
        assert!(head(b"[]").is_err());
    }

    #[test]
    fn what_could_not_be_read_later_is_seen_at_once() {
        let deep = format!("\"data\":{}{}", "[".repeat(127), "]".repeat(127));
        for data in ["\"data\":\"\\ud800\"", "\"data\":1e999", "\"data\":{\"\\udfff\":1}", &deep] {
            assert!(head(line(data).as_bytes()).is_err(), "{data}");
        }
    }

    proptest! {
        #[test]
        fn a_line_passes_exactly_if_it_can_be_read_as_an_envelope(
            at in any::<prop::sample::Index>(),
            with in prop_oneof![any::<u8>().prop_map(|byte| vec![byte]), "[0-9{}\\[\\]\",:eE.u\\\\-]{0,3}".prop_map(String::into_bytes)],
            data in r#"\{"a":(-?[0-9]{1,30}|"(\\u[0-9a-fd]{4}|x){0,3}"|\[\[1e-?[0-9]{1,3}\]\])\}"#,
        ) {
            let mut bytes = line(&format!("\"data\":{data}")).into_bytes();
            let at = at.index(bytes.len());
            bytes.splice(at..=at, with);
            let read = serde_json::from_slice::<crate::log::Envelope>(&bytes);
            match head(&bytes) {
                Ok(Head::Known { time, .. }) => prop_assert_eq!(read.map(|read| read.time).ok(), Some(time)),
                Ok(Head::Foreign { .. }) => {}
                Err(_) => prop_assert!(read.is_err()),
            }
        }
    }

    #[test]
    fn a_sequence_tells_gaps_and_steps_back() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.follow(Some(0)), Order::Next);
        assert_eq!(sequence.follow(Some(3)), Order::Gap { from: 1, to: 2 });
        assert_eq!(sequence.follow(Some(3)), Order::Backwards);
        assert_eq!(sequence.follow(None), Order::Next);
        assert_eq!(sequence.follow(Some(5)), Order::Next);
        assert_eq!(sequence.next(), 6);
        let mut sequence = Sequence::from_anywhere();
        assert_eq!(sequence.follow(Some(7)), Order::Next);
        assert_eq!(sequence.follow(Some(9)), Order::Gap { from: 8, to: 8 });
    }
}
