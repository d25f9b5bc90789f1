//! The largest cost of evaluating a device selector.
//!
//! Owns the bound, in steps; never evaluates. It follows the expression with the [`size::Size`] of each value instead of
//! the value: what a call copies, searches or makes counts by its size, and a loop costs its body for each element.
//! Invariants: the cost is never too low, for time as for memory, since every value that is made counts at least a step
//! for each value in it and for each sixteen bytes of text; each node is visited once. What does not have the form of the
//! language's own macros has no bound, and costs [`u64::MAX`].

mod call;
mod size;
#[cfg(test)]
mod tests;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators,
};

use self::size::Size;

/// How large devices are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceBounds {
    /// Attributes and capacities.
    pub entries: u64,
    /// Values of an attribute that is a list.
    pub list: u64,
    /// Bytes of each text: driver, names, values.
    pub text: u64,
}

impl DeviceBounds {
    /// The largest device that the API takes.
    pub const API: DeviceBounds = DeviceBounds { entries: 64, list: 64, text: 64 };
}

/// Upper bound of the steps of one evaluation of `expression` for a device within `device`. Of variables that stand for
/// standing patterns, `patterns` has the steps of matching for each byte.
pub fn device_selector_steps<'a>(
    expression: &'a IdedExpr,
    device: DeviceBounds,
    patterns: &'a dyn Fn(&str) -> Option<u64>,
) -> u64 {
    let mut walk = Walk { device: Device::new(device), patterns, locals: Vec::new(), steps: 0 };
    walk.size(expression);
    walk.steps
}

/// The members of the variable `device`.
struct Device {
    text: Size,
    attributes: Size,
    capacity: Size,
}

impl Device {
    fn new(bounds: DeviceBounds) -> Device {
        let text = Size::text(bounds.text);
        let value = match bounds.list {
            0 => text.clone(),
            list => text.or(&Size::list(list, text.clone())),
        };
        // The entries are spread over domains: all domains together have no more of them than one may have.
        let by_domain = |members: Size| {
            let values = members.values.saturating_add(bounds.entries.saturating_mul(2));
            let bytes = members.bytes.saturating_add(bounds.entries.saturating_mul(bounds.text));
            let mut all = Size::list(bounds.entries, text.or(&members)).within(values, bytes);
            all.keys = Some(bounds.text);
            all
        };
        let attributes = by_domain(Size::list(bounds.entries, text.or(&value)));
        let capacity = by_domain(Size::list(bounds.entries, text.clone()));
        Device { text, attributes, capacity }
    }

    fn member(&self, name: &str) -> Option<Size> {
        match name {
            "driver" => Some(self.text.clone()),
            "attributes" => Some(self.attributes.clone()),
            "capacity" => Some(self.capacity.clone()),
            _ => None,
        }
    }

    fn size(&self) -> Size {
        Size::list(4, self.text.or(&self.attributes).or(&self.capacity))
    }
}

/// A walk over an expression, which adds up the steps.
struct Walk<'a> {
    device: Device,
    patterns: &'a dyn Fn(&str) -> Option<u64>,
    /// Variables of the loops and bindings around the current node, the innermost last.
    locals: Vec<(&'a str, Size)>,
    steps: u64,
}

impl<'a> Walk<'a> {
    /// Adds steps.
    fn count(&mut self, steps: u64) {
        self.steps = self.steps.saturating_add(steps);
    }

    /// The size of a node's value, whose evaluation is counted.
    fn size(&mut self, expression: &'a IdedExpr) -> Size {
        self.count(1);
        match &expression.expr {
            Expr::Unspecified => Size::scalar(),
            Expr::Literal(literal) => of_literal(literal),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) => self.select(select),
            Expr::List(list) => {
                let item = self.all(list.elements.iter());
                Size::list(length(list.elements.len()), item)
            }
            Expr::Map(map) => {
                let item = self.all(map.entries.iter().flat_map(|entry| of_entry(&entry.expr)));
                Size::list(length(map.entries.len()), item)
            }
            Expr::Struct(made) => {
                let item = self.all(made.entries.iter().flat_map(|entry| of_entry(&entry.expr)));
                Size::list(length(made.entries.len()), item)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
        }
    }

    /// Any of the values, each of which is copied into a new one.
    fn all(&mut self, parts: impl Iterator<Item = &'a IdedExpr>) -> Size {
        let mut item = Size::scalar();
        for part in parts {
            let size = self.size(part);
            self.count(size.steps().saturating_add(1));
            item = item.or(&size);
        }
        item
    }

    fn variable(&self, name: &str) -> Size {
        // A leading dot skips the local variables.
        let global = name.strip_prefix('.');
        // few: loops around a node, which nest as far as expressions may.
        let local = self.locals.iter().rev().find(|(local, _)| global.is_none() && *local == name);
        match local {
            Some((_, size)) => size.clone(),
            None if global.unwrap_or(name) == "device" => self.device.size(),
            None => Size::scalar(),
        }
    }

    fn select(&mut self, select: &'a SelectExpr) -> Size {
        if let Expr::Ident(name) = &select.operand.expr {
            // few: as above.
            let is_local = self.locals.iter().any(|(local, _)| local == name);
            if name.as_str() == "device" && !is_local {
                self.count(1);
                return self.device.member(&select.field).unwrap_or_default();
            }
        }
        let operand = self.size(&select.operand);
        if select.test { Size::scalar() } else { operand.item() }
    }

    fn call(&mut self, call: &'a CallExpr) -> Size {
        if let Some(size) = self.binding(call) {
            return size;
        }
        if let ([condition, one, other], operators::CONDITIONAL) = (&*call.args, call.func_name.as_str()) {
            self.size(condition);
            let before = self.steps;
            let one = self.size(one);
            let of_one = std::mem::replace(&mut self.steps, before);
            let other = self.size(other);
            self.steps = self.steps.max(of_one);
            return one.or(&other);
        }
        let target = call.target.iter().map(|target| &**target);
        let parts: Vec<&IdedExpr> = target.chain(&call.args).collect();
        let sizes: Vec<Size> = parts.iter().map(|part| self.size(part)).collect();
        let (size, steps) = call::result(&call.func_name, &parts, &sizes, self.patterns);
        self.count(steps);
        size
    }

    /// `cel.bind(name, value, expression)` where the library does not know the macro.
    fn binding(&mut self, call: &'a CallExpr) -> Option<Size> {
        let target = call.target.as_ref()?;
        let is_of_cel = matches!(&target.expr, Expr::Ident(name) if name == "cel");
        let ("bind", [name, value, expression], true) = (call.func_name.as_str(), &*call.args, is_of_cel)
        else {
            return None;
        };
        let Expr::Ident(name) = &name.expr else { return None };
        let value = self.size(value);
        self.count(value.steps().saturating_add(1));
        let size = self.with(name, value, |walk| walk.size(expression));
        self.count(size.steps());
        Some(size)
    }

    /// The result of `part`, with a variable `name` whose value is within `size`.
    fn with<T>(&mut self, name: &'a str, size: Size, part: impl FnOnce(&mut Self) -> T) -> T {
        self.locals.push((name, size));
        let result = part(self);
        self.locals.pop();
        result
    }

    fn comprehension(&mut self, one: &'a ComprehensionExpr) -> Size {
        let range = self.size(&one.iter_range);
        let first = self.size(&one.accu_init);
        self.count(first.steps().saturating_add(1));
        let before = std::mem::take(&mut self.steps);
        let accumulated = if range.elements == 0 {
            Some(first)
        } else {
            self.with(&one.iter_var, range.round(), |walk| walk.accumulated(one, &first, range.elements))
        };
        // Each round copies the element into a variable, and looks at the condition.
        let round = self.steps.saturating_add(range.round().steps()).saturating_add(3);
        self.steps = before.saturating_add(round.saturating_mul(range.elements));
        let Some(accumulated) = accumulated else {
            self.steps = u64::MAX;
            return Size::scalar();
        };
        let size = self.with(&one.accu_var, accumulated, |walk| walk.size(&one.result));
        self.count(size.steps());
        size
    }

    /// The size of a loop's accumulator after `rounds` rounds; counts the steps of one round. `None` if it has no known bound.
    fn accumulated(&mut self, one: &'a ComprehensionExpr, first: &Size, rounds: u64) -> Option<Size> {
        if let Some((guard, items)) = appended(one) {
            if let Some(guard) = guard {
                self.size(guard);
            }
            let items = self.size(items);
            self.count(items.steps());
            return Some(first.with(&Size::list(rounds.saturating_mul(items.elements), items.item())));
        }
        let next = self.with(&one.accu_var, first.clone(), |walk| walk.size(&one.loop_step));
        first.covers(&next).then(|| first.clone())
    }
}

/// The list that each round of a `map` or `filter` appends, and the condition for it. The library builds their results in
/// place.
fn appended(one: &ComprehensionExpr) -> Option<(Option<&IdedExpr>, &IdedExpr)> {
    let is_accumulator = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(name) if *name == one.accu_var);
    let items = |part: &'_ IdedExpr| -> bool {
        let Expr::Call(call) = &part.expr else { return false };
        let is_sum = call.func_name == operators::ADD && call.target.is_none();
        is_sum && matches!(&*call.args, [sum, items] if is_accumulator(sum) && is_list(items))
    };
    let is_endless = matches!(one.loop_cond.expr, Expr::Literal(_));
    if !is_endless || !is_accumulator(&one.result) || !is_empty(&one.accu_init) {
        return None;
    }
    let Expr::Call(step) = &one.loop_step.expr else { return None };
    let (guard, sum) = match &*step.args {
        [guard, sum, otherwise] if step.func_name == operators::CONDITIONAL && is_accumulator(otherwise) => {
            (Some(guard), sum)
        }
        _ => (None, &one.loop_step),
    };
    match &sum.expr {
        Expr::Call(call) if items(sum) => Some((guard, &call.args[1])),
        _ => None,
    }
}

fn is_list(expression: &IdedExpr) -> bool {
    matches!(expression.expr, Expr::List(_))
}

fn is_empty(expression: &IdedExpr) -> bool {
    matches!(&expression.expr, Expr::List(list) if list.elements.is_empty())
}

fn of_literal(literal: &LiteralValue) -> Size {
    match literal {
        LiteralValue::String(text) => Size::text(length(text.inner().len())),
        LiteralValue::Bytes(bytes) => Size::text(length(bytes.inner().len())),
        LiteralValue::Boolean(_)
        | LiteralValue::Double(_)
        | LiteralValue::Int(_)
        | LiteralValue::Null
        | LiteralValue::UInt(_) => Size::scalar(),
    }
}

fn of_entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
