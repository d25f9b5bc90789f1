//! Values of this run in expectations: addresses and node ports that the server allotted.

use std::collections::HashMap;

use regex::{Captures, Regex};
use serde_json::Value;

/// `want` with each `${ip1}` and `${np1}` replaced by the value saved under that name. A string that is nothing else becomes
/// the value itself, which may be a number.
pub(super) fn expected(want: &Value, saved: &HashMap<String, Value>) -> Value {
    match want {
        Value::String(text) if text.contains("${") => substituted(text, saved),
        Value::Array(items) => items.iter().map(|item| expected(item, saved)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), expected(field, saved))).collect())
        }
        other => other.clone(),
    }
}

fn substituted(text: &str, saved: &HashMap<String, Value>) -> Value {
    let pattern = Regex::new(r"\$\{((?:ip|np)[0-9]+)\}").expect("the pattern is valid");
    if let Some(whole) = pattern.captures(text).filter(|found| found[0].len() == text.len()) {
        return saved.get(&whole[1]).cloned().unwrap_or_else(|| Value::from(text));
    }
    let shown = |found: &Captures<'_>| match saved.get(&found[1]) {
        Some(Value::String(value)) => value.clone(),
        Some(value) => value.to_string(),
        None => found[0].to_owned(),
    };
    Value::from(pattern.replace_all(text, shown).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn saved_values_keep_their_type_where_they_stand_alone() {
        let saved = HashMap::from([("ip1".to_owned(), json!("10.0.0.7")), ("np1".to_owned(), json!(30_001))]);
        let want = json!({"a": ["${ip1}", "${np1}", "80:${np1}/TCP", "${ip2}"], "b": "${other}"});
        assert_eq!(
            expected(&want, &saved),
            json!({"a": ["10.0.0.7", 30_001, "80:30001/TCP", "${ip2}"], "b": "${other}"})
        );
    }
}
