//! The order of keys in a written mapping: as people sort, `a2` before `a10`.

use std::cmp::Ordering;

use crate::budget::count_step;
use crate::value::{Map, Value};

/// The members in the order in which they are written.
///
/// The library's sorts may panic where an order contradicts itself, as comparing runs of digits by their value does once
/// they overflow; this merge of sorted runs takes any order. Stored objects come nearly sorted, in few runs.
pub(super) fn sorted(members: &Map) -> Vec<(&str, &Value)> {
    let members: Vec<Member> =
        members.iter().take_while(|_| count_step()).map(|(key, value)| (key.as_str(), value)).collect();
    let mut runs: Vec<Vec<Member>> =
        members.chunk_by(|left, right| !is_before(right.0, left.0)).map(<[Member]>::to_vec).collect();
    while runs.len() > 1 {
        let mut merged_runs = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(left) = pairs.next() {
            merged_runs.push(match pairs.next() {
                Some(right) => merged(left, right),
                None => left,
            });
        }
        runs = merged_runs;
    }
    runs.pop().unwrap_or_default()
}

type Member<'v> = (&'v str, &'v Value);

/// Merges two sorted runs. Of equal keys, the left one comes first.
fn merged<'v>(left: Vec<Member<'v>>, right: Vec<Member<'v>>) -> Vec<Member<'v>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    while let (Some(first), Some(second)) = (left.peek(), right.peek()) {
        let is_right = is_before(second.0, first.0);
        merged.extend(if is_right { right.next() } else { left.next() });
    }
    merged.extend(left);
    merged.extend(right);
    merged
}

/// Whether `left` is written before `right`: at their first difference other signs come before letters, and digits
/// are compared by the number they belong to.
fn is_before(left: &str, right: &str) -> bool {
    let common = left.bytes().zip(right.bytes()).take_while(|(left, right)| left == right).count();
    // few: the bytes of one character.
    let start = (0..=common).rev().find(|&at| left.is_char_boundary(at) && right.is_char_boundary(at));
    let start = start.unwrap_or(0);
    let (Some(first), Some(second)) = (left[start..].chars().next(), right[start..].chars().next()) else {
        return left.len() < right.len();
    };
    match (first.is_alphabetic(), second.is_alphabetic()) {
        (true, true) => return first < second,
        (false, false) => {}
        (_, second_is_letter) => return second_is_letter,
    }
    // A zero behind other digits is a digit of their number, not a leading one.
    let continues = (first == '0' || second == '0')
        // once: the digits before.
        && left[..start].bytes().rev().take_while(u8::is_ascii_digit).any(|digit| digit != b'0');
    let (left_number, left_digits) = leading_number(&left[start..], continues);
    let (right_number, right_digits) = leading_number(&right[start..], continues);
    let order = left_number.cmp(&right_number).then(left_digits.cmp(&right_digits)).then(first.cmp(&second));
    order == Ordering::Less
}

/// The value of the leading digits, and the number of digits.
fn leading_number(text: &str, continues: bool) -> (i64, usize) {
    let digits = text.bytes().take_while(u8::is_ascii_digit);
    digits.fold((i64::from(continues), 0), |(number, count), digit| {
        (number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')), count + 1)
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::json;

    #[test]
    fn keys_come_as_people_sort_them() {
        let keys = ["a10", "a2", "a", "B", "b", "a-b", "ab", ".dot", "1", "01", "a/b", "é", "a100", "a1"];
        let members: Map = keys.iter().map(|key| ((*key).to_owned(), json!(0))).collect();
        let found: Vec<&str> = sorted(&members).into_iter().map(|(key, _)| key).collect();
        assert_eq!(
            found,
            [".dot", "1", "01", "B", "a", "a-b", "a/b", "a1", "a2", "a10", "a100", "ab", "b", "é"]
        );
    }

    #[test]
    fn numbers_too_large_to_compare_do_no_harm() {
        let members: Map = (0..200u64)
            .map(|at| (format!("k{}{}", at.wrapping_mul(0x9E37_79B9_7F4A_7C15), at), json!(at)))
            .collect();
        assert_eq!(sorted(&members).len(), members.len());
    }
}
