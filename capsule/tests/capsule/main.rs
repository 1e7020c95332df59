//! The capsule by its contract: real processes, real isolates, a host that answers tool calls from a table.
//!
//! The test binary is its own isolate process, so it has a `main` of its own.

mod confined;
mod endurance;
mod hostile;
mod lifecycle;
mod notebook;
mod support;
mod tools;
mod typescript;
mod values;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some(axon_capsule::HOST_COMMAND) => axon_capsule::serve(),
        Some(lifecycle::KERNEL) => {
            run(lifecycle::kernel_to_be_killed());
            return ExitCode::SUCCESS;
        }
        _ => {}
    }
    let mut trials = Vec::new();
    for group in [
        confined::trials,
        endurance::trials,
        hostile::trials,
        lifecycle::trials,
        notebook::trials,
        tools::trials,
        typescript::trials,
        values::trials,
    ] {
        trials.extend(group());
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Test functions by name; the name is the rule that each one checks.
macro_rules! trials {
    ($($name:ident),+ $(,)?) => {
        pub fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(stringify!($name), $name)),+]
        }
    };
}
use trials;

fn trial<F>(name: &str, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    Trial::test(name, move || {
        run(test());
        Ok(())
    })
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime for the test").block_on(test);
}
