//! The completion value: what a block's last expression statement gives becomes what its function returns.

use oxc::{
    allocator::{ArenaBox, TakeIn},
    ast::{ast::*, builder::AstBuilder},
    span::{GetSpan, SPAN},
};

/// Turns the last expression statement of the program into a `return`.
pub fn return_last_expression<'a>(program: &mut Program<'a>, ast: &AstBuilder<'a>) {
    if program.body.is_empty() {
        return_last_directive(program, ast);
        return;
    }
    // Hoisted functions and types do nothing where they stand: the statement before them still counts as the last.
    let last = program.body.iter_mut().rev().find(|statement| !is_inert(statement));
    if let Some(last) = last {
        return_from(last, Context::Function, ast);
    }
}

#[derive(Clone, Copy)]
enum Context {
    Function,
    /// Within `try` a promise has to be awaited, or its rejection would miss the `catch`.
    Try,
}

fn return_from<'a>(statement: &mut Statement<'a>, context: Context, ast: &AstBuilder<'a>) {
    match statement {
        Statement::ExpressionStatement(expression) => {
            let span = expression.span;
            let mut value = expression.expression.take_in(ast);
            if matches!(context, Context::Try) {
                value = Expression::new_await_expression(value.span(), value, ast);
            }
            *statement = Statement::new_return_statement(span, Some(value), ast);
        }
        Statement::BlockStatement(block) => {
            if let Some(last) = block.body.last_mut() {
                return_from(last, context, ast);
            }
        }
        Statement::IfStatement(branches) => {
            return_from(&mut branches.consequent, context, ast);
            if let Some(alternate) = &mut branches.alternate {
                return_from(alternate, context, ast);
            }
        }
        Statement::TryStatement(attempt) => {
            if let Some(last) = attempt.block.body.last_mut() {
                return_from(last, Context::Try, ast);
            }
            if let Some(last) = attempt.handler.as_mut().and_then(|handler| handler.body.body.last_mut()) {
                return_from(last, context, ast);
            }
        }
        _ => {}
    }
}

/// A source that is only a string literal parses as a directive.
fn return_last_directive<'a>(program: &mut Program<'a>, ast: &AstBuilder<'a>) {
    if let Some(directive) = program.directives.pop() {
        let value = Expression::StringLiteral(ArenaBox::new_in(directive.expression, ast));
        program.body.push(Statement::new_return_statement(SPAN, Some(value), ast));
    }
}

fn is_inert(statement: &Statement<'_>) -> bool {
    matches!(
        statement,
        Statement::FunctionDeclaration(_)
            | Statement::TSInterfaceDeclaration(_)
            | Statement::TSTypeAliasDeclaration(_)
            | Statement::EmptyStatement(_)
    )
}
