// `fetch` in the shape of the web, over the tool `http.request`. Without streaming: an answer is whole when it arrives.

(function () {
  "use strict";

  const { core, primordials } = __bootstrap;
  const {
    ArrayIsArray,
    ArrayPrototypeSort,
    JSONParse,
    MapPrototypeEntries,
    MapPrototypeGet,
    MapPrototypeHas,
    MapPrototypeKeys,
    MapPrototypeSet,
    MapPrototypeValues,
    ObjectDefineProperty,
    ObjectKeys,
    Promise,
    PromisePrototypeThen,
    SafeArrayIterator,
    SafeMap,
    String,
    StringPrototypeToLowerCase,
    Symbol,
    SymbolIterator,
    TypeError,
    TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeSlice,
    Uint8Array,
  } = primordials;

  const OPTIONS = ["method", "headers", "body", "redirect", "signal"];
  const ILLEGAL = Symbol("illegal constructor");

  // The headers of a response: read only, names in any case.
  class Headers {
    #fields = new SafeMap();

    constructor(key, fields) {
      if (key !== ILLEGAL) throw new TypeError("Illegal constructor");
      const names = ArrayPrototypeSort(ObjectKeys(fields));
      for (let i = 0; i < names.length; i++) MapPrototypeSet(this.#fields, names[i], fields[names[i]]);
    }

    get(name) {
      return MapPrototypeGet(this.#fields, StringPrototypeToLowerCase(String(name))) ?? null;
    }

    has(name) {
      return MapPrototypeHas(this.#fields, StringPrototypeToLowerCase(String(name)));
    }

    keys() {
      return MapPrototypeKeys(this.#fields);
    }

    values() {
      return MapPrototypeValues(this.#fields);
    }

    entries() {
      return MapPrototypeEntries(this.#fields);
    }

    forEach(callback) {
      for (const [name, value] of MapPrototypeEntries(this.#fields)) callback(value, name, this);
    }
  }
  ObjectDefineProperty(Headers.prototype, SymbolIterator, {
    __proto__: null,
    value: Headers.prototype.entries,
    writable: true,
    configurable: true,
  });

  class Response {
    #body;
    #used = false;

    constructor(key, answer) {
      if (key !== ILLEGAL) throw new TypeError("Illegal constructor");
      this.url = answer.url;
      this.status = answer.status;
      this.statusText = answer.statusText;
      this.ok = answer.ok;
      this.redirected = answer.redirected;
      this.headers = new Headers(ILLEGAL, answer.headers);
      this.#body = answer.body;
    }

    get bodyUsed() {
      return this.#used;
    }

    #take() {
      if (this.#used) throw new TypeError("the response's body was read before; keep what text(), json() or bytes() gave");
      this.#used = true;
      return this.#body;
    }

    async bytes() {
      return this.#take();
    }

    async arrayBuffer() {
      return TypedArrayPrototypeGetBuffer(TypedArrayPrototypeSlice(this.#take()));
    }

    async text() {
      const { TextDecoder } = core.loadExtScript("ext:deno_web/08_text_encoding.js");
      return new TextDecoder().decode(this.#take());
    }

    async json() {
      return JSONParse(await this.text());
    }
  }

  function headersOf(init) {
    if (init === undefined || init === null) return undefined;
    const fields = { __proto__: null };
    const add = (name, value) => {
      const known = fields[name];
      fields[name] = known === undefined ? String(value) : `${known}, ${String(value)}`;
    };
    if (typeof init[SymbolIterator] === "function") {
      for (const pair of init) add(String(pair[0]), pair[1]);
    } else {
      const names = ObjectKeys(init);
      for (let i = 0; i < names.length; i++) add(names[i], init[names[i]]);
    }
    return { ...fields };
  }

  // The body as it is sent, and the type that goes with it.
  function bodyOf(body) {
    if (body === undefined || body === null) return [undefined, undefined];
    if (typeof body === "string") return [body, "text/plain;charset=UTF-8"];
    if (core.isArrayBuffer(body)) return [new Uint8Array(body), undefined];
    if (core.isArrayBufferView(body)) return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength), undefined];
    const { URLSearchParams } = core.loadExtScript("ext:deno_web/00_url.js");
    if (body instanceof URLSearchParams) {
      return [body.toString(), "application/x-www-form-urlencoded;charset=UTF-8"];
    }
    throw new TypeError("fetch: body must be text, bytes or URLSearchParams (JSON.stringify makes text of an object)");
  }

  function optionsOf(init) {
    const names = ObjectKeys(init);
    for (let i = 0; i < names.length; i++) {
      let known = false;
      for (let j = 0; j < OPTIONS.length; j++) known ||= OPTIONS[j] === names[i];
      if (!known) {
        throw new TypeError(`fetch: init has no field "${names[i]}" (accepted: method, headers, body, redirect, signal)`);
      }
    }
    const [body, type] = bodyOf(init.body);
    const headers = headersOf(init.headers) ?? {};
    if (type !== undefined) {
      let named = false;
      for (const name of new SafeArrayIterator(ObjectKeys(headers))) {
        named ||= StringPrototypeToLowerCase(name) === "content-type";
      }
      if (!named) headers["content-type"] = type;
    }
    const options = { headers };
    if (init.method !== undefined) options.method = String(init.method);
    if (init.redirect !== undefined) options.redirect = init.redirect;
    if (body !== undefined) options.body = body;
    return options;
  }

  // `send(url, options)` gives the number of the call and its answer; `cancel(number)` gives the call up.
  function makeFetch(send, cancel) {
    return async function fetch(url, init = undefined) {
      if (init !== undefined && (typeof init !== "object" || init === null || ArrayIsArray(init))) {
        throw new TypeError("fetch: the second argument must be an object");
      }
      const { signal, ...rest } = init ?? {};
      const options = optionsOf(rest);
      if (signal === undefined || signal === null) {
        return new Response(ILLEGAL, await send(String(url), options).answer);
      }
      signal.throwIfAborted();
      const call = send(String(url), options);
      const answer = await new Promise((resolve, reject) => {
        const abort = () => {
          cancel(call.id);
          reject(signal.reason);
        };
        signal.addEventListener("abort", abort, { once: true });
        const settle = (end) => (value) => {
          signal.removeEventListener("abort", abort);
          end(value);
        };
        PromisePrototypeThen(call.answer, settle(resolve), settle(reject));
      });
      return new Response(ILLEGAL, answer);
    };
  }

  return { makeFetch };
})();
