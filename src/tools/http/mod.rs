//! `http` and the global `fetch`: requests to the hosts that policy lists.

mod client;
mod headers;
mod request;

pub(super) use client::Client;
pub(super) use request::time;

use super::table::{Effect, Member, Module, Need, Run, TypeDeclaration};

/// The member that `fetch` is a front of.
pub(super) const FRONTED: (&str, &str) = ("http", "request");

pub(super) const MODULE: Module = Module {
    name: "http",
    description: "Requests to the hosts that are granted. `fetch` is the same in the shape of the web.",
    flat: false,
    types: &[
        TypeDeclaration {
            name: "HttpOptions",
            declaration: r#"interface HttpOptions {
  /** Default "GET". */
  method?: string;
  headers?: Record<string, string>;
  /** Text or bytes; `JSON.stringify` makes text of anything else. */
  body?: string | Uint8Array;
  /** What to do with a redirect. Default "follow": at most 10, each checked against the granted hosts. */
  redirect?: "follow" | "manual" | "error";
  /** For the whole exchange. Default 30000, at most 300000. */
  timeoutMs?: number;
}"#,
        },
        TypeDeclaration {
            name: "HttpResponse",
            declaration: r#"interface HttpResponse {
  /** Where the answer came from, after redirects. */
  url: string;
  status: number;
  statusText: string;
  /** Whether the status is 200 to 299. */
  ok: boolean;
  redirected: boolean;
  /** Names in lower case. */
  headers: Record<string, string>;
  /** Decompressed, at most 50 MiB. */
  body: Uint8Array;
}"#,
        },
    ],
    members: &[Member {
        name: "request",
        declaration: "function request(url: string, options?: HttpOptions): Promise<HttpResponse>",
        doc: "One HTTP exchange. Any status is an answer; it throws when there is none.\n\
              The host has to be granted; private addresses only where they are granted as addresses.\n\
              @example const { status, body } = await http.request(\"https://api.github.com/zen\");\n\
              const text = new TextDecoder().decode(body);",
        needs: &[Need::Net],
        effect: Effect::Outside,
        arity: 2,
        run: Run::Waiting(request::request),
    }],
};

pub(super) const FETCH: Module = Module {
    name: "fetch",
    description: "`fetch`, in the shape of the web.",
    flat: true,
    types: &[
        TypeDeclaration {
            name: "FetchOptions",
            declaration: r#"interface FetchOptions {
  /** Default "GET". */
  method?: string;
  headers?: Record<string, string> | Iterable<[string, string]>;
  /** Text or bytes; `JSON.stringify` makes text of anything else. */
  body?: string | Uint8Array | ArrayBuffer | null;
  redirect?: "follow" | "manual" | "error";
  signal?: FetchSignal | null;
}

/** An `AbortSignal`, for example `signal`, which aborts with the block. */
interface FetchSignal {
  readonly aborted: boolean;
  readonly reason: any;
  throwIfAborted(): void;
}"#,
        },
        TypeDeclaration {
            name: "FetchResponse",
            declaration: r#"interface FetchResponse {
  readonly url: string;
  readonly status: number;
  readonly statusText: string;
  /** Whether the status is 200 to 299. */
  readonly ok: boolean;
  readonly redirected: boolean;
  readonly headers: FetchHeaders;
  readonly bodyUsed: boolean;
  text(): Promise<string>;
  json(): Promise<any>;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
}

interface FetchHeaders extends Iterable<[string, string]> {
  get(name: string): string | null;
  has(name: string): boolean;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  entries(): IterableIterator<[string, string]>;
  forEach(callback: (value: string, name: string) => void): void;
}"#,
        },
    ],
    members: &[Member {
        name: "fetch",
        declaration: "function fetch(url: string | { readonly href: string }, options?: FetchOptions): Promise<FetchResponse>",
        doc: "As on the web, without streaming: the answer is whole when the promise is fulfilled.\n\
              The host has to be granted.\n\
              @example const user = await (await fetch(\"https://api.github.com/users/octocat\")).json();",
        needs: &[Need::Net],
        effect: Effect::Outside,
        arity: 2,
        run: Run::Front,
    }],
};
