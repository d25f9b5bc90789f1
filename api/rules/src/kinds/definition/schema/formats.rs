//! Formats that the server checks, and warnings about those that it ignores.

use std::collections::BTreeSet;

use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::walk;
use crate::validate::tree::Tree;

/// Warnings that are given; the reference gives all.
const WARNINGS_MAX: usize = 32;

/// Formats of strings, without dashes.
const OF_STRINGS: [&str; 27] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "",
];

/// Whether values of type `kind` are checked for `format`, or there is nothing to check.
fn is_recognized(kind: &str, format: &str) -> bool {
    match kind {
        "integer" => matches!(format, "" | "int32" | "int64"),
        "number" => matches!(format, "" | "float" | "double"),
        "" | "string" => {
            let plain = format.replace('-', "");
            // few: the formats of strings.
            OF_STRINGS.contains(&plain.as_str())
        }
        _ => format.is_empty(),
    }
}

/// The formats in the schemas of `definition` that mean nothing.
fn unrecognized(definition: &Value) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for version in definition.at("spec").items("versions") {
        walk::each(version.at("schema").at("openAPIV3Schema"), &mut |schema| {
            let format = schema.text("format");
            if !is_recognized(schema.text("type"), format) {
                found.insert(format);
            }
        });
    }
    found
}

/// The warnings about formats of `new` that mean nothing and that `old` does not have.
pub(super) fn warnings(old: Option<&Value>, new: &Value) -> Vec<String> {
    let before = old.map(unrecognized).unwrap_or_default();
    let formats = unrecognized(new);
    let new_ones = formats.difference(&before).take(WARNINGS_MAX);
    new_ones.map(|format| format!("unrecognized format {}", quoted(format))).collect()
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn new_formats_that_mean_nothing_are_told_once() {
        let definition = |format: &str| {
            let schema = json!({"properties": {
                "a": {"type": "string", "format": "date-time"},
                "b": {"type": "array", "format": "ip", "items": {"type": "integer", "format": "uint64"}},
                "c": {"format": "ipv4"},
                "d": {"type": "object", "additionalProperties": {"type": "string", "format": format}},
                "e": {"type": "string", "format": format},
            }});
            json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}})
        };
        let told = warnings(None, &definition("x"));
        assert_eq!(told, ["ip", "uint64", "x"].map(|format| format!("unrecognized format \"{format}\"")));
        assert_eq!(warnings(Some(&definition("x")), &definition("y")), ["unrecognized format \"y\""]);
    }
}
