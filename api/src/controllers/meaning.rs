//! Compares the stored object with the one that a loop put together, before it writes.
//!
//! Owns a comparison that is lenient on purpose: a loop writes `0`, `""` and `{}` where the encoder leaves them out.
//! Never decides whether a client may change a field; rules ask `orch_rules::validate::tree::is_unchanged`, to which
//! absence is no zero.

use orch_rules::validate::tree::{ParallelLookup, is_empty};
use orch_schema::budget::count_step;
use orch_schema::value::Value;

/// Whether two values mean the same to a loop: absent, null and empty fields count as equal, in any order.
pub(in crate::controllers) fn means_same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(a), Value::Object(b)) => {
            let (mut here, mut there) = (ParallelLookup::new(a), ParallelLookup::new(b));
            let null = Value::Null;
            a.iter().all(|(key, value)| count_step() && means_same(value, there.get(key).unwrap_or(&null)))
                && b.iter().all(|(key, value)| here.get(key).is_some() || means_same(&null, value))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| count_step() && means_same(a, b))
        }
        (Value::Object(fields), other) | (other, Value::Object(fields)) if other.is_null() => {
            fields.values().all(|value| means_same(&Value::Null, value))
        }
        _ => left == right || (is_empty(left) && is_empty(right) && (left.is_null() || right.is_null())),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn values_that_the_encoder_leaves_out_mean_nothing() {
        for (a, b, expected) in [
            (json!({"a": 1}), json!({"a": 1, "b": null}), true),
            (json!({"a": {}}), json!({}), true),
            (json!({"a": []}), json!({"a": null}), true),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!([1]), json!([1, 2]), false),
            (json!({"x": {"y": ""}}), json!(null), true),
            (json!({"x": {"y": "z"}}), json!(null), false),
        ] {
            assert_eq!(means_same(&a, &b), expected, "{a} {b}");
            assert_eq!(means_same(&b, &a), expected, "{b} {a}");
        }
    }
}
