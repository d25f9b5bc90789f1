//! The cost of a function call, and the size of its result.
//!
//! Owns one rule for each function whose result may be larger than its arguments, or whose time is more than reading them
//! and writing the result. Any other function gives one of its arguments or a part of one, or a value of fixed size.

use cel::common::ast::{Expr, IdedExpr, LiteralValue, operators};

use super::size::Size;
use crate::pattern;

/// Bytes of the longest text of a number: a `double` with all of its digits.
const NUMBER_BYTES_MAX: u64 = 400;
/// Bytes of the longest text that `format` makes of a number: with a hundred decimal places.
const FORMATTED_BYTES_MAX: u64 = 512;
/// Factor by which texts inside of formatted values grow at most: bytes that are no text, each replaced by three.
const FORMATTED_GROWTH: u64 = 4;
/// Comparisons of each element of the longest list that can be sorted within the limit.
const SORT_ROUNDS: u64 = 20;
/// Values that are compared in one step, while nothing is copied.
const COMPARISONS_PER_STEP: u64 = 16;
/// Pairs of characters that a naive search compares in one step.
const PAIRS_PER_STEP: u64 = 2048;

/// The size of the result of `name` for its target and arguments, and the steps beside those of evaluating them.
pub(super) fn result(
    name: &str,
    parts: &[&IdedExpr],
    sizes: &[Size],
    patterns: &dyn Fn(&str) -> Option<u64>,
) -> (Size, u64) {
    // Of what is indexed, only the key is read.
    let is_indexed = matches!(name, operators::INDEX | operators::OPT_INDEX | operators::OPT_SELECT);
    let of_all = sizes.iter().skip(usize::from(is_indexed));
    let read = of_all.fold(0_u64, |sum, size| sum.saturating_add(size.steps()));
    if name == operators::INDEX {
        return (sizes.first().map(Size::item).unwrap_or_default(), read);
    }
    let size = size(name, parts, sizes);
    let linear = read.saturating_mul(2).saturating_add(size.steps());
    let search = match (name, parts.get(1)) {
        ("matches" | "find" | "findAll", Some(pattern)) => {
            matching(pattern, sizes.first().map_or(0, |text| text.text), patterns)
        }
        _ => search(name, sizes),
    };
    (size, linear.saturating_add(search))
}

/// Steps of finding `pattern` in a text of `bytes` bytes.
fn matching(pattern: &IdedExpr, bytes: u64, patterns: &dyn Fn(&str) -> Option<u64>) -> u64 {
    // A pattern that stands in the expression was compiled with it.
    let of_byte = match &pattern.expr {
        Expr::Literal(LiteralValue::String(text)) => patterns(text.inner()),
        _ => None,
    };
    of_byte.map_or_else(|| pattern::steps_of_unknown(bytes), |steps| pattern::steps(steps, bytes))
}

fn size(name: &str, parts: &[&IdedExpr], sizes: &[Size]) -> Size {
    let first = sizes.first().cloned().unwrap_or_default();
    let text_of = |at: usize| sizes.get(at).map_or(0, |size| size.text);
    let any = || sizes.iter().fold(Size::scalar(), |any, size| any.or(size));
    match name {
        operators::OPT_INDEX | operators::OPT_SELECT => first.item(),
        operators::ADD => sizes.get(1).map_or_else(|| first.clone(), |second| first.with(second)),
        "replace" => {
            let places = first.text.saturating_add(1);
            Size::text(first.text.saturating_add(places.saturating_mul(text_of(2))))
        }
        "join" => Size::text(first.bytes.saturating_add(first.elements.saturating_mul(text_of(1)))),
        "split" => {
            let parts = first.text.saturating_add(1);
            Size::list(parts, Size::text(first.text)).within(parts, first.text)
        }
        "format" => {
            let arguments = sizes.get(1).cloned().unwrap_or_default();
            let numbers = arguments.values.saturating_add(1).saturating_mul(FORMATTED_BYTES_MAX);
            let texts = arguments.bytes.saturating_mul(FORMATTED_GROWTH);
            Size::text(first.text.saturating_add(numbers).saturating_add(texts))
        }
        "quote" | "encode" => Size::text(any().text.saturating_mul(2).saturating_add(4)),
        "string" | "bytes" => Size::text(any().text.max(NUMBER_BYTES_MAX)),
        "flatten" => Size::list(first.values, first.inner()).within(first.values, first.bytes),
        "findAll" => Size::list(first.text, Size::text(first.text)).within(first.text, first.text),
        "range" => Size::list(literal_number(parts.last()), Size::scalar()),
        operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::LOGICAL_NOT
        | operators::NOT_STRICTLY_FALSE
        | operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::IN
        | operators::NEGATE
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO => Size::scalar(),
        "size" | "contains" | "startsWith" | "endsWith" | "matches" | "indexOf" | "lastIndexOf" | "int"
        | "uint" | "double" | "bool" | "includes" | "compareTo" | "isGreaterThan" | "isLessThan"
        | "hasValue" => Size::scalar(),
        _ => any(),
    }
}

/// Steps of functions that do more than read their arguments and write their result.
fn search(name: &str, sizes: &[Size]) -> u64 {
    let first = sizes.first().cloned().unwrap_or_default();
    let second = sizes.get(1).cloned().unwrap_or_default();
    let compared = first.item().steps().saturating_add(1);
    match name {
        "indexOf" | "lastIndexOf" => {
            let pairs = first.text.saturating_mul(second.text);
            (pairs / PAIRS_PER_STEP).saturating_add(first.text)
        }
        "distinct" | "isSorted" => {
            first.elements.saturating_mul(first.elements).saturating_mul(compared) / COMPARISONS_PER_STEP
        }
        "intersects" => {
            first.elements.saturating_mul(second.elements).saturating_mul(compared) / COMPARISONS_PER_STEP
        }
        "sort" => first.elements.saturating_mul(SORT_ROUNDS).saturating_mul(compared),
        "@sortByAssociatedKeys" => {
            let compared = second.item().steps().saturating_add(1);
            second.elements.saturating_mul(SORT_ROUNDS).saturating_mul(compared)
        }
        _ => 0,
    }
}

/// The number that stands there; the largest one if it is not known.
fn literal_number(expression: Option<&&IdedExpr>) -> u64 {
    match expression.map(|expression| &expression.expr) {
        Some(Expr::Literal(LiteralValue::Int(number))) => u64::try_from(*number.inner()).unwrap_or(0),
        _ => u64::MAX,
    }
}
