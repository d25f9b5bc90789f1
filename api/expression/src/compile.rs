//! From a checked expression to its tree.
//!
//! Owns what is done once instead of in each evaluation: names become places, literals and conversions of literals become
//! values, patterns become automata. Invariant: a pattern's steps are charged before it is compiled, and a pattern that
//! stands there twice is compiled once.

use std::collections::HashMap;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, StructExpr,
    operators,
};

use crate::allowance::{Charge, Exhausted};
use crate::check::{Checked, Name, is_binding};
use crate::cost::Price;
use crate::evaluate::fold_constant;
use crate::functions::Style;
use crate::library::lists;
use crate::macros::ACCUMULATOR;
use crate::parse::Parsed;
use crate::pattern::{Pattern, PatternLimits};
use crate::tree::{
    Append, Bind, Call, Entry, Find, Fold, Insert, Item, Matches, Node, Object, Select, Standing, Wanted,
};
use crate::value::{Key, MadeMap, Val};

/// The function by which macros look at the condition of a loop.
const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";

/// Conversions that are done once where their argument is a literal.
const CONVERSIONS: [&str; 9] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "uint"];

/// The tree and the patterns of an expression.
pub(crate) fn compile(
    parsed: &Parsed,
    checked: &Checked,
    limits: PatternLimits,
    charge: &mut dyn Charge,
) -> Result<(Node, Vec<Standing>), Exhausted> {
    let mut compiler =
        Compiler { parsed, checked, limits, charge, patterns: Vec::new(), known: HashMap::new(), depth: 0 };
    let node = compiler.node(&parsed.expression)?;
    Ok((node, compiler.patterns))
}

struct Compiler<'a> {
    parsed: &'a Parsed,
    checked: &'a Checked,
    limits: PatternLimits,
    charge: &'a mut dyn Charge,
    patterns: Vec<Standing>,
    /// Places of patterns by their text, and whether their places are asked for.
    known: HashMap<(String, bool), usize>,
    /// Variables of loops and bindings around the node.
    depth: usize,
}

type Compiled = Result<Node, Exhausted>;

impl Compiler<'_> {
    fn node(&mut self, node: &IdedExpr) -> Compiled {
        match &node.expr {
            Expr::Literal(literal) => Ok(Node::Constant(of_literal(literal))),
            Expr::Ident(_) => Ok(self.name(node.id)),
            Expr::Select(select) => match self.checked.names.get(&node.id) {
                Some(_) => Ok(self.name(node.id)),
                None => {
                    let operand = self.node(&select.operand)?;
                    let compiled = Box::new(Select { operand, field: select.field.as_str().into() });
                    Ok(if select.test { Node::Has(compiled) } else { Node::Select(compiled) })
                }
            },
            Expr::Call(call) => self.call(node.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(one) if is_binding(one) => self.binding(one),
            Expr::Comprehension(one) => self.fold(one),
            Expr::Struct(made) => self.object(made),
            // The checker refuses it.
            Expr::Unspecified => Ok(Node::Constant(Val::Null)),
        }
    }

    fn name(&self, id: u64) -> Node {
        match self.checked.names.get(&id) {
            Some(Name::Variable(at)) => Node::Variable(*at),
            Some(Name::Local(at)) => Node::Local(*at),
            Some(Name::Type(name)) => Node::Constant(Val::Type(crate::value::Text::Borrowed(name))),
            None => Node::Constant(Val::Null),
        }
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Compiled {
        if let ([operand, field], operators::OPT_SELECT) = (call.args.as_slice(), call.func_name.as_str()) {
            let Expr::Literal(LiteralValue::String(name)) = &field.expr else { return self.node(operand) };
            let field = name.inner().into();
            return Ok(Node::OptionalSelect(Box::new(Select { operand: self.node(operand)?, field })));
        }
        let Some(resolved) = self.checked.calls.get(&id) else { return Ok(Node::Constant(Val::Null)) };
        let target = match resolved.style {
            Style::Method => call.target.as_deref(),
            Style::Global => None,
        };
        let parts: Vec<&IdedExpr> = target.into_iter().chain(&call.args).collect();
        let name = resolved.function.name;
        if let Some(special) = self.special(name, resolved.style, &parts)? {
            return Ok(special);
        }
        let arguments = parts.into_iter().map(|part| self.node(part)).collect::<Result<Box<[Node]>, _>>()?;
        let price = match resolved.overloads.as_slice() {
            [only] => resolved.function.overloads[usize::from(*only)].price,
            several => {
                let mut prices = several.iter().map(|at| resolved.function.overloads[usize::from(*at)].price);
                let first = prices.next().unwrap_or(Price::One);
                // few: the overloads of one function.
                if prices.all(|price| price == first) { first } else { Price::One }
            }
        };
        let price = match (name, arguments.last()) {
            // A list of literals is a set to the reference, whose search is free.
            ("@in", Some(Node::Constant(Val::List(_)))) => Price::Zero,
            _ => price,
        };
        let code = match (name, resolved.overloads.as_slice()) {
            // An empty list has the zero of the type that its items would have.
            ("sum", [only]) => lists::sum_of(&resolved.function.overloads[usize::from(*only)].result),
            _ => None,
        };
        let code = code.unwrap_or(resolved.function.code);
        // few: the conversions.
        if let ([Node::Constant(value)], true) = (&*arguments, CONVERSIONS.contains(&name))
            && let Some(converted) = fold_constant(code, value)
        {
            return Ok(Node::Constant(converted));
        }
        let is_condition = name == NOT_STRICTLY_FALSE;
        let function = resolved.function;
        Ok(Node::Call(Box::new(Call { function, code, price, arguments, is_condition })))
    }

    /// The node of an operator that does not evaluate all of its operands, and of what is done in place.
    fn special(&mut self, name: &str, style: Style, parts: &[&IdedExpr]) -> Result<Option<Node>, Exhausted> {
        Ok(Some(match (name, parts) {
            (operators::LOGICAL_AND, [one, other]) => Node::And(self.pair(one, other)?),
            (operators::LOGICAL_OR, [one, other]) => Node::Or(self.pair(one, other)?),
            (operators::CONDITIONAL, [condition, one, other]) => {
                Node::Conditional(Box::new([self.node(condition)?, self.node(one)?, self.node(other)?]))
            }
            ("or", [one, other]) => Node::OptionalOr(self.pair(one, other)?),
            ("orValue", [one, other]) => Node::OptionalOrValue(self.pair(one, other)?),
            ("matches", [text, pattern]) => {
                let Expr::Literal(LiteralValue::String(source)) = &pattern.expr else { return Ok(None) };
                let (text, is_function) = (self.node(text)?, style == Style::Global);
                let pattern = self.pattern(source.inner(), pattern.id, false)?;
                Node::Matches(Box::new(Matches { text, pattern, is_function }))
            }
            ("find" | "findAll", [text, pattern, most @ ..]) => {
                let Expr::Literal(LiteralValue::String(source)) = &pattern.expr else { return Ok(None) };
                let text = self.node(text)?;
                let pattern = self.pattern(source.inner(), pattern.id, true)?;
                let wanted = match (name, most) {
                    ("find", _) => Wanted::First,
                    (_, [most, ..]) => Wanted::Most(self.node(most)?),
                    (_, []) => Wanted::All,
                };
                Node::Find(Box::new(Find { text, pattern, wanted }))
            }
            (operators::ADD, [list, items]) => match (&list.expr, &items.expr) {
                (Expr::Ident(name), Expr::List(made)) if name == ACCUMULATOR => {
                    let ([item], [], Some(Name::Local(at))) =
                        (&*made.elements, &*made.optional_indices, self.checked.names.get(&list.id))
                    else {
                        return Ok(None);
                    };
                    let accumulator = *at;
                    Node::Append(Box::new(Append { accumulator, item: self.node(item)? }))
                }
                _ => return Ok(None),
            },
            ("@insert", [map, key, value]) => Node::Insert(Box::new(Insert {
                accumulator: self.accumulator(map),
                key: self.node(key)?,
                value: self.node(value)?,
            })),
            ("@merge", [map, entries]) => {
                let accumulator = self.accumulator(map);
                Node::Merge(Box::new(Append { accumulator, item: self.node(entries)? }))
            }
            _ => return Ok(None),
        }))
    }

    /// The place of the accumulator that `node` names. Only macros write these calls.
    fn accumulator(&self, node: &IdedExpr) -> usize {
        match self.checked.names.get(&node.id) {
            Some(Name::Local(at)) => *at,
            _ => unreachable!("a macro names its accumulator"),
        }
    }

    fn pair(&mut self, one: &IdedExpr, other: &IdedExpr) -> Result<Box<(Node, Node)>, Exhausted> {
        Ok(Box::new((self.node(one)?, self.node(other)?)))
    }

    /// The place of the pattern `source`, which stands at the node `id`. `is_searched`: its places are asked for.
    fn pattern(&mut self, source: &str, id: u64, is_searched: bool) -> Result<usize, Exhausted> {
        let key = (source.to_owned(), is_searched);
        if let Some(at) = self.known.get(&key) {
            return Ok(*at);
        }
        let compiled = match is_searched {
            false => Pattern::compile(source, self.limits, self.charge)?,
            true => Pattern::compile_to_find(source, self.charge)?,
        };
        let offset = self.parsed.offset(id);
        self.patterns.push(Standing { source: source.into(), offset, compiled, is_searched });
        self.known.insert(key, self.patterns.len() - 1);
        Ok(self.patterns.len() - 1)
    }

    fn list(&mut self, list: &ListExpr) -> Compiled {
        let mut optional = list.optional_indices.iter().copied().peekable();
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            let is_optional = optional.next_if_eq(&at).is_some();
            items.push(Item { value: self.node(element)?, is_optional });
        }
        let constants: Option<Vec<Val<'static>>> = items
            .iter()
            .map(|item| match &item.value {
                Node::Constant(value) if !item.is_optional => Some(value.clone()),
                _ => None,
            })
            .collect();
        Ok(constants.map_or_else(|| Node::List(items.into()), |values| Node::Constant(Val::list(values))))
    }

    fn map(&mut self, map: &MapExpr) -> Compiled {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, value) = (self.node(&entry.key)?, self.node(&entry.value)?);
            entries.push(Entry { key, value, is_optional: entry.optional });
        }
        Ok(constant_map(&entries)
            .map_or_else(|| Node::Map(entries.into()), |map| Node::Constant(Val::map(map))))
    }

    fn object(&mut self, made: &StructExpr) -> Compiled {
        let mut members = Vec::with_capacity(made.entries.len());
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else { continue };
            let key = Node::Constant(Val::text(&*field.field));
            members.push(Entry { key, value: self.node(&field.value)?, is_optional: field.optional });
        }
        let name = made.type_name.trim_start_matches('.').into();
        Ok(Node::Object(Box::new(Object { name, members: members.into() })))
    }

    fn binding(&mut self, one: &ComprehensionExpr) -> Compiled {
        let value = self.node(&one.accu_init)?;
        let place = self.depth;
        self.depth += 1;
        let result = self.node(&one.result);
        self.depth -= 1;
        Ok(Node::Bind(Box::new(Bind { place, value, result: result? })))
    }

    fn fold(&mut self, one: &ComprehensionExpr) -> Compiled {
        let (range, start) = (self.node(&one.iter_range)?, self.node(&one.accu_init)?);
        let accumulator = self.depth;
        let has_two_variables = one.iter_var2.is_some();
        self.depth += if has_two_variables { 3 } else { 2 };
        let condition = self.node(&one.loop_cond)?;
        let step = self.node(&one.loop_step)?;
        self.depth = accumulator + 1;
        let result = self.node(&one.result)?;
        self.depth = accumulator;
        let condition = Some(condition).filter(|node| !matches!(node, Node::Constant(Val::Bool(true))));
        Ok(Node::Fold(Box::new(Fold {
            range,
            start,
            condition,
            step,
            result,
            accumulator,
            has_two_variables,
        })))
    }
}

/// The map of entries that are all literals, and whose keys are all different.
fn constant_map(entries: &[Entry]) -> Option<MadeMap<'static>> {
    let mut map = MadeMap::default();
    for entry in entries {
        let (Node::Constant(key), Node::Constant(value), false) =
            (&entry.key, &entry.value, entry.is_optional)
        else {
            return None;
        };
        let key = Key::of(key).filter(|_| !matches!(key, Val::Double(_)))?;
        map.insert(key, value.clone()).ok()?;
    }
    Some(map)
}

fn of_literal(literal: &LiteralValue) -> Val<'static> {
    match literal {
        LiteralValue::Boolean(truth) => Val::Bool(*truth.inner()),
        LiteralValue::Bytes(bytes) => Val::Bytes(crate::value::Blob::Shared(bytes.inner().into())),
        LiteralValue::Double(number) => Val::Double(*number.inner()),
        LiteralValue::Int(number) => Val::Int(*number.inner()),
        LiteralValue::Null => Val::Null,
        LiteralValue::String(text) => Val::text(text.inner()),
        LiteralValue::UInt(number) => Val::Uint(*number.inner()),
    }
}
