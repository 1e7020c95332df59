//! One tool file in an isolate of its own, kept between calls.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use axon_capsule::{Bindings, Block, Capsule, Datum, Namespace, ToolError, ToolFile};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::tools::toolbox::Toolbox;

/// The namespace through which the isolate asks for calls and answers them.
pub(super) const DOOR: &str = "__tool";
const DOOR_MEMBERS: [&str; 4] = ["start", "next", "answer", "fail"];

const SERVE: &str = include_str!("serve.ts");

/// How long an isolate may take to come back for its next call once one was cancelled; a busy one is given up.
const IDLE_GRACE: Duration = Duration::from_millis(100);

pub(super) struct Runner {
    name: String,
    capsule: Capsule,
    files: Arc<[ToolFile]>,
    env: Vec<(String, String)>,
    /// What the tool may call itself.
    pub tools: Toolbox,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last_id: u64,
    queue: VecDeque<Datum>,
    /// The isolate waits here for its next call.
    idle: Option<oneshot::Sender<Datum>>,
    waiting: HashMap<u64, oneshot::Sender<Result<Datum, ToolError>>>,
    /// How many calls the isolate has taken.
    taken: u64,
    /// Ends the isolate that serves.
    serving: Option<CancellationToken>,
}

impl Runner {
    pub fn new(
        name: &str,
        capsule: Capsule,
        files: Arc<[ToolFile]>,
        env: Vec<(String, String)>,
        tools: Toolbox,
    ) -> Self {
        Self { name: name.into(), capsule, files, env, tools, state: Mutex::default() }
    }

    /// The name under which the isolate's own calls arrive.
    pub fn block_id(name: &str) -> String {
        format!("tool:{name}")
    }

    /// Calls a function of the tool. When `cancel` fires, the isolate is given up if it is too busy to notice.
    pub async fn call(
        self: &Arc<Self>,
        member: &str,
        args: Vec<Datum>,
        cancel: &CancellationToken,
    ) -> Option<Result<Datum, ToolError>> {
        let (answer, answered) = oneshot::channel();
        let id = self.enqueue(member, args, answer);
        tokio::select! {
            answer = answered => Some(answer.unwrap_or_else(|_| Err(gone(&self.name, "it ended")))),
            () = cancel.cancelled() => {
                self.state().waiting.remove(&id);
                let runner = self.clone();
                tokio::spawn(async move { runner.give_up_if_busy().await });
                None
            }
        }
    }

    fn enqueue(
        self: &Arc<Self>,
        member: &str,
        args: Vec<Datum>,
        answer: oneshot::Sender<Result<Datum, ToolError>>,
    ) -> u64 {
        let mut state = self.state();
        state.last_id += 1;
        let id = state.last_id;
        state.waiting.insert(id, answer);
        let call = Datum::Object(vec![
            ("id".into(), Datum::Number(id as f64)),
            ("member".into(), Datum::String(member.into())),
            ("args".into(), Datum::Array(args)),
        ]);
        match state.idle.take() {
            // An isolate that is gone gives the call back; what ended it fails the call.
            Some(idle) => {
                state.taken += 1;
                drop(idle.send(call));
            }
            None => state.queue.push_back(call),
        }
        if state.serving.is_none() {
            let end = CancellationToken::new();
            state.serving = Some(end.clone());
            let (runner, capsule, block) = (Arc::downgrade(self), self.capsule.clone(), self.block());
            tokio::spawn(async move {
                let outcome = capsule.run(block, end.clone()).await;
                let why = match outcome.result {
                    Ok(_) => "it ended".to_owned(),
                    Err(error) => error.message,
                };
                if let Some(runner) = Weak::upgrade(&runner) {
                    runner.ended(&why);
                }
            });
        }
        id
    }

    fn block(&self) -> Block {
        let mut namespaces = self.tools.namespaces().to_vec();
        let members = DOOR_MEMBERS.map(str::to_owned).to_vec();
        namespaces.push(Namespace { name: DOOR.into(), members });
        Block {
            id: Self::block_id(&self.name),
            source: SERVE.into(),
            namespaces: namespaces.into(),
            files: self.files.clone(),
            bindings: Bindings::default(),
        }
    }

    /// The isolate is gone, and with it what it knew. The next call gets a new one.
    fn ended(&self, why: &str) {
        let mut state = self.state();
        state.serving = None;
        state.idle = None;
        state.queue.clear();
        for (_, waiting) in state.waiting.drain() {
            let _ = waiting.send(Err(gone(&self.name, why)));
        }
    }

    async fn give_up_if_busy(&self) {
        let taken = self.state().taken;
        tokio::time::sleep(IDLE_GRACE).await;
        let state = self.state();
        // One that has come back for another call meanwhile is busy with that one.
        if state.idle.is_none()
            && state.taken == taken
            && let Some(serving) = &state.serving
        {
            serving.cancel();
        }
    }

    /// Ends the isolate.
    pub fn end(&self) {
        if let Some(serving) = &self.state().serving {
            serving.cancel();
        }
    }

    /// What the isolate asks through its door.
    pub async fn door(&self, function: &str, args: Vec<Datum>) -> Result<Datum, ToolError> {
        let mut args = args.into_iter();
        match function {
            "start" => {
                let env = self.env.iter().map(|(name, value)| (name.clone(), Datum::String(value.clone()))).collect();
                let url = Datum::String(format!("file:///tools/{}.ts", self.name));
                Ok(Datum::Object(vec![("url".into(), url), ("env".into(), Datum::Object(env))]))
            }
            "next" => {
                let next = {
                    let mut state = self.state();
                    if let Some(call) = state.queue.pop_front() {
                        state.taken += 1;
                        return Ok(call);
                    }
                    let (sender, next) = oneshot::channel();
                    state.idle = Some(sender);
                    next
                };
                next.await.map_err(|_| gone(&self.name, "it ended"))
            }
            _ => {
                let Some(Datum::Number(id)) = args.next() else { return Ok(Datum::Undefined) };
                let result = args.next().unwrap_or(Datum::Undefined);
                // A call that was cancelled has nobody who waits.
                if let Some(waiting) = self.state().waiting.remove(&(id as u64)) {
                    let _ = waiting.send(if function == "answer" {
                        Ok(result)
                    } else {
                        Err(with_grant(thrown(result), &self.name))
                    });
                }
                Ok(Datum::Undefined)
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn gone(name: &str, why: &str) -> ToolError {
    ToolError {
        name: "Error".into(),
        message: format!("the isolate of tools/{name}.ts has ended, and what it kept is lost: {why}"),
        code: Some("TOOL_ENDED".into()),
    }
}

/// The grant under `[tools.NAME]` that each of these names is there with.
const GRANTS: [(&str, &str); 4] = [("fs", "fs"), ("fetch", "net"), ("http", "net"), ("process", "run")];

/// An error for want of a grant says which one.
fn with_grant(error: ToolError, name: &str) -> ToolError {
    let (said, place) = error.message.split_once('\n').unwrap_or((&error.message, ""));
    let missing = said.strip_suffix(" is not defined").map(|missing| missing.trim_matches('\''));
    let grant = GRANTS.iter().find(|(tool, _)| error.name == "ReferenceError" && Some(*tool) == missing);
    let Some((tool, grant)) = grant else { return error };
    let message = format!("{said} ({tool} is there where axon.toml grants it: {grant} under [tools.{name}])\n{place}");
    let message = message.trim_end().to_owned();
    ToolError { message, ..error }
}

/// An error as the isolate describes it.
fn thrown(described: Datum) -> ToolError {
    let Datum::Object(fields) = described else {
        return ToolError { name: "Error".into(), message: "the tool failed".into(), code: None };
    };
    let text = |wanted: &str| {
        fields.iter().find_map(|(name, value)| match value {
            Datum::String(text) if name == wanted => Some(text.clone()),
            _ => None,
        })
    };
    ToolError {
        name: text("name").unwrap_or_else(|| "Error".into()),
        message: text("message").unwrap_or_default(),
        code: text("code"),
    }
}
