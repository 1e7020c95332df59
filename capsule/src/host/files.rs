//! Files of `tools/` as modules of an isolate.

use std::{
    cell::{OnceCell, RefCell},
    collections::HashMap,
};

use deno_core::{ModuleSource, ModuleSourceCode, ModuleSpecifier, ModuleType};
use deno_error::JsErrorBox;

use crate::{
    ToolFile, source,
    tool_source::{TOOLS_URL, resolve_import},
};

/// The modules that a block can import: none, for a block that a model wrote.
#[derive(Default)]
pub struct Files {
    sources: OnceCell<HashMap<String, String>>,
    maps: RefCell<HashMap<String, String>>,
}

impl Files {
    /// To be called once, before the block runs.
    pub fn set(&self, files: &[ToolFile]) {
        let sources = files.iter().map(|file| (file.path.clone(), file.source.clone())).collect();
        // An isolate serves one block, so the cell is empty.
        let _ = self.sources.set(sources);
    }

    /// `None` where there are no files at all.
    pub fn resolve(&self, specifier: &str, referrer: &str) -> Option<Result<ModuleSpecifier, JsErrorBox>> {
        let sources = self.sources.get().filter(|sources| !sources.is_empty())?;
        let known = |path: &str| sources.get_key_value(path).map(|(path, _)| path.as_str());
        let path = match (specifier.strip_prefix(TOOLS_URL), referrer.strip_prefix(TOOLS_URL)) {
            (Some(path), _) => known(path),
            (None, Some(from)) => resolve_import(specifier, from, known),
            (None, None) => None,
        };
        let refused = || JsErrorBox::type_error(format!("{specifier:?} is no file in tools/"));
        Some(
            path.ok_or_else(refused)
                .and_then(|path| ModuleSpecifier::parse(&format!("{TOOLS_URL}{path}")).map_err(|_| refused())),
        )
    }

    pub fn load(&self, specifier: &ModuleSpecifier) -> Option<Result<ModuleSource, JsErrorBox>> {
        let sources = self.sources.get().filter(|sources| !sources.is_empty())?;
        let path = specifier.as_str().strip_prefix(TOOLS_URL)?;
        let source = sources.get(path)?;
        Some(match source::module_code(path, source) {
            Ok((code, map)) => {
                self.maps.borrow_mut().insert(specifier.as_str().to_owned(), map);
                let code = ModuleSourceCode::String(code.into());
                Ok(ModuleSource::new(ModuleType::JavaScript, code, specifier, None))
            }
            Err(problem) => Err(JsErrorBox::generic(problem)),
        })
    }

    pub fn source_map(&self, file_name: &str) -> Option<Vec<u8>> {
        self.maps.borrow().get(file_name).map(|map| map.clone().into_bytes())
    }
}
