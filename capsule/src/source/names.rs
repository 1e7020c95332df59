//! Which names a source declares at its top level, and which it takes from outside.

use std::collections::{BTreeMap, BTreeSet};

use oxc::{
    ast::{AstKind, ast::*},
    semantic::{NodeId, Semantic, SymbolFlags, SymbolId},
    span::{GetSpan, Span},
};

/// The names of a block.
#[derive(Debug, Default)]
pub struct Names {
    pub declared: Vec<Declared>,
    /// Used, but not declared by the block itself.
    pub free: Vec<String>,
}

#[derive(Debug)]
pub struct Declared {
    pub name: String,
    pub assignable: bool,
    pub shape: Shape,
}

/// What can be kept of a declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Its value.
    Value,
    /// Its source, which refers to these names.
    Function(Vec<String>),
    /// The same, and the source is an expression.
    Expression(Vec<String>),
    /// The same; the source is the declaration itself, of this extent.
    Namespace(Vec<String>, Span),
}

/// Reads the names of a program that has not been transformed yet.
pub fn read(program: &Program<'_>, semantic: &Semantic<'_>) -> Names {
    let mut reader = Reader {
        semantic,
        declared: Vec::new(),
        seen: BTreeMap::new(),
        uses: uses(semantic),
        awaits: awaits(semantic),
    };
    for statement in &program.body {
        reader.read_statement(statement);
    }
    reader.read_hoisted();
    let declared = reader.declared;
    let free = semantic
        .scoping()
        .root_unresolved_references()
        .iter()
        .filter(|(_, references)| references.iter().any(|id| semantic.scoping().get_reference(*id).is_value()))
        .map(|(name, _)| name.to_string())
        .collect();
    Names { declared, free }
}

struct Reader<'s, 'a> {
    semantic: &'s Semantic<'a>,
    declared: Vec<Declared>,
    seen: BTreeMap<String, usize>,
    uses: Vec<(u32, &'s str)>,
    awaits: Vec<(u32, NodeId)>,
}

impl Reader<'_, '_> {
    fn read_statement(&mut self, statement: &Statement<'_>) {
        match statement {
            Statement::VariableDeclaration(variables) if !variables.declare => {
                for declarator in &variables.declarations {
                    self.read_declarator(declarator, variables.kind);
                }
            }
            Statement::FunctionDeclaration(function) if !function.declare && function.body.is_some() => {
                if let Some(id) = &function.id {
                    let shape = Shape::Function(self.names_within(function.span, id.symbol_id()));
                    self.declare(id, true, shape);
                }
            }
            Statement::ClassDeclaration(class) if !class.declare => {
                if let Some(id) = &class.id {
                    let shape = self.class_shape(class.span, id.symbol_id());
                    self.declare(id, true, shape);
                }
            }
            Statement::TSEnumDeclaration(numbers) if !numbers.declare => self.declare(&numbers.id, true, Shape::Value),
            Statement::TSNamespaceDeclaration(space) if !space.declare => {
                let shape = Shape::Namespace(self.names_within(space.span, space.id.symbol_id()), space.span);
                self.declare(&space.id, true, shape);
            }
            _ => {}
        }
    }

    fn read_declarator(&mut self, declarator: &VariableDeclarator<'_>, kind: VariableDeclarationKind) {
        let assignable = matches!(kind, VariableDeclarationKind::Var | VariableDeclarationKind::Let);
        let BindingPattern::BindingIdentifier(id) = &declarator.id else {
            for id in declarator.id.get_binding_identifiers() {
                self.declare(id, assignable, Shape::Value);
            }
            return;
        };
        let shape = match declarator.init.as_ref().map(Expression::get_inner_expression) {
            _ if self.semantic.scoping().symbol_is_mutated(id.symbol_id()) => Shape::Value,
            Some(Expression::FunctionExpression(function)) => {
                Shape::Expression(self.names_within(function.span, id.symbol_id()))
            }
            Some(Expression::ArrowFunctionExpression(function)) => {
                Shape::Expression(self.names_within(function.span, id.symbol_id()))
            }
            Some(Expression::ClassExpression(class)) => self.class_shape(class.span, id.symbol_id()),
            _ => Shape::Value,
        };
        self.declare(id, assignable, shape);
    }

    /// `var` declares a name of the whole block wherever it stands.
    fn read_hoisted(&mut self) {
        let scoping = self.semantic.scoping();
        let hoisted: Vec<String> = scoping
            .get_bindings(scoping.root_scope_id())
            .iter()
            .filter(|(_, symbol)| {
                let flags = scoping.symbol_flags(**symbol);
                flags.contains(SymbolFlags::FunctionScopedVariable) && !flags.is_ambient()
            })
            .map(|(name, _)| name.to_string())
            .collect();
        for name in hoisted {
            if !self.seen.contains_key(&name) {
                self.add(name, true, Shape::Value);
            }
        }
    }

    fn declare(&mut self, id: &BindingIdentifier<'_>, assignable: bool, shape: Shape) {
        match self.seen.get(id.name.as_str()) {
            None => self.add(id.name.to_string(), assignable, shape),
            // No one source makes what several declarations have made, but the last of several functions counts.
            Some(first) => {
                self.declared[*first].shape = if matches!(shape, Shape::Function(_)) { shape } else { Shape::Value };
            }
        }
    }

    fn add(&mut self, name: String, assignable: bool, shape: Shape) {
        self.seen.insert(name.clone(), self.declared.len());
        self.declared.push(Declared { name, assignable, shape });
    }

    /// A class that awaits while it is made cannot be made again outside the block.
    fn class_shape(&self, span: Span, symbol: SymbolId) -> Shape {
        let nodes = self.semantic.nodes();
        let awaits = range(&self.awaits, span, |(at, _)| *at).iter().any(|(_, id)| {
            !nodes
                .ancestor_kinds(*id)
                .take_while(|kind| within(kind.span(), span))
                .any(|kind| matches!(kind, AstKind::Function(_) | AstKind::ArrowFunctionExpression(_)))
        });
        if awaits { Shape::Value } else { Shape::Expression(self.names_within(span, symbol)) }
    }

    /// The names from outside that are used within an extent, but for the declared one itself.
    fn names_within(&self, span: Span, own: SymbolId) -> Vec<String> {
        let own = self.semantic.scoping().symbol_name(own);
        let used: BTreeSet<&str> = range(&self.uses, span, |(at, _)| *at).iter().map(|(_, name)| *name).collect();
        used.into_iter().filter(|name| *name != own).map(str::to_owned).collect()
    }
}

/// Where the names of the outermost scope and those from outside are used, in order.
fn uses<'s>(semantic: &'s Semantic<'_>) -> Vec<(u32, &'s str)> {
    let scoping = semantic.scoping();
    let declared = scoping
        .get_bindings(scoping.root_scope_id())
        .iter()
        .map(|(name, symbol)| (name.as_str(), scoping.get_resolved_reference_ids(*symbol)));
    let free = scoping.root_unresolved_references().iter().map(|(name, ids)| (name.as_str(), ids.as_slice()));
    let mut uses: Vec<_> = declared
        .chain(free)
        .flat_map(|(name, ids)| ids.iter().map(move |id| (name, scoping.get_reference(*id))))
        .filter(|(_, reference)| reference.is_value())
        .map(|(name, reference)| (semantic.reference_span(reference).start, name))
        .collect();
    uses.sort_unstable();
    uses
}

fn awaits(semantic: &Semantic<'_>) -> Vec<(u32, NodeId)> {
    let mut awaits: Vec<_> = semantic
        .nodes()
        .iter_enumerated()
        .filter(|(_, node)| matches!(node.kind(), AstKind::AwaitExpression(_)))
        .map(|(id, node)| (node.kind().span().start, id))
        .collect();
    awaits.sort_unstable();
    awaits
}

/// The part of a list in order that begins within an extent.
fn range<T>(list: &[T], span: Span, at: impl Fn(&T) -> u32) -> &[T] {
    let from = list.partition_point(|item| at(item) < span.start);
    let to = list.partition_point(|item| at(item) < span.end);
    &list[from..to]
}

fn within(inner: Span, outer: Span) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
