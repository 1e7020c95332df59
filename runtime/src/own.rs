//! The Luau files that belong to the program, compiled once a process for all its VMs.

use std::sync::OnceLock;

use mlua::{
    Function, Lua,
    chunk::{ChunkMode, Compiler},
};

/// A file of the program's own.
pub(crate) struct OwnFile {
    text: &'static str,
    /// What tracebacks call it.
    chunk: &'static str,
    bytecode: OnceLock<Vec<u8>>,
}

impl OwnFile {
    pub const fn new(chunk: &'static str, text: &'static str) -> Self {
        Self { text, chunk, bytecode: OnceLock::new() }
    }

    /// The file as a function of this VM.
    pub fn load(&self, lua: &Lua) -> mlua::Result<Function> {
        let bytecode = match self.bytecode.get() {
            Some(bytecode) => bytecode,
            None => {
                let compiled = Compiler::new().compile(self.text)?;
                self.bytecode.get_or_init(|| compiled)
            }
        };
        lua.load(bytecode).set_name(self.chunk).set_mode(ChunkMode::Binary).into_function()
    }
}
