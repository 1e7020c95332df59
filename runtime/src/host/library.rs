//! What the Luau half of the host and the libraries need besides the verbs.

use std::sync::atomic::Ordering;

use mlua::{Lua, Value as LuaValue, chunk::ChunkMode};
use uuid::Uuid;

use super::{Host, Purpose, Raised, args, bind::Binder, flatten, lock};
use crate::{
    VerbError, air, config,
    error::code,
    json,
    limits::MEMORY_RESERVE_BYTES,
    nearest::did_you_mean,
    own::OwnFile,
    source::{self, FileError},
};

/// The libraries in the runtime, by the name that `require` takes.
static LIBRARIES: [(&str, OwnFile); 3] = [
    ("@axon/air", OwnFile::new("=@axon/air", include_str!("../../luau/air.luau"))),
    ("@axon/json", OwnFile::new("=@axon/json", include_str!("../../luau/json.luau"))),
    ("@axon/uuid", OwnFile::new("=@axon/uuid", include_str!("../../luau/uuid.luau"))),
];

/// What a model reads about AIR, for `@axon/air`.
static AIR_WORDS: OwnFile = OwnFile::new("=@axon/air", include_str!("../../luau/air_words.luau"));

pub(super) fn bind(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.value("pending", Lua::poll_pending())?;
    bind_errors(binder)?;
    bind_modules(binder)?;
    bind_wake(binder)?;
    bind_libraries(binder)
}

fn bind_errors(binder: &Binder<'_>) -> mlua::Result<()> {
    // Answers {code, message, last}, or nil for what is no error of mlua's.
    binder.function("flatten", |lua, host, value: LuaValue| {
        let LuaValue::Error(error) = &value else { return Ok(LuaValue::Nil) };
        let flat = flatten::flatten(host, error);
        if flat.code == code::MEMORY {
            relax(lua, host)?;
        }
        let table = lua.create_table_with_capacity(0, 3)?;
        table.raw_set("code", flat.code)?;
        table.raw_set("message", flat.message)?;
        table.raw_set("last", flat.last)?;
        Ok(LuaValue::Table(table))
    })?;
    binder.function("out_of_memory", |lua, host, (): ()| {
        relax(lua, host)?;
        Ok(LuaValue::String(lua.create_string(host.memory_message())?))
    })?;
    binder.function("did_you_mean", |lua, _, (name, names): (LuaValue, Vec<String>)| {
        let name = name.to_string()?;
        Ok(LuaValue::String(lua.create_string(did_you_mean(&name, names.iter().map(String::as_str)))?))
    })
}

/// Leaves the VM that has reached its memory limit enough to tell of it.
fn relax(lua: &Lua, host: &Host) -> mlua::Result<()> {
    if !host.relaxed.swap(true, Ordering::Relaxed) {
        lua.set_memory_limit(lua.used_memory().max(host.limits.memory_bytes) + MEMORY_RESERVE_BYTES)?;
    }
    Ok(())
}

fn bind_modules(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.function("define", |lua, host, table: LuaValue| {
        let table = args::data(lua, &table, "defineCognet: config").map_err(|error| error.under(code::INVALID))?;
        let identity = config::identity(&table);
        if host.purpose == Purpose::Identify {
            // What is wrong beyond the identity is for a load to tell.
            let config = config::parse(&table).or_else(|error| identity.ok_or(error))?;
            *lock(&host.config) = Some(config);
            return Ok(LuaValue::Nil);
        }
        if let Some(identity) = &identity {
            config::check_abi(identity)?;
        }
        if lock(&host.config).replace(config::parse(&table)?).is_some() {
            return Err(VerbError::new(code::INVALID, "defineCognet was called twice").into());
        }
        Ok(LuaValue::Nil)
    })?;
    binder.function("loaded", |_, host, (): ()| {
        host.meter.loaded();
        Ok(LuaValue::Nil)
    })?;
    binder.function("check_defined", |_, host, (): ()| match *lock(&host.config) {
        Some(_) => Ok(LuaValue::Nil),
        None => {
            let message = format!("{} never calls defineCognet", host.files.place());
            Err(VerbError::new(code::INVALID, message).into())
        }
    })?;
    binder.value("identify_only", binder.purpose() == Purpose::Identify)?;
    binder.function("display", |lua, host, key: String| {
        Ok(LuaValue::String(lua.create_string(host.files.display(&key))?))
    })?;
    binder.function("resolve", |lua, host, (from, name): (Option<String>, LuaValue)| {
        let name = args::string(&name, "require: name")?;
        Ok(LuaValue::String(lua.create_string(resolve(host, from.as_deref(), &name)?)?))
    })?;
    binder.function("compile", |lua, host, key: String| {
        let text = host
            .files
            .read(&key)?
            .ok_or_else(|| VerbError::new(code::NOT_FOUND, format!("{} is missing", host.files.display(&key))))?;
        host.remember_text(&key, &text);
        let name = format!("@{}", host.files.display(&key));
        lua.enable_jit(asks_for_machine_code(&text));
        let function = lua.load(text).set_name(name).set_mode(ChunkMode::Text).into_function();
        lua.enable_jit(false);
        Ok(LuaValue::Function(function.map_err(syntax)?))
    })
}

/// Whether a file begins with Luau's own directive for it, `--!native`, among the comments at its top.
fn asks_for_machine_code(text: &str) -> bool {
    let lines = text.lines().map(str::trim);
    lines.take_while(|line| line.is_empty() || line.starts_with("--")).any(|line| line == "--!native")
}

fn resolve(host: &Host, from: Option<&str>, name: &str) -> Result<String, VerbError> {
    let refused = |why: &str| VerbError::new(code::REQUIRE_REFUSED, format!("require(\"{name}\"): {why}"));
    if !(name.starts_with("./") || name.starts_with("../")) {
        return Err(refused("a name begins with `./` or `../` (relative to the file) or with `@axon/` (a library)"));
    }
    if name.contains('\0') || name.contains('\\') {
        return Err(refused("the name holds a character that no path here has"));
    }
    if let Some(key) = host.files.single() {
        return Err(refused(&format!("{key} is a cognet of one file; make it a folder to split it")));
    }
    let from = from.ok_or_else(|| refused("it is not a file of the cognet that asks"))?;
    let outside = || refused("it leads out of the cognet's folder");
    let stem = source::relative(from, name).ok_or_else(outside)?;
    host.files.find(&stem)?.ok_or_else(|| {
        let message = format!("require(\"{name}\"): {}.lua and .luau are not there", host.files.display(&stem));
        VerbError::new(code::REQUIRE_NOT_FOUND, message)
    })
}

fn syntax(error: mlua::Error) -> Raised {
    match error {
        mlua::Error::SyntaxError { .. } => VerbError::new(code::SYNTAX, flatten::text(&error)).into(),
        error => error.into(),
    }
}

fn bind_wake(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.function("tick", |_, host, tick: u32| {
        if let Some(wake) = host.active() {
            wake.ticks.store(tick, Ordering::Relaxed);
        }
        Ok(LuaValue::Nil)
    })?;
    binder.function("trace", |lua, host, (kind, data): (String, LuaValue)| {
        let data = args::data(lua, &data, &kind)?;
        // Telemetry that is lost is no concern of the cognet's.
        if let Err(error) = host.kernel.emit(&kind, Some(data)) {
            tracing::warn!(kind, %error, "telemetry was refused");
        }
        Ok(LuaValue::Nil)
    })
}

fn bind_libraries(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.function("library", |lua, _, name: String| {
        let Some((_, file)) = LIBRARIES.iter().find(|(own, _)| *own == name) else {
            let names = LIBRARIES.each_ref().map(|(name, _)| *name);
            let near = did_you_mean(&name, names);
            let message = format!("require(\"{name}\"): no such library{near}. There are {}", names.join(", "));
            return Err(VerbError::new(code::REQUIRE_NOT_FOUND, message).into());
        };
        Ok(LuaValue::Function(file.load(lua)?))
    })?;
    binder.function("air_words", |lua, _, (): ()| Ok(LuaValue::Function(AIR_WORDS.load(lua)?)))?;
    binder.function("air_blocks", |lua, _, (): ()| {
        let tags = lua.create_table()?;
        for block in air::AIR_BLOCKS {
            tags.raw_set(block.role.name(), block.tag)?;
        }
        Ok(LuaValue::Table(tags))
    })?;
    binder.function("json_encode", |lua, _, value: LuaValue| {
        Ok(LuaValue::String(lua.create_string(json::from_lua(lua, &value)?.to_string())?))
    })?;
    binder.function("json_decode", |lua, _, text: LuaValue| {
        Ok(json::to_lua(lua, &json::parse(&args::string(&text, "json.decode: text")?)?)?)
    })?;
    binder.function("json_array", |lua, _, value: LuaValue| {
        let table = match value {
            LuaValue::Nil => lua.create_table()?,
            value => args::table(&value, "json.array: argument")?.clone(),
        };
        json::mark_array(lua, &table)?;
        Ok(LuaValue::Table(table))
    })?;
    binder.value("null", LuaValue::NULL)?;
    binder.function("uuid_v4", |lua, _, (): ()| uuid(lua, Uuid::new_v4()))?;
    binder.function("uuid_v7", |lua, _, (): ()| uuid(lua, Uuid::now_v7()))
}

fn uuid(lua: &Lua, id: Uuid) -> Result<LuaValue, Raised> {
    Ok(LuaValue::String(lua.create_string(id.hyphenated().encode_lower(&mut Uuid::encode_buffer()))?))
}

impl From<FileError> for VerbError {
    fn from(error: FileError) -> Self {
        let code = match error {
            FileError::Outside(_) => code::REQUIRE_REFUSED,
            FileError::Ambiguous { .. } | FileError::Unreadable { .. } => code::INVALID,
        };
        Self::new(code, error.to_string())
    }
}
