//! `process.run`: a program, its arguments, and what it says.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axon_capsule::{BoxFuture, Datum};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{ChildStderr, ChildStdin, ChildStdout},
    task::JoinSet,
};

use super::child::{Child, Start};
use crate::{
    policy::{Access, Denied, Guard, Policy, Refusal, Target},
    tools::{
        args::{Args, Options, expected, quote, wrong},
        fault::{Failure, FaultKind},
        http,
        limits::{OUTPUT_GRACE, PROCESS_OUTPUT_LIMIT},
        table::Caller,
    },
};

const OPTIONS: &[&str] = &["cwd", "env", "stdin", "timeoutMs", "maxOutputBytes"];

struct Call {
    start: Start,
    stdin: Vec<u8>,
    time: Duration,
    room: usize,
}

pub(super) fn run(caller: Caller, args: Args) -> BoxFuture<'static, Result<Datum, Failure>> {
    Box::pin(async move {
        let policy = caller.policy.clone();
        let default_time = caller.time;
        let prepared = tokio::task::spawn_blocking(move || {
            let call = read(&policy, args, default_time)?;
            let child = Child::start(call.start)?;
            Ok::<_, Failure>((child, call.stdin, call.time, call.room))
        });
        let (child, stdin, time, room) =
            prepared.await.map_err(|_| FaultKind::Internal.because("the program was not started"))??;
        match tokio::time::timeout(time, attend(child, stdin, room)).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail =
                    format!("took longer than {} ms and was killed; timeoutMs gives it longer", time.as_millis());
                Err(FaultKind::TimedOut.because(detail).into())
            }
        }
    })
}

fn read(policy: &Policy, mut args: Args, default_time: Duration) -> Result<Call, Failure> {
    let name = args.string(0, "program")?;
    let program = policy.programs().find(&name)?;
    let arguments = match args.take(1) {
        Datum::Undefined => Vec::new(),
        Datum::Array(items) => items.into_iter().map(argument).collect::<Result<_, _>>()?,
        other => return Err(expected("args", "an array of strings", &other, " (there is no shell to split it)")),
    };
    let mut options = args.options(2, OPTIONS)?;
    let env = environment(&mut options, policy)?;
    let stdin = match options.take("stdin") {
        Datum::Undefined => Vec::new(),
        value => Args::new(vec![value], 1)?.content(0, "stdin")?,
    };
    let time = http::time(&mut options, default_time)?;
    let room = options.limited("maxOutputBytes", PROCESS_OUTPUT_LIMIT)?;
    let cwd = options.string("cwd")?.map(|cwd| folder(policy, &cwd)).transpose()?;
    let confinement = policy
        .confinement(program)
        .map_err(|error| FaultKind::NotStarted.because(format!("it cannot be confined to the roots: {error}")))?;
    let start = Start {
        program: program.clone(),
        arguments,
        env,
        cwd,
        agent: policy.agent_dir().into(),
        confinement,
        reads: !stdin.is_empty(),
    };
    Ok(Call { start, stdin, time, room })
}

fn argument(value: Datum) -> Result<String, Failure> {
    match value {
        Datum::String(text) if text.contains('\0') => Err(wrong("an argument holds a NUL character")),
        Datum::String(text) => Ok(text),
        other => Err(expected("an argument", "a string", &other, "")),
    }
}

/// The variables of a call. What would change which code the program runs is not among them.
fn environment(options: &mut Options, policy: &Policy) -> Result<BTreeMap<String, String>, Failure> {
    let fields = match options.take("env") {
        Datum::Undefined => Vec::new(),
        Datum::Object(fields) => fields,
        other => return Err(expected("env", "an object of strings", &other, "")),
    };
    let mut env = BTreeMap::new();
    for (name, value) in fields {
        let Datum::String(value) = value else {
            return Err(expected(&format!("the variable {name}"), "a string", &value, ""));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(wrong(format!("{} is no variable that can be set", quote(&name, 40))));
        }
        if name == "PATH" || name.starts_with("LD_") || name.starts_with("DYLD_") {
            let detail = format!("the variable {name} decides which code a program runs, and cannot be set");
            return Err(Denied { rule: policy.programs().key(), detail }.into());
        }
        env.insert(name, value);
    }
    Ok(env)
}

/// A folder inside the roots, held open.
fn folder(policy: &Policy, path: &str) -> Result<OwnedFd, Failure> {
    let guard = Guard::new(policy);
    let place = match guard.locate(Access::Read, path) {
        Err(Refusal::Denied(denied)) => match guard.locate(Access::Write, path) {
            Err(Refusal::Denied(_)) => Err(Refusal::Denied(denied)),
            located => located,
        },
        located => located,
    }?;
    match place.target {
        Target::Folder { folder, .. } => Ok(folder.into_std_file().into()),
        Target::Entry { .. } => Err(FaultKind::NotAFolder.because(format!("cwd is not a folder: {path}")).into()),
        Target::Missing { .. } => Err(FaultKind::NotFound.because(format!("cwd does not exist: {path}")).into()),
    }
}

/// Feeds and hears a child until it ends. Dropped before that, it takes the child with it.
async fn attend(mut child: Child, stdin: Vec<u8>, room: usize) -> Result<Datum, Failure> {
    let pipes = child.pipes();
    let outputs = [Arc::<Output>::default(), Arc::default()];
    let mut readers = JoinSet::new();
    let mut writers = JoinSet::new();
    if let Some(pipe) = pipes.stdin {
        let mut pipe = ChildStdin::from_std(pipe)?;
        // A program that does not read to the end is not at fault.
        writers.spawn(async move { drop(pipe.write_all(&stdin).await) });
    }
    if let Some(pipe) = pipes.stdout {
        readers.spawn(outputs[0].clone().fill(ChildStdout::from_std(pipe)?, room));
    }
    if let Some(pipe) = pipes.stderr {
        readers.spawn(outputs[1].clone().fill(ChildStderr::from_std(pipe)?, room));
    }
    let code = child.ended().await?;
    // What has left the group may hold the pipes open.
    let _ = tokio::time::timeout(OUTPUT_GRACE, async { while readers.join_next().await.is_some() {} }).await;
    readers.abort_all();

    let [stdout, stderr] = outputs.map(|output| output.take());
    let text = |bytes: &[u8]| Datum::String(String::from_utf8_lossy(bytes).into_owned());
    let mut fields = vec![
        ("code".to_owned(), Datum::Number(code.into())),
        ("stdout".to_owned(), text(&stdout.kept)),
        ("stderr".to_owned(), text(&stderr.kept)),
    ];
    if stdout.dropped || stderr.dropped {
        fields.push(("truncated".to_owned(), Datum::Bool(true)));
    }
    Ok(Datum::Object(fields))
}

/// What a child says on one stream.
#[derive(Default)]
struct Output(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    kept: Vec<u8>,
    dropped: bool,
}

impl Output {
    async fn fill(self: Arc<Self>, mut pipe: impl AsyncRead + Unpin, room: usize) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = count.min(room - output.kept.len());
            output.kept.extend_from_slice(&buffer[..fits]);
            output.dropped |= fits < count;
        }
    }

    fn take(&self) -> Kept {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
