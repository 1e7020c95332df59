//! The one path that every tool call takes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use axon_capsule::{Datum, Namespace, ToolCall, ToolError};
use axon_runtime::Scope;
use reqwest::Url;
use tokio_util::sync::CancellationToken;

use super::{
    ToolObserver,
    args::{Args, nearest, quote},
    fault::{Failure, Fault, FaultKind},
    fs,
    http::Client,
    journal::{Journal, label},
    limits::{MAX_LOGGED_CHARS, MAX_TOOL_TIME, STOP_GRACE, TOOL_TIME},
    own::OwnTools,
    rules, scope,
    stop::Stop,
    table::{self, Caller, Context, Effect, Member, Need, Run},
};
use crate::{
    policy::{Approval, ApprovalRequest, Approver, Denied, Guard, Policy, PolicyError, Refusal, Rule},
    secrets::Secrets,
};

/// The tools that an agent's blocks can call, under its policy. Clones share approvals.
#[derive(Clone)]
pub struct Toolbox {
    shared: Arc<Shared>,
    time: Duration,
}

struct Shared {
    granted: RwLock<Arc<Granted>>,
    http: Arc<Client>,
    approver: Arc<dyn Approver>,
    /// One question at a time, so that an answer for the session holds for those who wait.
    asking: tokio::sync::Mutex<()>,
    /// Namespace and function of what a person allowed for the session.
    approved: Mutex<HashSet<(String, String)>>,
    /// Held by what changes files.
    turn: Mutex<()>,
}

/// What can be called, decided once. A call keeps to what held when it began.
struct Granted {
    policy: Arc<Policy>,
    own: Arc<OwnTools>,
    secrets: Secrets,
    scope: Scope,
    namespaces: Arc<[Namespace]>,
}

impl Granted {
    fn new(policy: Policy, own: Arc<OwnTools>, secrets: Secrets) -> Self {
        let scope = scope::scope(&policy, own.modules());
        let namespaces = scope::namespaces(&scope).into();
        Self { policy: Arc::new(policy), own, secrets, scope, namespaces }
    }

    fn find(&self, call: &ToolCall) -> Option<Callee> {
        match table::find(&call.namespace, &call.function) {
            Some(member) => Some(Callee::BuiltIn(member)),
            None => self.own.has(&call.namespace, &call.function).then_some(Callee::Own),
        }
    }

    /// What a tool of the user's gives, without the secrets that it was given.
    async fn call_own(self: Arc<Self>, call: ToolCall, cancel: CancellationToken) -> Result<Datum, Failure> {
        let Self { own, secrets, .. } = &*self;
        match own.call(&call.namespace, &call.function, call.args, &cancel).await {
            None => Err(Failure::Stopped),
            Some(Ok(mut datum)) => {
                secrets.hide_in_datum(&mut datum);
                Ok(datum)
            }
            Some(Err(mut error)) => {
                for text in [&mut error.name, &mut error.message].into_iter().chain(&mut error.code) {
                    secrets.hide_in_text(text);
                }
                Err(Failure::Thrown(error))
            }
        }
    }

    /// A name that is no tool: the nearest one, and what is in scope.
    fn unknown(&self, call: &ToolCall) -> Fault {
        let wanted = format!("{}.{}", call.namespace, call.function);
        let scope = &self.namespaces;
        let names: Vec<_> =
            scope.iter().flat_map(|ns| ns.members.iter().map(|member| format!("{}.{member}", ns.name))).collect();
        let hint = match nearest(&wanted, names.iter().map(String::as_str)) {
            Some(nearest) => format!("; did you mean {nearest}?"),
            None => String::new(),
        };
        let known =
            if names.is_empty() { "no tools are in scope".into() } else { format!("in scope: {}", names.join(", ")) };
        FaultKind::UnknownTool.because(format!("there is no such tool{hint} ({known})"))
    }
}

impl Toolbox {
    /// The built-in tools alone.
    pub fn new(policy: Policy, approver: Arc<dyn Approver>) -> Self {
        Self::with_own(policy, approver, OwnTools::default(), Secrets::default())
    }

    /// With the user's own tools. The secrets are kept from whoever calls those.
    pub fn with_own(policy: Policy, approver: Arc<dyn Approver>, own: OwnTools, secrets: Secrets) -> Self {
        let shared = Shared {
            granted: RwLock::new(Arc::new(Granted::new(policy, Arc::new(own), secrets))),
            http: Arc::default(),
            approver,
            asking: tokio::sync::Mutex::default(),
            approved: Mutex::default(),
            turn: Mutex::default(),
        };
        Self { shared: Arc::new(shared), time: TOOL_TIME }
    }

    /// Sets how long one call may take, instead of 30 s.
    #[must_use]
    pub fn with_time(mut self, time: Duration) -> Self {
        self.time = time;
        self
    }

    /// What blocks can call: what policy denies outright is not in it.
    pub fn scope(&self) -> Scope {
        self.granted().scope.clone()
    }

    /// What is to be told of a pattern of `[policy.tools]` that names none of the tools there are, granted or not.
    pub(crate) fn idle_rule(&self, pattern: &str) -> Option<PolicyError> {
        rules::idle(pattern, self.granted().own.modules())
    }

    /// The same membership for the capsule.
    pub fn namespaces(&self) -> Arc<[Namespace]> {
        self.granted().namespaces.clone()
    }

    /// Puts another policy in place: it holds from the next call on, also for a block that runs. What a person approved
    /// for the session was approved under the one before, and is asked again.
    pub fn replace_policy(&self, policy: Policy) {
        let now = self.granted();
        self.put(Arc::new(Granted::new(policy, now.own.clone(), now.secrets.clone())));
    }

    /// Puts everything in place that can be called in another toolbox. Calls that run end as they began.
    pub fn replace_with(&self, other: &Toolbox) {
        self.put(other.granted());
    }

    fn put(&self, granted: Arc<Granted>) {
        *self.shared.granted.write().unwrap_or_else(PoisonError::into_inner) = granted;
        self.shared.approved.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn granted(&self) -> Arc<Granted> {
        self.shared.granted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks a call up, asks policy, records, executes and answers it.
    ///
    /// # Errors
    /// What is thrown in the block. `POLICY_DENIED` when policy or a person refuses, `TOOL_TIMEOUT` after the time
    /// limit, `CANCELLED` when `cancel` fires first; otherwise what went wrong in the tool.
    pub async fn call(
        &self,
        call: ToolCall,
        observer: &dyn ToolObserver,
        cancel: CancellationToken,
    ) -> Result<Datum, ToolError> {
        let granted = self.granted();
        let Some(callee) = granted.find(&call) else {
            let fault = granted.unknown(&call);
            return Err(fault.to_error(&format!("{}.{}", call.namespace, call.function)));
        };
        let label = label(callee.needs(), &call);
        let journal = Journal { call: &call, label: &label, observer };
        let admitted = self.judge(&granted, callee, &journal, &cancel).await;
        if let Err(failure) = admitted {
            return Err(journal.failure(failure, FaultKind::Cancelled.because("cancelled")));
        }

        let running = journal.start();
        let result = self.perform(granted, callee, &journal, &cancel).await;
        running.end(result.as_ref().err());
        result
    }

    /// Everything that policy can say before the call starts.
    async fn judge(
        &self,
        granted: &Granted,
        callee: Callee,
        journal: &Journal<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let call = journal.call;
        let verdict = granted.policy.tool_rule(&call.namespace, &call.function);
        let source = verdict.source.unwrap_or_default();
        if verdict.rule == Rule::Deny {
            return Err(Denied { detail: format!("the rule {source} = \"deny\" forbids it"), rule: source }.into());
        }
        let admitted = admit(&granted.policy, callee.needs(), call)?;
        if verdict.rule == Rule::Ask {
            return self.ask(granted, source, journal, cancel).await;
        }
        if callee.effect() == Effect::Outside {
            journal.policy("capsule:policy:allowed", &admitted.join(", "), journal.label);
        }
        Ok(())
    }

    /// Puts the call to a person, unless they allowed it for the session.
    async fn ask(
        &self,
        granted: &Granted,
        rule: String,
        journal: &Journal<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let Journal { call, label, .. } = *journal;
        let shared = &self.shared;
        let function = (call.namespace.clone(), call.function.clone());
        let answer = async {
            let _turn = shared.asking.lock().await;
            if shared.approved.lock().unwrap_or_else(PoisonError::into_inner).contains(&function) {
                return Approval::Session;
            }
            journal.policy("capsule:policy:asked", &rule, label);
            let diff = self.diff(granted, call).await;
            let request = ApprovalRequest {
                diff,
                block: call.block.clone(),
                namespace: call.namespace.clone(),
                function: call.function.clone(),
                call: label.into(),
                args: call.args.iter().map(Datum::to_json).collect(),
                rule: rule.clone(),
            };
            let answer = shared.approver.ask(request).await;
            if answer == Approval::Session {
                shared.approved.lock().unwrap_or_else(PoisonError::into_inner).insert(function);
            }
            answer
        };
        let answer = tokio::select! {
            answer = answer => answer,
            () = cancel.cancelled() => return Err(Failure::Stopped),
        };
        let detail = match answer {
            Approval::Once => "approved once",
            Approval::Session => "approved for this session",
            Approval::No => {
                let detail = format!("the rule {rule} = \"ask\" asked the user, who said no");
                return Err(Denied { rule, detail }.into());
            }
            Approval::Nobody => {
                let detail = format!("the rule {rule} = \"ask\" needs the user's approval, and nobody is there to ask");
                return Err(Denied { rule, detail }.into());
            }
        };
        journal.policy("capsule:policy:allowed", &rule, &format!("{label}: {detail}"));
        Ok(())
    }

    /// The difference that a call would make to a file.
    async fn diff(&self, granted: &Granted, call: &ToolCall) -> Option<String> {
        if call.namespace != "fs" {
            return None;
        }
        let (shared, policy) = (self.shared.clone(), granted.policy.clone());
        let (function, args) = (call.function.clone(), call.args.clone());
        let task = tokio::task::spawn_blocking(move || {
            let stop = Stop::new(CancellationToken::new());
            fs::diff(&function, &Context { policy: &policy, stop: &stop, turn: &shared.turn }, args)
        });
        task.await.ok().flatten()
    }

    async fn perform(
        &self,
        granted: Arc<Granted>,
        callee: Callee,
        journal: &Journal<'_>,
        cancel: &CancellationToken,
    ) -> Result<Datum, ToolError> {
        if callee.effect() == Effect::Outside {
            journal.observer.before_effect().await?;
        }
        let token = cancel.child_token();
        // Also when this future is dropped: nobody wants the answer then.
        let _stop_on_drop = token.clone().drop_guard();
        let args = journal.call.args.clone();
        let shared = self.shared.clone();
        let stop = Stop::new(token.clone());
        let (mut task, time) = match callee {
            Callee::BuiltIn(Member { run: Run::Blocking(run), arity, .. }) => {
                let task = tokio::task::spawn_blocking(move || {
                    stop.check()?;
                    let args = Args::new(args, *arity)?;
                    run(&Context { policy: &granted.policy, stop: &stop, turn: &shared.turn }, args)
                });
                (task, self.time)
            }
            Callee::BuiltIn(Member { run: Run::Waiting(run), arity, .. }) => {
                let caller = Caller {
                    policy: granted.policy.clone(),
                    http: shared.http.clone(),
                    time: self.time,
                    stop: token.clone(),
                };
                let task = tokio::spawn(async move {
                    let stopped = caller.stop.clone();
                    let args = Args::new(args, *arity)?;
                    tokio::select! {
                        answer = run(caller, args) => answer,
                        () = stopped.cancelled() => Err(Failure::Stopped),
                    }
                });
                (task, MAX_TOOL_TIME + STOP_GRACE)
            }
            Callee::Own => (tokio::spawn(granted.call_own(journal.call.clone(), token.clone())), self.time),
            Callee::BuiltIn(Member { run: Run::Front, .. }) => {
                return Err(granted.unknown(journal.call).to_error(journal.label));
            }
        };
        let (answer, stopped) = tokio::select! {
            answer = &mut task => (Some(answer), FaultKind::Cancelled),
            () = cancel.cancelled() => (None, FaultKind::Cancelled),
            () = tokio::time::sleep(time) => (None, FaultKind::TimedOut),
        };
        token.cancel();
        // A call that was just finishing says so: what it did is done.
        let answer = match answer {
            Some(answer) => Some(answer),
            None => tokio::time::timeout(STOP_GRACE, task).await.ok(),
        };
        let result = match answer {
            Some(Ok(result)) => result,
            Some(Err(join)) if join.is_panic() => {
                Err(FaultKind::Internal.because("the tool failed in Axon itself").into())
            }
            Some(Err(_)) | None => Err(Failure::Stopped),
        };
        let stopped = match stopped {
            FaultKind::TimedOut => stopped.because(format!("took longer than {:?}", self.time)),
            _ => stopped.because("cancelled"),
        };
        result.map_err(|failure| journal.failure(failure, stopped))
    }

    /// Ends what the user's tools run in.
    pub async fn shutdown(&self) {
        self.granted().own.shutdown().await;
    }
}

/// Who serves a call.
#[derive(Clone, Copy)]
enum Callee {
    BuiltIn(&'static Member),
    /// A tool of the user's.
    Own,
}

impl Callee {
    fn needs(self) -> &'static [Need] {
        match self {
            Self::BuiltIn(member) => member.needs,
            Self::Own => &[],
        }
    }

    /// What a tool of the user's does outside it does through built-in tools.
    fn effect(self) -> Effect {
        match self {
            Self::BuiltIn(member) => member.effect,
            Self::Own => Effect::None,
        }
    }
}

/// The rules that admit the paths of a call, by their text alone.
fn admit(policy: &Policy, needs: &[Need], call: &ToolCall) -> Result<Vec<String>, Denied> {
    let guard = Guard::new(policy);
    let mut admitted = Vec::new();
    // Which of them it was has to be said then.
    let two_paths = needs.iter().any(|need| matches!(need, Need::Path { path: Some(1..), .. }));
    for need in needs {
        let (access, path) = match *need {
            Need::Path { access, path } => (access, path),
            Need::Net => {
                // What is no URL at all is told by the tool itself.
                if let Some(url) = subject(call).and_then(|url| Url::parse(url).ok()) {
                    admitted.push(policy.hosts().admit(&url)?.rule);
                }
                continue;
            }
            Need::Program => {
                if let Some(program) = subject(call) {
                    admitted.push(policy.programs().rule(policy.programs().find(program)?));
                }
                continue;
            }
        };
        let Some(Datum::String(path)) = path.and_then(|index| call.args.get(index)) else {
            guard.granted(access)?;
            continue;
        };
        match guard.admits(access, path) {
            Ok(rule) => admitted.push(rule),
            Err(Refusal::Denied(denied)) if two_paths => {
                let detail = format!("{} is {}", quote(path, MAX_LOGGED_CHARS), denied.detail);
                return Err(Denied { detail, ..denied });
            }
            Err(Refusal::Denied(denied)) => return Err(denied),
            // What is no path at all is told by the tool itself.
            Err(_) => {}
        }
    }
    admitted.dedup();
    Ok(admitted)
}

/// The first argument, where it is text.
fn subject(call: &ToolCall) -> Option<&str> {
    match call.args.first() {
        Some(Datum::String(text)) => Some(text),
        _ => None,
    }
}
