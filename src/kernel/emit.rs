//! What a cognet may emit: `cognet:*`, less the families that are entries or the kernel's own.

use axon_runtime::VerbError;

/// Families under `cognet:` that only the kernel writes, and why.
const KERNEL_OWNED: [(&str, &str); 4] = [
    ("cognet:output:", "outputs are spoken with kernel.output"),
    ("cognet:action:", "the kernel records actions itself, around kernel.run"),
    ("cognet:load:", "the kernel records loads itself"),
    ("cognet:unload:", "the kernel records unloads itself"),
];

pub(crate) fn check(kind: &str) -> Result<(), VerbError> {
    let forbidden = |why: String| Err(VerbError::new("COGNET_EMIT_FORBIDDEN", why));
    let Some(rest) = kind.strip_prefix("cognet:") else {
        return forbidden(format!("a cognet emits types that begin with \"cognet:\", not {kind:?}"));
    };
    if let Some((family, why)) = KERNEL_OWNED.iter().find(|(family, _)| format!("{kind}:").starts_with(family)) {
        return forbidden(format!("{kind:?} belongs to {family}*: {why}"));
    }
    if rest.is_empty()
        || rest.split(':').any(str::is_empty)
        || kind.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return forbidden(format!("{kind:?} is no event type; write it like \"cognet:memory:recalled\""));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn a_cognet_emits_its_own_types_and_nothing_else() {
        for kind in ["cognet:log:info", "cognet:memory:recalled", "cognet:phase:start", "cognet:outputs:x"] {
            assert!(check(kind).is_ok(), "{kind}");
        }
        for kind in [
            "kernel:run:start",
            "cognet:action:result",
            "cognet:output:text",
            "cognet:output",
            "cognet:load:start",
            "cognet:unload:complete",
            "stimulus:text",
            "system:notice",
            "axon:log:x",
            "capsule:boot",
            "cognet",
            "cognet:",
            "cognet::x",
            "cognet:a b",
            "",
            " cognet:x",
            "cognet:x\n",
            "COGNET:x",
        ] {
            assert_eq!(check(kind).unwrap_err().code, "COGNET_EMIT_FORBIDDEN", "{kind:?}");
        }
    }
}
