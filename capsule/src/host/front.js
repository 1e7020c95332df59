// What a block sees of its isolate: the globals, its tools, and how its end is read.
//
// Everything here uses primordials, because a block may change every prototype it can reach.

(function () {
  "use strict";

  const { core, primordials } = globalThis.__bootstrap;
  const carriage = globalThis.__carry;
  delete globalThis.__carry;
  const {
    op_axon_call,
    op_axon_cancel,
    op_axon_digest,
    op_axon_look_at_memory,
    op_axon_nearest,
    op_axon_print,
    op_axon_random,
    op_axon_settle_error,
    op_axon_settle_value,
  } = core.ops;
  const {
    ArrayIsArray,
    ArrayPrototypeFilter,
    ArrayPrototypeIncludes,
    ArrayPrototypeJoin,
    ArrayPrototypePush,
    ArrayPrototypeSlice,
    DatePrototype,
    Error,
    ErrorCaptureStackTrace,
    JSONParse,
    JSONStringify,
    MapPrototypeDelete,
    MapPrototypeGet,
    MapPrototypeSet,
    NumberIsFinite,
    ObjectDefineProperty,
    ObjectFreeze,
    ObjectGetOwnPropertyNames,
    ObjectPrototype,
    Promise,
    Proxy,
    RangeError,
    ReferenceError,
    ReflectApply,
    ReflectConstruct,
    ReflectGetOwnPropertyDescriptor,
    ReflectGetPrototypeOf,
    ReflectOwnKeys,
    RegExpPrototypeExec,
    RegExpPrototypeSymbolReplace,
    SafeMap,
    SafeRegExp,
    SafeSet,
    SetPrototypeAdd,
    SetPrototypeDelete,
    SetPrototypeHas,
    String,
    StringPrototypeIncludes,
    StringPrototypeSlice,
    StringPrototypeSplit,
    StringPrototypeStartsWith,
    StringPrototypeToWellFormed,
    StringPrototypeTrim,
    TypeError,
    TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength,
    TypedArrayPrototypeGetByteOffset,
    TypedArrayPrototypeGetSymbolToStringTag,
    Uint8Array,
  } = primordials;

  const CONSOLE = "ext:deno_web/01_console.js";

  // ---------------------------------------------------------------- globals

  function define(name, value) {
    ObjectDefineProperty(globalThis, name, {
      __proto__: null,
      value,
      writable: true,
      enumerable: false,
      configurable: true,
    });
  }

  // Loaded when a block first uses it: a warm isolate then costs little.
  function defineLazy(name, load) {
    ObjectDefineProperty(globalThis, name, {
      __proto__: null,
      get() {
        const value = load();
        define(name, value);
        return value;
      },
      set(value) {
        define(name, value);
      },
      enumerable: false,
      configurable: true,
    });
  }

  const MODULES = {
    __proto__: null,
    "ext:deno_web/00_url.js": ["URL", "URLSearchParams"],
    "ext:deno_web/01_dom_exception.js": ["DOMException"],
    "ext:deno_web/02_event.js": ["Event", "EventTarget", "CustomEvent"],
    "ext:deno_web/02_structured_clone.js": ["structuredClone"],
    "ext:deno_web/02_timers.js": ["setTimeout", "setInterval", "clearTimeout", "clearInterval"],
    "ext:deno_web/03_abort_signal.js": ["AbortController", "AbortSignal"],
    "ext:deno_web/05_base64.js": ["atob", "btoa"],
    "ext:deno_web/08_text_encoding.js": ["TextEncoder", "TextDecoder"],
  };
  const specifiers = ReflectOwnKeys(MODULES);
  for (let i = 0; i < specifiers.length; i++) {
    const names = MODULES[specifiers[i]];
    for (let j = 0; j < names.length; j++) {
      defineLazy(names[j], () => core.loadExtScript(specifiers[i])[names[j]]);
    }
  }

  const PERFORMANCE = "ext:deno_web/15_performance.js";
  defineLazy("performance", () => {
    const { performance, setTimeOrigin } = core.loadExtScript(PERFORMANCE);
    // It may have been loaded long ago, for the snapshot.
    setTimeOrigin();
    return performance;
  });

  function inspect(values) {
    return withoutOwnFrames(core.loadExtScript(CONSOLE).inspectArgs(values, { __proto__: null, colors: false }));
  }

  // What an error has beside its stack follows in braces, which begin on its last line.
  const OWN_FRAME = new SafeRegExp("\\n +at [^\\n]*ext:[a-z_]+/[^\\n]*?( \\{)?(?=\\n|$)", "g");

  // Stacks end where the block's own code does.
  function withoutOwnFrames(text) {
    return StringPrototypeIncludes(text, "ext:") ? RegExpPrototypeSymbolReplace(OWN_FRAME, text, "$1") : text;
  }

  const TRACE_LEVEL = 4;

  defineLazy("console", () => {
    const { Console, setNoColorFns } = core.loadExtScript(CONSOLE);
    setNoColorFns(() => true, () => true);
    return new Console((text, level) => {
      // A trace and the line break after it come one by one; each is a print of its own here.
      if (level !== TRACE_LEVEL || text !== "\n") op_axon_print(withoutOwnFrames(text));
    });
  });

  // ---------------------------------------------------------------- crypto

  const INTEGER_ARRAYS = [
    "Int8Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "Int16Array",
    "Uint16Array",
    "Int32Array",
    "Uint32Array",
    "BigInt64Array",
    "BigUint64Array",
  ];

  defineLazy("crypto", () => {
    const domError = (message, name) =>
      new (core.loadExtScript("ext:deno_web/01_dom_exception.js").DOMException)(message, name);
    const bytesOf = (data) => {
      if (core.isTypedArray(data)) {
        return new Uint8Array(
          TypedArrayPrototypeGetBuffer(data),
          TypedArrayPrototypeGetByteOffset(data),
          TypedArrayPrototypeGetByteLength(data),
        );
      }
      if (core.isArrayBufferView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      if (core.isArrayBuffer(data)) return new Uint8Array(data);
      throw new TypeError("the data to digest must be an ArrayBuffer or a view of one");
    };

    class SubtleCrypto {
      async digest(algorithm, data) {
        const name = typeof algorithm === "string" ? algorithm : algorithm?.name;
        const digest = op_axon_digest(String(name), bytesOf(data));
        if (digest === null) {
          throw domError(`unknown digest ${String(name)}: SHA-1, SHA-256, SHA-384, SHA-512`, "NotSupportedError");
        }
        return TypedArrayPrototypeGetBuffer(digest);
      }
    }

    class Crypto {
      subtle = new SubtleCrypto();

      getRandomValues(array) {
        if (!ArrayPrototypeIncludes(INTEGER_ARRAYS, TypedArrayPrototypeGetSymbolToStringTag(array))) {
          throw domError("getRandomValues fills arrays of integers only", "TypeMismatchError");
        }
        if (TypedArrayPrototypeGetByteLength(array) > 65536) {
          throw domError("getRandomValues fills at most 65536 bytes at once", "QuotaExceededError");
        }
        op_axon_random(bytesOf(array));
        return array;
      }

      randomUUID() {
        const bytes = new Uint8Array(16);
        op_axon_random(bytes);
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let text = "";
        for (let i = 0; i < 16; i++) {
          if (i === 4 || i === 6 || i === 8 || i === 10) text += "-";
          text += "0123456789abcdef"[bytes[i] >> 4] + "0123456789abcdef"[bytes[i] & 15];
        }
        return text;
      }
    }
    return new Crypto();
  });

  // ---------------------------------------------------------------- abort

  let aborted = false;
  let abortController = null;

  function signal() {
    if (abortController === null) {
      const { AbortController } = core.loadExtScript("ext:deno_web/03_abort_signal.js");
      abortController = new AbortController();
      if (aborted) abortController.abort();
    }
    return abortController.signal;
  }

  defineLazy("signal", signal);

  // Called by the host when the block is to end.
  function abort() {
    aborted = true;
    abortController?.abort();
  }

  // ---------------------------------------------------------------- tools

  let scopeHint = "";
  const pending = new SafeMap();
  let drained = null;

  // What the language and formatters look for on any object: asking is no mistake of the block's author.
  const PROBED = ["then", "toJSON", "constructor", "toString", "toLocaleString", "valueOf", "hasOwnProperty"];

  function nearest(name, candidates) {
    return op_axon_nearest(name, ArrayPrototypeJoin(candidates, "\n"));
  }

  function unknownMember(namespace, member) {
    const near = nearest(member, namespace.members);
    const hint = near === null ? "" : ` Did you mean ${namespace.name}.${near}?`;
    return new TypeError(
      `${namespace.name}.${member} does not exist.${hint} Functions of ${namespace.name}: ${
        ArrayPrototypeJoin(namespace.members, ", ")
      }`,
    );
  }

  // `from` is the function that the block called.
  function send(namespace, member, args, from) {
    const trace = { __proto__: null };
    ErrorCaptureStackTrace(trace, from);
    const id = op_axon_call(namespace, member, args);
    const answer = new Promise((resolve, reject) => {
      MapPrototypeSet(pending, id, { __proto__: null, resolve, reject, trace });
    });
    return { __proto__: null, id, answer };
  }

  function tool(namespace, member) {
    const call = {
      async [member](...args) {
        return await send(namespace, member, args, call).answer;
      },
    }[member];
    return ObjectFreeze(call);
  }

  function installNamespace(namespace) {
    const strict = new Proxy(ObjectFreeze({}), {
      __proto__: null,
      get(target, key) {
        if (typeof key !== "string" || ArrayPrototypeIncludes(PROBED, key)) return target[key];
        throw unknownMember(namespace, key);
      },
    });
    const object = { __proto__: strict };
    for (let i = 0; i < namespace.members.length; i++) {
      const member = namespace.members[i];
      ObjectDefineProperty(object, member, {
        __proto__: null,
        value: tool(namespace.name, member),
        enumerable: true,
      });
    }
    ObjectDefineProperty(globalThis, namespace.name, {
      __proto__: null,
      value: ObjectFreeze(object),
      enumerable: true,
      writable: false,
      configurable: false,
    });
  }

  const FETCH = "ext:axon_capsule/fetch.js";

  // The members that have a global front.
  function installFronts(namespace) {
    if (namespace.name !== "http" || !ArrayPrototypeIncludes(namespace.members, "request")) return;
    defineLazy("fetch", () => {
      const { makeFetch } = core.loadExtScript(FETCH);
      const fetch = makeFetch((url, options) => send("http", "request", [url, options], fetch), op_axon_cancel);
      return fetch;
    });
  }

  const ERROR_CLASSES = { __proto__: null, TypeError, RangeError, ReferenceError };

  function toolError({ name, message, code }, trace) {
    const error = new (ERROR_CLASSES[name] ?? Error)(message);
    const own = (key, value) =>
      ObjectDefineProperty(error, key, { __proto__: null, value, writable: true, enumerable: false, configurable: true });
    if (ERROR_CLASSES[name] === undefined) own("name", name);
    const frames = ArrayPrototypeSlice(StringPrototypeSplit(String(trace.stack), "\n"), 1);
    own("stack", ArrayPrototypeJoin([`${name}: ${message}`, ...new primordials.SafeArrayIterator(frames)], "\n"));
    if (code !== null) {
      ObjectDefineProperty(error, "code", {
        __proto__: null,
        value: code,
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
    return error;
  }

  // Called by the host with what a tool gave.
  function deliver(id, ok, result) {
    const call = MapPrototypeGet(pending, id);
    if (call === undefined) return;
    MapPrototypeDelete(pending, id);
    if (ok) call.resolve(result);
    else call.reject(toolError(result, call.trace));
    if (pending.size === 0) drained?.();
  }

  // A call that nobody awaited still takes effect before the block ends.
  async function pendingCallsEnd() {
    while (pending.size > 0) {
      await new Promise((resolve) => drained = resolve);
    }
  }

  // ---------------------------------------------------------------- values

  // Deeper values are shown as text.
  const MAX_JSON_DEPTH = 64;
  const NOT_JSON = { __proto__: null };

  // Text over the room is counted so far, not kept.
  const MAX_COUNTED = 4 * 1024 * 1024;

  // JSON text, up to the room for it, and how long all of it is.
  class Json {
    text = "";
    length = 0;

    add(text) {
      this.length += text.length;
      if (this.text.length <= room) this.text += text;
    }

    get isFull() {
      return this.length > room + MAX_COUNTED;
    }
  }

  function toJson(value, ancestors, json) {
    switch (typeof value) {
      case "string":
        return stringToJson(value, json);
      case "boolean":
        return json.add(String(value));
      case "number":
        if (!NumberIsFinite(value)) throw NOT_JSON;
        return json.add(value === 0 ? "0" : String(value));
      case "object":
        break;
      default:
        throw NOT_JSON;
    }
    if (value === null) return json.add("null");
    // A Proxy would run the block's code while it is read.
    if (core.isProxy(value) || SetPrototypeHas(ancestors, value) || ancestors.size >= MAX_JSON_DEPTH) throw NOT_JSON;
    const isArray = ArrayIsArray(value);
    const prototype = ReflectGetPrototypeOf(value);
    if (isArray ? prototype !== primordials.ArrayPrototype : prototype !== ObjectPrototype && prototype !== null) {
      throw NOT_JSON;
    }
    SetPrototypeAdd(ancestors, value);
    if (isArray) arrayToJson(value, ancestors, json);
    else objectToJson(value, ancestors, json);
    SetPrototypeDelete(ancestors, value);
  }

  function stringToJson(text, json) {
    // Past what is counted nothing need be read. Lone surrogates have no JSON that all accept.
    const read = text.length > room + MAX_COUNTED ? StringPrototypeSlice(text, 0, room + MAX_COUNTED + 1) : text;
    json.add(JSONStringify(StringPrototypeToWellFormed(read)));
  }

  // Only data that can be read without running any of the block's code.
  function dataProperty(object, key) {
    const property = ReflectGetOwnPropertyDescriptor(object, key);
    if (property === undefined || !("value" in property)) throw NOT_JSON;
    return property;
  }

  // Longer arrays are not looked through for properties beside their elements.
  const MAX_LISTED_LENGTH = 10_000;

  function arrayToJson(array, ancestors, json) {
    if (array.length <= MAX_LISTED_LENGTH && ReflectOwnKeys(array).length !== array.length + 1) throw NOT_JSON;
    json.add("[");
    for (let i = 0; i < array.length && !json.isFull; i++) {
      if (i > 0) json.add(",");
      const { value } = dataProperty(array, i);
      toJson(value === undefined ? null : value, ancestors, json);
    }
    json.add("]");
  }

  function objectToJson(object, ancestors, json) {
    const keys = ReflectOwnKeys(object);
    let separator = "";
    json.add("{");
    for (let i = 0; i < keys.length && !json.isFull; i++) {
      const key = keys[i];
      if (typeof key !== "string") throw NOT_JSON;
      const { value, enumerable } = dataProperty(object, key);
      if (!enumerable || value === undefined) continue;
      json.add(separator);
      separator = ",";
      stringToJson(key, json);
      json.add(":");
      toJson(value, ancestors, json);
    }
    json.add("}");
  }

  const VALUE_NONE = 0;
  const VALUE_JSON = 1;
  const VALUE_TEXT = 2;
  const VALUE_BEGINNING = 3;

  function settleValue(value) {
    if (value === undefined) return op_axon_settle_value(VALUE_NONE, "", 0, true);
    if (typeof value === "string" && value.length > room) {
      const beginning = StringPrototypeToWellFormed(StringPrototypeSlice(value, 0, room + 1));
      return op_axon_settle_value(VALUE_BEGINNING, beginning, value.length, true);
    }
    // Measured as it is, not by its escapes.
    if (typeof value === "string") {
      return op_axon_settle_value(VALUE_JSON, JSONStringify(StringPrototypeToWellFormed(value)), 0, true);
    }
    try {
      const json = new Json();
      toJson(value, new SafeSet(), json);
      const kind = json.length > room ? VALUE_BEGINNING : VALUE_JSON;
      return op_axon_settle_value(kind, json.text, json.length, !json.isFull);
    } catch (reason) {
      if (reason !== NOT_JSON) throw reason;
    }
    op_axon_settle_value(VALUE_TEXT, inspect([value]), 0, true);
  }

  // ---------------------------------------------------------------- errors

  const MAX_FRAMES = 6;
  const MAX_CAUSES = 5;
  // Positions there are not the model's.
  const EARLIER = new SafeRegExp("earlier-block:\\d+:\\d+");
  const UNKNOWN_NAME = new SafeRegExp("^(\\S+) is not defined$");
  // Longer texts are not looked through for a name: that takes memory with their length.
  const MAX_UNKNOWN_LENGTH = 1_000;

  function frames(error) {
    const stack = error.stack;
    if (typeof stack !== "string") return "";
    const lines = StringPrototypeSplit(stack, "\n");
    const kept = [];
    for (let i = 1; i < lines.length && kept.length < MAX_FRAMES; i++) {
      const line = StringPrototypeTrim(lines[i]);
      if (StringPrototypeStartsWith(line, "at ") && StringPrototypeIncludes(line, "block:")) {
        ArrayPrototypePush(kept, `\n    ${RegExpPrototypeSymbolReplace(EARLIER, line, "an earlier block")}`);
      }
    }
    return ArrayPrototypeJoin(kept, "");
  }

  function isError(value) {
    return core.isNativeError(value) ||
      (typeof value === "object" && value !== null && typeof value.message === "string" &&
        typeof value.name === "string" && typeof value.stack === "string");
  }

  function describe(error, depth) {
    if (!isError(error)) return `Uncaught ${inspect([error])}`;
    const name = String(error.name);
    const message = String(error.message);
    const unknown = unknownName(error, message);
    const why = unknown === null ? undefined : carriage.whyForgotten(unknown);
    let text = message === "" ? name : `${name}: ${message}`;
    if (why !== undefined) text += ` ${why}`;
    text += frames(error);
    if (unknown !== null && why === undefined) text += hint(unknown);
    if (depth >= MAX_CAUSES) return text;
    if (ArrayIsArray(error.errors)) {
      for (let i = 0; i < error.errors.length && i < MAX_CAUSES; i++) {
        text += `\nOne of its errors: ${describe(error.errors[i], depth + 1)}`;
      }
    }
    if (error.cause !== undefined) text += `\nCaused by: ${describe(error.cause, depth + 1)}`;
    return text;
  }

  // The name that an error says is not defined, or null.
  function unknownName(error, message) {
    const match = core.isNativeError(error) && error.name === "ReferenceError" && message.length <= MAX_UNKNOWN_LENGTH
      ? RegExpPrototypeExec(UNKNOWN_NAME, message)
      : null;
    return match === null ? null : match[1];
  }

  // Names that nobody means when they write another one.
  const NEVER_MEANT = ["undefined", "NaN", "Infinity", "eval", "escape", "unescape"];

  // Where axon.toml grants what is not there without a grant. A tool of the user's own has its grants in a table of its own.
  const GRANTS = {
    __proto__: null,
    fs: "[policy.fs] read and write (for a tool of your own: fs in [tools.NAME])",
    fetch: "[policy] net (for a tool of your own: net in [tools.NAME])",
    http: "[policy] net (for a tool of your own: net in [tools.NAME])",
    process: "[policy] run (for a tool of your own: run in [tools.NAME])",
  };

  function hint(name) {
    if (GRANTS[name] !== undefined) return `\n${name} is there where axon.toml grants it: ${GRANTS[name]}. ${scopeHint}`;
    if (name === "require") return `\nModules cannot be loaded here. ${scopeHint}`;
    const candidates = ArrayPrototypeFilter(
      ObjectGetOwnPropertyNames(globalThis),
      (candidate) => !ArrayPrototypeIncludes(NEVER_MEANT, candidate),
    );
    const near = nearest(name, candidates);
    return (near === null ? "\n" : `\nDid you mean ${near}? `) + scopeHint;
  }

  function settleError(prefix, error) {
    let message;
    let code = null;
    try {
      message = prefix + describe(error, 0);
      if (message.length > room) {
        const leftOut = message.length - room;
        message = `${StringPrototypeSlice(message, 0, room)}… [message cut: ${leftOut} characters left out]`;
      }
      const own = typeof error === "object" && error !== null ? error.code : undefined;
      if (typeof own === "string") code = own;
    } catch (thrown) {
      message = `${prefix}an error that cannot be read: reading it throws`;
      try {
        message += ` ${StringPrototypeSlice(String(thrown), 0, room)}`;
      } catch {
        // It is told without what it throws.
      }
    }
    op_axon_settle_error(message, code);
  }

  core.setUnhandledPromiseRejectionHandler((_promise, reason) => {
    settleError("Unhandled rejection: ", reason);
    return true;
  });
  core.setReportExceptionCallback((error) => settleError("", error));

  // ---------------------------------------------------------------- the run

  // How many characters of a value or of an error can be shown.
  let room = 0;

  // Called by the host before the block's code, with the tools in scope, those in words, and `room`.
  function prepare(json, hint, characters) {
    scopeHint = hint;
    room = characters;
    const namespaces = JSONParse(json);
    for (let i = 0; i < namespaces.length; i++) {
      installNamespace(namespaces[i]);
      installFronts(namespaces[i]);
    }
  }

  // Called by the host with the block as a function.
  async function run(block) {
    try {
      const value = await block(carriage.expose);
      await pendingCallsEnd();
      carriage.capture();
      settleValue(value);
    } catch (error) {
      settleError("", error);
    }
  }

  // ---------------------------------------------------------------- what must not be there

  const REMOVED = ["Deno", "__bootstrap", "WebAssembly", "SharedArrayBuffer", "ShadowRealm", "gc"];

  // QuickJS has no Intl. What stands in for it formats alike for every language, and wrongly for most; only this much holds.
  const INTL_OF_QUICKJS = ["Collator", "DateTimeFormat", "ListFormat", "Locale"];
  // Its Temporal calls this one by its name; the other names of its host are of no use here.
  const TIME_ZONES_OF_QUICKJS = "__v8xTemporalTimeZone";

  function sealQuickJs() {
    const names = ObjectGetOwnPropertyNames(globalThis);
    for (let i = 0; i < names.length; i++) {
      if (StringPrototypeStartsWith(names[i], "__") && names[i] !== TIME_ZONES_OF_QUICKJS) delete globalThis[names[i]];
    }
    const { Intl } = globalThis;
    const parts = ReflectOwnKeys(Intl);
    for (let i = 0; i < parts.length; i++) {
      if (!ArrayPrototypeIncludes(INTL_OF_QUICKJS, parts[i])) delete Intl[parts[i]];
    }
    define("Intl", Intl);
    // Answers one language with a date of its own invention.
    const { toLocaleString: inventive } = DatePrototype;
    const honest = {
      toLocaleString() {
        return ReflectApply(inventive, this, []);
      },
    };
    ObjectDefineProperty(DatePrototype, "toLocaleString", { __proto__: null, value: honest.toLocaleString });
  }

  // The engine takes memory for resizable buffers past the allocator that counts.
  function withoutResizing(Original) {
    function ArrayBuffer(length, options) {
      if (new.target === undefined) throw new TypeError("Constructor ArrayBuffer requires 'new'");
      if (options?.maxByteLength !== undefined) {
        throw new RangeError("resizable array buffers are not supported here: make a new one and copy");
      }
      return ReflectConstruct(Original, [length], new.target === ArrayBuffer ? Original : new.target);
    }
    const keys = ReflectOwnKeys(Original);
    // A function's own prototype can be written, not configured.
    ArrayBuffer.prototype = Original.prototype;
    for (let i = 0; i < keys.length; i++) {
      if (keys[i] === "prototype") continue;
      ObjectDefineProperty(ArrayBuffer, keys[i], {
        __proto__: null,
        ...ReflectGetOwnPropertyDescriptor(Original, keys[i]),
      });
    }
    ObjectDefineProperty(Original.prototype, "constructor", { __proto__: null, value: ArrayBuffer });
    return ArrayBuffer;
  }

  // What objects of Intl hold lies outside the heap: the host looks at it now and then while they are made.
  const INTL_BETWEEN_LOOKS = 128;
  let intlMade = 0;

  function lookNowAndThen() {
    intlMade++;
    if (intlMade % INTL_BETWEEN_LOOKS === 0) op_axon_look_at_memory();
  }

  function looking(Original) {
    const looked = new Proxy(Original, {
      __proto__: null,
      apply(target, self, args) {
        lookNowAndThen();
        return ReflectApply(target, self, args);
      },
      construct(target, args, newTarget) {
        lookNowAndThen();
        return ReflectConstruct(target, args, newTarget === looked ? target : newTarget);
      },
    });
    ObjectDefineProperty(Original.prototype, "constructor", { __proto__: null, value: looked });
    return looked;
  }

  function watchIntl() {
    const { Intl } = globalThis;
    const names = ReflectOwnKeys(Intl);
    for (let i = 0; i < names.length; i++) {
      const { value } = ReflectGetOwnPropertyDescriptor(Intl, names[i]);
      if (typeof value === "function" && value.prototype !== undefined) {
        ObjectDefineProperty(Intl, names[i], { __proto__: null, value: looking(value) });
      }
    }
  }

  // Called by the host before the isolate is given to a block. Not earlier: the engine adds some of these names when it
  // starts from a snapshot.
  function seal() {
    delete globalThis.Atomics.wait;
    delete globalThis.Atomics.waitAsync;
    for (let i = 0; i < REMOVED.length; i++) delete globalThis[REMOVED[i]];
    if (TIME_ZONES_OF_QUICKJS in globalThis) sealQuickJs();
    else watchIntl();
    define("ArrayBuffer", withoutResizing(globalThis.ArrayBuffer));
  }

  // Called by the host before it takes a snapshot: what is loaded now is in it, and costs an isolate nothing.
  function preload() {
    core.loadExtScript(CONSOLE);
    core.loadExtScript(PERFORMANCE);
    core.loadExtScript(FETCH);
    for (let i = 0; i < specifiers.length; i++) core.loadExtScript(specifiers[i]);
  }

  // Called by the host for what it hands to the block.
  const bytes = (length) => new Uint8Array(length);

  const { carry, carried } = carriage;
  return { __proto__: null, prepare, carry, carried, run, deliver, abort, bytes, seal, preload };
})();
