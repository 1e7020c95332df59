//! `axon doctor`: what this program is, and whether what an agent needs is there.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axon_capsule::{Block, BoxFuture, Capsule, CapsuleHost, Datum, HOST_COMMAND, Launch, ToolCall, ToolError};
use axon_runtime::ABI_VERSION;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    args::Common,
    console::{Console, GREEN, RED, YELLOW},
    failure::{Exit, Failure},
};
use crate::agent::Agent;

/// How long an engine's server may take to answer at all.
const ENGINE_PATIENCE: Duration = Duration::from_secs(5);

/// How a check has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Good,
    /// Something that is not there, and need not be.
    Absent,
    Bad,
}

struct Finding {
    what: &'static str,
    health: Health,
    detail: String,
}

pub(super) async fn doctor(common: &Common) -> Result<(), Failure> {
    let mut findings = vec![Finding {
        what: "axon",
        health: Health::Good,
        detail: format!("{}, kernel ABI {ABI_VERSION}, {}", env!("CARGO_PKG_VERSION"), std::env::consts::OS),
    }];
    findings.extend(capsule().await);
    match Agent::open(&common.agent) {
        Ok(agent) => findings.extend(agent_findings(common, &agent).await),
        Err(error) => findings.push(bad("agent", error.to_string())),
    }
    report(common, &findings)?;
    let broken: Vec<_> = findings.iter().filter(|found| found.health == Health::Bad).map(|found| found.what).collect();
    if broken.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, "UNWELL", format!("not everything works: {}", broken.join(", "))))
}

fn good(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { what, health: Health::Good, detail: detail.into() }
}

fn absent(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { what, health: Health::Absent, detail: detail.into() }
}

fn bad(what: &'static str, detail: impl Into<String>) -> Finding {
    Finding { what, health: Health::Bad, detail: detail.into() }
}

fn report(common: &Common, findings: &[Finding]) -> Result<(), Failure> {
    let mut console = Console::stdout();
    if common.json.is_some() {
        let list: Vec<_> = findings
            .iter()
            .map(|found| {
                let health = match found.health {
                    Health::Good => "good",
                    Health::Absent => "absent",
                    Health::Bad => "bad",
                };
                json!({ "what": found.what, "health": health, "detail": found.detail })
            })
            .collect();
        return Ok(console.line(&Value::from(list).to_string())?);
    }
    for found in findings {
        let (style, mark) = match found.health {
            Health::Good => (GREEN, "ok"),
            Health::Absent => (YELLOW, "--"),
            Health::Bad => (RED, "!!"),
        };
        console.raw(&format!("{style}{mark}{style:#}  {}: ", found.what))?;
        console.line(&found.detail)?;
    }
    Ok(())
}

/// Collects what a capsule tells of itself.
#[derive(Default)]
struct Listener {
    boot: Mutex<Option<Map<String, Value>>>,
}

impl CapsuleHost for Listener {
    fn call_tool(&self, call: ToolCall, _: CancellationToken) -> BoxFuture<'_, Result<Datum, ToolError>> {
        let message = format!("{}.{} is not there: nothing is", call.namespace, call.function);
        Box::pin(async { Err(ToolError { name: "Error".into(), message, code: None }) })
    }

    fn event(&self, kind: &'static str, data: Map<String, Value>) {
        if kind == "capsule:boot" {
            *self.boot.lock().unwrap_or_else(PoisonError::into_inner) = Some(data);
        }
    }
}

/// Starts a capsule, runs a block in it, and tells what it said of itself.
async fn capsule() -> Vec<Finding> {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return vec![bad("capsule", format!("the program's own file cannot be found: {error}"))],
    };
    let listener = Arc::new(Listener::default());
    let launch = Launch { program, args: vec![HOST_COMMAND.to_owned()] };
    let capsule = Capsule::new(launch, axon_capsule::Limits::default(), listener.clone());
    let block = Block {
        id: Uuid::now_v7().to_string(),
        source: "6 * 7".into(),
        namespaces: Arc::from([]),
        files: Arc::default(),
        bindings: capsule.bindings(),
    };
    let outcome = capsule.run(block, CancellationToken::new()).await;
    capsule.shutdown().await;
    let boot = listener.boot.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
    let mut findings = Vec::new();
    match outcome.result {
        Ok(_) => {
            let backend = boot.get("backend").and_then(Value::as_str).unwrap_or("an unnamed engine");
            findings.push(good("capsule", format!("{backend}, starts and runs TypeScript")));
        }
        Err(error) => findings.push(bad("capsule", error.message)),
    }
    findings.push(sandbox(boot.get("sandbox").and_then(Value::as_object)));
    findings
}

/// What the capsule's process has given up, in its own words.
fn sandbox(layers: Option<&Map<String, Value>>) -> Finding {
    let Some(layers) = layers else {
        return absent("sandbox", "a process of its own; the capsule tells of no further layers");
    };
    let on = |state: &Value| *state == Value::Bool(true);
    let names: Vec<_> = layers.iter().filter(|(_, state)| on(state)).map(|(layer, _)| layer.as_str()).collect();
    let lacking: Vec<_> = layers
        .iter()
        .filter(|(_, state)| !on(state))
        .map(|(layer, state)| format!("{layer} {}", crate::kernel::text_of(state)))
        .collect();
    if lacking.is_empty() {
        good("sandbox", names.join(", "))
    } else {
        absent("sandbox", format!("{}; not: {}", names.join(", "), lacking.join("; ")))
    }
}

async fn agent_findings(common: &Common, agent: &Agent) -> Vec<Finding> {
    let mut findings = vec![good("agent", format!("{} in {}", agent.name(), agent.dir().display()))];
    findings.push(match agent.policy() {
        Ok(_) => good("policy", "holds"),
        Err(error) => bad("policy", error.to_string()),
    });
    findings.push(match agent.cognet(common.cognet.as_deref()) {
        Ok(found) => good("cognet", format!("{}; `axon prepare` loads it", found.name)),
        Err(error) => bad("cognet", error.to_string()),
    });
    findings.extend(engine(common, agent).await);
    findings
}

async fn engine(common: &Common, agent: &Agent) -> Vec<Finding> {
    let asked = common.engine.as_deref();
    let (address, file) = match agent.engine_parts(asked) {
        Ok(parts) => parts,
        Err(error) => return vec![bad("engine", error.to_string())],
    };
    let file = file.map(|file| format!(" in {}", file.display())).unwrap_or_default();
    let mut findings = vec![match agent.engine_name(asked) {
        Ok(Some(name)) => good("engine", name + &file),
        Ok(None) => {
            return vec![absent("engine", "none is configured; brains that ask no model work, as @axon/repl does")];
        }
        Err(error) => bad("engine", error.to_string()),
    }];
    let config = &agent.config().engine;
    if let Some(variable) = config.api_key_env.as_deref().filter(|_| address.is_some()) {
        findings.push(match agent.variable(variable) {
            Some(_) => good("key", format!("{variable} is set")),
            None => bad("key", format!("{variable} is not set; export it, or write it into .env in the agent folder")),
        });
    }
    if let Some(address) = address {
        findings.push(reach(&address).await);
    }
    findings
}

/// Any answer will do: what it says is between the engine and the server.
async fn reach(address: &str) -> Finding {
    let client = match reqwest::Client::builder().timeout(ENGINE_PATIENCE).build() {
        Ok(client) => client,
        Err(error) => return bad("server", error.to_string()),
    };
    match client.get(address).send().await {
        Ok(_) => good("server", format!("{address} answers")),
        Err(error) if error.is_timeout() => {
            bad("server", format!("{address} has not answered within {} s", ENGINE_PATIENCE.as_secs()))
        }
        Err(error) => bad("server", format!("{address} cannot be reached: {}", cause(&error))),
    }
}

/// The innermost reason.
fn cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
