//! Tools through the built program: requests, programs, and the user's own.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    path::Path,
    thread,
};

use serde_json::{Value, json};

use crate::support::Agent;

/// A server that answers with the request's head and body as JSON; `/slow` is never answered. Gives its address.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut reader = BufReader::new(connection);
                let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                        length = value.trim().parse().unwrap_or(0);
                    }
                    head.push_str(&std::mem::take(&mut line));
                }
                let mut body = vec![0; length];
                let _ = reader.read_exact(&mut body);
                if head.contains("/slow") {
                    let _ = reader.read(&mut [0]);
                    return;
                }
                let echo = json!({ "head": head, "body": String::from_utf8_lossy(&body) }).to_string();
                let answer = format!("HTTP/1.1 200 OK\r\nx-test: yes\r\ncontent-length: {}\r\n\r\n{echo}", echo.len());
                let _ = reader.get_mut().write_all(answer.as_bytes());
            });
        }
    });
    address
}

fn value(agent: &Agent, code: &str) -> Value {
    let ran = agent.run(&["exec", "-e", &format!("JSON.stringify(await (async () => {{ {code} }})())")]);
    serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

#[test]
fn fetch_has_the_shape_of_the_web() {
    let address = server();
    let agent = Agent::with(&[("axon.toml", &format!("[policy]\nnet = [\"{address}\"]\n"))]);
    let code = format!(
        "const r = await fetch(new URL('http://{address}/a?b'), {{ method: 'POST', headers: {{ 'X-Mine': '1' }},
           body: new URLSearchParams({{ q: 'ä b' }}) }});
         const used = r.bodyUsed;
         const {{ head, body }} = await r.json();
         const again = await r.text().catch(e => e.name);
         const bytes = await (await fetch('http://{address}/', {{ method: 'PUT', body: new Uint8Array([104, 105]) }})).bytes();
         return [r.status, r.ok, r.url, r.headers.get('X-Test'), [...r.headers.keys()], used, r.bodyUsed, again, body,
           head.split('\\r\\n')[0], /x-mine: 1/i.test(head), /urlencoded/.test(head), bytes instanceof Uint8Array,
           JSON.parse(new TextDecoder().decode(bytes)).body]"
    );
    assert_eq!(
        value(&agent, &code),
        json!([
            200,
            true,
            format!("http://{address}/a?b"),
            "yes",
            ["content-length", "x-test"],
            false,
            true,
            "TypeError",
            "q=%C3%A4+b",
            "POST /a?b HTTP/1.1",
            true,
            true,
            true,
            "hi"
        ])
    );
    let code = format!(
        "const stop = new AbortController(); setTimeout(() => stop.abort(), 30);
         const late = await fetch('http://{address}/slow', {{ signal: stop.signal }}).catch(e => e.name);
         const early = await fetch('http://{address}/', {{ signal: AbortSignal.abort() }}).catch(e => e.name);
         const wrong = await fetch('http://{address}/', {{ metod: 'GET' }}).catch(e => e.message);
         const denied = await fetch('http://example.com/').catch(e => `${{e.name}} ${{e.code}}`);
         return [late, early, /no field \"metod\"/.test(wrong), denied]"
    );
    assert_eq!(value(&agent, &code), json!(["AbortError", "AbortError", true, "PolicyDenied POLICY_DENIED"]));
    // Without a host there is no fetch.
    assert_eq!(value(&Agent::empty(), "return typeof fetch"), "undefined");
}

#[test]
fn a_granted_key_is_usable_by_its_tool_and_found_nowhere_else() {
    const KEY: &str = "sk-very-secret-0123456789";
    let address = server();
    let tool = format!(
        "export async function ask(text: string): Promise<string> {{
           const r = await fetch('http://{address}/', {{ method: 'POST', body: text, headers: {{ 'x-key': String(env.API_KEY) }} }});
           return (await r.json()).head;
         }}
         export function fail(): void {{ throw new Error(`the server refused the key ${{env.API_KEY}}`); }}
         export function give(): unknown {{ return {{ key: env.API_KEY, all: JSON.stringify(env) }}; }}
         declare const env: Record<string, string>;"
    );
    let config = format!("[policy.fs]\nread = [\".\"]\n[tools.api]\nnet = [\"{address}\"]\nenv = [\"API_KEY\"]\n");
    let agent = Agent::with(&[
        ("axon.toml", config.as_str()),
        (".env", &format!("API_KEY={KEY}\n")),
        ("tools/api.ts", tool.as_str()),
    ]);
    let code = "const seen = [];
        const head = await api.ask('hello');
        try { await api.fail() } catch (e) { seen.push(e.message, e.stack) }
        seen.push(JSON.stringify(await api.give()), typeof env, Object.keys(globalThis).join());
        for (const path of ['.env', './.env', 'tools/../.env', 'tools/api.ts'])
          seen.push(await fs.read(path).catch(e => e.message));
        console.log(seen.join('\\n'));
        return [/x-key: \\[API_KEY\\]/i.test(head), seen[3]]";
    let ran = agent.run(&["exec", "--json=all", "-e", code]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout.contains("[true,\\\"undefined\\\"]") || ran.stdout.contains("true, \\\"undefined\\\""),
        "{}",
        ran.stdout
    );
    let failed = agent.run(&["exec", "-e", "await api.fail()"]);
    assert!(failed.stderr.contains("refused the key [API_KEY]"), "{failed:?}");
    for shown in [&ran.stdout, &ran.stderr, &failed.stdout, &failed.stderr] {
        assert!(!shown.contains(KEY), "{shown}");
    }
    assert_eq!(holding(&agent.path().join("data"), KEY.as_bytes()), Vec::<String>::new());
    assert_eq!(holding(agent.path(), KEY.as_bytes()), [".env"]);
}

/// The files below a folder that hold some bytes.
fn holding(folder: &Path, wanted: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, wanted));
        } else if fs::read(&path).expect("a file").windows(wanted.len()).any(|window| window == wanted) {
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found
}

#[test]
fn prepare_names_file_and_line_of_every_tool_that_cannot_be_used() {
    let good = "/** Adds. */\nexport function add(a: number, b: number): number { return a + b; }\n";
    let agent = Agent::with(&[
        ("tools/good.ts", good),
        ("tools/syntax.ts", "export function a(): void {\n  if (\n}\n"),
        ("tools/types.ts", "\n\nexport function a(x): void {}\n"),
        ("tools/my-tool.ts", good),
        ("tools/fs.ts", good),
    ]);
    for command in [&["prepare"][..], &["scope"], &["run", "--cognet", "@axon/echo", "hi"], &["exec", "-e", "1"]] {
        let ran = agent.run(command);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        for expected in [
            "tools/syntax.ts:3:1: ",
            "tools/types.ts:3:19: ",
            "tools/my-tool.ts:1:1: ",
            "tools/fs.ts:1:1: fs is built in",
        ] {
            assert!(ran.stderr.contains(expected), "{expected} in {}", ran.stderr);
        }
        assert!(!ran.stderr.contains("good.ts"), "{}", ran.stderr);
    }
    for bad in ["syntax", "types", "my-tool", "fs"] {
        fs::remove_file(agent.path().join(format!("tools/{bad}.ts"))).expect("it was there");
    }
    assert_eq!(agent.run(&["prepare"]).code, Some(0));
    assert!(
        agent.read(".axon/scope.d.ts").contains("/** Adds. */\n  function add(a: number, b: number): Promise<number>;")
    );
    assert_eq!(value(&agent, "return good.add(40, 2)"), 42);
}

#[test]
fn a_block_that_may_read_and_write_the_folder_reaches_no_protected_part_of_it() {
    let agent = Agent::with(&[
        ("axon.toml", "[policy]\nrun = [\"sh\", \"cat\"]\n[policy.fs]\nread = [\".\"]\nwrite = [\".\"]\n"),
        (".env", "KEY=secret-in-env\n"),
        ("boot.md", "who"),
        ("cognets/c.lua", "-- c"),
        ("tools/t.ts", "export function t(): void {}\n"),
    ]);
    let code = r#"
        const log = (await fs.list("..", {}).catch(() => [])).length;
        const spell = (p) => [p, "./" + p, "work/../" + p, "//" + p.replace(/^/, ""), p + "/.", p.toUpperCase(), p.normalize("NFD")];
        const tried = [], got = [];
        for (const p of [".env", "data/sessions", ".axon/scope.d.ts"]) for (const path of spell(p))
          for (const call of [() => fs.read(path), () => fs.readBytes(path), () => fs.list(path), () => fs.copy(path, "work/out")]) {
            tried.push(path); await call().then(() => got.push(["read", path]), () => {}); }
        for (const p of [".env", "axon.toml", "boot.md", "tools/t.ts", "tools/new.ts", "cognets/c.lua", "data/x", ".axon/x"])
          for (const path of spell(p).filter(s => s.toLowerCase() === s))
            for (const call of [() => fs.write(path, "x"), () => fs.remove(path), () => fs.move(path, "work/m"), () => fs.copy("work/a", path, { overwrite: true })]) {
              tried.push(path); await call().then(() => got.push(["write", path]), () => {}); }
        const found = await fs.search("secret-in-env", { hidden: true, ignored: true });
        const sh = async (script) => (await process.run("sh", ["-c", script])).stdout;
        const out = [await sh("cat .env"), await sh("cat data/sessions/*"), await sh("cat /proc/$PPID/environ | tr '\\0' '\\n' | grep KEY"),
          await sh("echo x > axon.toml && echo done"), await sh("echo x > tools/new.ts && echo done")];
        return [tried.length, got, found, out.join("")]
    "#;
    agent.write("work/a", "a");
    let found = value(&agent, code);
    assert!(found[0].as_u64().expect("a count") > 200, "{found}");
    assert_eq!((&found[1], &found[2]), (&json!([]), &json!([])));
    if Path::new("/sys/kernel/security/landlock").exists() || confined(&agent) {
        assert_eq!(found[3], "", "{found}");
    }
    assert_eq!(agent.read("boot.md"), "who");
    assert!(agent.read("axon.toml").starts_with("[policy]"));
}

/// Whether this system holds programs to the roots.
fn confined(agent: &Agent) -> bool {
    value(agent, "return (await process.run('cat', ['/etc/hostname'])).code") != 0
}

#[test]
fn a_tool_that_wants_what_it_was_not_granted_says_which_grant_it_needs() {
    let agent = Agent::with(&[(
        "tools/x.ts",
        "export async function look(): Promise<number> { return (await fs.list('.')).length; }\n\
         export async function get(): Promise<number> { return (await fetch('http://127.0.0.1:1/')).status; }\n\
         export async function run(): Promise<number> { return (await process.run('git', [])).code; }\n\
         export function other(): number { return nope; }\n",
    )]);
    for (call, says) in [("look", "fs under [tools.x]"), ("get", "net under [tools.x]"), ("run", "run under [tools.x]")]
    {
        let ran = agent.run(&["exec", "-e", &format!("await x.{call}()")]);
        assert!(ran.stderr.contains(says), "{call}: {ran:?}");
    }
    let ran = agent.run(&["exec", "-e", "await x.other()"]);
    assert!(!ran.stderr.contains("[tools.x]"), "{ran:?}");
}
