//! Macros beside those of the parser: comprehensions with two variables, `sortBy`, and `cel.bind`.
//!
//! Owns their expansion. Invariant: no part of a call is copied, so that the expansion is as long as the call; a name that
//! a macro needs for itself begins with a sign that no expression can spell.

use cel::common::ast::{CallExpr, ComprehensionExpr, Expr, ListExpr, LiteralValue, operators};
use cel::parser::{Macro, MacroExprHelper, ParseError};
use cel::{DeclarationError, Env, IdedExpr};

/// Name of the accumulator of a comprehension; the parser's own macros have the same.
pub(crate) const ACCUMULATOR: &str = "@result";
/// The variable of a loop over nothing.
const UNUSED: &str = "#unused";
/// The list that `sortBy` sorts.
const SORTED: &str = "@sorted";
/// The fault of a variable that is no name.
pub(crate) const NOT_A_NAME: &str = "argument must be a simple name";

type Expansion = Result<Option<IdedExpr>, ParseError>;

/// Adds the macros that every place has.
pub(crate) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    for (name, expand) in [
        ("all", all as fn(&mut Parts<'_, '_>) -> Result<IdedExpr, ParseError>),
        ("exists", exists),
        ("exists_one", exists_one),
        ("existsOne", exists_one),
    ] {
        env.add_macro(with_two_variables(name, 3, expand))?;
    }
    for arguments in [3, 4] {
        env.add_macro(with_two_variables("transformList", arguments, transform_list))?;
        env.add_macro(with_two_variables("transformMap", arguments, transform_map))?;
        env.add_macro(with_two_variables("transformMapEntry", arguments, transform_map_entry))?;
    }
    env.add_macro(Macro::receiver("sortBy", 2, sort_by))
}

/// Adds `cel.bind`.
pub(crate) fn bind_extension(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_macro(Macro::receiver("bind", 3, |helper, target, arguments| {
        let is_of_cel =
            target.as_ref().is_some_and(|target| matches!(&target.expr, Expr::Ident(name) if name == "cel"));
        if !is_of_cel {
            return Ok(None);
        }
        let [name, ..] = arguments.as_slice() else { return Ok(None) };
        let Expr::Ident(variable) = &name.expr else {
            return Err(helper.new_error(name.id, "cel.bind() variable names must be simple identifiers"));
        };
        let variable = variable.clone();
        let mut arguments = std::mem::take(arguments).into_iter().skip(1);
        let (Some(value), Some(result)) = (arguments.next(), arguments.next()) else { return Ok(None) };
        Ok(Some(bound(helper, variable, value, result)))
    }))
}

/// The parts of a comprehension with two variables.
struct Parts<'h, 'p> {
    helper: &'h mut MacroExprHelper<'p>,
    range: IdedExpr,
    variables: (String, String),
    /// The arguments behind the variables; the last one comes first.
    arguments: Vec<IdedExpr>,
}

fn with_two_variables(
    name: &'static str,
    arguments: usize,
    expand: fn(&mut Parts<'_, '_>) -> Result<IdedExpr, ParseError>,
) -> Macro {
    Macro::receiver(name, arguments, move |helper, target, arguments| -> Expansion {
        let Some(range) = target.take() else { return Ok(None) };
        let mut rest = std::mem::take(arguments).into_iter();
        let (one, other) = (name_of(rest.next(), helper)?, name_of(rest.next(), helper)?);
        if one.1 == other.1 {
            return Err(helper.new_error(other.0, format!("duplicate variable name: {}", other.1)));
        }
        let fault = "iteration variable overwrites accumulator variable";
        if let Some((id, _)) = [&one, &other].into_iter().find(|(_, name)| name == ACCUMULATOR) {
            return Err(helper.new_error(*id, fault));
        }
        let arguments = rest.rev().collect();
        expand(&mut Parts { helper, range, variables: (one.1, other.1), arguments }).map(Some)
    })
}

fn name_of(argument: Option<IdedExpr>, helper: &MacroExprHelper<'_>) -> Result<(u64, String), ParseError> {
    let argument = argument.unwrap_or_default();
    match argument.expr {
        Expr::Ident(name) => Ok((argument.id, name)),
        _ => Err(helper.new_error(argument.id, NOT_A_NAME)),
    }
}

impl Parts<'_, '_> {
    fn call(&mut self, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
        self.helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
    }

    fn accumulator(&mut self) -> IdedExpr {
        self.helper.next_expr(Expr::Ident(ACCUMULATOR.to_owned()))
    }

    fn literal(&mut self, value: LiteralValue) -> IdedExpr {
        self.helper.next_expr(Expr::Literal(value))
    }

    fn next_argument(&mut self) -> IdedExpr {
        self.arguments.pop().unwrap_or_default()
    }

    /// The comprehension with these parts. The variable for the value of an element comes second.
    fn fold(&mut self, start: IdedExpr, condition: IdedExpr, step: IdedExpr, result: IdedExpr) -> IdedExpr {
        let (one, other) = std::mem::take(&mut self.variables);
        let fold = ComprehensionExpr {
            iter_range: std::mem::take(&mut self.range),
            iter_var: one,
            iter_var2: Some(other),
            accu_var: ACCUMULATOR.to_owned(),
            accu_init: start,
            loop_cond: condition,
            loop_step: step,
            result,
        };
        self.helper.next_expr(Expr::Comprehension(Box::new(fold)))
    }

    /// `step`, where the filter before it holds, if there is one.
    fn filtered(&mut self, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
        let Some(filter) = filter else { return step };
        let accumulator = self.accumulator();
        self.call(operators::CONDITIONAL, vec![filter, step, accumulator])
    }
}

fn all(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let predicate = parts.next_argument();
    let start = parts.literal(LiteralValue::Boolean(true.into()));
    let accumulator = parts.accumulator();
    let condition = parts.call(operators::NOT_STRICTLY_FALSE, vec![accumulator]);
    let accumulator = parts.accumulator();
    let step = parts.call(operators::LOGICAL_AND, vec![accumulator, predicate]);
    let result = parts.accumulator();
    Ok(parts.fold(start, condition, step, result))
}

fn exists(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let predicate = parts.next_argument();
    let start = parts.literal(LiteralValue::Boolean(false.into()));
    let accumulator = parts.accumulator();
    let not = parts.call(operators::LOGICAL_NOT, vec![accumulator]);
    let condition = parts.call(operators::NOT_STRICTLY_FALSE, vec![not]);
    let accumulator = parts.accumulator();
    let step = parts.call(operators::LOGICAL_OR, vec![accumulator, predicate]);
    let result = parts.accumulator();
    Ok(parts.fold(start, condition, step, result))
}

fn exists_one(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let predicate = parts.next_argument();
    let start = parts.literal(LiteralValue::Int(0.into()));
    let condition = parts.literal(LiteralValue::Boolean(true.into()));
    let (accumulator, one) = (parts.accumulator(), parts.literal(LiteralValue::Int(1.into())));
    let counted = parts.call(operators::ADD, vec![accumulator, one]);
    let step = parts.filtered(Some(predicate), counted);
    let (accumulator, one) = (parts.accumulator(), parts.literal(LiteralValue::Int(1.into())));
    let result = parts.call(operators::EQUALS, vec![accumulator, one]);
    Ok(parts.fold(start, condition, step, result))
}

/// The filter, if there is one.
fn filter_of(parts: &mut Parts<'_, '_>) -> Option<IdedExpr> {
    (parts.arguments.len() == 2).then(|| parts.next_argument())
}

fn transform_list(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let filter = filter_of(parts);
    let item = parts.next_argument();
    let start = parts.helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let condition = parts.literal(LiteralValue::Boolean(true.into()));
    let accumulator = parts.accumulator();
    let items = parts.helper.next_expr(Expr::List(ListExpr::new(vec![item])));
    let step = parts.call(operators::ADD, vec![accumulator, items]);
    let step = parts.filtered(filter, step);
    let result = parts.accumulator();
    Ok(parts.fold(start, condition, step, result))
}

fn transform_map(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let filter = filter_of(parts);
    let value = parts.next_argument();
    let key = parts.helper.next_expr(Expr::Ident(parts.variables.0.clone()));
    let accumulator = parts.accumulator();
    let step = parts.call("@insert", vec![accumulator, key, value]);
    Ok(into_map(parts, filter, step))
}

fn transform_map_entry(parts: &mut Parts<'_, '_>) -> Result<IdedExpr, ParseError> {
    let filter = filter_of(parts);
    let entries = parts.next_argument();
    let accumulator = parts.accumulator();
    let step = parts.call("@merge", vec![accumulator, entries]);
    Ok(into_map(parts, filter, step))
}

fn into_map(parts: &mut Parts<'_, '_>, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
    let start = parts.helper.next_expr(Expr::Map(cel::common::ast::MapExpr { entries: Vec::new() }));
    let condition = parts.literal(LiteralValue::Boolean(true.into()));
    let step = parts.filtered(filter, step);
    let result = parts.accumulator();
    parts.fold(start, condition, step, result)
}

/// `list.sortBy(e, key)`: the list is bound to a name, sorted by the list of its keys.
fn sort_by(
    helper: &mut MacroExprHelper<'_>,
    target: &mut Option<IdedExpr>,
    arguments: &mut Vec<IdedExpr>,
) -> Expansion {
    let Some(list) = target.take() else { return Ok(None) };
    if !matches!(
        list.expr,
        Expr::List(_) | Expr::Ident(_) | Expr::Comprehension(_) | Expr::Call(_) | Expr::Select(_)
    ) {
        let fault =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(helper.new_error(list.id, fault));
    }
    let mut arguments = std::mem::take(arguments).into_iter();
    let (_, variable) = name_of(arguments.next(), helper)?;
    let key = arguments.next().unwrap_or_default();
    let ident = |helper: &mut MacroExprHelper<'_>, name: &str| helper.next_expr(Expr::Ident(name.to_owned()));
    let accu_init = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let loop_cond = helper.next_expr(Expr::Literal(LiteralValue::Boolean(true.into())));
    let item = helper.next_expr(Expr::List(ListExpr::new(vec![key])));
    let args = vec![ident(helper, ACCUMULATOR), item];
    let loop_step =
        helper.next_expr(Expr::Call(CallExpr { func_name: operators::ADD.to_owned(), target: None, args }));
    let keys = ComprehensionExpr {
        iter_range: ident(helper, SORTED),
        iter_var: variable,
        iter_var2: None,
        accu_var: ACCUMULATOR.to_owned(),
        accu_init,
        loop_cond,
        loop_step,
        result: ident(helper, ACCUMULATOR),
    };
    let keys = helper.next_expr(Expr::Comprehension(Box::new(keys)));
    let sorted = CallExpr {
        func_name: "@sortByAssociatedKeys".to_owned(),
        target: Some(Box::new(ident(helper, SORTED))),
        args: vec![keys],
    };
    let sorted = helper.next_expr(Expr::Call(sorted));
    Ok(Some(bound(helper, SORTED.to_owned(), list, sorted)))
}

/// `result` with the variable `name`: a loop over nothing whose accumulator is the variable.
fn bound(helper: &mut MacroExprHelper<'_>, name: String, value: IdedExpr, result: IdedExpr) -> IdedExpr {
    let iter_range = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
    let loop_cond = helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into())));
    let loop_step = helper.next_expr(Expr::Ident(name.clone()));
    helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range,
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: name,
        accu_init: value,
        loop_cond,
        loop_step,
        result,
    })))
}
