//! Brings what earlier blocks have declared into an isolate, and takes along what this one leaves.
//!
//! Carried names live in the outermost scope of a script of their own: the block's function finds them there, and may
//! declare the same names for itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use deno_core::v8;
use serde_json::json;

use super::{isolate::Isolate, ops::RunState};
use crate::{
    Namespace,
    bindings::{Binding, Content, Form, MAX_BINDINGS_BYTES, Reason, drop_largest},
    source::{Declared, Erased, Shape},
};

/// The name under which positions in carried code are reported.
const CARRIED_NAME: &str = "earlier-block";

/// The global that hands the values to the script, which deletes it.
const TABLE: &str = "__axon";

/// Names that no script can declare.
const UNDECLARABLE: &[&str] = &["undefined", "NaN", "Infinity", "globalThis", TABLE];

/// What a run has been given, and what it leaves.
#[derive(Default)]
pub struct Carried {
    /// The serialised values that it was given.
    given: BTreeMap<String, Arc<Binding>>,
    declared: BTreeMap<String, Kept>,
    kept: BTreeMap<String, Arc<Binding>>,
    kept_bytes: usize,
}

/// How a declared name can be kept.
struct Kept {
    assignable: bool,
    shape: Shape,
    namespace: Option<String>,
}

impl Carried {
    /// For a block with these names, given these bindings.
    pub fn new(erased: &mut Erased, given: Vec<(String, Arc<Binding>)>, namespaces: &[Namespace]) -> Self {
        let reserved =
            |name: &str| UNDECLARABLE.contains(&name) || namespaces.iter().any(|namespace| namespace.name == name);
        let mut sources = std::mem::take(&mut erased.namespaces);
        let declared = std::mem::take(&mut erased.names.declared)
            .into_iter()
            .filter(|declared| !reserved(&declared.name))
            .map(|Declared { name, assignable, shape }| {
                let namespace = sources.remove(&name);
                (name, Kept { assignable, shape, namespace })
            })
            .collect();
        let given = given.into_iter().filter(|(name, _)| !reserved(name)).collect();
        Self { given, declared, ..Self::default() }
    }

    /// Whether there is nothing to bring and nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.given.is_empty() && self.declared.is_empty()
    }

    /// The serialised value of a name that was given.
    pub fn value(&self, name: &str) -> Option<Vec<u8>> {
        match &self.given.get(name)?.content {
            Content::Value(bytes) => Some(bytes.clone()),
            _ => None,
        }
    }

    /// Keeps a value, unless it is the one that was given.
    pub fn keep_value(&mut self, name: String, bytes: &[u8]) {
        let assignable = match (self.declared.get(&name), self.given.get(&name)) {
            (Some(declared), _) => declared.assignable,
            (None, Some(given)) if matches!(&given.content, Content::Value(before) if before == bytes) => return,
            (None, Some(given)) => given.assignable,
            (None, None) => return,
        };
        self.keep(name, Binding { assignable, content: Content::Value(bytes.to_vec()) });
    }

    /// Keeps a function or a class by the source that it says it has, a namespace by the one that the block has.
    pub fn keep_source(&mut self, name: String, code: String) {
        let Some(declared) = self.declared.get(&name) else { return };
        let assignable = declared.assignable;
        let (form, code, names) = match (&declared.shape, &declared.namespace) {
            (Shape::Function(names), _) => (Form::Function, code, names.clone()),
            (Shape::Expression(names), _) => (Form::Expression, code, names.clone()),
            (Shape::Namespace(names, _), Some(source)) => (Form::Statements, source.clone(), names.clone()),
            _ => return,
        };
        self.keep(name, Binding { assignable, content: Content::Source { form, code, names } });
    }

    /// Remembers why a name is not kept.
    pub fn forget(&mut self, name: String, reason: Reason) {
        self.keep(name, Binding { assignable: true, content: Content::Forgotten(reason) });
    }

    fn keep(&mut self, name: String, binding: Binding) {
        if let Content::Value(bytes) = &binding.content {
            self.kept_bytes += bytes.len();
        }
        self.kept.insert(name, Arc::new(binding));
        // What is too much in the end need not be held until then.
        if self.kept_bytes > 2 * MAX_BINDINGS_BYTES {
            drop_largest(&mut self.kept);
            self.kept_bytes = MAX_BINDINGS_BYTES;
        }
    }

    /// What the block leaves, within the limit.
    pub fn into_kept(mut self) -> Vec<(String, Binding)> {
        drop_largest(&mut self.kept);
        self.kept.into_iter().map(|(name, binding)| (name, Arc::unwrap_or_clone(binding))).collect()
    }

    /// For the front: the declared names and how each can be kept, the given ones that may have changed, and why others
    /// are not there.
    pub fn to_json(&self) -> String {
        let declared: Vec<_> = self
            .declared
            .iter()
            .map(|(name, kept)| {
                let how = match (&kept.shape, &kept.namespace) {
                    (Shape::Function(_) | Shape::Expression(_), _) => "source",
                    (Shape::Namespace(..), Some(_)) => "namespace",
                    _ => "value",
                };
                json!([name, how])
            })
            .collect();
        let forgotten: Vec<_> = self
            .given
            .iter()
            .filter_map(|(name, binding)| match &binding.content {
                Content::Forgotten(reason) => Some(json!([name, reason.explain()])),
                _ => None,
            })
            .collect();
        let values: Vec<_> = self
            .given
            .iter()
            .filter(|(_, binding)| matches!(binding.content, Content::Value(_)))
            .map(|(name, _)| name)
            .collect();
        json!({ "declared": declared, "values": values, "forgotten": forgotten }).to_string()
    }

    /// A script that declares the given names, and gives readers of them; `None` if there are none.
    fn script(&self) -> Option<String> {
        let mut script = String::from("\"use strict\";\n");
        let mut readers = Vec::new();
        for (name, binding) in &self.given {
            let keyword = keyword(binding);
            match &binding.content {
                Content::Value(_) => script.push_str(&format!("{keyword} {name} = {TABLE}.{name};\n")),
                Content::Source { form: Form::Function, code, .. } => script.push_str(&format!("{code}\n")),
                Content::Source { .. } => {}
                Content::Forgotten(_) => continue,
            }
            if !self.declared.contains_key(name) {
                readers.push(format!("\"{name}\": () => {name}"));
            }
        }
        let mut done = BTreeSet::new();
        for name in self.given.keys() {
            self.declare_in_order(name, &mut done, &mut script);
        }
        if readers.is_empty() && script.lines().count() == 1 {
            return None;
        }
        script.push_str(&format!("delete globalThis.{TABLE};\n({{ __proto__: null, {} }})", readers.join(", ")));
        Some(script)
    }

    /// Declares an expression or a namespace after those that it refers to: a class comes after the one it extends.
    fn declare_in_order<'a>(&'a self, name: &'a str, done: &mut BTreeSet<&'a str>, script: &mut String) {
        let Some(binding) = self.given.get(name) else { return };
        let Content::Source { form, code, names } = &binding.content else { return };
        if *form == Form::Function || !done.insert(name) {
            return;
        }
        for needed in names {
            self.declare_in_order(needed, done, script);
        }
        match form {
            Form::Expression => script.push_str(&format!("{} {name} = ({code});\n", keyword(binding))),
            _ => script.push_str(&format!("{code}\n")),
        }
    }
}

fn keyword(binding: &Binding) -> &'static str {
    if binding.assignable { "let" } else { "const" }
}

/// Declares in the isolate what the run was given. Fails with what the model is told.
pub fn bring(isolate: &mut Isolate) -> Result<(), String> {
    let state = isolate.op_state();
    let (json, script, names) = {
        let state = state.borrow();
        let Some(run) = state.try_borrow::<RunState>() else { return Ok(()) };
        let names: Vec<_> = run.carried.given.keys().cloned().collect();
        (run.carried.to_json(), run.carried.script(), names)
    };
    let unmade = |why: &str| {
        format!(
            "what earlier blocks have declared could not be made again: {why}. Declare what you need of it anew: {}",
            names.join(", ")
        )
    };
    call(isolate, |isolate| isolate.front.carry.clone(), &[&json])
        .ok_or_else(|| unmade("its values cannot be read"))?;
    let Some(script) = script else { return Ok(()) };
    let readers =
        isolate.runtime.execute_script(CARRIED_NAME, script).map_err(|error| unmade(&error.exception_message))?;
    let carried = isolate.front.carried.clone();
    deno_core::scope!(scope, &mut isolate.runtime);
    let readers = v8::Local::new(scope, readers);
    super::block::call(scope, &carried, &[readers]).ok_or_else(|| unmade("its readers cannot be kept"))
}

fn call(
    isolate: &mut Isolate,
    function: impl FnOnce(&Isolate) -> v8::Global<v8::Function>,
    texts: &[&str],
) -> Option<()> {
    let function = function(isolate);
    deno_core::scope!(scope, &mut isolate.runtime);
    let mut args = Vec::new();
    for text in texts {
        args.push(v8::String::new(scope, text)?.into());
    }
    super::block::call(scope, &function, &args)
}
