//! The least and the most that an evaluation can cost, from the sizes of its variables.
//!
//! Owns the walk, which follows for each node the size of its value and the path by which it was reached. Sizes of what
//! stands behind a path come from the place ([`Sizes`]): a schema knows how long its lists may be. Peculiar rules are the
//! reference's: they decide which expressions may be stored.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use super::call::{self, Argument};
use super::{LIST, MAP, OBJECT, Range};
use crate::check::Checked;
use crate::functions::Style;
use crate::types::Type;

/// Steps of a path: the items of a list, and the keys and values of a map.
const ITEMS: &str = "@items";
const KEYS: &str = "@keys";
const VALUES: &str = "@values";
const INDICES: &str = "@indices";

/// Sizes of what variables hold.
pub trait Sizes {
    /// The size of the value behind `path`: a variable, names of members, `@items` of a list, `@keys` and `@values` of a
    /// map. `None` where nothing is known.
    fn size(&self, path: &[&str]) -> Option<Range>;
}

/// The cost of an evaluation.
pub type Estimate = Range;

/// The estimate for a checked expression.
pub(crate) fn estimate(expression: &IdedExpr, checked: &Checked, sizes: &dyn Sizes) -> Estimate {
    let mut walk = Walk { checked, sizes, locals: Vec::new() };
    walk.node(expression).cost
}

/// The facts about a node that bound its cost.
#[derive(Clone, Debug, Default)]
struct Known<'a> {
    cost: Range,
    /// The size, where a call or literal has one.
    size: Option<Range>,
    path: Option<Vec<&'a str>>,
    /// The number that stands there.
    literal: Option<i64>,
}

struct Walk<'a> {
    checked: &'a Checked,
    sizes: &'a dyn Sizes,
    /// Variables of loops and bindings around the node, with their sizes and paths.
    locals: Vec<Local<'a>>,
}

/// A variable of a loop or a binding: its name, the size of its value, and the path where that stands.
type Local<'a> = (&'a str, Option<Range>, Option<Vec<&'a str>>);

impl<'a> Walk<'a> {
    fn node(&mut self, node: &'a IdedExpr) -> Known<'a> {
        match &node.expr {
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.ident(name),
            Expr::Select(select) => self.select(node.id, select),
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => {
                let parts = list
                    .elements
                    .iter()
                    .fold(Range::exactly(LIST), |sum, element| sum.plus(self.node(element).cost));
                Known { cost: parts, size: Some(exactly(list.elements.len())), ..Known::default() }
            }
            Expr::Map(map) => {
                let mut cost = Range::exactly(MAP);
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    cost = cost.plus(self.node(&entry.key).cost).plus(self.node(&entry.value).cost);
                }
                Known { cost, size: Some(exactly(map.entries.len())), ..Known::default() }
            }
            Expr::Comprehension(one) => self.comprehension(one),
            Expr::Struct(made) => {
                let mut cost = Range::exactly(OBJECT);
                for entry in &made.entries {
                    let EntryExpr::StructField(field) = &entry.expr else { continue };
                    cost = cost.plus(self.node(&field.value).cost);
                }
                Known { cost, ..Known::default() }
            }
            Expr::Unspecified => Known::default(),
        }
    }

    fn ident(&self, name: &'a str) -> Known<'a> {
        let cost = Range::exactly(1);
        // few: as for the checker.
        match self.locals.iter().rev().find(|(local, ..)| *local == name) {
            Some((_, size, path)) => {
                // A path goes before the remembered size.
                let known = path.as_ref().and_then(|path| self.sizes.size(path));
                Known { cost, size: known.or(*size), path: path.clone(), literal: None }
            }
            None => Known { cost, path: Some(vec![name.trim_start_matches('.')]), ..Known::default() },
        }
    }

    fn select(&mut self, id: u64, select: &'a SelectExpr) -> Known<'a> {
        if self.checked.names.contains_key(&id) {
            return Known { cost: Range::exactly(1), ..Known::default() };
        }
        let operand = self.node(&select.operand);
        if select.test {
            return Known { cost: operand.cost, ..Known::default() };
        }
        let of = self.checked.type_of(select.operand.id);
        let has_cost = matches!(of, Type::Map(_) | Type::Object(_) | Type::Unknown(_));
        let cost = operand.cost.plus(Range::exactly(u64::from(has_cost)));
        Known { cost, path: joined(operand.path, &select.field), ..Known::default() }
    }

    /// The size of a node's value.
    fn size(&self, node: &IdedExpr, known: &Known<'_>) -> Range {
        let by_path = || known.path.as_ref().and_then(|path| self.sizes.size(path));
        let by_type = || self.checked.type_of(node.id).is_scalar().then_some(Range::exactly(1));
        known.size.or_else(by_path).or_else(by_type).unwrap_or(Range::UNKNOWN)
    }

    fn argument(&self, node: &IdedExpr, known: &Known<'_>) -> Argument {
        let of = self.checked.type_of(node.id);
        let item = match &of {
            Type::List(item) => Some((**item).clone()),
            _ => None,
        };
        let item_size = || {
            let path = joined(known.path.clone(), ITEMS)?;
            self.sizes.size(&path)
        };
        let item_is_text = matches!(item, Some(Type::String | Type::Bytes));
        Argument {
            size: self.size(node, known),
            item: if item_is_text { Some(item_size().unwrap_or(Range::UNKNOWN)) } else { None },
            is_list: matches!(of, Type::List(_)),
            is_text: matches!(of, Type::String),
            opaque: match of {
                Type::Opaque(name) => Some(name),
                _ => None,
            },
            literal: known.literal,
        }
    }

    fn call(&mut self, id: u64, call: &'a CallExpr) -> Known<'a> {
        if let ([operand, _], operators::OPT_SELECT) = (call.args.as_slice(), call.func_name.as_str()) {
            let operand = self.node(operand);
            return Known { cost: operand.cost.plus(Range::exactly(1)), ..Known::default() };
        }
        let Some(resolved) = self.checked.calls.get(&id) else { return Known::default() };
        let target = match resolved.style {
            Style::Method => call.target.as_deref(),
            Style::Global => None,
        };
        let parts: Vec<&'a IdedExpr> = target.into_iter().chain(&call.args).collect();
        let known: Vec<Known<'a>> = parts.iter().map(|part| self.node(part)).collect();
        let costs = known.iter().fold(Range::default(), |sum, part| sum.plus(part.cost));
        match (resolved.function.name, known.as_slice()) {
            (operators::LOGICAL_AND | operators::LOGICAL_OR, [one, _]) => {
                return Known { cost: Range::new(one.cost.min, costs.max), ..Known::default() };
            }
            (operators::CONDITIONAL, [condition, one, other]) => {
                let cost = condition.cost.plus(one.cost.or(other.cost));
                let size = self.size(parts[1], one).or(self.size(parts[2], other));
                return Known { cost, size: Some(size), ..Known::default() };
            }
            _ => {}
        }
        let arguments: Vec<Argument> =
            parts.iter().zip(&known).map(|(part, known)| self.argument(part, known)).collect();
        let (mut cost, mut size): (Option<Range>, Option<Range>) = (None, None);
        for at in &resolved.overloads {
            let price = resolved.function.overloads[usize::from(*at)].price;
            let (of_one, result) = call::estimate(price, &arguments);
            cost = Some(cost.map_or(of_one, |cost| cost.or(of_one)));
            size = match (size, result) {
                (Some(size), Some(result)) => Some(size.or(result)),
                (size, result) => size.or(result),
            };
        }
        if let ("dyn", [argument]) = (resolved.function.name, arguments.as_slice()) {
            // The value is that of the argument.
            size = Some(argument.size);
        }
        let path = match (resolved.function.name, parts.first(), known.into_iter().next()) {
            (operators::INDEX, Some(part), Some(of)) => match self.checked.type_of(part.id) {
                // As for loops: what has no path of its own is looked up behind an empty one.
                Type::List(_) => joined(Some(of.path.unwrap_or_default()), ITEMS),
                Type::Map(_) => joined(Some(of.path.unwrap_or_default()), VALUES),
                _ => None,
            },
            _ => None,
        };
        let price = cost.unwrap_or(Range::exactly(1));
        Known { cost: costs.plus(price), size, path, literal: None }
    }

    fn comprehension(&mut self, one: &'a ComprehensionExpr) -> Known<'a> {
        let range = self.node(&one.iter_range);
        let rounds = self.size(&one.iter_range, &range);
        let start = self.node(&one.accu_init);
        let around = self.locals.len();
        let start_size = self.size(&one.accu_init, &start);
        self.locals.push((&one.accu_var, Some(start_size), start.path.clone()));
        let of = self.checked.type_of(one.iter_range.id);
        let (is_map, has_two) = (matches!(of, Type::Map(_)), one.iter_var2.is_some());
        let first = match (is_map, has_two) {
            (true, _) => KEYS,
            (false, true) => INDICES,
            (false, false) => ITEMS,
        };
        let base = Some(range.path.clone().unwrap_or_default());
        self.locals.push((&one.iter_var, None, joined(base.clone(), first)));
        if let Some(name) = &one.iter_var2 {
            self.locals.push((name, None, joined(base, if is_map { VALUES } else { ITEMS })));
        }
        let of_round = self.node(&one.loop_cond).cost.plus(self.node(&one.loop_step).cost);
        self.locals.truncate(around + 1);
        let result = self.node(&one.result);
        self.locals.truncate(around);
        let cost = range.cost.plus(start.cost).plus(result.cost).plus(rounds.times(of_round));
        let is_collected = matches!(one.accu_init.expr, Expr::List(_) | Expr::Map(_));
        let is_binding = crate::check::is_binding(one);
        let size = if is_collected && !is_binding { Some(rounds) } else { result.size };
        Known { cost, size, path: if is_binding { result.path } else { None }, literal: None }
    }
}

fn joined<'a>(path: Option<Vec<&'a str>>, step: &'a str) -> Option<Vec<&'a str>> {
    let mut path = path?;
    path.push(step);
    Some(path)
}

fn exactly(length: usize) -> Range {
    Range::exactly(crate::length(length))
}

fn of_literal<'a>(literal: &LiteralValue) -> Known<'a> {
    let (size, number) = match literal {
        LiteralValue::String(text) => (exactly(text.inner().chars().count()), None),
        LiteralValue::Bytes(bytes) => (exactly(bytes.inner().len()), None),
        LiteralValue::Int(number) => (Range::exactly(1), Some(*number.inner())),
        _ => (Range::exactly(1), None),
    };
    Known { size: Some(size), literal: number, ..Known::default() }
}
