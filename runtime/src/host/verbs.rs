//! The seven verbs.

use std::sync::Arc;

use mlua::{Function, Lua, UserData, UserDataRef, Value as LuaValue};
use serde::Serialize;
use serde_json::Value;

use super::{Host, Inference, Raised, args, bind::Binder};
use crate::{
    EngineEvent, Entry, Format, Message, Role, RunResult, StreamRequest, VerbError, error::code, json as convert,
    limits::MAX_VALUE_BYTES, own::OwnFile, vm::HOST_CHUNK,
};

const REQUEST_FIELDS: [&str; 6] = ["messages", "format", "model", "maxTokens", "temperature", "signal"];
const MESSAGE_FIELDS: [&str; 2] = ["role", "content"];

const FORMATS: [(&str, Format); 3] = [("air", Format::Air), ("fenced", Format::Fenced), ("raw", Format::Raw)];
const ROLES: [(&str, Role); 3] = [("system", Role::System), ("user", Role::User), ("assistant", Role::Assistant)];

/// What a cognet's iterator holds of an inference.
struct StreamHandle(Arc<Inference>);

impl UserData for StreamHandle {}

/// Where the VM keeps the function of `luau/entry.luau`.
const PUT_ENTRY: &str = "axon.put_entry";

static ENTRY_SCRIPT: OwnFile = OwnFile::new(HOST_CHUNK, include_str!("../../luau/entry.luau"));

pub(super) fn bind(binder: &Binder<'_>) -> mlua::Result<()> {
    let put_entry: Function = ENTRY_SCRIPT.load(binder.lua())?.call(())?;
    binder.lua().set_named_registry_value(PUT_ENTRY, put_entry)?;
    binder.waiting("output", async |lua: Lua, host: Arc<Host>, (kind, data): (LuaValue, LuaValue)| {
        let wake = host.waking("output")?;
        let kind = args::string(&kind, "kernel.output: type").map_err(as_output)?;
        let data = args::data(&lua, &data, "kernel.output: data").map_err(as_output)?;
        host.wait(Some(wake), host.kernel.output(kind, data)).await?;
        Ok(LuaValue::Nil)
    })?;
    binder.waiting("stream", async |lua: Lua, host: Arc<Host>, request: LuaValue| {
        let wake = host.waking("stream")?;
        let request = stream_request(&request)?;
        let opening = host.kernel.stream(request, wake.signal.clone());
        let stream = host.wait(Some(Arc::clone(&wake)), opening).await?;
        let inference = Arc::new(Inference::new(Some(stream)));
        wake.track(&inference);
        Ok(LuaValue::UserData(lua.create_userdata(StreamHandle(inference))?))
    })?;
    binder.waiting("next_event", async |lua: Lua, host: Arc<Host>, handle: UserDataRef<StreamHandle>| {
        let wake = host.waking("stream")?;
        let inference = Arc::clone(&handle.0);
        drop(handle);
        let mut stream = inference.lock().await;
        let Some(open) = stream.as_mut() else { return Ok(LuaValue::Nil) };
        let outcome = host.wait(Some(wake), open.next()).await;
        if !matches!(outcome, Ok(Some(_))) {
            stream.take();
        }
        match outcome? {
            Some(event) => event_to_lua(&lua, event),
            None => Ok(LuaValue::Nil),
        }
    })?;
    binder.waiting("run", async |lua: Lua, host: Arc<Host>, blocks: LuaValue| {
        let wake = host.waking("run")?;
        let blocks = blocks_of(&blocks)?;
        let results = if blocks.is_empty() {
            Vec::new()
        } else {
            host.wait(Some(Arc::clone(&wake)), host.kernel.run(blocks, wake.signal.clone())).await?
        };
        results_to_lua(&lua, results)
    })?;
    binder.waiting("scope", async |lua: Lua, host: Arc<Host>, (): ()| {
        let scope = host.wait(host.active(), host.kernel.scope()).await?;
        serialised(&lua, &scope)
    })?;
    binder.function("base", |lua, host, (): ()| Ok(LuaValue::String(lua.create_string(host.kernel.base())?)))?;
    binder.function("emit", |lua, host, (kind, data): (LuaValue, LuaValue)| {
        let kind = args::string(&kind, "kernel.emit: type")?;
        let data = match data {
            LuaValue::Nil => None,
            data => Some(args::data(lua, &data, "kernel.emit: data")?),
        };
        host.kernel.emit(&kind, data)?;
        Ok(LuaValue::Nil)
    })?;
    bind_store(binder)
}

fn bind_store(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.function("session_get", |lua, host, query: LuaValue| {
        let after = after(&query)?;
        host.meter.outside(|| entries_to_lua(lua, host.kernel.session_get(after)?))
    })?;
    binder.function("store_get", |lua, host, key: LuaValue| {
        let key = args::string(&key, "kernel.store.get: key")?;
        match host.meter.outside(|| host.kernel.store_get(&key))? {
            Some(value) => Ok(convert::to_lua(lua, &value)?),
            None => Ok(LuaValue::Nil),
        }
    })?;
    binder.waiting("store_set", async |lua: Lua, host: Arc<Host>, (key, value): (LuaValue, LuaValue)| {
        let key = args::string(&key, "kernel.store.set: key")?;
        if value.is_nil() {
            return Err(args::invalid("kernel.store.set: value is nil; store json.null of @axon/json instead").into());
        }
        let value = convert::from_lua(&lua, &value)?;
        host.wait(host.active(), host.kernel.store_set(key, value)).await?;
        Ok(LuaValue::Nil)
    })
}

/// The kernel's own code for whatever is wrong with what the cognet says.
fn as_output(error: impl Into<Raised>) -> Raised {
    error.into().under(code::OUTPUT_INVALID)
}

fn after(query: &LuaValue) -> Result<Option<u64>, Raised> {
    if query.is_nil() {
        return Ok(None);
    }
    let table = args::table(query, "kernel.store.session.get: argument")?;
    args::only(table, &["after"], "kernel.store.session.get")?;
    let seq = match table.raw_get::<LuaValue>("after")? {
        LuaValue::Nil => return Ok(None),
        LuaValue::Integer(seq) => seq as f64,
        LuaValue::Number(seq) => seq,
        other => f64_refused(&other)?,
    };
    if seq.fract() != 0.0 {
        return Err(args::invalid("kernel.store.session.get: after must be a whole number").into());
    }
    // Before the first entry, which has seq 0, everything comes after.
    Ok((seq >= 0.0).then_some(seq as u64))
}

fn f64_refused(value: &LuaValue) -> Result<f64, VerbError> {
    let what = args::described(value);
    Err(args::invalid(format_args!("kernel.store.session.get: after must be a number, not {what}")))
}

fn stream_request(request: &LuaValue) -> Result<StreamRequest, Raised> {
    let table = args::table(request, "kernel.stream: request")?;
    args::only(table, &REQUEST_FIELDS, "kernel.stream")?;
    let field = |name: &str| table.raw_get::<LuaValue>(name);
    Ok(StreamRequest {
        messages: messages(&field("messages")?)?,
        format: match field("format")? {
            LuaValue::Nil => Format::default(),
            given => args::one_of(&given, &FORMATS, "kernel.stream: format")?,
        },
        model: optional(field("model")?).map(|given| args::string(&given, "kernel.stream: model")).transpose()?,
        max_tokens: optional(field("maxTokens")?).map(|given| max_tokens(&given)).transpose()?,
        temperature: optional(field("temperature")?).map(|given| temperature(&given)).transpose()?,
    })
}

/// `json.null` says as well as nil that there is nothing.
fn optional(value: LuaValue) -> Option<LuaValue> {
    Some(value).filter(|value| !value.is_nil() && !value.is_null())
}

fn messages(value: &LuaValue) -> Result<Vec<Message>, Raised> {
    const WHAT: &str = "kernel.stream: messages";
    let LuaValue::Table(list) = value else {
        let what = args::described(value);
        return Err(args::invalid(format_args!("{WHAT} must be a list of {{ role, content }}, not {what}")).into());
    };
    let length = list.raw_len();
    if list.pairs::<LuaValue, LuaValue>().count() != length {
        return Err(
            args::invalid(format_args!("{WHAT} must be a list of {{ role, content }} without holes or names")).into()
        );
    }
    let mut budget = MAX_VALUE_BYTES;
    let mut message = |index: usize| {
        let place = format!("kernel.stream: message {index}");
        let value = list.raw_get(index)?;
        let fields = args::table(&value, &place)?;
        args::only(fields, &MESSAGE_FIELDS, &place)?;
        let role = args::one_of(&fields.raw_get("role")?, &ROLES, &format!("{place}: role"))?;
        let content = args::string(&fields.raw_get("content")?, &format!("{place}: content"))?;
        budget = budget
            .checked_sub(content.len())
            .ok_or_else(|| args::invalid(format_args!("{WHAT} are larger than {} MiB", MAX_VALUE_BYTES >> 20)))?;
        Ok(Message { role, content })
    };
    (1..=length).map(&mut message).collect()
}

fn max_tokens(value: &LuaValue) -> Result<u32, VerbError> {
    let number = args::number(value);
    let whole = number.filter(|number| number.fract() == 0.0 && *number >= 1.0 && *number <= f64::from(u32::MAX));
    whole.map(|number| number as u32).ok_or_else(|| {
        let what = args::described(value);
        args::invalid(format_args!("kernel.stream: maxTokens must be a whole number, 1 or more, not {what}"))
    })
}

fn temperature(value: &LuaValue) -> Result<f64, VerbError> {
    args::number(value).filter(|number| number.is_finite()).ok_or_else(|| {
        let what = args::described(value);
        args::invalid(format_args!("kernel.stream: temperature must be a number, not {what}"))
    })
}

fn blocks_of(blocks: &LuaValue) -> Result<Vec<String>, Raised> {
    let LuaValue::Table(list) = blocks else {
        let what = args::described(blocks);
        return Err(
            args::invalid(format_args!("kernel.run: code must be a string or a list of strings, not {what}")).into()
        );
    };
    let length = list.raw_len();
    if list.pairs::<LuaValue, LuaValue>().count() != length {
        return Err(
            args::invalid("kernel.run: code must be a string or a list of strings without holes or names").into()
        );
    }
    let mut budget = MAX_VALUE_BYTES;
    let mut block = |index: usize| {
        let block = args::string(&list.raw_get(index)?, &format!("kernel.run: block {index}"))?;
        budget = budget.checked_sub(block.len()).ok_or_else(|| {
            args::invalid(format_args!("kernel.run: the blocks are larger than {} MiB", MAX_VALUE_BYTES >> 20))
        })?;
        Ok(block)
    };
    (1..=length).map(&mut block).collect()
}

fn event_to_lua(lua: &Lua, event: EngineEvent) -> Result<LuaValue, Raised> {
    let plain = |kind: &str, content: &str| -> Result<LuaValue, Raised> {
        let table = lua.create_table_with_capacity(0, 2)?;
        table.raw_set("type", kind)?;
        table.raw_set("content", content)?;
        Ok(LuaValue::Table(table))
    };
    match &event {
        EngineEvent::TextDelta { content } => plain("engine:text:delta", content),
        EngineEvent::Text { content } => plain("engine:text", content),
        EngineEvent::TypeScript { content } => plain("engine:typescript", content),
        other => serialised(lua, other),
    }
}

fn results_to_lua(lua: &Lua, results: Vec<RunResult>) -> Result<LuaValue, Raised> {
    let list = lua.create_table_with_capacity(results.len(), 0)?;
    for result in results {
        let value = result.value.as_ref().map(|value| convert::doubles_to_lua(lua, value)).transpose()?;
        let rest = serialised(lua, &RunResult { value: None, ..result })?;
        args::table(&rest, "kernel.run: result")?.raw_set("value", value)?;
        list.raw_push(rest)?;
    }
    convert::mark_array(lua, &list)?;
    Ok(LuaValue::Table(list))
}

pub(crate) fn entries_to_lua(
    lua: &Lua,
    entries: impl IntoIterator<Item = Result<Entry, VerbError>>,
) -> Result<LuaValue, Raised> {
    let entries = entries.into_iter();
    let list = lua.create_table_with_capacity(entries.size_hint().0, 0)?;
    // Mostly there is nothing new.
    let mut maker = None;
    for (index, entry) in (1_usize..).zip(entries) {
        let entry = entry?;
        let (put, encoder) = match &mut maker {
            Some(maker) => maker,
            none => none.insert((
                lua.named_registry_value::<Function>(PUT_ENTRY)?,
                convert::Encoder::new(lua, convert::Integers::Exact)?,
            )),
        };
        let data = encoder.value(&entry.data)?;
        let time = (entry.time.ms as f64, entry.time.seq as f64);
        put.call::<()>((&list, index, entry.id, encoder.word(&entry.kind)?, time.0, time.1, data))?;
    }
    convert::mark_array(lua, &list)?;
    Ok(LuaValue::Table(list))
}

fn serialised(lua: &Lua, value: &impl Serialize) -> Result<LuaValue, Raised> {
    let value: Value =
        serde_json::to_value(value).map_err(|error| VerbError::new(code::JSON_INVALID, error.to_string()))?;
    Ok(convert::to_lua(lua, &value)?)
}
