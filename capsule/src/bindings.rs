//! What the top-level declarations of a session's blocks leave for its later blocks.
//!
//! Every block has an isolate of its own, so a declaration lives on as data: a value in the engine's serialisation, or
//! the source of a function or a class. The kernel keeps both without looking into them.

use std::{collections::BTreeMap, sync::Arc};

use crate::wire::{DecodeError, Decoder, Encoder};

/// The most that the bindings of one session hold together, in bytes.
pub const MAX_BINDINGS_BYTES: usize = 16 << 20;

/// What a binding takes beside its name and content, in bytes: nothing is free, however small.
const OVERHEAD_BYTES: usize = 64;

/// The bindings of a session at one moment. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(Arc<BTreeMap<String, Arc<Binding>>>);

/// How a session's bindings were changed by a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebinding {
    /// Names that later blocks can use.
    pub kept: Vec<String>,
    /// Names of values that cannot be carried over.
    pub forgotten: Vec<String>,
    /// Names whose values did not fit into [`MAX_BINDINGS_BYTES`] any more, with what they took in bytes.
    pub dropped: Vec<(String, u64)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Whether later blocks may assign to it.
    pub assignable: bool,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// In the engine's own serialisation.
    Value(Vec<u8>),
    /// JavaScript that makes it again, and the names which that refers to.
    Source { form: Form, code: String, names: Vec<String> },
    /// It cannot be carried over.
    Forgotten(Reason),
}

/// What kind of JavaScript a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The declaration of a function.
    Function,
    /// An expression: a class, a function or an arrow function.
    Expression,
    /// Statements that declare the name.
    Statements,
}

/// Why a binding is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its value has no copy; what it is, in words: `a Promise`.
    NoCopy(String),
    /// It was too large, in bytes.
    TooLarge(u64),
}

impl Reason {
    /// What a `ReferenceError` of the name adds to its message.
    pub fn explain(&self) -> String {
        match self {
            Self::NoCopy(what) => {
                format!("(declared in an earlier block, but its value, {what}, cannot be carried over)")
            }
            Self::TooLarge(bytes) => format!(
                "(declared in an earlier block, but its value, {} KiB, was dropped: bindings hold at most {} MiB \
                 together)",
                bytes >> 10,
                MAX_BINDINGS_BYTES >> 20
            ),
        }
    }
}

impl Binding {
    fn bytes(&self, name: &str) -> usize {
        let content = match &self.content {
            Content::Value(bytes) => bytes.len(),
            Content::Source { code, names, .. } => code.len() + names.iter().map(String::len).sum::<usize>(),
            Content::Forgotten(Reason::NoCopy(what)) => what.len(),
            Content::Forgotten(Reason::TooLarge(_)) => 0,
        };
        name.len() + content + OVERHEAD_BYTES
    }

    fn forgotten(&self) -> bool {
        matches!(self.content, Content::Forgotten(_))
    }

    pub(crate) fn encode(&self, out: &mut Encoder) {
        out.u8(self.assignable.into());
        match &self.content {
            Content::Value(bytes) => {
                out.u8(0);
                out.bytes(bytes);
            }
            Content::Source { form, code, names } => {
                out.u8(1);
                out.u8(match form {
                    Form::Function => 0,
                    Form::Expression => 1,
                    Form::Statements => 2,
                });
                out.str(code);
                out.list(names, |out, name| out.str(name));
            }
            Content::Forgotten(Reason::NoCopy(what)) => {
                out.u8(2);
                out.str(what);
            }
            Content::Forgotten(Reason::TooLarge(bytes)) => {
                out.u8(3);
                out.u64(*bytes);
            }
        }
    }

    pub(crate) fn decode(body: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            assignable: body.bool()?,
            content: match body.u8()? {
                0 => Content::Value(body.bytes()?.to_vec()),
                1 => Content::Source {
                    form: match body.u8()? {
                        0 => Form::Function,
                        1 => Form::Expression,
                        2 => Form::Statements,
                        tag => return Err(DecodeError::UnknownTag { what: "a source's form", tag }),
                    },
                    code: body.string()?,
                    names: body.list(Decoder::string)?,
                },
                2 => Content::Forgotten(Reason::NoCopy(body.string()?)),
                3 => Content::Forgotten(Reason::TooLarge(body.u64()?)),
                tag => return Err(DecodeError::UnknownTag { what: "a binding", tag }),
            },
        })
    }
}

impl Bindings {
    /// Whether no block has declared anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many names later blocks can use.
    pub fn kept(&self) -> usize {
        self.0.values().filter(|binding| !binding.forgotten()).count()
    }

    /// What they hold together, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(|(name, binding)| binding.bytes(name)).sum()
    }

    /// These names and all that they refer to in turn, as far as there are bindings of them.
    pub(crate) fn reachable(&self, names: Vec<String>) -> Vec<(String, Arc<Binding>)> {
        let mut found = BTreeMap::new();
        let mut wanted = names;
        while let Some(name) = wanted.pop() {
            let Some(binding) = self.0.get(&name) else { continue };
            if found.contains_key(&name) {
                continue;
            }
            if let Content::Source { names, .. } = &binding.content {
                wanted.extend(names.iter().cloned());
            }
            found.insert(name, Arc::clone(binding));
        }
        found.into_iter().collect()
    }

    /// Takes over what a block has declared. If that is too much for [`MAX_BINDINGS_BYTES`], the largest are dropped.
    pub(crate) fn rebind(&mut self, changes: Vec<(String, Binding)>) -> Rebinding {
        let mut names: Vec<String> = changes.iter().map(|(name, _)| name.clone()).collect();
        // The capsule's process has dropped some already, if one block declared too much.
        let mut dropped: Vec<_> = changes
            .iter()
            .filter_map(|(name, binding)| match binding.content {
                Content::Forgotten(Reason::TooLarge(bytes)) => Some((name.clone(), bytes)),
                _ => None,
            })
            .collect();
        let all = Arc::make_mut(&mut self.0);
        all.extend(changes.into_iter().map(|(name, binding)| (name, Arc::new(binding))));
        dropped.extend(drop_largest(all));
        names.retain(|name| !dropped.iter().any(|(dropped, _)| dropped == name));
        let (forgotten, kept) =
            names.into_iter().partition(|name| all.get(name).is_none_or(|binding| binding.forgotten()));
        Rebinding { kept, forgotten, dropped }
    }

    /// For a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::default();
        out.u64(self.0.len() as u64);
        for (name, binding) in self.0.iter() {
            out.str(name);
            binding.encode(&mut out);
        }
        out.finish()
    }

    /// # Errors
    /// The bytes are not what [`encode`](Self::encode) gives.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut body = Decoder::new(bytes);
        let bindings = body.list(|body| Ok((body.string()?, Arc::new(Binding::decode(body)?))))?;
        body.finish()?;
        Ok(Self(Arc::new(bindings.into_iter().collect())))
    }
}

/// What these hold together, in bytes.
pub(crate) fn bytes_of(bindings: &[(String, Binding)]) -> usize {
    bindings.iter().map(|(name, binding)| binding.bytes(name)).sum()
}

/// Drops the largest until the rest is within the limit. What was dropped is remembered as such, if there is room.
pub(crate) fn drop_largest(all: &mut BTreeMap<String, Arc<Binding>>) -> Vec<(String, u64)> {
    let mut dropped = Vec::new();
    let mut total: usize = all.iter().map(|(name, binding)| binding.bytes(name)).sum();
    if total <= MAX_BINDINGS_BYTES {
        return dropped;
    }
    let mut by_size: Vec<(usize, String)> =
        all.iter().map(|(name, binding)| (binding.bytes(name), name.clone())).collect();
    by_size.sort();
    while total > MAX_BINDINGS_BYTES
        && let Some((bytes, name)) = by_size.pop()
        && let Some(old) = all.remove(&name)
    {
        total -= bytes;
        if old.forgotten() {
            continue;
        }
        let bytes = bytes as u64;
        let content = Content::Forgotten(Reason::TooLarge(bytes));
        let tombstone = Binding { assignable: old.assignable, content };
        total += tombstone.bytes(&name);
        all.insert(name.clone(), Arc::new(tombstone));
        dropped.push((name, bytes));
    }
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: usize) -> Binding {
        Binding { assignable: true, content: Content::Value(vec![7; bytes]) }
    }

    fn source(names: &[&str]) -> Binding {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Binding { assignable: false, content: Content::Source { form: Form::Function, code: "f".into(), names } }
    }

    fn bindings(all: Vec<(&str, Binding)>) -> Bindings {
        let mut bindings = Bindings::default();
        bindings.rebind(all.into_iter().map(|(name, binding)| (name.to_owned(), binding)).collect());
        bindings
    }

    #[test]
    fn a_name_brings_along_what_it_refers_to_and_nothing_else() {
        let all = bindings(vec![
            ("f", source(&["g", "console"])),
            ("g", source(&["f", "n"])),
            ("n", value(1)),
            ("other", value(1)),
        ]);
        let names =
            |wanted: &str| all.reachable(vec![wanted.into()]).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("f"), ["f", "g", "n"]);
        assert_eq!(names("n"), ["n"]);
        assert!(names("nothing").is_empty());
    }

    #[test]
    fn over_the_limit_the_largest_are_dropped_and_remembered() {
        let mut all = bindings(vec![("small", value(1_000)), ("large", value(9 << 20))]);
        let rebinding = all.rebind(vec![("next".into(), value(8 << 20))]);
        assert_eq!(rebinding.kept, ["next"]);
        assert_eq!(rebinding.dropped.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["large"]);
        assert_eq!(all.kept(), 2);
        assert!(all.bytes() <= MAX_BINDINGS_BYTES);
        let (_, large) = &all.reachable(vec!["large".into()])[0];
        assert!(matches!(large.content, Content::Forgotten(Reason::TooLarge(_))));
    }

    #[test]
    fn what_was_encoded_is_decoded_and_anything_else_is_an_error() {
        let forgotten = Binding { assignable: false, content: Content::Forgotten(Reason::NoCopy("a Promise".into())) };
        let all = bindings(vec![("a", value(3)), ("f", source(&["a"])), ("p", forgotten)]);
        let bytes = all.encode();
        assert_eq!(Bindings::decode(&bytes), Ok(all));
        for end in 0..bytes.len() {
            assert!(Bindings::decode(&bytes[..end]).is_err());
        }
    }
}
