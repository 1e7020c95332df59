//! Types for the authors of cognets: what editors need to know of the globals and the libraries.

/// The globals of a cognet as a luau-lsp definition file.
pub const LUAU_DECLARATIONS: &str = include_str!("../luau/types/kernel.d.luau");

/// What an agent's `.axon/` folder holds for editors, by path: the declarations for luau-lsp, the same for LuaLS, the types of
/// the libraries, and where `@axon/` leads.
pub const AUTHOR_FILES: &[(&str, &str)] = &[
    ("kernel.d.luau", LUAU_DECLARATIONS),
    ("kernel.meta.lua", include_str!("../luau/types/kernel.meta.lua")),
    ("lib/air.luau", include_str!("../luau/types/air.luau")),
    ("lib/json.luau", include_str!("../luau/types/json.luau")),
    ("lib/uuid.luau", include_str!("../luau/types/uuid.luau")),
    (".luaurc", include_str!("../luau/types/luaurc.json")),
];
