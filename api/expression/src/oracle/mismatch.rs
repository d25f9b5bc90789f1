//! The words for values that a function does not take, which null and values of unknown types lead to.
//!
//! Owns the reference's rule: an operator belongs to its first operand, which says it in its own words or has none; other functions are
//! named with the types that they got.

use super::plain::Plain;

/// Types that have an operator or function as the first operand.
const OWNERS: [(&str, &[&str]); 13] = [
    (
        "_+_",
        &[
            "bytes",
            "double",
            "google.protobuf.Duration",
            "int",
            "list",
            "string",
            "google.protobuf.Timestamp",
            "uint",
        ],
    ),
    ("_-_", &["double", "google.protobuf.Duration", "int", "google.protobuf.Timestamp", "uint"]),
    ("_*_", &["double", "int", "uint"]),
    ("_/_", &["double", "int", "uint"]),
    ("_%_", &["int", "uint"]),
    ("-_", &["double", "int"]),
    ("_<_", ORDERED),
    ("_<=_", ORDERED),
    ("_>_", ORDERED),
    ("_>=_", ORDERED),
    ("size", &["bytes", "list", "map", "string"]),
    ("matches", &["string"]),
    ("sort", &["list"]),
];
const ORDERED: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "google.protobuf.Duration",
    "int",
    "string",
    "google.protobuf.Timestamp",
    "uint",
];
/// Types that answer for whatever they are asked.
const ANSWERING: [&str; 3] = ["string", "google.protobuf.Duration", "google.protobuf.Timestamp"];
/// Functions that look into a list after they took it by its first item.
const LOOKING: [&str; 4] = ["sum", "min", "max", "isSorted"];

pub(super) fn text(name: &str, arguments: &[Plain]) -> String {
    let kinds: Vec<&str> = arguments.iter().map(Plain::kind).collect();
    if let Some((_, owners)) = OWNERS.iter().find(|(own, _)| *own == name) {
        let is_plain = owners.contains(&kinds[0]) || ANSWERING.contains(&kinds[0]);
        return if is_plain { "no such overload".to_owned() } else { format!("no such overload: {name}") };
    }
    let first = arguments[0].items().and_then(<[Plain]>::first);
    if LOOKING.contains(&name) && first.is_some_and(|first| !matches!(first, Plain::Null)) {
        return "no such overload".to_owned();
    }
    format!("no such overload: {name}({})", kinds.join(", "))
}
