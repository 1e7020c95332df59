//! Between an isolate's values and what crosses to a tool.

use std::ptr;

use deno_core::v8;

use crate::{Datum, wire::MAX_DATUM_DEPTH};

/// The most that the arguments of one call may hold, in bytes.
pub const MAX_ARGUMENT_BYTES: usize = 32 << 20;

/// Reading an array is not the block's code, so the engine does not end it: it looks itself whether it should.
const ITEMS_BETWEEN_CHECKS: u32 = 1_024;

/// Why a value cannot be passed to a tool.
#[derive(Debug)]
pub enum Unpassable {
    /// Said to the model, as a `TypeError`.
    Refused(String),
    /// Reading it ran code of the block's, which threw (or was terminated): that goes on.
    Threw,
}

/// Reads arguments; counts what they hold.
pub struct Reader {
    left: usize,
}

impl Reader {
    pub fn new() -> Self {
        Self { left: MAX_ARGUMENT_BYTES }
    }

    pub fn read<'s>(
        &mut self,
        scope: &mut v8::PinScope<'s, '_>,
        value: v8::Local<'s, v8::Value>,
        depth: usize,
    ) -> Result<Datum, Unpassable> {
        if value.is_undefined() {
            return Ok(Datum::Undefined);
        }
        if value.is_null() {
            return Ok(Datum::Null);
        }
        if value.is_boolean() {
            return Ok(Datum::Bool(value.boolean_value(scope)));
        }
        if let Ok(number) = v8::Local::<v8::Number>::try_from(value) {
            self.take(size_of::<f64>())?;
            return Ok(Datum::Number(number.value()));
        }
        if let Ok(text) = v8::Local::<v8::String>::try_from(value) {
            self.take(text.length())?;
            return Ok(Datum::String(text.to_rust_string_lossy(scope)));
        }
        if value.is_big_int() {
            return Err(refused("a bigint: convert it with Number() or String()"));
        }
        if value.is_symbol() {
            return Err(refused("a symbol"));
        }
        if value.is_function() {
            return Err(refused("a function"));
        }
        if depth >= MAX_DATUM_DEPTH {
            return Err(refused(&format!("data nested deeper than {MAX_DATUM_DEPTH} levels (or in a cycle)")));
        }
        self.read_object(scope, value, depth + 1)
    }

    fn read_object<'s>(
        &mut self,
        scope: &mut v8::PinScope<'s, '_>,
        value: v8::Local<'s, v8::Value>,
        depth: usize,
    ) -> Result<Datum, Unpassable> {
        if value.is_date() {
            let date = v8::Local::<v8::Date>::try_from(value).map_err(|_| refused("a date"))?;
            return Ok(Datum::Date(date.value_of()));
        }
        if let Ok(view) = v8::Local::<v8::ArrayBufferView>::try_from(value) {
            self.take(view.byte_length())?;
            let mut bytes = vec![0; view.byte_length()];
            view.copy_contents(&mut bytes);
            return Ok(Datum::Bytes(bytes));
        }
        if let Ok(buffer) = v8::Local::<v8::ArrayBuffer>::try_from(value) {
            self.take(buffer.byte_length())?;
            let view = v8::Uint8Array::new(scope, buffer, 0, buffer.byte_length()).ok_or(Unpassable::Threw)?;
            let mut bytes = vec![0; buffer.byte_length()];
            view.copy_contents(&mut bytes);
            return Ok(Datum::Bytes(bytes));
        }
        if let Some(what) = exotic(value) {
            return Err(refused(what));
        }
        if let Ok(array) = v8::Local::<v8::Array>::try_from(value) {
            let mut items = Vec::new();
            for index in 0..array.length() {
                if index % ITEMS_BETWEEN_CHECKS == 0 && scope.is_execution_terminating() {
                    return Err(Unpassable::Threw);
                }
                self.take(1)?;
                let item = array.get_index(scope, index).ok_or(Unpassable::Threw)?;
                items.push(self.read(scope, item, depth)?);
            }
            return Ok(Datum::Array(items));
        }
        let object = v8::Local::<v8::Object>::try_from(value).map_err(|_| refused("a value of this kind"))?;
        let names = object
            .get_own_property_names(
                scope,
                v8::GetPropertyNamesArgsBuilder::new()
                    .property_filter(v8::PropertyFilter::ONLY_ENUMERABLE | v8::PropertyFilter::SKIP_SYMBOLS)
                    .key_conversion(v8::KeyConversionMode::ConvertToString)
                    .build(),
            )
            .ok_or(Unpassable::Threw)?;
        let mut fields = Vec::new();
        for index in 0..names.length() {
            let name = names.get_index(scope, index).ok_or(Unpassable::Threw)?;
            let item = object.get(scope, name).ok_or(Unpassable::Threw)?;
            if item.is_undefined() {
                continue;
            }
            let name = name.to_rust_string_lossy(scope);
            self.take(name.len())?;
            fields.push((name, self.read(scope, item, depth)?));
        }
        Ok(Datum::Object(fields))
    }

    fn take(&mut self, bytes: usize) -> Result<(), Unpassable> {
        self.left = self
            .left
            .checked_sub(bytes)
            .ok_or_else(|| refused(&format!("more than {} MiB at once", MAX_ARGUMENT_BYTES >> 20)))?;
        Ok(())
    }
}

fn refused(what: &str) -> Unpassable {
    Unpassable::Refused(format!(
        "{what} cannot be passed to a tool. What can: null, booleans, numbers, strings, arrays, plain objects, \
         Uint8Array, Date"
    ))
}

/// Objects whose content is not in their properties.
fn exotic(value: v8::Local<'_, v8::Value>) -> Option<&'static str> {
    if value.is_map() || value.is_weak_map() {
        Some("a Map: use Object.fromEntries()")
    } else if value.is_set() || value.is_weak_set() {
        Some("a Set: use an array")
    } else if value.is_promise() {
        Some("a promise: await it first")
    } else if value.is_reg_exp() {
        Some("a regular expression: pass its source")
    } else if value.is_proxy() {
        Some("a Proxy")
    } else {
        None
    }
}

/// Makes an array of bytes by the engine's own means: what it is handed from outside no limit counts. `None` if the engine
/// cannot.
pub fn bytes<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    make_bytes: &v8::Global<v8::Function>,
    content: &[u8],
) -> Option<v8::Local<'s, v8::Uint8Array>> {
    v8::tc_scope!(let scope, scope);
    let length = v8::Number::new(scope, content.len() as f64).into();
    let this = v8::undefined(scope).into();
    let array = v8::Local::new(scope, make_bytes).call(scope, this, &[length])?;
    let array = v8::Local::<v8::Uint8Array>::try_from(array).ok()?;
    let store = array.buffer(scope)?.get_backing_store();
    if store.byte_length() < content.len() {
        return None;
    }
    if let Some(data) = store.data() {
        // SAFETY: the store has room for the content, and nobody else knows of it yet.
        unsafe { ptr::copy_nonoverlapping(content.as_ptr(), data.cast::<u8>().as_ptr(), content.len()) };
    }
    Some(array)
}

/// Makes a value of the isolate's; `None` if the engine cannot (it is out of memory or terminated).
pub fn write<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    make_bytes: &v8::Global<v8::Function>,
    datum: &Datum,
) -> Option<v8::Local<'s, v8::Value>> {
    Some(match datum {
        Datum::Undefined => v8::undefined(scope).into(),
        Datum::Null => v8::null(scope).into(),
        Datum::Bool(b) => v8::Boolean::new(scope, *b).into(),
        Datum::Number(n) => v8::Number::new(scope, *n).into(),
        Datum::String(text) => v8::String::new(scope, text)?.into(),
        Datum::Bytes(content) => bytes(scope, make_bytes, content)?.into(),
        Datum::Date(ms) => v8::Date::new(scope, *ms)?.into(),
        Datum::Array(items) => {
            let array = v8::Array::new(scope, 0);
            for (index, item) in items.iter().enumerate() {
                let item = write(scope, make_bytes, item)?;
                array.set_index(scope, u32::try_from(index).ok()?, item)?;
            }
            array.into()
        }
        Datum::Object(fields) => {
            let object = v8::Object::new(scope);
            for (name, value) in fields {
                let name = v8::String::new(scope, name)?;
                let value = write(scope, make_bytes, value)?;
                object.create_data_property(scope, name.into(), value)?;
            }
            object.into()
        }
    })
}
