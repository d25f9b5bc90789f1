//! The order of values: numbers of all types among each other, and values of one type.

use std::cmp::Ordering;

use super::Val;

/// The order of two numbers; integers are rounded to doubles to be compared with one. `None` of values that are no
/// numbers, and of NaN.
#[expect(clippy::cast_precision_loss, reason = "the language rounds")]
pub(super) fn numbers(one: &Val<'_>, other: &Val<'_>) -> Option<Ordering> {
    match (one, other) {
        (Val::Int(one), Val::Int(other)) => Some(one.cmp(other)),
        (Val::Uint(one), Val::Uint(other)) => Some(one.cmp(other)),
        (Val::Double(one), Val::Double(other)) => one.partial_cmp(other),
        (Val::Int(one), Val::Uint(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Uint(one), Val::Int(other)) => Some(i128::from(*one).cmp(&i128::from(*other))),
        (Val::Int(one), Val::Double(other)) => (*one as f64).partial_cmp(other),
        (Val::Uint(one), Val::Double(other)) => (*one as f64).partial_cmp(other),
        (Val::Double(one), Val::Int(other)) => one.partial_cmp(&(*other as f64)),
        (Val::Double(one), Val::Uint(other)) => one.partial_cmp(&(*other as f64)),
        _ => None,
    }
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
