//! `fs`: files inside the granted roots.

mod edit;
mod file;
mod glob;
mod ignored;
mod list;
mod manage;
mod pattern;
mod preview;
mod read;
mod search;
mod walk;
mod write;

pub(super) use preview::diff;

use super::table::{Effect, Member, Module, Need, Run, TypeDeclaration};
use crate::policy::Access;

const READ: Need = Need::Path { access: Access::Read, path: Some(0) };
const READ_SOMEWHERE: Need = Need::Path { access: Access::Read, path: None };
const WRITE: Need = Need::Path { access: Access::Write, path: Some(0) };
const WRITE_SECOND: Need = Need::Path { access: Access::Write, path: Some(1) };

pub(super) const MODULE: Module = Module {
    name: "fs",
    description: "Files. Paths are relative to the agent folder, or absolute inside a granted root; \
                  results hold paths that can be passed back as they are.",
    flat: false,
    types: &[
        TypeDeclaration {
            name: "FsEntry",
            declaration: r#"interface FsEntry {
  name: string;
  path: string;
  kind: "file" | "directory" | "symlink" | "other";
  /** In bytes; 0 for anything but a file. */
  size: number;
}"#,
        },
        TypeDeclaration {
            name: "FsMatch",
            declaration: r#"interface FsMatch {
  path: string;
  /** From 1. */
  line: number;
  /** In characters, from 1. */
  column: number;
  /** The whole line, cut after 500 characters. */
  text: string;
  /** Lines around it, if `context` was given. */
  before?: string[];
  after?: string[];
}"#,
        },
        TypeDeclaration {
            name: "FsStat",
            declaration: r#"interface FsStat {
  path: string;
  kind: "file" | "directory" | "other";
  /** In bytes; 0 for anything but a file. */
  size: number;
  modified: Date;
  readonly: boolean;
}"#,
        },
        TypeDeclaration {
            name: "FsEdit",
            declaration: r#"interface FsEdit {
  /** Exact text, line breaks and indentation included. Has to occur once, unless `all` is true. */
  find: string;
  replace: string;
  all?: boolean;
}"#,
        },
    ],
    members: &[
        Member {
            name: "read",
            declaration: "function read(path: string, options?: { start?: number; end?: number }): Promise<string>",
            doc: "A file's text (UTF-8).\n\
                  `start` and `end` are byte offsets, for files over 16 MiB; a character is never split. For bytes use\n\
                  `fs.readBytes`, for lines `fs.readLines`.\n\
                  @example const config = JSON.parse(await fs.read(\"package.json\"));",
            needs: &[READ],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(read::read),
        },
        Member {
            name: "readBytes",
            declaration: "function readBytes(path: string, options?: { start?: number; end?: number }): Promise<Uint8Array>",
            doc: "A file's bytes.\n\
                  `start` and `end` are offsets, for files over 16 MiB.",
            needs: &[READ],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(read::read_bytes),
        },
        Member {
            name: "readLines",
            declaration: "function readLines(path: string, options?: { start?: number; end?: number }): Promise<string[]>",
            doc: "Lines of a text file, without their line ends.\n\
                  `start` and `end` count lines from 1, both included.\n\
                  @example const head = await fs.readLines(\"src/main.rs\", { end: 40 });",
            needs: &[READ],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(read::read_lines),
        },
        Member {
            name: "list",
            declaration: "function list(path?: string, options?: { depth?: number; limit?: number }): Promise<FsEntry[]>",
            doc: "What lies in a folder (default \".\"), sorted by name, hidden and ignored files included.\n\
                  `depth` 2 and more lists folders in folders too. At most `limit` entries (default 10000): exactly that\n\
                  many means that there may be more.\n\
                  @example const files = (await fs.list(\"src\")).filter(e => e.kind === \"file\");",
            needs: &[READ],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(list::list),
        },
        Member {
            name: "glob",
            declaration: "function glob(pattern: string | string[], options?: { path?: string; kind?: \"file\" | \"directory\" | \"any\"; \
                          hidden?: boolean; ignored?: boolean; limit?: number }): Promise<string[]>",
            doc: "Paths that match a pattern: `*` and `?` inside a name, `**` across folders, `{a,b}`, `[a-z]`.\n\
                  Starts in `path` (default \".\"). Gives files, unless `kind` says otherwise. Leaves out hidden files and what\n\
                  .gitignore names, unless `hidden` or `ignored` is true. At most `limit` paths (default 10000): exactly\n\
                  that many means that there may be more.\n\
                  @example const documents = await fs.glob(\"docs/*.{md,txt}\");",
            needs: &[READ_SOMEWHERE],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(glob::glob),
        },
        Member {
            name: "search",
            declaration: "function search(pattern: string, options?: { path?: string; glob?: string | string[]; literal?: boolean; \
                          ignoreCase?: boolean; context?: number; hidden?: boolean; ignored?: boolean; limit?: number }): Promise<FsMatch[]>",
            doc: "Lines that match a regular expression, in all text files below `path` (default \".\").\n\
                  The syntax is JavaScript's without flags, look-around and back-references; `literal` searches the text as\n\
                  it is. `glob` limits the search to paths, or to names when it has no `/`; with `!` in front it excludes.\n\
                  `context` adds that many lines before and after. Leaves out hidden files and what .gitignore names, unless\n\
                  `hidden` or `ignored` is true. At most `limit` matches (default 1000): exactly that many means that there\n\
                  may be more.\n\
                  @example const todos = await fs.search(\"TODO|FIXME\", { path: \"src\", glob: \"*.rs\" });",
            needs: &[READ_SOMEWHERE],
            effect: Effect::None,
            arity: 2,
            run: Run::Blocking(search::search),
        },
        Member {
            name: "stat",
            declaration: "function stat(path: string): Promise<FsStat>",
            doc: "What a path is. Throws `NotFound` (code `NOT_FOUND`) when there is nothing.",
            needs: &[READ],
            effect: Effect::None,
            arity: 1,
            run: Run::Blocking(manage::stat),
        },
        Member {
            name: "write",
            declaration: "function write(path: string, content: string | Uint8Array, options?: { mode?: \"replace\" | \"create\" | \"append\" }): Promise<void>",
            doc: "Writes a whole file, and makes the folders on the way to it.\n\
                  `replace` (the default) makes or replaces it in one step: readers see the old or the new content.\n\
                  `create` fails if it exists, `append` adds to its end.\n\
                  @example await fs.write(\"work/report.md\", lines.join(\"\\n\"));",
            needs: &[WRITE],
            effect: Effect::Outside,
            arity: 3,
            run: Run::Blocking(write::write),
        },
        Member {
            name: "edit",
            declaration: "function edit(path: string, edits: FsEdit | FsEdit[]): Promise<{ replacements: number }>",
            doc: "Replaces exact text in a file, all edits or none.\n\
                  Later edits see what earlier ones made.\n\
                  @example await fs.edit(\"src/app.ts\", { find: \"const port = 80;\", replace: \"const port = 8080;\" });",
            needs: &[READ, WRITE],
            effect: Effect::Outside,
            arity: 2,
            run: Run::Blocking(edit::edit),
        },
        Member {
            name: "mkdir",
            declaration: "function mkdir(path: string): Promise<void>",
            doc: "Makes a folder, and the folders on the way to it; one that exists is left as it is.",
            needs: &[WRITE],
            effect: Effect::Outside,
            arity: 1,
            run: Run::Blocking(manage::mkdir),
        },
        Member {
            name: "move",
            declaration: "function move(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>",
            doc: "Moves or renames a file or a folder.\n\
                  Fails if `to` exists, unless `overwrite` is true and both are files.",
            needs: &[READ, WRITE, WRITE_SECOND],
            effect: Effect::Outside,
            arity: 3,
            run: Run::Blocking(manage::rename),
        },
        Member {
            name: "copy",
            declaration: "function copy(from: string, to: string, options?: { overwrite?: boolean }): Promise<void>",
            doc: "Copies a file. Fails if `to` exists, unless `overwrite` is true.",
            needs: &[READ, WRITE_SECOND],
            effect: Effect::Outside,
            arity: 3,
            run: Run::Blocking(manage::copy),
        },
        Member {
            name: "remove",
            declaration: "function remove(path: string, options?: { recursive?: boolean }): Promise<void>",
            doc: "Removes a file, a link, or an empty folder; with `recursive` a folder and all that is in it.",
            needs: &[WRITE],
            effect: Effect::Outside,
            arity: 2,
            run: Run::Blocking(manage::remove),
        },
    ],
};
