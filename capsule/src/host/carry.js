// What a block's top-level names hold, on its way to later blocks, and back.
//
// Everything here uses primordials, because a block may change every prototype it can reach.

(function () {
  "use strict";

  const { core, primordials } = globalThis.__bootstrap;
  const { op_axon_forget, op_axon_given, op_axon_keep_source, op_axon_keep_value } = core.ops;
  const {
    ArrayBufferPrototypeGetByteLength,
    ArrayIsArray,
    ArrayPrototypePop,
    ArrayPrototypePush,
    Error,
    EvalError,
    FunctionPrototypeToString,
    JSONParse,
    MapPrototypeForEach,
    ObjectPrototype,
    RangeError,
    ReferenceError,
    ReflectGetOwnPropertyDescriptor,
    ReflectGetPrototypeOf,
    ReflectOwnKeys,
    SafeMap,
    SafeSet,
    SetPrototypeAdd,
    SetPrototypeForEach,
    SetPrototypeHas,
    StringPrototypeIncludes,
    MapPrototypeGet,
    MapPrototypeSet,
    MapPrototypeHas,
    SyntaxError,
    TypeError,
    URIError,
  } = primordials;

  // The same as of all bindings of a session.
  const MAX_BYTES = 16 * 1024 * 1024;
  // What any value takes, at least.
  const MIN_BYTES = 2;

  const STANDARD_ERRORS = [Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError];
  const TOO_LARGE = { __proto__: null };

  // Names that the block declares, with how each can be kept: "value", "source" or "namespace".
  let declared = [];
  // Why names that earlier blocks declared are not there.
  const forgotten = new SafeMap();
  let readers = null;
  let carriedReaders = null;
  const carriedValues = new SafeSet();
  // What was made again by source, as it was then.
  const carriedSources = new SafeMap();

  // Called by the host with what the block declares and what it was given.
  function carry(json) {
    const names = JSONParse(json);
    declared = names.declared;
    for (let i = 0; i < names.forgotten.length; i++) {
      MapPrototypeSet(forgotten, names.forgotten[i][0], names.forgotten[i][1]);
    }
    if (names.values.length === 0) return;
    const table = { __proto__: null };
    for (let i = 0; i < names.values.length; i++) {
      SetPrototypeAdd(carriedValues, names.values[i]);
      table[names.values[i]] = core.deserialize(op_axon_given(names.values[i]), { __proto__: null, forStorage: true });
    }
    globalThis.__axon = table;
  }

  // Called by the host with readers of the carried names.
  function carried(object) {
    carriedReaders = object;
    const names = ReflectOwnKeys(object);
    for (let i = 0; i < names.length; i++) {
      if (!SetPrototypeHas(carriedValues, names[i])) MapPrototypeSet(carriedSources, names[i], object[names[i]]());
    }
  }

  // Called by the block before anything else.
  function expose(object) {
    readers ??= object;
  }

  function capture() {
    for (let i = 0; i < declared.length && readers !== null; i++) {
      const name = declared[i][0];
      let value;
      try {
        value = readers[name]();
      } catch {
        // The block ended before it was declared.
        continue;
      }
      const how = declared[i][1];
      if (how === "source" && typeof value === "function") op_axon_keep_source(name, FunctionPrototypeToString(value));
      else if (how === "namespace" && value !== undefined) op_axon_keep_source(name, "");
      else keep(name, value);
    }
    if (carriedReaders === null) return;
    const names = ReflectOwnKeys(carriedReaders);
    for (let i = 0; i < names.length; i++) {
      const value = carriedReaders[names[i]]();
      const isSame = MapPrototypeHas(carriedSources, names[i]) && MapPrototypeGet(carriedSources, names[i]) === value;
      if (!isSame) keep(names[i], value);
    }
  }

  function keep(name, value) {
    const why = obstacle(value);
    if (why === TOO_LARGE) return op_axon_forget(name, "", MAX_BYTES);
    if (why !== null) return op_axon_forget(name, why, 0);
    let bytes;
    try {
      bytes = core.serialize(value, { __proto__: null, forStorage: true });
    } catch {
      return op_axon_forget(name, `${kindOf(value)} that has no copy`, 0);
    }
    if (bytes.length > MAX_BYTES) op_axon_forget(name, "", bytes.length);
    else op_axon_keep_value(name, bytes);
  }

  // What of a value cannot be carried over, in words; null if all of it can.
  function obstacle(root) {
    const state = { __proto__: null, left: MAX_BYTES, stack: [root], seen: new SafeSet() };
    while (state.stack.length > 0) {
      const value = ArrayPrototypePop(state.stack);
      const what = obstacleOf(value, state);
      if (what !== null) return value === root ? what : `${kindOf(root)} that holds ${what}`;
      if (state.left < 0) return TOO_LARGE;
    }
    return null;
  }

  function obstacleOf(value, state) {
    state.left -= MIN_BYTES;
    switch (typeof value) {
      case "string":
        state.left -= value.length;
        return null;
      case "symbol":
        return "a symbol";
      case "function":
        return "a function that was made by a call or assigned later";
      case "object":
        break;
      default:
        return null;
    }
    if (value === null || SetPrototypeHas(state.seen, value)) return null;
    SetPrototypeAdd(state.seen, value);
    if (core.isProxy(value)) return "a Proxy";
    if (core.isPromise(value)) return "a Promise";
    if (core.isDate(value) || core.isRegExp(value) || core.isBoxedPrimitive(value)) return null;
    if (core.isArrayBuffer(value)) {
      state.left -= ArrayBufferPrototypeGetByteLength(value);
      return null;
    }
    if (core.isArrayBufferView(value)) {
      ArrayPrototypePush(state.stack, value.buffer);
      return null;
    }
    const prototype = ReflectGetPrototypeOf(value);
    if (core.isNativeError(value)) return errorObstacle(value, prototype, state);
    if (core.isMap(value) && prototype === primordials.MapPrototype) {
      MapPrototypeForEach(value, (item, key) => {
        ArrayPrototypePush(state.stack, key);
        ArrayPrototypePush(state.stack, item);
      });
      return null;
    }
    if (core.isSet(value) && prototype === primordials.SetPrototype) {
      SetPrototypeForEach(value, (item) => ArrayPrototypePush(state.stack, item));
      return null;
    }
    if (ArrayIsArray(value) && prototype === primordials.ArrayPrototype) return arrayObstacle(value, state);
    if (prototype !== ObjectPrototype && prototype !== null || core.isGeneratorObject(value)) return kindOf(value);
    return objectObstacle(value, state);
  }

  function errorObstacle(error, prototype, state) {
    for (let i = 0; i < STANDARD_ERRORS.length; i++) {
      if (STANDARD_ERRORS[i].prototype === prototype) {
        const cause = ReflectGetOwnPropertyDescriptor(error, "cause");
        if (cause !== undefined) ArrayPrototypePush(state.stack, cause.value);
        return null;
      }
    }
    return kindOf(error);
  }

  function arrayObstacle(array, state) {
    for (let i = 0; i < array.length; i++) {
      const item = array[i];
      // Most arrays hold plain data; only what needs a look is kept for one.
      if (typeof item === "number" || typeof item === "boolean" || item === undefined) state.left -= MIN_BYTES;
      else ArrayPrototypePush(state.stack, item);
      if (state.left < 0 || state.stack.length > MAX_BYTES) {
        state.left = -1;
        return null;
      }
    }
    return null;
  }

  function objectObstacle(object, state) {
    const keys = ReflectOwnKeys(object);
    for (let i = 0; i < keys.length; i++) {
      const property = ReflectGetOwnPropertyDescriptor(object, keys[i]);
      if (!property.enumerable) continue;
      if (typeof keys[i] === "symbol") return "an Object with a symbol as key";
      if (!("value" in property)) return "an Object with a getter or a setter";
      state.left -= keys[i].length;
      ArrayPrototypePush(state.stack, property.value);
    }
    return null;
  }

  // "an Array", "a Point", as far as that can be told without running the block's code.
  function kindOf(value) {
    if (typeof value !== "object" || value === null) return `a ${typeof value}`;
    const prototype = core.isProxy(value) ? null : ReflectGetPrototypeOf(value);
    if (prototype === null) return "an Object";
    const constructor = core.isProxy(prototype) ? undefined : ReflectGetOwnPropertyDescriptor(prototype, "constructor")?.value;
    const name = typeof constructor === "function" ? ReflectGetOwnPropertyDescriptor(constructor, "name")?.value : undefined;
    if (typeof name !== "string" || name === "") return "an object of a kind of its own";
    const article = StringPrototypeIncludes("AEIO", name[0]) ? "an" : "a";
    const builtIn = globalThis[name] === constructor;
    return builtIn ? `${article} ${name}` : `an instance of ${name}`;
  }

  return {
    __proto__: null,
    carry,
    carried,
    expose,
    capture,
    whyForgotten: (name) => MapPrototypeGet(forgotten, name),
  };
})();
