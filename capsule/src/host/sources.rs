//! The scripts of the web extensions, kept in the program: the isolate process can open no file.

use std::sync::Arc;

use deno_core::{Extension, ExtensionFileSource};

/// By specifier.
const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The capsule's own.
const OWN: (&str, &str) = ("ext:axon_capsule/fetch.js", include_str!("fetch.js"));

/// Has an extension take its scripts from here instead of the machine that it was built on. Isolates from a snapshot
/// have them already.
pub fn embed(mut extension: Extension) -> Extension {
    for files in [&mut extension.lazy_loaded_js_files, &mut extension.lazy_loaded_esm_files] {
        for file in files.to_mut() {
            if let Some((_, code)) = SOURCES.iter().chain([&OWN]).find(|(specifier, _)| *specifier == file.specifier) {
                *file = ExtensionFileSource::new_computed(file.specifier, Arc::from(*code));
            }
        }
    }
    extension
}
