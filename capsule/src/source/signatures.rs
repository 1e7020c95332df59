//! Which types the signature of a tool may speak of: what crosses to a block is JSON, `Uint8Array` and `Date`.

use oxc::{
    ast::{AstKind, ast::Program},
    semantic::{Semantic, SemanticBuilder},
    span::{GetSpan, Span},
};
use strsim::osa_distance;

/// Global types that a declaration may use.
const KNOWN: [&str; 31] = [
    "Array",
    "Awaited",
    "Boolean",
    "Capitalize",
    "Date",
    "Exclude",
    "Extract",
    "InstanceType",
    "JSON",
    "Lowercase",
    "NoInfer",
    "NonNullable",
    "Number",
    "Object",
    "Omit",
    "Parameters",
    "Partial",
    "Pick",
    "Promise",
    "PromiseLike",
    "Readonly",
    "ReadonlyArray",
    "Record",
    "Required",
    "ReturnType",
    "String",
    "Uint8Array",
    "Uncapitalize",
    "Uppercase",
    "undefined",
    "globalThis",
];

/// Global types of values that no call passes on, and what to use instead.
const UNPASSABLE: [(&str, &str); 23] = [
    ("Map", "an object, or an array of pairs"),
    ("ReadonlyMap", "an object, or an array of pairs"),
    ("Set", "an array"),
    ("ReadonlySet", "an array"),
    ("WeakMap", "an object"),
    ("WeakSet", "an array"),
    ("WeakRef", "the value itself"),
    ("RegExp", "a string"),
    ("Error", "an object, or throw it"),
    ("URL", "a string"),
    ("URLSearchParams", "an object"),
    ("Function", "data"),
    ("Symbol", "a string"),
    ("BigInt", "a number or a string"),
    ("ArrayBuffer", "Uint8Array"),
    ("Response", "its data"),
    ("Request", "its data"),
    ("Generator", "an array"),
    ("AsyncGenerator", "an array"),
    ("Iterable", "an array"),
    ("AsyncIterable", "an array"),
    ("Iterator", "an array"),
    ("AsyncIterator", "an array"),
];

/// What is wrong with the types of a file's declarations, as they were printed, with the places in the file itself.
pub fn faults(printed: &Program<'_>, printed_text: &str, original: &Semantic<'_>) -> Vec<(u32, String)> {
    let shown = SemanticBuilder::new().with_build_nodes(true).build(printed).semantic;
    let mut faults = Vec::new();
    for name in shown.scoping().root_unresolved_references().keys() {
        if let Some(what) = fault_of_name(name.as_str(), original) {
            let references = original.scoping().root_unresolved_references().get(name);
            let first = references.and_then(|ids| ids.iter().next()).map(|id| original.scoping().get_reference(*id));
            faults.push((first.map_or(0, |reference| original.reference_span(reference).start), what));
        }
    }
    for node in shown.nodes().iter() {
        let what = match node.kind() {
            AstKind::TSBigIntKeyword(_) => {
                "a bigint cannot be passed between a block and a tool; use a number or a string"
            }
            AstKind::TSSymbolKeyword(_) => "a symbol cannot be passed between a block and a tool; use a string",
            AstKind::TSFunctionType(_) if declares_member(&shown, node.id()) => continue,
            AstKind::TSFunctionType(_) | AstKind::TSMethodSignature(_) => {
                "a function cannot be passed between a block and a tool; pass data"
            }
            _ => continue,
        };
        let span = node.kind().span();
        faults.push((in_original(original, span.source_text(printed_text)), what.to_owned()));
    }
    faults.sort_unstable();
    faults.dedup();
    faults
}

fn fault_of_name(name: &str, original: &Semantic<'_>) -> Option<String> {
    if KNOWN.contains(&name) {
        return None;
    }
    if let Some((_, instead)) = UNPASSABLE.iter().find(|(known, _)| *known == name) {
        return Some(format!("a {name} cannot be passed between a block and a tool; use {instead}"));
    }
    let candidates = ["string", "number", "boolean", "unknown", "void"].into_iter();
    let candidates = candidates.chain(original.scoping().symbol_names()).chain(KNOWN);
    let near = candidates
        .map(|candidate| (osa_distance(&name.to_lowercase(), &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= 1 + name.chars().count() / 5)
        .min_by_key(|(distance, _)| *distance)
        .map_or(String::new(), |(_, candidate)| format!("; did you mean {candidate}?"));
    Some(format!("there is no type {name}: types of a signature are declared in the same file{near}"))
}

/// Whether a function type is that of an exported function: `export const f = (a: string): string => a`.
fn declares_member(shown: &Semantic<'_>, function: oxc::semantic::NodeId) -> bool {
    let mut around = shown.nodes().ancestor_kinds(function);
    let annotated = matches!(around.next(), Some(AstKind::TSTypeAnnotation(_)));
    annotated && matches!(around.next(), Some(AstKind::VariableDeclarator(_)))
}

/// Where a type stands in the file: printed, only its spaces can differ.
fn in_original(original: &Semantic<'_>, printed: &str) -> u32 {
    let plain = |text: &str| text.chars().filter(|c| !c.is_whitespace() && *c != ';').collect::<String>();
    let (wanted, text) = (plain(printed), original.source_text());
    let spans = original.nodes().iter().map(|node| node.kind().span());
    let same = |span: &Span| span.size() as usize <= 4 * printed.len() && plain(span.source_text(text)) == wanted;
    spans.filter(same).map(|span| span.start).min().unwrap_or(0)
}
