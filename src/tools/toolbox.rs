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
    http::Client,
    journal::{Journal, label},
    limits::{MAX_LOGGED_CHARS, MAX_TOOL_TIME, STOP_GRACE, TOOL_TIME},
    scope,
    stop::Stop,
    table::{self, Caller, Context, Effect, Member, Need, Run},
};
use crate::policy::{Approval, ApprovalRequest, Approver, Denied, Guard, Policy, Refusal, Rule};

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

/// What policy grants, decided once. A call keeps to what held when it began.
struct Granted {
    policy: Arc<Policy>,
    scope: Scope,
    namespaces: Arc<[Namespace]>,
}

impl Granted {
    fn new(policy: Policy) -> Self {
        let scope = scope::scope(&policy);
        let namespaces = scope::namespaces(&policy).into();
        Self { policy: Arc::new(policy), scope, namespaces }
    }
}

impl Toolbox {
    pub fn new(policy: Policy, approver: Arc<dyn Approver>) -> Self {
        let shared = Shared {
            granted: RwLock::new(Arc::new(Granted::new(policy))),
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

    /// The same membership for the capsule.
    pub fn namespaces(&self) -> Arc<[Namespace]> {
        self.granted().namespaces.clone()
    }

    /// Puts another policy in place: it holds from the next call on, also for a block that runs. What a person approved
    /// for the session was approved under the one before, and is asked again.
    pub fn replace_policy(&self, policy: Policy) {
        let granted = Arc::new(Granted::new(policy));
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
        let Some(member) = table::find(&call.namespace, &call.function) else {
            let fault = self.unknown(&call);
            return Err(fault.to_error(&format!("{}.{}", call.namespace, call.function)));
        };
        let label = label(member, &call);
        let journal = Journal { call: &call, label: &label, observer };
        let policy = self.granted().policy.clone();
        let admitted = self.judge(&policy, member, &journal, &cancel).await;
        if let Err(failure) = admitted {
            return Err(journal.failure(failure, FaultKind::Cancelled.because("cancelled")));
        }

        let running = journal.start();
        let result = self.perform(policy, member, &journal, &cancel).await;
        running.end(result.as_ref().err());
        result
    }

    /// Everything that policy can say before the call starts.
    async fn judge(
        &self,
        policy: &Policy,
        member: &Member,
        journal: &Journal<'_>,
        cancel: &CancellationToken,
    ) -> Result<(), Failure> {
        let call = journal.call;
        let verdict = policy.tool_rule(&call.namespace, &call.function);
        let source = verdict.source.unwrap_or_default();
        if verdict.rule == Rule::Deny {
            return Err(Denied { detail: format!("the rule {source} = \"deny\" forbids it"), rule: source }.into());
        }
        let admitted = admit(policy, member, call)?;
        if verdict.rule == Rule::Ask {
            return self.ask(source, journal, cancel).await;
        }
        if member.effect == Effect::Outside {
            journal.policy("capsule:policy:allowed", &admitted.join(", "), journal.label);
        }
        Ok(())
    }

    /// Puts the call to a person, unless they allowed it for the session.
    async fn ask(&self, rule: String, journal: &Journal<'_>, cancel: &CancellationToken) -> Result<(), Failure> {
        let Journal { call, label, .. } = *journal;
        let shared = &self.shared;
        let function = (call.namespace.clone(), call.function.clone());
        let answer = async {
            let _turn = shared.asking.lock().await;
            if shared.approved.lock().unwrap_or_else(PoisonError::into_inner).contains(&function) {
                return Approval::Session;
            }
            journal.policy("capsule:policy:asked", &rule, label);
            let request = ApprovalRequest {
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

    async fn perform(
        &self,
        policy: Arc<Policy>,
        member: &'static Member,
        journal: &Journal<'_>,
        cancel: &CancellationToken,
    ) -> Result<Datum, ToolError> {
        if member.effect == Effect::Outside {
            journal.observer.before_effect().await?;
        }
        let token = cancel.child_token();
        // Also when this future is dropped: nobody wants the answer then.
        let _stop_on_drop = token.clone().drop_guard();
        let args = journal.call.args.clone();
        let shared = self.shared.clone();
        let stop = Stop::new(token.clone());
        let (mut task, time) = match member.run {
            Run::Blocking(run) => {
                let task = tokio::task::spawn_blocking(move || {
                    stop.check()?;
                    let args = Args::new(args, member.arity)?;
                    run(&Context { policy: &policy, stop: &stop, turn: &shared.turn }, args)
                });
                (task, self.time)
            }
            Run::Waiting(run) => {
                let caller = Caller { policy, http: shared.http.clone(), time: self.time, stop: token.clone() };
                let task = tokio::spawn(async move {
                    let stopped = caller.stop.clone();
                    let args = Args::new(args, member.arity)?;
                    tokio::select! {
                        answer = run(caller, args) => answer,
                        () = stopped.cancelled() => Err(Failure::Stopped),
                    }
                });
                (task, MAX_TOOL_TIME + STOP_GRACE)
            }
            Run::Front => return Err(self.unknown(journal.call).to_error(journal.label)),
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

    /// A name that is no tool: the nearest one, and what is in scope.
    fn unknown(&self, call: &ToolCall) -> Fault {
        let wanted = format!("{}.{}", call.namespace, call.function);
        let scope = self.namespaces();
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

/// The first argument, where it is text.
fn subject(call: &ToolCall) -> Option<&str> {
    match call.args.first() {
        Some(Datum::String(text)) => Some(text),
        _ => None,
    }
}

/// The rules that admit the paths of a call, by their text alone.
fn admit(policy: &Policy, member: &Member, call: &ToolCall) -> Result<Vec<String>, Denied> {
    let guard = Guard::new(policy);
    let mut admitted = Vec::new();
    // Which of them it was has to be said then.
    let two_paths = member.needs.iter().any(|need| matches!(need, Need::Path { path: Some(1..), .. }));
    for need in member.needs {
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
                    admitted.push(policy.programs().find(program)?.rule());
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
