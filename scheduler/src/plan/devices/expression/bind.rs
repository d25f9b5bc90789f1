//! `cel.bind(name, value, expression)`: the expression with `name` standing for the value.
//!
//! A macro: it becomes a loop over nothing whose accumulator is the variable, as the language's own extension does it.

use cel::common::ast::{ComprehensionExpr, Expr, ListExpr, LiteralValue};
use cel::parser::Macro;
use cel::{DeclarationError, Env};

/// The name of the loop's own variable, which no expression can spell.
const UNUSED: &str = "#unused";

/// Adds the macro.
pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
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
        let (Some(accu_init), Some(result)) = (arguments.next(), arguments.next()) else { return Ok(None) };
        let iter_range = helper.next_expr(Expr::List(ListExpr::new(Vec::new())));
        let loop_cond = helper.next_expr(Expr::Literal(LiteralValue::Boolean(false.into())));
        let loop_step = helper.next_expr(Expr::Ident(variable.clone()));
        Ok(Some(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
            iter_range,
            iter_var: UNUSED.to_owned(),
            iter_var2: None,
            accu_var: variable,
            accu_init,
            loop_cond,
            loop_step,
            result,
        })))))
    }))
}
