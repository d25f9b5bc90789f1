//! Rules for numbers: range of the type, multiples, bounds.
//!
//! Owns how integers and floats are compared with bounds. The reference holds bounds as floats and compares integers with their
//! integer part.

use orch_schema::value::Number;

use super::check::format_name;
use super::constraint::{Node, Types};
use super::failure::{Failure, Outcome, Place, shown_float, shown_number};
use super::format::Format;

/// Floats beyond are no integers to JSON clients: 2^53 - 1.
const WHOLE_MAX: f64 = 9_007_199_254_740_991.0;
/// Relative difference up to which a float counts as whole.
const WHOLE_ERROR: f64 = 1e-9;
/// 2^63: integers are below.
const INTEGERS_END: f64 = 9_223_372_036_854_775_808.0;

/// Whether a float stands for an integer.
pub(super) fn is_whole(value: f64) -> bool {
    if !value.is_finite() || value.abs() > WHOLE_MAX {
        return false;
    }
    let nearest = value.trunc();
    if value == nearest {
        return true;
    }
    let sum = value.abs() + nearest.abs();
    nearest != 0.0 && (value - nearest).abs() / sum < WHOLE_ERROR
}

/// The whole part of a float, if it is a 64-bit integer.
#[expect(clippy::cast_possible_truncation, reason = "the number is whole, and smaller than 2^63")]
pub(super) fn whole_part(value: f64) -> Option<i64> {
    let whole = value.trunc();
    (whole.abs() < INTEGERS_END).then(|| whole as i64)
}

/// Checks `value` against the type's range and the bounds of `node`.
pub(super) fn check(node: &Node, value: &Number, place: Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    let float = value.as_f64().unwrap_or_default();
    let range = Range::of(node);
    let in_range = |outcome: &mut Outcome, is_fitting: bool, what: &str| {
        if !is_fitting {
            outcome.push(range.failure(node, what, place));
        }
    };
    in_range(&mut outcome, range.fits(value), "Checked");
    if let Some(rules) = node.rules() {
        let bound = |bound: f64| range.fits_bound(bound);
        if let Some(factor) = rules.multiple_of() {
            in_range(&mut outcome, bound(factor), "MultipleOf");
            outcome.merge(multiple(value, float, factor, bound(factor), place));
        }
        if let Some(min) = rules.minimum() {
            in_range(&mut outcome, bound(min), "Minimum boundary");
            let sign = if rules.is_minimum_exclusive { "greater than" } else { "greater than or equal to" };
            let is_met = |order| order == std::cmp::Ordering::Greater;
            let edge = !rules.is_minimum_exclusive;
            outcome.merge(bounded(value, float, min, bound(min), is_met, edge, sign, place));
        }
        if let Some(max) = rules.maximum() {
            in_range(&mut outcome, bound(max), "Maximum boundary");
            let sign = if rules.is_maximum_exclusive { "less than" } else { "less than or equal to" };
            let is_met = |order| order == std::cmp::Ordering::Less;
            let edge = !rules.is_maximum_exclusive;
            outcome.merge(bounded(value, float, max, bound(max), is_met, edge, sign, place));
        }
    }
    outcome.matches += 1;
    outcome
}

/// The numbers that a type and a format hold.
#[derive(Clone, Copy)]
enum Range {
    Int32,
    Int64,
    Float,
    Any,
}

impl Range {
    fn of(node: &Node) -> Range {
        match (node.types, node.format) {
            (Types::INTEGER, Format::Int32) => Range::Int32,
            (Types::INTEGER, _) => Range::Int64,
            (Types::NUMBER, Format::Float) => Range::Float,
            _ => Range::Any,
        }
    }

    fn fits(self, value: &Number) -> bool {
        match (self, value.as_i64()) {
            (Range::Int32, Some(integer)) => i32::try_from(integer).is_ok(),
            (Range::Int64, Some(_)) | (Range::Any, _) => true,
            (_, _) => self.fits_bound(value.as_f64().unwrap_or_default()),
        }
    }

    fn fits_bound(self, float: f64) -> bool {
        let is_integer = float.fract() == 0.0;
        match self {
            // set: a range.
            Range::Int32 => is_integer && (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&float),
            Range::Int64 => is_integer && (-INTEGERS_END..INTEGERS_END).contains(&float),
            Range::Float => float.abs() <= f64::from(f32::MAX),
            Range::Any => true,
        }
    }

    fn failure(self, node: &Node, what: &str, place: Place<'_>) -> Failure {
        let name = node.types.single().unwrap_or_default();
        let format = match format_name(node) {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        Failure::composite(format!("{what} value must be of type {name} {format} in {}", place.path()))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the integer part is meant; beyond the range it is the range's end"
)]
fn integer_part(float: f64) -> i64 {
    float as i64
}

#[expect(clippy::too_many_arguments, reason = "both bounds are checked alike")]
fn bounded(
    value: &Number,
    float: f64,
    bound: f64,
    is_native: bool,
    is_met: impl Fn(std::cmp::Ordering) -> bool,
    edge: bool,
    sign: &str,
    place: Place<'_>,
) -> Outcome {
    let (order, shown) = match value.as_i64().filter(|_| is_native) {
        Some(integer) => {
            let bound = integer_part(bound);
            (Some(integer.cmp(&bound)), bound.to_string())
        }
        None => (float.partial_cmp(&bound), shown_float(bound)),
    };
    let is_passed = order.is_some_and(|order| is_met(order) || (edge && order.is_eq()));
    if is_passed {
        return Outcome::default();
    }
    let value = if is_native { shown_number(value) } else { shown_float(float) };
    Outcome::of(Failure::invalid(place, value, &format!("should be {sign} {shown}")))
}

fn multiple(value: &Number, float: f64, factor: f64, is_native: bool, place: Place<'_>) -> Outcome {
    let integer = value.as_i64().filter(|_| is_native);
    let (is_positive, is_multiple, shown) = match integer {
        Some(integer) => {
            let factor = integer_part(factor);
            (factor > 0, factor > 0 && integer % factor == 0, factor.to_string())
        }
        None => {
            let quotient = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
            (factor > 0.0, is_whole(quotient), shown_float(factor))
        }
    };
    if !is_positive {
        let text = format!("factor MultipleOf declared for {} must be positive: {shown}", place.path());
        return Outcome::of(Failure::other(place, shown, text));
    }
    if is_multiple {
        return Outcome::default();
    }
    let value = if integer.is_some() { shown_number(value) } else { shown_float(float) };
    Outcome::of(Failure::invalid(place, value, &format!("should be a multiple of {shown}")))
}
