//! `process`: the programs that policy lists.

mod child;
mod run;

use super::table::{Effect, Member, Module, Need, Run, TypeDeclaration};

pub(super) const MODULE: Module = Module {
    name: "process",
    description: "Programs that are granted. There is no shell: no pipes, no globs, no variables in arguments.",
    flat: false,
    types: &[
        TypeDeclaration {
            name: "ProcessOptions",
            declaration: r#"interface ProcessOptions {
  /** Default: the agent folder. */
  cwd?: string;
  /** All that the program finds in its environment besides PATH. */
  env?: Record<string, string>;
  /** What the program reads from its standard input. Default: nothing. */
  stdin?: string | Uint8Array;
  /** Default 30000, at most 300000. */
  timeoutMs?: number;
  /** Kept of each of stdout and stderr. Default 1 MiB, at most 16 MiB; the rest is dropped. */
  maxOutputBytes?: number;
}"#,
        },
        TypeDeclaration {
            name: "ProcessResult",
            declaration: r#"interface ProcessResult {
  /** The exit code; 128 and the signal's number if a signal ended it. */
  code: number;
  stdout: string;
  stderr: string;
  /** Present when output was dropped. */
  truncated?: boolean;
}"#,
        },
    ],
    members: &[Member {
        name: "run",
        declaration: "function run(program: string, args?: string[], options?: ProcessOptions): Promise<ProcessResult>",
        doc: "Runs a program to its end. Any exit code is an answer; it throws when the program cannot start or takes too long.\n\
              It sees the files that are granted, and everything that it started ends with it.\n\
              @example const { code, stdout } = await process.run(\"git\", [\"log\", \"--oneline\", \"-5\"]);",
        needs: &[Need::Program],
        effect: Effect::Outside,
        arity: 3,
        run: Run::Waiting(run::run),
    }],
};
