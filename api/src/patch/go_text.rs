//! Values in the reference's messages: Go's print form, `map[a:1 b:[x y]]`, and Go's type names.

use std::fmt::Write;

use orch_schema::value::{SmolStr, Value};

/// `value` in Go's print form: maps by sorted key, strings unquoted.
pub(crate) fn printed(value: &Value) -> String {
    let mut out = String::new();
    print(value, &mut out);
    out
}

/// A list of values in Go's print form.
pub(super) fn printed_list(items: &[Value]) -> String {
    let mut out = String::new();
    print_items(items, &mut out);
    out
}

fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write!(out, "{number}").expect("writing to a string cannot fail"),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => print_items(items, out),
        Value::Object(map) => {
            let mut keys: Vec<&SmolStr> = map.keys().collect();
            keys.sort();
            out.push_str("map[");
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(&map[key], out);
            }
            out.push(']');
        }
    }
}

fn print_items(items: &[Value], out: &mut String) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        print(item, out);
    }
    out.push(']');
}

/// The Go type of a value, as messages name it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
