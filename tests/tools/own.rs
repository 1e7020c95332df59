//! The user's own tools: what they declare, what they may do, and that they keep to themselves.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axon::{
    policy::{Policy, PolicyRules, Rule, Unattended},
    secrets::Secrets,
    tools::{OwnGrants, OwnSettings, OwnTools, OwnToolsError, Toolbox, Unobserved},
};
use axon_capsule::{Datum, HOST_COMMAND, Launch, Limits};
use serde_json::json;

use crate::{
    support::{Desk, Journal, Tools, o, ruled, s},
    web::{Web, ok},
};

struct Setup {
    desk: Desk,
    rules: PolicyRules,
    grants: HashMap<String, OwnGrants>,
    limits: Limits,
}

impl Setup {
    fn new(files: &[(&str, &str)]) -> Self {
        let desk = Desk::new();
        for (path, source) in files {
            desk.put(&format!("tools/{path}"), source);
        }
        let rules = desk.rules(&["."], &[]);
        Self { desk, rules, grants: HashMap::new(), limits: Limits::default() }
    }

    fn granting(mut self, name: &str, grants: OwnGrants) -> Self {
        self.grants.insert(name.into(), grants);
        self
    }

    async fn load(&self) -> Result<Tools, OwnToolsError> {
        let settings = OwnSettings {
            agent_dir: self.desk.agent(),
            launch: Launch { program: env!("CARGO_BIN_EXE_axon").into(), args: vec![HOST_COMMAND.into()] },
            limits: self.limits.clone(),
            grants: self.grants.clone(),
        };
        let own = OwnTools::load(settings, Arc::new(Unattended), Arc::new(Unobserved)).await?;
        let policy = Policy::new(&self.desk.agent(), self.rules.clone()).unwrap();
        let secrets = Secrets::new(self.grants.values().flat_map(|grants| grants.env.clone()));
        Ok(Tools {
            toolbox: Toolbox::with_own(policy, Arc::new(Unattended), own, secrets),
            journal: Journal::default(),
        })
    }

    async fn tools(&self) -> Tools {
        self.load().await.unwrap_or_else(|error| panic!("{error}"))
    }

    async fn problems(&self) -> String {
        match self.load().await {
            Ok(_) => panic!("no problem"),
            Err(error) => error.to_string(),
        }
    }
}

#[tokio::test]
async fn exported_functions_are_members_with_their_types_and_words() {
    let source = "/** All about words. */\n\nimport { twice } from './lib/repeat';\n\n\
        export type Word = { text: string };\n\
        /** Not part of it. */\nfunction hidden(): void {}\n\
        /**\n * A word, twice.\n * @param word Any word.\n */\n\
        export function double(word: Word): Word { hidden(); return { text: twice(word.text) }; }\n\
        export const shout = async (text: string, times?: number): Promise<string> => text.toUpperCase().repeat(times ?? 1);\n\
        export const VERSION = '1';\n";
    let files =
        [("words.ts", source), ("lib/repeat.ts", "export const twice = (text: string): string => text + text;")];
    let tools = Setup::new(&files).tools().await;
    let scope = tools.toolbox.scope();
    let module = scope.modules.iter().find(|module| module.name == "words").unwrap();
    assert_eq!(module.description.as_deref(), Some("All about words."));
    let members: Vec<_> = module.members.iter().map(|member| member.declaration.as_str()).collect();
    assert_eq!(
        members,
        ["function double(word: Word): Promise<Word>", "function shout(text: string, times?: number): Promise<string>"]
    );
    assert_eq!(module.members[0].jsdoc.as_deref(), Some("A word, twice.\n@param word Any word."));
    assert_eq!(module.members[1].jsdoc, None);
    assert!(scope.dts.contains("declare namespace words {\n  type Word = {"), "{}", scope.dts);
    assert_eq!(tools.json("words.double", [o(json!({ "text": "ab" }))]).await, json!({ "text": "abab" }));
    assert_eq!(tools.json("words.shout", [s("a"), Datum::Number(3.0)]).await, "AAA");
    assert!(tools.journal.kinds().contains(&"capsule:tool:complete"));
}

#[tokio::test]
async fn a_tool_keeps_what_it_knows_between_calls_and_apart_from_other_tools() {
    let counter = "let n = 0;\nexport function next(): number { (globalThis as any).mark = 1; return ++n; }\n\
        export function marked(): boolean { return 'mark' in globalThis; }";
    let tools = Setup::new(&[("a.ts", counter), ("b.ts", counter)]).tools().await;
    for expected in 1..=3 {
        assert_eq!(tools.json("a.next", []).await, expected);
    }
    assert_eq!((tools.json("b.marked", []).await, tools.json("b.next", []).await), (json!(false), json!(1)));
    assert_eq!(tools.json("a.marked", []).await, true);
}

#[tokio::test]
async fn bytes_and_dates_cross_and_what_cannot_cross_is_an_error_of_the_tool() {
    let source = "export function same(value: unknown): unknown { return value; }\n\
        export function closure(): unknown { return () => 1; }";
    let tools = Setup::new(&[("t.ts", source)]).tools().await;
    for value in [Datum::Bytes(vec![0, 255]), Datum::Date(1234.0), Datum::Undefined, o(json!({ "a": [1, null] }))] {
        assert_eq!(tools.call("t.same", [value.clone()]).await.unwrap(), value);
    }
    let error = tools.refusal("t.closure", []).await;
    assert!(error.message.contains("t.closure(): its result cannot be passed on"), "{error}");
    assert_eq!(tools.json("t.same", [s("alive")]).await, "alive");
}

#[tokio::test]
async fn what_a_tool_throws_arrives_with_its_name_its_code_and_its_place() {
    let source = "export async function fail(): Promise<void> {\n\
        throw Object.assign(new RangeError('too far'), { code: 'FAR' });\n}\n\
        export function odd(): void { throw 'text'; }";
    let tools = Setup::new(&[("t.ts", source)]).tools().await;
    let error = tools.refusal("t.fail", []).await;
    assert_eq!((error.name.as_str(), error.code.as_deref()), ("RangeError", Some("FAR")));
    assert!(error.message.starts_with("t.fail(): too far") && error.message.contains("tools/t.ts:2:"), "{error}");
    assert_eq!(tools.refusal("t.odd", []).await.message, "t.odd(): text");
    assert!(tools.refusal("t.fial", []).await.message.contains("did you mean t.fail"));
}

#[tokio::test]
async fn a_tool_has_its_own_grants_and_no_others() {
    let web = Web::start(|request| ok(request.head.as_bytes()));
    let reader = "export async function notes(): Promise<string> { return fs.read('notes.md'); }\n\
        export async function secret(): Promise<string> { return fs.read('.env'); }\n\
        export async function ask(url: string): Promise<number> { return (await fetch(url)).status; }\n\
        export function tools(): string[] { return ['fs', 'http', 'process', 'fetch'].filter((n) => n in globalThis); }";
    let reader = format!("declare const fs: any;\n{reader}");
    let mut setup = Setup::new(&[("granted.ts", &reader), ("bare.ts", &reader)]);
    setup.desk.put("notes.md", "notes");
    setup.desk.put(".env", "KEY=1");
    let rules = PolicyRules { net: vec![web.host()], ..setup.desk.rules(&["notes.md"], &[]) };
    setup = setup.granting("granted", OwnGrants { rules, env: Vec::new() });
    // What the agent's blocks may do says nothing about its tools.
    setup.rules = PolicyRules { net: vec!["127.0.0.1".into()], ..setup.desk.rules(&["."], &["."]) };
    let tools = setup.tools().await;
    assert_eq!(tools.json("granted.notes", []).await, "notes");
    assert_eq!(tools.json("granted.ask", [s(web.url("/"))]).await, 200);
    assert_eq!(tools.json("granted.tools", []).await, json!(["fs", "http", "fetch"]));
    assert_eq!(tools.json("bare.tools", []).await, json!([]));
    let denied = tools.refusal("granted.secret", []).await;
    assert_eq!((denied.name.as_str(), denied.code.as_deref()), ("PolicyDenied", Some("POLICY_DENIED")));
    let other = Web::start(|_| ok(""));
    assert_eq!(tools.refusal("granted.ask", [s(other.url("/"))]).await.code.as_deref(), Some("POLICY_DENIED"));
    assert!(tools.refusal("bare.notes", []).await.message.contains("fs is not defined"));
}

#[tokio::test]
async fn a_secret_reaches_its_tool_and_nobody_else() {
    let web = Web::start(|request| ok(request.head.as_bytes()));
    let source = "declare const env: any;\n\
        export async function use(url: string): Promise<string> {\n\
          return (await fetch(url, { headers: { authorization: env.KEY } })).text();\n}\n\
        export function show(): unknown { return { [env.KEY]: [env.KEY], bytes: new TextEncoder().encode(env.KEY) }; }\n\
        export function fail(): void { throw new Error('bad ' + env.KEY); }\n\
        export function names(): string[] { return Object.keys(env); }";
    let rules = PolicyRules { net: vec![web.host()], ..PolicyRules::default() };
    let grants = OwnGrants { rules, env: vec![("KEY".into(), "top-secret-value".into())] };
    let tools = Setup::new(&[("keyed.ts", source), ("other.ts", source)]).granting("keyed", grants).tools().await;
    let echoed = tools.json("keyed.use", [s(web.url("/"))]).await;
    assert!(echoed.as_str().unwrap().contains("authorization: [KEY]"), "{echoed}");
    assert!(web.seen()[0].head.contains("authorization: top-secret-value"));
    let shown = format!("{:?}", tools.call("keyed.show", []).await.unwrap());
    assert!(!shown.contains("top-secret") && !shown.contains("116, 111, 112, 45"), "{shown}");
    assert!(tools.refusal("keyed.fail", []).await.message.starts_with("keyed.fail(): bad [KEY]"));
    assert_eq!((tools.json("keyed.names", []).await, tools.json("other.names", []).await), (json!(["KEY"]), json!([])));
}

#[tokio::test]
async fn a_tool_that_never_answers_is_given_up_at_its_time_and_serves_again() {
    let source = "let calls = 0;\nexport function spin(): void { for (;;); }\n\
        export function wait(): Promise<void> { return new Promise(() => {}); }\n\
        export function count(): number { return ++calls; }";
    let tools = Setup::new(&[("t.ts", source)]).tools().await;
    assert_eq!(tools.json("t.count", []).await, 1);
    let hasty =
        Tools { toolbox: tools.toolbox.clone().with_time(Duration::from_millis(300)), journal: Journal::default() };
    let error = hasty.refusal("t.wait", []).await;
    assert_eq!(error.code.as_deref(), Some("TOOL_TIMEOUT"), "{error}");
    // It was not busy: what it knows is still there.
    assert_eq!(tools.json("t.count", []).await, 2);
    let error = hasty.refusal("t.spin", []).await;
    assert_eq!(error.code.as_deref(), Some("TOOL_TIMEOUT"), "{error}");
    // Its isolate is being given up: a call that meets that fails, and the next one gets a new isolate.
    for _ in 0..100 {
        match tools.call("t.count", []).await {
            Ok(count) => return assert_eq!(count, Datum::Number(1.0)),
            Err(error) => assert_eq!(error.code.as_deref(), Some("TOOL_ENDED"), "{error}"),
        }
    }
    panic!("the tool does not serve again");
}

#[tokio::test]
async fn a_tool_out_of_memory_ends_alone() {
    let source = "export function fill(): void { const all: unknown[] = []; for (;;) all.push(new Array(10000).fill(1.5)); }\n\
        export function alive(): boolean { return true; }";
    let mut setup = Setup::new(&[("greedy.ts", source), ("modest.ts", source)]);
    setup.limits.memory_bytes = 32 << 20;
    let tools = setup.tools().await;
    assert_eq!(tools.json("modest.alive", []).await, true);
    let error = tools.refusal("greedy.fill", []).await;
    assert_eq!(error.code.as_deref(), Some("TOOL_ENDED"), "{error}");
    assert_eq!(tools.json("modest.alive", []).await, true);
    assert_eq!(tools.json("greedy.alive", []).await, true);
}

#[tokio::test]
async fn a_module_that_throws_while_it_is_loaded_says_where() {
    let source = "export function f(): void {}\nconst x: any = null;\nx.y;\n";
    let tools = Setup::new(&[("t.ts", source)]).tools().await;
    let error = tools.refusal("t.f", []).await;
    assert!(error.message.contains("could not be loaded") && error.message.contains("tools/t.ts:3:"), "{error}");
}

#[tokio::test]
async fn policy_judges_own_tools_by_their_name() {
    let mut setup = Setup::new(&[(
        "t.ts",
        "export function a(): void {}\nexport function b(): void {}\nexport function c(): void {}",
    )]);
    setup.rules = ruled(setup.rules, &[("t.*", Rule::Deny), ("t.b", Rule::Allow), ("t.c", Rule::Ask)]);
    let tools = setup.tools().await;
    let scope = tools.toolbox.scope();
    let members: Vec<_> = scope.modules.last().unwrap().members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(members, ["b", "c"]);
    tools.call("t.b", []).await.unwrap();
    assert!(tools.denial("t.a", []).await.contains("forbids"));
    assert!(tools.denial("t.c", []).await.contains("nobody is there to ask"));
}

#[tokio::test]
async fn every_file_that_cannot_be_a_tool_is_reported_with_its_line() {
    for (path, source, expected) in [
        ("t.ts", "export function a(): void {\n  let x = ;\n}", "tools/t.ts:2:11: "),
        ("t.ts", "\nexport function a(x): void {}", "tools/t.ts:2:19: "),
        ("t.ts", "export function a(x: string) { return x; }", "tools/t.ts:1:17: "),
        ("t.ts", "export default function a(): void {}", "tools/t.ts:1:1: a default export"),
        ("t.ts", "import 'node:fs';\nexport function a(): void {}", "tools/t.ts:1:8: \"node:fs\" is no file"),
        ("t.ts", "import '../outside';\nexport function a(): void {}", "tools/t.ts:1:8: \"../outside\" is no file"),
        ("t.ts", "export function* a(): Generator<number> {}", "what a generator gives cannot be passed"),
        ("t.ts", "export class A {}\nexport function a(): void {}", "tools/t.ts:1:1: a block can call functions alone"),
        ("t.ts", "export const x = 1;", "exports no function"),
        ("t.ts", "function a(): void {}\nexport { a };", "tools/t.ts:2:1: export a function where it is declared"),
        ("t.ts", "", "exports no function"),
        ("t.ts", "export function a(x): void {}", "Parameter must have an explicit type annotation."),
        ("t.ts", "export function a(x: strng): void {}", "tools/t.ts:1:22: there is no type strng"),
        ("t.ts", "export function a(x: strng): void {}", "did you mean string?"),
        (
            "t.ts",
            "interface Note { a: string }\nexport function a(): Promise<Notes> { throw 1 }",
            "tools/t.ts:2:30: there is no type Notes: types of a signature are declared in the same file; did you mean Note?",
        ),
        ("t.ts", "export function a(f: () => void): void {}", "tools/t.ts:1:22: a function cannot be passed"),
        ("t.ts", "interface N { f(): void }\nexport function a(n: N): void {}", "tools/t.ts:1:15: a function cannot"),
        ("t.ts", "export function a(): Map<string, number> { throw 1 }", "a Map cannot be passed"),
        ("t.ts", "export function a(): bigint { return 1n }", "tools/t.ts:1:22: a bigint cannot be passed"),
        (
            "t.ts",
            "export const a = async (r: RegExp): Promise<void> => {}",
            "tools/t.ts:1:28: a RegExp cannot be passed",
        ),
        ("my-tool.ts", "export function a(): void {}", "tools/my-tool.ts:1:1: "),
        ("1st.ts", "export function a(): void {}", "no identifier"),
        ("class.ts", "export function a(): void {}", "already means something"),
        ("fs.ts", "export function a(): void {}", "tools/fs.ts:1:1: fs is built in"),
        ("process.ts", "export function a(): void {}", "built in"),
        ("fetch.ts", "export function a(): void {}", "built in"),
        ("console.ts", "export function a(): void {}", "already means something"),
        ("lib/helper.ts", "export const x: = 1;", "tools/lib/helper.ts:1:17: "),
    ] {
        let problems = Setup::new(&[(path, source)]).problems().await;
        assert!(problems.contains(expected), "{path} {source:?}\n{problems}");
    }
    let both = Setup::new(&[("a.ts", "x ="), ("b.ts", "y =")]).problems().await;
    assert!(both.contains("tools/a.ts:1:") && both.contains("\ntools/b.ts:1:"), "{both}");
    let absent = Setup::new(&[("a.ts", "export function a(): void {}")]).granting("b", OwnGrants::default());
    assert!(absent.problems().await.contains("tools/b.ts, which does not exist"));
}
