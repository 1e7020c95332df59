//! TypeScript to JavaScript.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use deno_core::sourcemap::{SourceMap, SourceMapBuilder};
use oxc::{
    allocator::{Allocator, TakeIn},
    ast::{AstKind, ast::*, builder::AstBuilder},
    codegen::{Codegen, CodegenOptions, CommentOptions},
    diagnostics::Diagnostics,
    parser::{ParseOptions, Parser},
    semantic::{Scoping, Semantic, SemanticBuilder},
    span::{GetSpan, SourceType, Span},
    transformer::{TransformOptions, Transformer, TypeScriptOptions},
};

use super::{
    Erased, MAX_NESTING, Names, SOURCE_NAME, Shape, SourceError, completion, excerpt, fence, names,
    nesting::{nesting, stack_bytes},
    position,
};

const EPILOGUE: &str = "\n})";

/// Erases types and makes an async function of the source. Sources that need more stack than `stack_left` bytes are
/// worked on in a thread that has it.
///
/// # Errors
/// A syntax error, an import, or nesting beyond [`MAX_NESTING`], each with its position in `source`.
pub fn erase(source: &str, stack_left: usize) -> Result<Erased, SourceError> {
    let text = fence::without_fence(source);
    let nesting = nesting(&text);
    if nesting > MAX_NESTING {
        return Err(SourceError::TooDeep);
    }
    let needed = stack_bytes(nesting);
    if needed <= stack_left {
        return erase_here(&text);
    }
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("erase".into())
            .stack_size(needed)
            .spawn_scoped(scope, || erase_here(&text))
            .map_err(|_| SourceError::TooDeep)?
            .join()
            .unwrap_or(Err(SourceError::TooDeep))
    })
}

/// What the isolate process makes of a block's source before it runs it: an expression that is an async function.
///
/// For tests and fuzzing. The kernel itself never parses what a model wrote.
///
/// # Errors
/// What the model is told: a syntax error, an import or too deep nesting, with its position.
pub fn erase_types(source: &str) -> Result<String, SourceError> {
    // Nothing is known of the caller's stack.
    erase(source, 0).map(|erased| erased.code)
}

/// What was put before the model's text to read it as an expression, in columns of its first line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Statements,
    Parenthesised,
}

fn erase_here(source: &str) -> Result<Erased, SourceError> {
    // `{ a: 1 }` alone is an object to its author, though the grammar takes it for a block.
    let trimmed = source.trim();
    if trimmed.starts_with('{') && trimmed.ends_with('}') {
        let parenthesised = format!("({source}\n)");
        if let Ok(erased) = erase_program(&parenthesised, Reading::Parenthesised) {
            return Ok(erased);
        }
    }
    erase_program(source, Reading::Statements)
}

fn erase_program(source: &str, reading: Reading) -> Result<Erased, SourceError> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let source_type = SourceType::ts().with_module(true);
    let parsed = Parser::new(&allocator, source, source_type).with_options(options).parse();
    check(source, &parsed.diagnostics)?;
    let mut program = parsed.program;

    let ast = AstBuilder::new(&allocator);
    program.hashbang = None;
    drop_exports(source, &mut program, &ast)?;
    completion::return_last_expression(&mut program, &ast);

    let semantic = SemanticBuilder::new()
        .with_build_nodes(true)
        .with_check_syntax_error(true)
        .with_enum_eval(true)
        .build(&program);
    check(source, &semantic.diagnostics)?;
    refuse_decorators(source, &semantic.semantic)?;
    let names = names::read(&program, &semantic.semantic);
    let namespaces = namespaces(source, &names);
    transform(source, &allocator, semantic.semantic.into_scoping(), &mut program)?;

    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        source_map_path: Some(PathBuf::from(SOURCE_NAME)),
        ..CodegenOptions::default()
    };
    let printed = Codegen::new().with_options(options).build(&program);
    let source_map = printed.map.map(|map| map.to_json_string()).unwrap_or_default();
    let code = [prologue(source, &names).as_str(), printed.code.as_str(), EPILOGUE].concat();
    Ok(Erased { code, source_map: moved_map(&source_map, reading), names, namespaces })
}

/// What stands before the code, on a line of its own so that columns are not moved. The function hands out readers of
/// its top-level names: their values are wanted when it has ended.
fn prologue(source: &str, names: &Names) -> String {
    if names.declared.is_empty() {
        return "(async () => {\"use strict\";\n".to_owned();
    }
    // A name that the source does not have.
    let mut expose = "$expose".to_owned();
    while source.contains(&expose) {
        expose.push('$');
    }
    // Computed names: `__proto__` is then one like any other.
    let readers: Vec<String> =
        names.declared.iter().map(|declared| format!("[\"{0}\"]: () => {0}", declared.name)).collect();
    format!("(async ({expose}) => {{\"use strict\"; {expose}({{ __proto__: null, {} }});\n", readers.join(", "))
}

/// The JavaScript of each namespace that a source declares.
fn namespaces(source: &str, names: &Names) -> BTreeMap<String, String> {
    let mut namespaces = BTreeMap::new();
    for declared in &names.declared {
        if let Shape::Namespace(_, span) = declared.shape
            && let Ok(code) = erase_statements(&source[span.start as usize..span.end as usize])
        {
            namespaces.insert(declared.name.clone(), code);
        }
    }
    namespaces
}

fn erase_statements(source: &str) -> Result<String, SourceError> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, source, SourceType::ts().with_module(true)).parse();
    check(source, &parsed.diagnostics)?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new().with_enum_eval(true).build(&program);
    transform(source, &allocator, semantic.semantic.into_scoping(), &mut program)?;
    Ok(Codegen::new().build(&program).code)
}

fn transform<'a>(
    source: &str,
    allocator: &'a Allocator,
    scoping: Scoping,
    program: &mut Program<'a>,
) -> Result<(), SourceError> {
    let options = TransformOptions {
        typescript: TypeScriptOptions { only_remove_type_imports: true, ..TypeScriptOptions::default() },
        ..TransformOptions::default()
    };
    let transformed =
        Transformer::new(allocator, Path::new(SOURCE_NAME), &options).build_with_scoping(scoping, program);
    check(source, &transformed.diagnostics)
}

/// The map for the code with its prologue, which is one line, and for the source without what [`Reading`] put before it.
fn moved_map(source_map: &str, reading: Reading) -> String {
    if reading == Reading::Statements {
        return source_map.replacen("\"mappings\":\"", "\"mappings\":\";", 1);
    }
    let Ok(map) = SourceMap::from_slice(source_map.as_bytes()) else { return source_map.to_owned() };
    let mut moved = SourceMapBuilder::new(None);
    let source = moved.add_source(SOURCE_NAME);
    for token in map.tokens() {
        let column = token.get_src_col().saturating_sub(u32::from(token.get_src_line() == 0));
        let line = token.get_dst_line() + 1;
        moved.add_raw(line, token.get_dst_col(), token.get_src_line(), column, Some(source), None, false);
    }
    let mut json = Vec::new();
    match moved.into_sourcemap().to_writer(&mut json) {
        Ok(()) => String::from_utf8(json).unwrap_or_default(),
        Err(_) => source_map.to_owned(),
    }
}

/// The first error as the model should see it.
fn check(source: &str, diagnostics: &Diagnostics) -> Result<(), SourceError> {
    let Some(error) = diagnostics.errors().next() else { return Ok(()) };
    let offset = error.labels.first().map_or(0, |label| label.offset() as usize);
    let help = error.help.as_deref().map(|help| format!(" ({help})")).unwrap_or_default();
    Err(syntax_error(source, offset, format!("{}{help}", error.message)))
}

fn syntax_error(source: &str, offset: usize, message: String) -> SourceError {
    let (line, column) = position(source, offset);
    SourceError::Syntax { message, line, column, excerpt: excerpt(source, offset) }
}

/// The engine does not have them, and nothing here makes calls of them.
fn refuse_decorators(source: &str, semantic: &Semantic<'_>) -> Result<(), SourceError> {
    let decorator = semantic.nodes().iter().find_map(|node| match node.kind() {
        AstKind::Decorator(decorator) => Some(decorator.span.start as usize),
        _ => None,
    });
    match decorator {
        None => Ok(()),
        Some(offset) => {
            let message = "decorators are not supported here: apply the function to the class yourself".to_owned();
            Err(syntax_error(source, offset, message))
        }
    }
}

/// `export` means nothing in a block: what it exports stays, what it only names goes. Whatever would load a module is
/// refused.
fn drop_exports<'a>(source: &str, program: &mut Program<'a>, ast: &AstBuilder<'a>) -> Result<(), SourceError> {
    for statement in &mut program.body {
        let span = statement.span();
        match statement {
            Statement::ImportDeclaration(import) if import.import_kind.is_type() => {}
            Statement::ExportFromDeclaration(export) if export.export_kind.is_type() => {}
            Statement::ExportAllDeclaration(export) if export.export_kind.is_type() => {}
            Statement::ImportDeclaration(_)
            | Statement::ExportAllDeclaration(_)
            | Statement::ExportFromDeclaration(_)
            | Statement::TSImportEqualsDeclaration(_) => {
                let (line, column) = position(source, span.start as usize);
                return Err(SourceError::Import { line, column });
            }
            Statement::ExportDeclaration(export) => {
                *statement = Statement::from(export.declaration.take_in(ast));
                continue;
            }
            Statement::ExportDefaultDeclaration(export) => {
                let declaration = export.declaration.take_in(ast);
                *statement = default_export(span, declaration, ast);
                continue;
            }
            Statement::TSExportAssignment(export) => {
                let expression = export.expression.take_in(ast);
                *statement = Statement::new_expression_statement(span, expression, ast);
                continue;
            }
            Statement::ExportNamedDeclaration(_) | Statement::TSNamespaceExportDeclaration(_) => {}
            _ => continue,
        }
        *statement = Statement::new_empty_statement(span, ast);
    }
    Ok(())
}

/// A named default export is a declaration; any other is an expression, and so the block's value.
fn default_export<'a>(
    span: Span,
    declaration: ExportDefaultDeclarationKind<'a>,
    ast: &AstBuilder<'a>,
) -> Statement<'a> {
    match declaration {
        ExportDefaultDeclarationKind::FunctionDeclaration(mut function) => {
            if function.id.is_some() {
                return Statement::FunctionDeclaration(function);
            }
            function.r#type = FunctionType::FunctionExpression;
            Statement::new_expression_statement(span, Expression::FunctionExpression(function), ast)
        }
        ExportDefaultDeclarationKind::ClassDeclaration(mut class) => {
            if class.id.is_some() {
                return Statement::ClassDeclaration(class);
            }
            class.r#type = ClassType::ClassExpression;
            Statement::new_expression_statement(span, Expression::ClassExpression(class), ast)
        }
        ExportDefaultDeclarationKind::TSInterfaceDeclaration(interface) => Statement::TSInterfaceDeclaration(interface),
        expression => Statement::new_expression_statement(span, expression.into_expression(), ast),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room enough to stay on the test's own thread for shallow sources.
    const STACK: usize = 1 << 20;

    fn code(source: &str) -> String {
        let erased = erase(source, STACK).unwrap_or_else(|error| panic!("{source}: {error}"));
        let (_, code) = erased.code.split_once('\n').unwrap();
        code[..code.len() - EPILOGUE.len()].trim().to_owned()
    }

    #[test]
    fn the_last_expression_becomes_the_returned_value() {
        for (source, expected) in [
            ("1 + 1", "return 1 + 1;"),
            ("'text'", "return \"text\";"),
            ("{ a: 1, b: 2 }", "return {\n\ta: 1,\n\tb: 2\n};"),
            ("const x: number = 1; x", "const x = 1;\nreturn x;"),
            ("export default 5", "return 5;"),
            ("f(); function f() {}", "return f();\nfunction f() {}"),
            ("return 3", "return 3;"),
            ("let a = 1", "let a = 1;"),
        ] {
            assert_eq!(code(source), expected, "{source}");
        }
    }

    #[test]
    fn imports_are_refused_with_their_position() {
        for source in ["\n  import fs from 'fs'", "\n  export * from 'x'", "\n  import fs = require('fs')"] {
            assert_eq!(erase(source, STACK).unwrap_err(), SourceError::Import { line: 2, column: 3 }, "{source}");
        }
        assert_eq!(code("import type { A } from 'a'; 1"), ";\nreturn 1;");
    }

    #[test]
    fn syntax_errors_name_line_and_column() {
        let error = erase("const a = 1;\nconst b = ;", STACK).unwrap_err();
        assert!(matches!(error, SourceError::Syntax { line: 2, column: 11, .. }), "{error:?}");
    }

    #[test]
    fn deep_sources_are_refused_or_erased_but_never_overflow() {
        for unit in ["(", "[", "!", "a+", "a.", "a=>", "{", "if(1)", "new ", "a?b:", "`${", "a=", "f(", "[..."] {
            for count in [100, MAX_NESTING - 20, 100_000] {
                let _ = erase(&(unit.repeat(count) + "a"), STACK);
            }
        }
        let chain = "1+".repeat(MAX_NESTING - 10) + "1";
        assert!(erase(&chain, STACK).is_ok());
        let brackets = "(".repeat(900) + "1" + &")".repeat(900);
        assert!(erase(&brackets, STACK).is_ok());
    }
}
