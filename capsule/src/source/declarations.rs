//! What a user's tool file declares: its exported functions as blocks may call them.

use std::path::Path;

use oxc::{
    allocator::Allocator,
    ast::ast::*,
    codegen::{Codegen, CodegenOptions, CommentOptions, IndentChar},
    diagnostics::Diagnostics,
    isolated_declarations::{IsolatedDeclarations, IsolatedDeclarationsOptions},
    parser::Parser,
    semantic::{Semantic, SemanticBuilder},
    span::{GetSpan, SourceType, Span},
    transformer::{TransformOptions, Transformer},
};

use super::{
    MAX_NESTING,
    nesting::{nesting, stack_bytes},
    position, signatures,
};
use crate::tool_source::{ToolFile, ToolMember, ToolModule, ToolProblem, ToolReport, resolve_import};

/// What only a generator returns, and cannot be passed to a block.
const STREAMS: [&str; 6] = ["AsyncGenerator", "Generator", "AsyncIterable", "Iterable", "AsyncIterator", "Iterator"];

/// Reads every file. Works on a thread that has the stack for any source.
pub fn describe(files: &[ToolFile]) -> ToolReport {
    std::thread::scope(|scope| {
        let reading = std::thread::Builder::new()
            .name("describe".into())
            .stack_size(stack_bytes(MAX_NESTING))
            .spawn_scoped(scope, || describe_here(files));
        let read = reading.ok().and_then(|thread| thread.join().ok());
        read.unwrap_or_else(|| ToolReport {
            modules: Vec::new(),
            problems: files.iter().map(|file| problem(file, 0, "the file could not be read")).collect(),
        })
    })
}

fn describe_here(files: &[ToolFile]) -> ToolReport {
    let mut report = ToolReport::default();
    for file in files {
        match describe_file(file, files) {
            Ok(module) => report.modules.extend(module),
            Err(mut problems) => report.problems.append(&mut problems),
        }
    }
    report
}

/// JavaScript of a tool file, as a module, with its source map.
///
/// # Errors
/// What is wrong with the file, in one line.
pub fn module_code(path: &str, source: &str) -> Result<(String, String), String> {
    let describe = |diagnostics: &Diagnostics| match diagnostics.errors().next() {
        Some(error) => {
            let (line, column) = position(source, error.labels.first().map_or(0, |label| label.offset() as usize));
            Err(format!("tools/{path}:{line}:{column}: {}", error.message))
        }
        None => Ok(()),
    };
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    describe(&parsed.diagnostics)?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true).build(&program);
    describe(&semantic.diagnostics)?;
    let transformed = Transformer::new(&allocator, Path::new(path), &TransformOptions::default())
        .build_with_scoping(semantic.semantic.into_scoping(), &mut program);
    describe(&transformed.diagnostics)?;
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(Path::new(path).to_owned()),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    Ok((printed.code, printed.map.map(|map| map.to_json_string()).unwrap_or_default()))
}

fn problem(file: &ToolFile, offset: usize, message: impl Into<String>) -> ToolProblem {
    let (line, column) = position(&file.source, offset);
    ToolProblem { path: file.path.clone(), line, column, message: message.into() }
}

fn describe_file(file: &ToolFile, files: &[ToolFile]) -> Result<Option<ToolModule>, Vec<ToolProblem>> {
    if nesting(&file.source) > MAX_NESTING {
        return Err(vec![problem(file, 0, format!("the source nests deeper than {MAX_NESTING} levels"))]);
    }
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, &file.source, SourceType::ts().with_module(true)).parse();
    no_errors(file, &parsed.diagnostics)?;
    let checked = SemanticBuilder::new().with_build_nodes(true).with_check_syntax_error(true).build(&parsed.program);
    no_errors(file, &checked.diagnostics)?;
    let mut problems = unresolved_imports(file, files, &parsed.program);
    let Some(name) = &file.namespace else {
        return if problems.is_empty() { Ok(None) } else { Err(problems) };
    };
    problems.append(&mut unusable_exports(file, &parsed.program));

    let declared = IsolatedDeclarations::new(&allocator, IsolatedDeclarationsOptions::default()).build(&parsed.program);
    if let Err(mut missing) = no_errors(file, &declared.diagnostics) {
        problems.append(&mut missing);
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let options = CodegenOptions {
        comments: CommentOptions { jsdoc: true, ..CommentOptions::disabled() },
        indent_char: IndentChar::Space,
        indent_width: 2,
        ..CodegenOptions::default()
    };
    let text = Codegen::new().with_options(options).build(&declared.program).code;
    let module = Reader { file, original: &parsed.program, text: &text, checked: &checked.semantic }.read(name)?;
    Ok(Some(module))
}

fn no_errors(file: &ToolFile, diagnostics: &Diagnostics) -> Result<(), Vec<ToolProblem>> {
    let problems: Vec<_> = diagnostics
        .errors()
        .map(|error| {
            let offset = error.labels.first().map_or(0, |label| label.offset() as usize);
            let help = error.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
            problem(file, offset, format!("{}{help}", plain(&error.message)))
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// A message without what only the author of a compiler knows: its number and the option that it belongs to.
fn plain(message: &str) -> String {
    let numbered = message.strip_prefix("TS").and_then(|rest| rest.split_once(": "));
    let words = match numbered {
        Some((number, words)) if number.chars().all(|c| c.is_ascii_digit()) => words,
        _ => message,
    };
    words.replace(" with --isolatedDeclarations", "")
}

/// Imports of what is no file of `tools/`.
fn unresolved_imports(file: &ToolFile, files: &[ToolFile], program: &Program<'_>) -> Vec<ToolProblem> {
    let exists = |path: &str| files.iter().map(|file| file.path.as_str()).find(|known| *known == path);
    let imported = program.body.iter().filter_map(|statement| match statement {
        Statement::ImportDeclaration(import) => Some(&import.source),
        Statement::ExportFromDeclaration(export) => Some(&export.source),
        Statement::ExportAllDeclaration(export) => Some(&export.source),
        _ => None,
    });
    imported
        .filter(|source| resolve_import(&source.value, &file.path, exists).is_none())
        .map(|source| {
            let what =
                format!("\"{}\" is no file in tools/; only relative imports inside tools/ are possible", source.value);
            problem(file, source.span.start as usize, what)
        })
        .collect()
}

/// Exports that a block could not call by their name.
fn unusable_exports(file: &ToolFile, program: &Program<'_>) -> Vec<ToolProblem> {
    let mut problems = Vec::new();
    let mut refuse = |span: Span, what: &str| problems.push(problem(file, span.start as usize, what));
    for statement in &program.body {
        match statement {
            Statement::ExportDefaultDeclaration(export) => {
                refuse(export.span, "a default export has no name to call it by; write `export function NAME`");
            }
            Statement::ExportNamedDeclaration(export)
                if export.export_kind.is_value() && !export.specifiers.is_empty() =>
            {
                refuse(export.span, "export a function where it is declared: `export function NAME`");
            }
            Statement::ExportFromDeclaration(export) if export.export_kind.is_value() => {
                refuse(export.span, "a tool is not passed on from another file; declare a function here that calls it");
            }
            Statement::ExportAllDeclaration(export) => {
                refuse(export.span, "a tool is not passed on from another file; declare a function here that calls it");
            }
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::ClassDeclaration(_) | Declaration::TSEnumDeclaration(_) => {
                    refuse(export.span, "a block can call functions alone: do not export a class or an enum");
                }
                Declaration::FunctionDeclaration(function) if function.generator => {
                    refuse(function.span, "what a generator gives cannot be passed to a block; return an array");
                }
                _ => {}
            },
            _ => {}
        }
    }
    problems
}

/// Reads the declarations that were printed.
struct Reader<'a> {
    file: &'a ToolFile,
    original: &'a Program<'a>,
    text: &'a str,
    checked: &'a Semantic<'a>,
}

impl Reader<'_> {
    fn read(&self, name: &str) -> Result<ToolModule, Vec<ToolProblem>> {
        let allocator = Allocator::default();
        let printed = Parser::new(&allocator, self.text, SourceType::d_ts()).parse();
        no_errors(self.file, &printed.diagnostics)?;
        let mut module =
            ToolModule { name: name.into(), description: self.description(), types: Vec::new(), members: Vec::new() };
        let mut problems = Vec::new();
        for statement in &printed.program.body {
            let declaration = match statement {
                Statement::ExportDeclaration(export) => Some(&export.declaration),
                statement => statement.as_declaration(),
            };
            let exported = matches!(statement, Statement::ExportDeclaration(_));
            let read = match (declaration, statement) {
                (Some(declaration), _) => self.declaration(declaration, exported, &mut module),
                (None, Statement::ImportDeclaration(_)) => {
                    Err("a type in the signature of a tool has to be declared in its own file, not imported".to_owned())
                }
                _ => Ok(()),
            };
            if let Err(what) = read {
                problems.push(problem(self.file, 0, what));
            }
        }
        if module.members.is_empty() && problems.is_empty() {
            let what = "the file exports no function; a file that others import belongs into a folder below tools/";
            problems.push(problem(self.file, 0, what));
        }
        if problems.is_empty() {
            let faults = signatures::faults(&printed.program, self.text, self.checked);
            problems.extend(faults.into_iter().map(|(at, what)| problem(self.file, at as usize, what)));
        }
        if problems.is_empty() { Ok(module) } else { Err(problems) }
    }

    fn declaration(&self, declared: &Declaration<'_>, exported: bool, module: &mut ToolModule) -> Result<(), String> {
        match declared {
            Declaration::FunctionDeclaration(function) if exported => {
                let (Some(id), Some(result)) = (&function.id, &function.return_type) else { return Ok(()) };
                let head = self.between(id.span.end, result.span.start);
                self.member(module, &id.name, head, result.type_annotation.span())
            }
            Declaration::VariableDeclaration(variables) if exported => {
                for variable in &variables.declarations {
                    let Some(annotation) = &variable.type_annotation else { continue };
                    let (Some(id), TSType::TSFunctionType(function)) =
                        (variable.id.get_binding_identifier(), &annotation.type_annotation)
                    else {
                        continue;
                    };
                    let head = self.between(function.span.start, function.return_type.span.start);
                    self.member(module, &id.name, head, function.return_type.type_annotation.span())?;
                }
                Ok(())
            }
            Declaration::TSTypeAliasDeclaration(alias) => {
                module.types.push(self.type_text(alias.span));
                Ok(())
            }
            Declaration::TSInterfaceDeclaration(interface) => {
                module.types.push(self.type_text(interface.span));
                Ok(())
            }
            Declaration::ClassDeclaration(_) | Declaration::TSEnumDeclaration(_) => {
                Err("a signature speaks of a class or an enum, which blocks do not have; use an interface or a union"
                    .into())
            }
            _ => Ok(()),
        }
    }

    /// `head` holds type parameters and parameters.
    fn member(&self, module: &mut ToolModule, name: &str, head: &str, result: Span) -> Result<(), String> {
        let head = head.trim().trim_end_matches("=>").trim().trim_end_matches(':').trim();
        let result = self.between(result.start, result.end);
        if STREAMS.iter().any(|stream| result.starts_with(&format!("{stream}<"))) {
            return Err(format!("{name} gives a {result}, which cannot be passed to a block; return an array"));
        }
        let result = if result.starts_with("Promise<") { result.to_owned() } else { format!("Promise<{result}>") };
        let declaration = format!("function {name}{head}: {result}");
        match module.members.iter_mut().find(|member| member.name == name) {
            // Another signature of the same function.
            Some(known) => {
                known.declaration.push_str(";\n");
                known.declaration.push_str(&declaration);
            }
            None => module.members.push(ToolMember { name: name.into(), declaration, jsdoc: self.jsdoc(name) }),
        }
        Ok(())
    }

    fn between(&self, start: u32, end: u32) -> &str {
        &self.text[start as usize..end as usize]
    }

    fn type_text(&self, span: Span) -> String {
        let text = self.between(span.start, span.end).trim_end_matches(';');
        text.strip_prefix("declare ").unwrap_or(text).to_owned()
    }

    /// The comment of an exported function.
    fn jsdoc(&self, name: &str) -> Option<String> {
        let statement = self.original.body.iter().find(|statement| match statement {
            Statement::ExportDeclaration(export) => match &export.declaration {
                Declaration::FunctionDeclaration(function) => function.id.as_ref().is_some_and(|id| id.name == name),
                Declaration::VariableDeclaration(variables) => variables
                    .declarations
                    .iter()
                    .any(|variable| variable.id.get_binding_identifier().is_some_and(|id| id.name == name)),
                _ => false,
            },
            _ => false,
        })?;
        let at = statement.span().start;
        let comment = self.original.comments.iter().rfind(|comment| comment.is_jsdoc() && comment.attached_to == at)?;
        Some(self.comment(comment))
    }

    /// A JSDoc comment at the head of the file that belongs to no function: another one, an import or an empty line
    /// follows it.
    fn description(&self) -> Option<String> {
        let comment = self.original.comments.first().filter(|comment| comment.is_jsdoc())?;
        let first = self.original.body.first()?.span().start;
        if comment.attached_to != first {
            return None;
        }
        let rest = &self.file.source[comment.span.end as usize..first as usize];
        let apart = rest.contains("\n\n") || rest.contains("\r\n\r\n") || rest.contains("/**");
        let import = matches!(self.original.body.first(), Some(Statement::ImportDeclaration(_)));
        (apart || import).then(|| self.comment(comment))
    }

    /// The words of a JSDoc comment.
    fn comment(&self, comment: &Comment) -> String {
        let content = comment.content_span().source_text(&self.file.source).trim_start_matches('*');
        let lines = content.lines().map(|line| {
            let line = line.trim();
            line.strip_prefix("* ").unwrap_or(line.trim_start_matches('*')).trim_end()
        });
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
    }
}
