//! The scope as TypeScript: the real compiler accepts it, and it says what is there.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use crate::support::{Agent, finish};

const CONFIG: &str = "[policy]\nnet = [\"127.0.0.1:9\"]\nrun = [\"sh\"]\n\
    [policy.fs]\nread = [\".\"]\nwrite = [\"work\"]\n";

const TOOL: &str = "/** Places. */\n\nexport interface Place { name: string; size?: number }\n\
    /** Finds one.\n * @param name Its name. */\n\
    export async function find(name: string): Promise<Place> { return { name }; }\n\
    export const count = (places: Place[]): number => places.length;\n";

/// Every member, used as it is meant to be.
const GOOD: &str = r#"
async function block(): Promise<void> {
  const text: string = await fs.read("a", { start: 0, end: 10 });
  const bytes: Uint8Array = await fs.readBytes("a");
  const lines: string[] = await fs.readLines("a", { end: 3 });
  await fs.write("work/a", bytes, { mode: "append" });
  const edited: number = (await fs.edit("work/a", [{ find: "a", replace: "b", all: true }])).replacements;
  const names: string[] = (await fs.list("src", { depth: 2 })).filter((e) => e.kind === "file").map((e) => e.path);
  const paths: string[] = await fs.glob(["*.rs", "*.ts"], { kind: "file", hidden: true });
  for (const match of await fs.search("TODO", { glob: "*.rs", context: 1 })) { const n: number = match.line; }
  const when: Date = (await fs.stat("a")).modified;
  await fs.mkdir("work/b");
  await fs.move("work/a", "work/b/a", { overwrite: true });
  await fs.copy("work/b/a", "work/c");
  await fs.remove("work/b", { recursive: true });
  const answer = await http.request("http://127.0.0.1:9/", { method: "POST", headers: { a: "b" }, body: "x" });
  const type: string | undefined = answer.headers["content-type"];
  const raw: Uint8Array = answer.body;
  const response = await fetch("http://127.0.0.1:9/", { headers: [["a", "b"]], redirect: "error" });
  const found: any = response.ok ? await response.json() : null;
  const header: string | null = response.headers.get("a");
  const { code, stdout, stderr, truncated } = await process.run("sh", ["-c", "ls"], { cwd: "work", env: { A: "1" } });
  const total: number = code + stdout.length + stderr.length;
  const place: places.Place = await places.find("here");
  const n: number = await places.count([place]);
}
"#;

/// Uses that have to be refused, each after a line that expects it.
const BAD: &str = r#"
async function wrong(): Promise<void> {
  // @ts-expect-error
  await fs.read(1);
  // @ts-expect-error
  const n: number = await fs.read("a");
  // @ts-expect-error
  await fs.reed("a");
  // @ts-expect-error
  await fs.write("a");
  // @ts-expect-error
  await fs.write("a", "b", { mode: "overwrite" });
  // @ts-expect-error
  await fs.edit("a", { search: "x", replace: "y" });
  // @ts-expect-error
  await http.request("http://a", { verb: "GET" });
  // @ts-expect-error
  await http.request({ url: "http://a" });
  // @ts-expect-error
  await process.run("sh -c ls", "ls");
  // @ts-expect-error
  await process.exec("sh");
  // @ts-expect-error
  const s: string = (await process.run("sh")).code;
  // @ts-expect-error
  await places.find();
  // @ts-expect-error
  const now: places.Place = places.find("not awaited");
}
"#;

fn agent() -> Agent {
    Agent::with(&[("axon.toml", CONFIG), ("tools/places.ts", TOOL), ("work/x", "")])
}

fn members(agent: &Agent) -> Vec<(String, bool, Vec<String>)> {
    let ran = agent.run(&["scope", "--json"]);
    let scope: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let module = |module: &Value| {
        let members = module["members"].as_array().expect("members").iter().map(|member| text(&member["name"]));
        (text(&module["name"]), module["flat"] == true, members.collect())
    };
    scope["modules"].as_array().expect("modules").iter().map(module).collect()
}

#[test]
fn what_is_declared_exists_and_what_exists_is_declared() {
    let agent = agent();
    let declared = members(&agent);
    assert_eq!(declared.iter().map(|(_, _, members)| members.len()).sum::<usize>(), 18, "{declared:?}");
    for (module, flat, members) in &declared {
        let expression = if *flat {
            format!("{members:?}.filter(name => typeof globalThis[name] === 'function')")
        } else {
            format!("Object.keys({module}).filter(name => typeof {module}[name] === 'function')")
        };
        let ran = agent.run(&["exec", "-e", &format!("JSON.stringify({expression})")]);
        let there: Vec<String> = serde_json::from_str(ran.stdout.trim()).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        assert_eq!(&there, members, "{module}");
    }
    // Namespaces are all that can be enumerated of the global object.
    let ran = agent.run(&["exec", "-e", "JSON.stringify(Object.keys(globalThis))"]);
    let namespaces: Vec<_> = declared.iter().filter(|(_, flat, _)| !flat).map(|(name, ..)| name.clone()).collect();
    assert_eq!(serde_json::from_str::<Vec<String>>(ran.stdout.trim()).ok(), Some(namespaces), "{ran:?}");
}

#[test]
fn the_typescript_compiler_accepts_the_scope_and_blocks_that_use_it_and_refuses_wrong_uses() {
    let agent = agent();
    for (module, flat, members) in members(&agent) {
        for member in members {
            let call = if flat { format!("await {member}(") } else { format!("{module}.{member}(") };
            assert!(GOOD.contains(&call), "no sample block uses {call}");
        }
    }
    let Some(compiler) = compiler() else {
        println!("skipped: npm or its registry is not there, so there is no TypeScript compiler");
        return;
    };
    agent.write("good.ts", GOOD);
    agent.write("bad.ts", BAD);
    assert_eq!(agent.run(&["prepare"]).code, Some(0));
    let dts = agent.run(&["scope", "--dts"]).stdout;
    assert_eq!(dts, agent.read(".axon/scope.d.ts"));
    // With the library of the web, which declares a fetch of its own, and without.
    for library in ["esnext", "esnext,dom"] {
        let files = [".axon/scope.d.ts", "good.ts", "bad.ts"];
        check(compiler, agent.path(), library, &files);
        check(compiler, agent.path(), library, &[".axon/tools.d.ts", "tools/places.ts"]);
    }
}

fn check(compiler: &Path, folder: &Path, library: &str, files: &[&str]) {
    let mut node = Command::new("node");
    node.arg(compiler).args(["--strict", "--noEmit", "--target", "esnext", "--lib", library]);
    node.args(files).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ran = finish(node.spawn().expect("node starts"));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "lib {library}: {ran:?}");
}

/// The TypeScript compiler, fetched once into the build's own folder; `None` where it cannot be had.
fn compiler() -> Option<&'static Path> {
    static COMPILER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let fetch = || {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("typescript");
        let compiler = folder.join("node_modules/typescript/lib/tsc.js");
        if !compiler.is_file() {
            let mut npm = Command::new("npm");
            npm.args(["install", "--silent", "--no-audit", "--no-fund", "--fetch-retries=0", "--prefix"]).arg(&folder);
            npm.arg("typescript@5").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            npm.status().ok().filter(|status| status.success())?;
        }
        compiler.is_file().then_some(compiler)
    };
    COMPILER.get_or_init(fetch).as_deref()
}
