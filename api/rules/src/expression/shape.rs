//! Checks an expression before it is used: names, members, functions, the shape of its value, its cost.
//!
//! Owns what a configuration may say. The library finds such faults only when it evaluates; here they refuse the
//! configuration. The check knows fewer types than the language: what it cannot tell is [`Shape::Any`].

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr};

use super::Cost;

/// The type of a value, as far as it is known before an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Nothing.
    Any,
    /// `bool`.
    Bool,
    /// `string`.
    Text,
    /// `int`, `uint` or `double`.
    Number,
    /// `list`.
    List,
    /// A map with any keys.
    Map,
    /// An object with these members.
    Object(&'static [(&'static str, Shape)]),
}

impl Shape {
    /// The language's name of the type; `dyn` where nothing is known.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Any => "dyn",
            Shape::Bool => "bool",
            Shape::Text => "string",
            Shape::Number => "int",
            Shape::List => "list(dyn)",
            Shape::Map => "map(dyn, dyn)",
            Shape::Object(_) => "object",
        }
    }
}

/// The variables of a place, by name.
pub type Scope = [(&'static str, Shape)];

/// Functions with what each gives.
pub type Functions = [(&'static str, Shape)];

/// Loops inside each other: one over the elements of another's.
const DEPTH_MAX: u32 = 2;

/// Type and cost of an expression that passed the check.
pub(super) struct Checked {
    pub(super) shape: Shape,
    pub(super) cost: Cost,
}

/// Checks `expression` against the variables of `scope`.
pub(super) fn check(expression: &IdedExpr, scope: &Scope) -> Result<Checked, String> {
    let mut check = Check::new(scope, None);
    let shape = check.shape(expression)?;
    Ok(Checked { shape, cost: Cost { nodes: check.nodes, depth: check.depth, splits: check.splits } })
}

/// [`check`] for an expression that is never evaluated here: `functions` are known, too, and nothing is bounded.
pub(super) fn check_foreign(
    expression: &IdedExpr,
    scope: &Scope,
    functions: &Functions,
) -> Result<Shape, String> {
    Check::new(scope, Some(functions)).shape(expression)
}

struct Check<'a> {
    scope: &'a Scope,
    /// Functions of the program that evaluates the expression; `None` if it is evaluated here, within bounds.
    foreign: Option<&'a Functions>,
    /// Variables of the loops around the current node, the innermost last.
    locals: Vec<(String, Shape)>,
    nodes: u64,
    /// Loops around the current node.
    loops: u32,
    depth: u32,
    splits: bool,
}

/// Names of types, which are values, too.
const TYPES: [&str; 11] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional_type"];

/// Names before a point that belong to functions.
const NAMESPACES: [&str; 3] = ["optional", "math", "lists"];
/// Further ones of expressions that are not evaluated here.
const FOREIGN_NAMESPACES: [&str; 5] = ["sets", "base64", "cel", "ip", "format"];

impl<'a> Check<'a> {
    fn new(scope: &'a Scope, foreign: Option<&'a Functions>) -> Self {
        Check { scope, foreign, locals: Vec::new(), nodes: 0, loops: 0, depth: 0, splits: false }
    }

    fn shape(&mut self, expression: &IdedExpr) -> Result<Shape, String> {
        self.nodes += 1;
        match &expression.expr {
            Expr::Literal(literal) => Ok(match literal {
                LiteralValue::Boolean(_) => Shape::Bool,
                LiteralValue::String(_) => Shape::Text,
                LiteralValue::Int(_) | LiteralValue::UInt(_) | LiteralValue::Double(_) => Shape::Number,
                LiteralValue::Bytes(_) | LiteralValue::Null => Shape::Any,
            }),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::List(list) => {
                for element in &list.elements {
                    self.shape(element)?;
                }
                Ok(Shape::List)
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { return Err(no_types()) };
                    self.shape(&entry.key)?;
                    self.shape(&entry.value)?;
                }
                Ok(Shape::Map)
            }
            Expr::Struct(_) | Expr::Unspecified => Err(no_types()),
        }
    }

    fn ident(&self, name: &str) -> Result<Shape, String> {
        // few: the variables of the loops around one node, and those of a place.
        let local = self.locals.iter().rev().find(|(local, _)| local == name);
        if let Some((_, shape)) = local {
            return Ok(*shape);
        }
        // few: the variables of a place.
        if let Some((_, shape)) = self.scope.iter().find(|(declared, _)| *declared == name) {
            return Ok(*shape);
        }
        // few: the types of the language.
        if TYPES.contains(&name) { Ok(Shape::Any) } else { Err(undeclared(name)) }
    }

    fn select(&mut self, select: &SelectExpr) -> Result<Shape, String> {
        let member = match self.shape(&select.operand)? {
            Shape::Object(members) => {
                // few: the members of one type.
                let member = members.iter().find(|(name, _)| *name == select.field);
                member
                    .map(|(_, shape)| *shape)
                    .ok_or_else(|| format!("undefined field '{}'", select.field))?
            }
            Shape::Any | Shape::Map => Shape::Any,
            Shape::Bool | Shape::Text | Shape::Number | Shape::List => {
                return Err(format!(
                    "a value that has no members does not support field selection of '{}'",
                    select.field
                ));
            }
        };
        Ok(if select.test { Shape::Bool } else { member })
    }

    fn call(&mut self, call: &CallExpr) -> Result<Shape, String> {
        if let Some(functions) = self.foreign {
            return self.foreign_call(call, functions);
        }
        let shapes = self.shapes_of(call)?;
        match call.func_name.as_str() {
            "matches" => check_pattern(call)?,
            // Either could make a text as long as the product of its arguments.
            "replace" | "join" => check_literals(call)?,
            "split" => self.splits = true,
            "distinct" | "sort" => self.depth = self.depth.max(self.loops + 1),
            _ => {}
        }
        result_of(&call.func_name, &shapes).ok_or_else(|| undeclared(&call.func_name))
    }

    /// The shapes of the target, unless it is the first part of the function's name, and of the arguments.
    fn shapes_of(&mut self, call: &CallExpr) -> Result<Vec<Shape>, String> {
        let mut shapes = Vec::new();
        if let Some(target) = call.target.as_deref()
            && !self.is_namespace(target)
        {
            shapes.push(self.shape(target)?);
        }
        for argument in &call.args {
            shapes.push(self.shape(argument)?);
        }
        Ok(shapes)
    }

    fn foreign_call(&mut self, call: &CallExpr, functions: &Functions) -> Result<Shape, String> {
        if let Some(shape) = self.binding(call)? {
            return Ok(shape);
        }
        let shapes = self.shapes_of(call)?;
        let name = call.func_name.as_str();
        check_operands(name, &shapes)?;
        // few: the functions of one program.
        let foreign = functions.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape);
        foreign.or_else(|| result_of(name, &shapes)).ok_or_else(|| undeclared(name))
    }

    /// The shape of a macro that names a variable for its last argument: `cel.bind(x, init, use)`, `o.optMap(x, use)`.
    fn binding(&mut self, call: &CallExpr) -> Result<Option<Shape>, String> {
        let Some((variable, value, body)) = (match (call.func_name.as_str(), &call.args[..]) {
            ("bind", [variable, value, body]) => Some((variable, Some(value), body)),
            ("optMap" | "optFlatMap", [variable, body]) => Some((variable, call.target.as_deref(), body)),
            _ => None,
        }) else {
            return Ok(None);
        };
        let Expr::Ident(name) = &variable.expr else { return Ok(None) };
        let bound = value.map(|value| self.shape(value)).transpose()?.unwrap_or(Shape::Any);
        let is_optional = call.func_name != "bind";
        self.locals.push((name.clone(), if is_optional { Shape::Any } else { bound }));
        let shape = self.shape(body)?;
        self.locals.pop();
        Ok(Some(if is_optional { Shape::Any } else { shape }))
    }

    /// Whether `target` is the first part of a function's name.
    fn is_namespace(&self, target: &IdedExpr) -> bool {
        let Expr::Ident(name) = &target.expr else { return false };
        // few: names before a point.
        let is_known = NAMESPACES.contains(&name.as_str())
            // few: names before a point.
            || (self.foreign.is_some() && FOREIGN_NAMESPACES.contains(&name.as_str()));
        is_known && self.ident(name).is_err()
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> Result<Shape, String> {
        self.shape(&comprehension.iter_range)?;
        let start = self.shape(&comprehension.accu_init)?;
        let around = self.locals.len();
        self.locals.push((comprehension.iter_var.clone(), Shape::Any));
        self.locals.extend(comprehension.iter_var2.clone().map(|name| (name, Shape::Any)));
        self.locals.push((comprehension.accu_var.clone(), start));
        self.loops += 1;
        self.depth = self.depth.max(self.loops);
        if self.loops > DEPTH_MAX && self.foreign.is_none() {
            return Err(format!("at most {DEPTH_MAX} loops stand inside each other"));
        }
        self.shape(&comprehension.loop_cond)?;
        self.shape(&comprehension.loop_step)?;
        self.loops -= 1;
        let result = self.shape(&comprehension.result)?;
        self.locals.truncate(around);
        Ok(result)
    }
}

/// The type of the result of a standard function or operator for arguments of `shapes`; `None` if there is no such function.
fn result_of(function: &str, shapes: &[Shape]) -> Option<Shape> {
    Some(match function {
        "_&&_"
        | "_||_"
        | "!_"
        | "_==_"
        | "_!=_"
        | "_<_"
        | "_<=_"
        | "_>_"
        | "_>=_"
        | "@in"
        | "@not_strictly_false"
        | "contains"
        | "startsWith"
        | "endsWith"
        | "matches"
        | "hasValue"
        | "bool" => Shape::Bool,
        "_?_:_" => match shapes {
            [_, one, other] if one == other => *one,
            _ => Shape::Any,
        },
        "_+_" if shapes.first() == shapes.get(1) => shapes.first().copied().unwrap_or(Shape::Any),
        "size" | "indexOf" | "lastIndexOf" | "-_" | "int" | "uint" | "double" => Shape::Number,
        "string" | "lowerAscii" | "upperAscii" | "trim" | "replace" | "substring" | "join" | "charAt" => {
            Shape::Text
        }
        "split" => Shape::List,
        "_+_" | "_-_" | "_*_" | "_/_" | "_%_" | "_[_]" | "_[?_]" | "_?._" | "type" | "dyn" | "bytes"
        | "orValue" | "or" | "value" | "of" | "none" | "ofNonZeroValue" | "reverse" | "quote" | "flatten"
        | "distinct" | "sort" | "slice" | "first" | "last" | "greatest" | "least" | "ceil" | "floor"
        | "round" | "trunc" | "abs" | "sign" => Shape::Any,
        _ => return None,
    })
}

/// Refuses operands that an operator never takes. Unknown ones pass.
fn check_operands(function: &str, shapes: &[Shape]) -> Result<(), String> {
    let is_bool = |shape: &Shape| matches!(shape, Shape::Any | Shape::Bool);
    let fits = match (function, shapes) {
        // few: the operands of one operator.
        ("_&&_" | "_||_" | "!_", _) => shapes.iter().all(is_bool),
        ("_?_:_", [condition, ..]) => is_bool(condition),
        ("_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_", [one, other]) => {
            one == other || matches!(one, Shape::Any) || matches!(other, Shape::Any)
        }
        _ => true,
    };
    if fits {
        return Ok(());
    }
    let names: Vec<&str> = shapes.iter().map(|shape| shape.name()).collect();
    Err(format!("found no matching overload for '{function}' applied to '({})'", names.join(", ")))
}

/// A pattern is compiled with the configuration and not with each request: it has to be a literal.
fn check_pattern(call: &CallExpr) -> Result<(), String> {
    match call.args.last().map(|argument| &argument.expr) {
        Some(Expr::Literal(LiteralValue::String(_))) => Ok(()),
        _ => Err("the argument of matches must be a literal".to_owned()),
    }
}

fn check_literals(call: &CallExpr) -> Result<(), String> {
    let is_literal = |argument: &IdedExpr| matches!(argument.expr, Expr::Literal(_));
    // few: the arguments of one call.
    if call.args.iter().all(is_literal) {
        return Ok(());
    }
    Err(format!("the arguments of {} must be literals", call.func_name))
}

fn undeclared(name: &str) -> String {
    format!("undeclared reference to '{name}' (in container '')")
}

fn no_types() -> String {
    "objects of named types cannot be made".to_owned()
}

/// Whether `expression` selects `member` of the variable `variable`.
pub(super) fn reads(expression: &IdedExpr, variable: &str, member: &str) -> bool {
    let inside = |part: &IdedExpr| reads(part, variable, member);
    let is_variable = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if name == variable);
    let is_member = |part: &IdedExpr| matches!(&part.expr, Expr::Literal(LiteralValue::String(name)) if name.inner() == member);
    match &expression.expr {
        Expr::Select(select) => {
            (is_variable(&select.operand) && select.field == member) || inside(&select.operand)
        }
        Expr::Call(call) => {
            let is_access = matches!(call.func_name.as_str(), "_?._" | "_[_]" | "_[?_]");
            let parts: Vec<&IdedExpr> = call.target.as_deref().into_iter().chain(&call.args).collect();
            let is_read = matches!(parts[..], [of, name] if is_access && is_variable(of) && is_member(name));
            is_read || parts.into_iter().any(inside)
        }
        // few: the parts of one node.
        Expr::List(list) => list.elements.iter().any(inside),
        // few: the parts of one node.
        Expr::Map(map) => map.entries.iter().any(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => inside(&entry.key) || inside(&entry.value),
            EntryExpr::StructField(field) => inside(&field.value),
        }),
        Expr::Comprehension(of) => {
            let parts = [&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result];
            parts.into_iter().any(inside)
        }
        Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => false,
    }
}
