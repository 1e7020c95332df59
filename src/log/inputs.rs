//! The inputs of engine calls, each message stored once.
//!
//! A cognet sends its whole context with each call, and most of it was sent before. `kernel:engine:input` therefore
//! refers back. An element of its `messages` is one of:
//!
//! - `{role, content}`: a message in full;
//! - `{ref, index, count?}`: messages `index` to `index + count - 1` (one without `count`) of the input with seq `ref`;
//! - `{ref, index, chars, content}`: message `index` of that input, its content cut to the first `chars` characters
//!   (code points) and `content` after them.
//!
//! `index` counts in the expanded messages. A reference leads to one of the four inputs before.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::Envelope;

/// The type of the events that are folded.
pub const ENGINE_INPUT: &str = "kernel:engine:input";

/// How many inputs back a reference may lead. A cognet may call in turns with several contexts.
const REACH: usize = 4;

/// Contexts beyond this are not kept for comparison and written in full, in bytes of content.
const MAX_KEPT_BYTES: usize = 16 * 1024 * 1024;

/// A shorter common beginning is not worth a reference, in bytes.
const MIN_SHARED_BYTES: usize = 64;

/// The inputs that a reference may lead to, newest last.
#[derive(Default)]
struct Known(VecDeque<(u64, Vec<Value>)>);

impl Known {
    fn add(&mut self, seq: u64, messages: Vec<Value>) {
        if self.0.len() == REACH {
            self.0.pop_front();
        }
        self.0.push_back((seq, messages));
    }

    fn messages(&self, seq: u64) -> Option<&[Value]> {
        self.0.iter().rfind(|(known, _)| *known == seq).map(|(_, messages)| messages.as_slice())
    }
}

/// Folds inputs as they are recorded.
#[derive(Default)]
pub(crate) struct InputFolder {
    known: Known,
}

impl InputFolder {
    /// What to record for an input, `{messages}`. Data of another form is left as it is.
    pub(crate) fn fold(&self, data: &Value) -> Value {
        let Some(messages) = messages_of(data) else { return data.clone() };
        let folds = self.known.0.iter().map(|(seq, base)| fold_onto(messages, *seq, base));
        match folds.max_by_key(|fold| fold.shared_bytes) {
            Some(fold) if fold.shared_bytes >= MIN_SHARED_BYTES => with_messages(data, fold.parts),
            _ => data.clone(),
        }
    }

    /// Lets later inputs refer to this one. `data` is what was given to [`InputFolder::fold`].
    pub(crate) fn recorded(&mut self, seq: u64, data: Value) {
        let messages = messages_of(&data).map(<[Value]>::to_vec).unwrap_or_default();
        let bytes: usize = messages.iter().filter_map(content_of).map(str::len).sum();
        self.known.add(seq, if bytes <= MAX_KEPT_BYTES { messages } else { Vec::new() });
    }
}

struct Fold {
    parts: Vec<Value>,
    shared_bytes: usize,
}

fn fold_onto(messages: &[Value], seq: u64, base: &[Value]) -> Fold {
    let mut fold = Fold { parts: Vec::new(), shared_bytes: 0 };
    // The run of whole messages that is being referred to: where it begins, how many.
    let mut run: Option<(usize, usize)> = None;
    for (position, message) in messages.iter().enumerate() {
        let following = run.map_or(position, |(index, count)| index + count);
        let same = [following, position].into_iter().find(|&at| base.get(at) == Some(message));
        let same = same.or_else(|| base.iter().position(|known| known == message));
        if let Some(index) = same {
            fold.shared_bytes += content_of(message).map_or(0, str::len);
            run = match run {
                Some((start, count)) if start + count == index => Some((start, count + 1)),
                other => {
                    fold.parts.extend(other.map(|run| reference(seq, run)));
                    Some((index, 1))
                }
            };
            continue;
        }
        fold.parts.extend(run.take().map(|run| reference(seq, run)));
        match base.get(following).and_then(|known| beginning(known, message)) {
            Some((chars, bytes)) => {
                let rest = content_of(message).map_or("", |content| &content[bytes..]);
                fold.shared_bytes += bytes;
                fold.parts.push(json!({ "ref": seq, "index": following, "chars": chars, "content": rest }));
            }
            None => fold.parts.push(message.clone()),
        }
    }
    fold.parts.extend(run.map(|run| reference(seq, run)));
    fold
}

fn reference(seq: u64, (index, count): (usize, usize)) -> Value {
    match count {
        1 => json!({ "ref": seq, "index": index }),
        _ => json!({ "ref": seq, "index": index, "count": count }),
    }
}

/// How much of its beginning a message shares with a known one that differs in nothing but the content: characters and
/// bytes.
fn beginning(known: &Value, message: &Value) -> Option<(usize, usize)> {
    let (known, message) = (known.as_object()?, message.as_object()?);
    let alike = known.len() == message.len()
        && message.iter().all(|(name, value)| name == "content" || known.get(name) == Some(value));
    let (old, new) = (known.get("content")?.as_str()?, message.get("content")?.as_str()?);
    let bytes = new.floor_char_boundary(common_bytes(old.as_bytes(), new.as_bytes()));
    (alike && bytes >= MIN_SHARED_BYTES).then(|| (new[..bytes].chars().count(), bytes))
}

/// How many bytes two texts begin with in common. Blocks are compared whole: contexts are long and mostly alike.
fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    const BLOCK: usize = 4096;
    let blocks = a.chunks(BLOCK).zip(b.chunks(BLOCK)).take_while(|(a, b)| a == b && a.len() == BLOCK).count();
    let start = blocks * BLOCK;
    start + a[start..].iter().zip(&b[start..]).take_while(|(a, b)| a == b).count()
}

/// Expands what was folded. It must be shown every input of a session in order, from the beginning.
#[derive(Default)]
pub struct InputExpander {
    known: Known,
}

impl InputExpander {
    /// Puts full messages in place of references. Events of other types are left as they are, as are references that
    /// lead nowhere, which a damaged log may hold.
    pub fn expand(&mut self, envelope: &mut Envelope) {
        if envelope.kind != ENGINE_INPUT {
            return;
        }
        let Some(parts) = messages_of(&envelope.data) else { return };
        let mut messages = Vec::with_capacity(parts.len());
        for part in parts {
            match self.resolve(part) {
                Some(resolved) => messages.extend(resolved),
                None => messages.push(part.clone()),
            }
        }
        self.known.add(envelope.time.seq, messages.clone());
        envelope.data = with_messages(&envelope.data, messages);
    }

    fn resolve(&self, part: &Value) -> Option<Vec<Value>> {
        let number = |name: &str| part.get(name)?.as_u64().map(|number| number as usize);
        let base = self.known.messages(part.get("ref")?.as_u64()?)?;
        let index = number("index")?;
        let Some(chars) = number("chars") else {
            let end = index.checked_add(number("count").unwrap_or(1))?;
            return base.get(index..end).map(<[Value]>::to_vec);
        };
        let mut message = base.get(index)?.clone();
        let kept: String = content_of(&message)?.chars().take(chars).collect();
        message["content"] = Value::String(kept + content_of(part)?);
        Some(vec![message])
    }
}

fn messages_of(data: &Value) -> Option<&[Value]> {
    data.get("messages")?.as_array().map(Vec::as_slice)
}

fn content_of(message: &Value) -> Option<&str> {
    message.get("content")?.as_str()
}

fn with_messages(data: &Value, messages: Vec<Value>) -> Value {
    let mut data = data.clone();
    data["messages"] = Value::Array(messages);
    data
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::{Context, ENVELOPE_VERSION, Time};

    fn envelope(seq: u64, data: Value) -> Envelope {
        let context = Context { agent_id: "a".into(), session_id: "s".into(), run_id: None, span_id: None };
        Envelope {
            v: ENVELOPE_VERSION,
            id: "i".into(),
            kind: ENGINE_INPUT.into(),
            time: Time { ms: 0, seq },
            context,
            data,
        }
    }

    /// Records inputs one after another at seqs 0, 10, 20 …
    fn fold_all(inputs: &[Value]) -> Vec<Value> {
        let mut folder = InputFolder::default();
        let fold = |(n, data): (usize, &Value)| {
            let folded = folder.fold(data);
            folder.recorded(n as u64 * 10, data.clone());
            folded
        };
        inputs.iter().enumerate().map(fold).collect()
    }

    fn expand_all(folded: &[Value]) -> Vec<Value> {
        let mut expander = InputExpander::default();
        let expand = |(n, data): (usize, &Value)| {
            let mut envelope = envelope(n as u64 * 10, data.clone());
            expander.expand(&mut envelope);
            envelope.data
        };
        folded.iter().enumerate().map(expand).collect()
    }

    fn system(content: &str) -> Value {
        json!({ "role": "system", "content": content })
    }

    fn user(content: &str) -> Value {
        json!({ "role": "user", "content": content })
    }

    #[test]
    fn what_was_sent_before_is_referred_to_and_what_grew_is_continued() {
        let long = "é".repeat(40);
        let inputs = [
            json!({ "messages": [system(&long), system("b"), user(&format!("{long}</timeline>"))] }),
            json!({ "messages": [system(&long), system("b"), user(&format!("{long}<more/></timeline>"))] }),
            json!({ "messages": [system(&long), system("b"), user(&format!("{long}<more/></timeline>")), user("c")] }),
        ];
        let folded = fold_all(&inputs);
        assert_eq!(folded[0], inputs[0]);
        assert_eq!(
            folded[1]["messages"],
            json!([
                { "ref": 0, "index": 0, "count": 2 },
                { "ref": 0, "index": 2, "chars": 41, "content": "more/></timeline>" },
            ])
        );
        assert_eq!(folded[2]["messages"], json!([{ "ref": 10, "index": 0, "count": 3 }, user("c")]));
        assert_eq!(expand_all(&folded), inputs);
    }

    #[test]
    fn contexts_that_take_turns_refer_each_to_its_own() {
        let (plan, act) = ("plan ".repeat(50), "act ".repeat(50));
        let inputs: Vec<_> =
            [&plan, &act, &plan, &act, &plan].map(|context| json!({ "messages": [system(context)] })).into();
        let folded = fold_all(&inputs);
        assert_eq!(folded[2]["messages"], json!([{ "ref": 0, "index": 0 }]));
        assert_eq!(folded[3]["messages"], json!([{ "ref": 10, "index": 0 }]));
        assert_eq!(expand_all(&folded), inputs);
    }

    #[test]
    fn a_context_that_grows_costs_what_is_new_and_not_its_whole() {
        let mut timeline = String::from("<timeline>");
        let inputs: Vec<_> = (0..200)
            .map(|n| {
                timeline.push_str(&format!("<entry n={n}>{}</entry>", "words ".repeat(20)));
                json!({ "messages": [system(&"rules ".repeat(500)), user(&format!("{timeline}</timeline>"))] })
            })
            .collect();
        let folded = fold_all(&inputs);
        let bytes: usize = folded.iter().map(|data| data.to_string().len()).sum();
        assert!(bytes < 2 * timeline.len() + 100_000, "{bytes} bytes for a timeline of {}", timeline.len());
        assert_eq!(expand_all(&folded), inputs);
    }

    #[test]
    fn what_is_no_input_and_references_that_lead_nowhere_stay_as_they_are() {
        let inputs = [json!({ "messages": [{ "ref": 77, "index": 0 }, { "ref": 0 }] }), json!(null), json!({ "x": 1 })];
        assert_eq!(fold_all(&inputs), inputs);
        assert_eq!(expand_all(&inputs), inputs);
    }

    fn message() -> impl Strategy<Value = Value> {
        let content = (0..4usize, 0..3usize, "[aé😀]{0,3}").prop_map(|(word, times, end)| {
            ["short", "α", "once upon a time ", "one two three "][word].repeat(times * 30) + &end
        });
        (prop::bool::ANY, content).prop_map(|(is_user, text)| if is_user { user(&text) } else { system(&text) })
    }

    proptest! {
        #[test]
        fn expanding_gives_back_every_input(
            inputs in prop::collection::vec(prop::collection::vec(message(), 0..6), 1..12),
        ) {
            let inputs: Vec<_> = inputs.into_iter().map(|messages| json!({ "messages": messages })).collect();
            prop_assert_eq!(expand_all(&fold_all(&inputs)), inputs);
        }
    }
}
