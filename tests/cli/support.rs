//! An agent folder of one's own, and the program run in it.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

/// Far more than anything here takes; a hang is a failure and not a wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A temporary agent folder.
pub struct Agent {
    dir: TempDir,
}

/// What a run of the program came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Agent {
    /// An empty folder: that is an agent.
    pub fn empty() -> Self {
        Self { dir: TempDir::new().expect("a temporary folder") }
    }

    pub fn with(files: &[(&str, &str)]) -> Self {
        let agent = Self::empty();
        for (path, text) in files {
            agent.write(path, text);
        }
        agent
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        // As a whole: whoever watches the folder sees no file that is half written.
        let written = self.path().join(".written");
        fs::write(&written, text).expect("a file");
        fs::rename(written, &path).expect("renamed");
        path
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path().join(path)).expect("a file")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = axon();
        command.arg("-C").arg(self.path()).args(args).stdin(Stdio::null());
        command
    }

    pub fn run(&self, args: &[&str]) -> Ran {
        finish(self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts"))
    }

    pub fn run_with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("axon starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(input.as_bytes());
        });
        let ran = finish(child);
        writer.join().expect("the writer ends");
        ran
    }

    /// Every envelope of the only session.
    pub fn log(&self) -> Vec<Value> {
        let files = self.sessions();
        assert_eq!(files.len(), 1, "one session in {files:?}");
        read_log(&files[0])
    }

    pub fn sessions(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path().join("data/sessions")) else { return Vec::new() };
        let mut files: Vec<_> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        files.sort();
        files
    }

    /// Entries of the only session as `(type, data)`.
    pub fn entries(&self) -> Vec<(String, Value)> {
        self.log()
            .into_iter()
            .filter(|envelope| {
                let kind = kind(envelope);
                ["stimulus:", "cognet:output:", "cognet:action:", "system:"]
                    .iter()
                    .any(|family| kind.starts_with(family))
            })
            .map(|envelope| (kind(&envelope).to_owned(), envelope["data"].clone()))
            .collect()
    }
}

/// The program.
pub fn axon() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_axon"));
    command.env_remove("RUST_LOG").env_remove("OPENAI_API_KEY").env("NO_COLOR", "1");
    command
}

/// Waits for the end with patience, and kills what hangs.
pub fn finish(mut child: Child) -> Ran {
    let stdout = child.stdout.take().map(|mut pipe| std::thread::spawn(move || read_all(&mut pipe)));
    let stderr = child.stderr.take().map(|mut pipe| std::thread::spawn(move || read_all(&mut pipe)));
    let code = wait(&mut child);
    let text = |reader: Option<std::thread::JoinHandle<String>>| {
        reader.map(|reader| reader.join().expect("a reader ends")).unwrap_or_default()
    };
    Ran { code, stdout: text(stdout), stderr: text(stderr) }
}

pub fn wait(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("the child is ours") {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().expect("the child can be killed");
            panic!("the program did not end within {PATIENCE:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Polls until `look` finds something; the state itself is what is waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not happen within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The whole lines of a log that may still be written.
pub fn read_log(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line is an envelope")).collect()
}

pub fn kind(envelope: &Value) -> &str {
    envelope["type"].as_str().expect("an envelope has a type")
}

pub fn of_kind<'a>(log: &'a [Value], wanted: &str) -> Vec<&'a Value> {
    log.iter().filter(|envelope| kind(envelope) == wanted).collect()
}

/// The messages of each `kernel:engine:input`, in full.
pub fn engine_inputs(log: &[Value]) -> Vec<Value> {
    let mut expander = axon::log::InputExpander::default();
    let expanded = of_kind(log, axon::log::ENGINE_INPUT).into_iter().map(|envelope| {
        let mut envelope = serde_json::from_value(envelope.clone()).expect("an envelope");
        expander.expand(&mut envelope);
        envelope.data["messages"].clone()
    });
    expanded.collect()
}

fn read_all(pipe: &mut impl std::io::Read) -> String {
    let mut bytes = Vec::new();
    pipe.read_to_end(&mut bytes).expect("a pipe is readable");
    String::from_utf8(bytes).expect("the program speaks UTF-8")
}
