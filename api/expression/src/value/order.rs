//! The order of values: numbers of all types among each other, and values of one type.

use std::cmp::Ordering;

use super::Val;

/// The order of two numbers, exact for integers that a double cannot hold; `None` of values that are none, and of NaN.
pub(super) fn numbers(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => Some(one.cmp(other)),
        (Val::Uint(one), Val::Uint(other)) => Some(one.cmp(other)),
        (Val::Double(one), Val::Double(other)) => one.partial_cmp(other),
        (Val::Int(one), Val::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Uint(one), Val::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Int(one), Val::Double(other)) => integer_to_double(i128::from(*one), *other),
        (Val::Uint(one), Val::Double(other)) => integer_to_double(i128::from(*one), *other),
        (Val::Double(one), Val::Int(other)) => {
            integer_to_double(i128::from(*other), *one).map(Ordering::reverse)
        }
        (Val::Double(one), Val::Uint(other)) => {
            integer_to_double(i128::from(*other), *one).map(Ordering::reverse)
        }
        _ => None,
    }
}

/// Magnitude beyond which a double is larger than any integer of the language.
const BEYOND: f64 = 36_893_488_147_419_103_232.0;

fn integer_to_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double >= BEYOND {
        return Some(Ordering::Less);
    }
    if double <= -BEYOND {
        return Some(Ordering::Greater);
    }
    #[expect(clippy::cast_possible_truncation, reason = "the range was tested")]
    let whole = double.trunc() as i128;
    let fraction = double.fract();
    Some(integer.cmp(&whole).then_with(|| {
        if fraction > 0.0 {
            Ordering::Less
        } else if fraction < 0.0 {
            Ordering::Greater
        } else {
            Ordering::Equal
        }
    }))
}

/// The order of two values of ordered types; the outer `None` of values that have no order, the inner one of NaN.
pub(crate) fn compare(one: &Val<'_>, other: &Val<'_>) -> Option<Option<Ordering>> {
    Some(match (one, other) {
        (Val::Bool(one), Val::Bool(other)) => Some(one.cmp(other)),
        (Val::Text(one), Val::Text(other)) => Some((**one).cmp(&**other)),
        (Val::Bytes(one), Val::Bytes(other)) => Some((**one).cmp(&**other)),
        (Val::Duration(one), Val::Duration(other)) => Some(one.cmp(other)),
        (Val::Timestamp(one), Val::Timestamp(other)) => Some(one.cmp(other)),
        (Val::Int(_) | Val::Uint(_) | Val::Double(_), Val::Int(_) | Val::Uint(_) | Val::Double(_)) => {
            numbers(one, other)
        }
        _ => return None,
    })
}
