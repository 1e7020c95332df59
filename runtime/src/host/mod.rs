//! What stands between a VM and the kernel: the state that the bound functions share.

mod args;
mod bind;
pub(crate) mod flatten;
mod library;
mod raised;
mod verbs;

use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use tokio_util::sync::CancellationToken;

use crate::{
    AbortSignal, CognetConfig, CognetError, EventStream, Kernel, Limits, Location, VerbError, error::code,
    meter::Meter, source::Files,
};

pub(crate) use bind::bind;
pub(crate) use raised::Raised;
pub(crate) use verbs::entries_to_lua;

/// What a VM is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Serve,
    /// Only `defineCognet` is of interest: the cognet ends there.
    Identify,
}

pub(crate) struct Host {
    pub kernel: Arc<dyn Kernel>,
    pub files: Files,
    pub limits: Limits,
    pub meter: Arc<Meter>,
    pub purpose: Purpose,
    /// The memory limit was reached and raised a little to tell of it.
    pub relaxed: AtomicBool,
    config: Mutex<Option<CognetConfig>>,
    /// The sources by key, for the lines that errors show.
    texts: Mutex<HashMap<String, Arc<str>>>,
    wake: Mutex<Option<Arc<ActiveWake>>>,
}

/// The wake that runs.
pub(crate) struct ActiveWake {
    pub signal: AbortSignal,
    /// Cancelled when nobody waits for the wake any more.
    pub gone: CancellationToken,
    pub ticks: AtomicU32,
    inferences: Mutex<Vec<Weak<Inference>>>,
}

/// One `kernel.stream`. Empty once it has ended.
pub(crate) type Inference = tokio::sync::Mutex<Option<Box<dyn EventStream>>>;

impl Host {
    pub fn new(kernel: Arc<dyn Kernel>, files: Files, limits: Limits, purpose: Purpose) -> Self {
        Self {
            kernel,
            files,
            limits,
            meter: Arc::new(Meter::new(limits)),
            purpose,
            relaxed: AtomicBool::new(false),
            config: Mutex::default(),
            texts: Mutex::default(),
            wake: Mutex::default(),
        }
    }

    pub fn config(&self) -> Option<CognetConfig> {
        lock(&self.config).clone()
    }

    pub fn begin(&self, wake: Arc<ActiveWake>) {
        *lock(&self.wake) = Some(wake);
    }

    /// Ends the wake: what it left open is cancelled.
    pub fn end(&self) {
        if let Some(wake) = lock(&self.wake).take() {
            for inference in lock(&wake.inferences).drain(..).filter_map(|inference| inference.upgrade()) {
                if let Ok(mut stream) = inference.try_lock() {
                    stream.take();
                }
            }
        }
    }

    fn active(&self) -> Option<Arc<ActiveWake>> {
        lock(&self.wake).clone()
    }

    /// The wake that a verb needs.
    fn waking(&self, verb: &str) -> Result<Arc<ActiveWake>, VerbError> {
        self.active().ok_or_else(|| {
            let message =
                format!("kernel.{verb} works during a wake only, not while the cognet is loaded or shut down");
            VerbError::new(code::OUTSIDE_WAKE, message)
        })
    }

    /// Waits for the kernel, or for the abort of the wake, which drops `verb`.
    async fn wait<T>(
        &self,
        wake: Option<Arc<ActiveWake>>,
        verb: impl Future<Output = Result<T, VerbError>>,
    ) -> Result<T, VerbError> {
        let outcome = match &wake {
            None => verb.await,
            Some(wake) => tokio::select! {
                biased;
                () = wake.ended() => Err(wake.interrupted()),
                outcome = verb => outcome,
            },
        };
        // A verb that was ready at once has not suspended the VM, and is a wait all the same.
        self.meter.resumed();
        outcome
    }

    fn remember_text(&self, key: &str, text: &str) {
        lock(&self.texts).insert(key.to_owned(), text.into());
    }

    pub fn location(&self, key: &str, line: u32) -> Location {
        let text = lock(&self.texts).get(key).cloned();
        let index = line.saturating_sub(1) as usize;
        let source_line = text.and_then(|text| text.lines().nth(index).map(|line| line.trim().to_owned()));
        Location { file: self.files.display(key), line, source_line }
    }

    /// Why the VM that ran past its limits, or was aborted, has ended.
    pub fn cpu_error(&self) -> CognetError {
        CognetError::new(code::CPU, self.cpu_message())
    }

    fn cpu_message(&self) -> String {
        let limit = self.meter.cpu_limit();
        if limit < self.limits.cpu {
            return format!("the top level of the cognet's files used more than {} ms of CPU", limit.as_millis());
        }
        format!("the cognet used more than {} ms of CPU between two waits", limit.as_millis())
    }

    fn memory_message(&self) -> String {
        format!("the cognet needs more than {} MiB of memory", self.limits.memory_bytes >> 20)
    }

    fn forced_message(&self) -> String {
        let reason = self.active().and_then(|wake| wake.signal.reason().map(str::to_owned));
        let reason = reason.unwrap_or_else(|| "aborted".to_owned());
        format!("{reason}; the wake went on for {} ms and was ended", self.limits.forced_end.as_millis())
    }
}

impl ActiveWake {
    pub fn new(signal: AbortSignal, gone: CancellationToken) -> Self {
        Self { signal, gone, ticks: AtomicU32::new(0), inferences: Mutex::default() }
    }

    pub fn ticks(&self) -> u32 {
        self.ticks.load(Ordering::Relaxed)
    }

    pub fn reason(&self) -> String {
        self.signal.reason().unwrap_or("aborted").to_owned()
    }

    fn track(&self, inference: &Arc<Inference>) {
        let mut inferences = lock(&self.inferences);
        inferences.retain(|inference| inference.strong_count() > 0);
        inferences.push(Arc::downgrade(inference));
    }

    fn interrupted(&self) -> VerbError {
        VerbError::new(code::INTERRUPTED, self.reason())
    }

    async fn ended(&self) {
        tokio::select! {
            () = self.signal.cancelled() => {}
            () = self.gone.cancelled() => {}
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
