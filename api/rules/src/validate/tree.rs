//! Reading and filling the fields of a decoded object without ever failing.
//!
//! Owns the one way in which rules look at a `Value`: an absent field, a null and a value of another type
//! all read as empty, because the decoder has already reported wrong types and untyped parts may hold anything.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;

use orch_schema::budget::count_step;
use orch_schema::excerpt::{VALUE_BYTES_MAX, fitting};
use orch_schema::value::{Iter, Map, Value};

/// Bytes up to which a composite value is shown whole: recorded answers have whole selectors and claims, and a pod's
/// resources. Longer ones are cut at [`VALUE_BYTES_MAX`].
const SHOWN_JSON_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;

static NULL: Value = Value::Null;

/// Field access over JSON objects. Nothing here panics or allocates a default for reading.
pub trait Tree {
    /// The field `name`; null where there is none.
    fn at(&self, name: &str) -> &Value;

    /// The string in field `name`; empty where there is none.
    fn text(&self, name: &str) -> &str {
        self.at(name).as_str().unwrap_or_default()
    }

    /// The integer in field `name`.
    fn int(&self, name: &str) -> Option<i64> {
        self.at(name).as_i64()
    }

    /// The boolean in field `name`; false where there is none.
    fn flag(&self, name: &str) -> bool {
        self.at(name).as_bool().unwrap_or_default()
    }

    /// The items of the list in field `name`.
    fn items(&self, name: &str) -> &[Value] {
        self.at(name).as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The strings of the list in field `name`; other items are left out.
    fn texts(&self, name: &str) -> Vec<&str> {
        self.items(name).iter().filter_map(Value::as_str).collect()
    }

    /// The entries of the map in field `name`, ordered by key.
    fn entries(&self, name: &str) -> Vec<(&str, &Value)> {
        sorted_entries(self.at(name))
    }

    /// Whether the field is there and not null.
    fn has(&self, name: &str) -> bool {
        !self.at(name).is_null()
    }

    /// Whether the field is empty: absent, null, `""`, `0`, `false`, `[]` or `{}`.
    fn is_empty_at(&self, name: &str) -> bool {
        is_empty(self.at(name))
    }
}

impl Tree for Value {
    fn at(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&NULL)
    }
}

/// Looks up members of a map during an iteration over another map. Mostly both have the same members in the same order:
/// then each member follows the one found last, and no key is hashed.
#[derive(Clone, Debug)]
pub struct ParallelLookup<'m> {
    map: &'m Map,
    rest: Iter<'m>,
}

impl<'m> ParallelLookup<'m> {
    /// Look-ups in `map`, before the first one.
    pub fn new(map: &'m Map) -> Self {
        ParallelLookup { map, rest: map.iter() }
    }

    /// The member `key`.
    pub fn get(&mut self, key: &str) -> Option<&'m Value> {
        let mut ahead = self.rest.clone();
        // The member behind it, too: the other map may lack a member.
        for _ in 0..2 {
            let Some((name, value)) = ahead.next() else { break };
            if name == key {
                self.rest = ahead;
                return Some(value);
            }
        }
        self.map.get(key)
    }
}

/// The entries of a map, ordered by key.
pub fn sorted_entries(map: &Value) -> Vec<(&str, &Value)> {
    let Some(map) = map.as_object() else { return Vec::new() };
    let mut entries: Vec<_> =
        map.iter().take_while(|_| count_step()).map(|(key, value)| (key.as_str(), value)).collect();
    entries.sort_unstable_by_key(|entry| entry.0);
    entries
}

/// Whether an encoder with `omitempty` would leave the value out.
pub fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Whether an update leaves a value as it was. Both values are in canonical form, which leaves out what a field without
/// presence does not tell from its absence: where a zero is still there, absence is another value. Empty lists are as good
/// as none, because no field tells them apart; the order of a map's members does not matter.
///
/// Every refusal of a change asks this. A rule that puts values together itself leaves no empty map behind where there was
/// none ([`carry_entries`]).
pub fn is_unchanged(before: &Value, after: &Value) -> bool {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let (mut here, mut there) = (ParallelLookup::new(old), ParallelLookup::new(new));
            old.iter()
                .all(|(key, value)| count_step() && is_unchanged(value, there.get(key).unwrap_or(&NULL)))
                && new.iter().all(|(key, value)| here.get(key).is_some() || is_unchanged(&NULL, value))
        }
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| count_step() && is_unchanged(old, new))
        }
        (Value::Array(items), Value::Null) | (Value::Null, Value::Array(items)) => items.is_empty(),
        _ => before == after,
    }
}

/// `value` as messages show a composite value: compact JSON; a long one is cut.
pub fn shown(value: &Value) -> String {
    shown_json(value)
}

/// The items of a list in the form of [`shown`].
pub fn shown_items(items: &[Value]) -> String {
    shown_json(items)
}

/// Serializes no more than is shown: otherwise an error about each of many items would read all items each time.
fn shown_json(value: &(impl Serialize + ?Sized)) -> String {
    let mut beginning = Beginning { json: Vec::with_capacity(128) };
    let is_whole = serde_json::to_writer(&mut beginning, value).is_ok();
    let mut text = String::from_utf8_lossy(&beginning.json).into_owned();
    if !is_whole {
        text.truncate(fitting(&text, VALUE_BYTES_MAX).len());
        text.push_str("...");
    }
    text
}

/// A writer that takes the first bytes of a text and refuses the rest.
struct Beginning {
    json: Vec<u8>,
}

impl io::Write for Beginning {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SHOWN_JSON_BYTES_MAX - self.json.len();
        if room == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(room);
        self.json.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A map of strings as messages show it: compact JSON with ordered keys.
pub fn shown_map(value: &Value) -> String {
    if value.is_null() {
        return "null".to_owned();
    }
    let ordered: BTreeMap<&str, &Value> = sorted_entries(value).into_iter().collect();
    shown_json(&ordered)
}

/// `value` as an object; a value of another type is replaced by an empty object.
pub fn object_mut(value: &mut Value) -> &mut Map {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("the value was made an object above"),
    }
}

/// The field `name` of `value` as an object; a value of another type is replaced by an empty object.
pub fn child_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    let child = object_mut(value).entry(name).or_insert(Value::Null);
    object_mut(child);
    child
}

/// Sets the field `name` where it is absent or null.
pub fn set_default(value: &mut Value, name: &str, default: impl Into<Value>) {
    let slot = object_mut(value).entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = default.into();
    }
}

/// Sets the field `name` where it is absent, null or an empty string.
pub fn set_default_text(value: &mut Value, name: &str, default: &str) {
    let slot = object_mut(value).entry(name).or_insert(Value::Null);
    if slot.as_str().unwrap_or_default().is_empty() {
        *slot = default.into();
    }
}

/// Sets the field `name` where it is absent, null or zero.
pub fn set_default_int(value: &mut Value, name: &str, default: i64) {
    let slot = object_mut(value).entry(name).or_insert(Value::Null);
    if slot.as_i64().unwrap_or_default() == 0 {
        *slot = default.into();
    }
}

/// Sets the field `name`.
pub fn set(value: &mut Value, name: &str, to: impl Into<Value>) {
    object_mut(value).insert(name.to_owned(), to.into());
}

/// Removes the field `name` and keeps the order of the others.
pub fn unset(value: &mut Value, name: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.shift_remove(name);
    }
}

/// Copies the field `name` of `from` to `to`; removes it where `from` has none.
pub fn carry(from: &Value, to: &mut Value, name: &str) {
    match from.get(name) {
        Some(value) => set(to, name, value.clone()),
        None => unset(to, name),
    }
}

/// Copies the entries `keys` of the map in field `map` of `from` to that of `to`, as [`carry`] does. An empty map is
/// removed: a map has no presence.
pub fn carry_entries(from: &Value, to: &mut Value, map: &str, keys: &[&str]) {
    let old = from.at(map);
    let mut entries = to.at(map).clone();
    keys.iter().for_each(|key| carry(old, &mut entries, key));
    if is_empty(&entries) { unset(to, map) } else { set(to, map, entries) }
}

/// The items of the list in field `name`, to change them in place.
pub fn items_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut [Value] {
    value.get_mut(name).and_then(Value::as_array_mut).map(Vec::as_mut_slice).unwrap_or_default()
}

/// The field `name` where it is an object, to change it in place.
pub fn existing_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.get_mut(name).filter(|child| child.is_object())
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    #[test]
    fn wrong_types_read_as_empty() {
        let hostile = json!({"a": 1, "b": ["x", 2], "c": {"k": null}, "d": "t"});
        assert_eq!(hostile.text("a"), "");
        assert_eq!(hostile.int("d"), None);
        assert!(hostile.items("c").is_empty());
        assert_eq!(hostile.texts("b"), ["x"]);
        assert!(json!(null).at("x").at("y").is_null());
    }

    #[test]
    fn long_composites_are_shown_in_part() {
        let items: Vec<Value> = (0..100_000).map(|at| json!({"at": at, "t": "é"})).collect();
        let (of_items, of_value) = (shown_items(&items), shown(&json!(items)));
        assert_eq!(of_items, of_value);
        assert!(of_items.starts_with(r#"[{"at":0,"t":"é"},{"at":1"#), "{of_items}");
        assert!(of_items.ends_with("...") && of_items.len() <= VALUE_BYTES_MAX + 3, "{of_items}");
        assert_eq!(shown_items(&items[..2]), json!(items[..2]).to_string());
    }

    #[test]
    fn members_are_found_alongside_in_any_order() {
        let maps = [
            json!({"a": 1, "b": 2, "c": 3, "d": 4}),
            json!({"d": 4, "a": 1, "c": 3, "b": 2}),
            json!({"c": 3}),
        ];
        for (map, other) in maps.iter().flat_map(|map| maps.iter().map(move |other| (map, other))) {
            let mut there = ParallelLookup::new(map.as_object().unwrap());
            for key in other.as_object().unwrap().keys().chain(other.as_object().unwrap().keys()) {
                assert_eq!(there.get(key), map.get(key), "{key} of {map} for {other}");
            }
        }
    }

    #[test]
    fn absence_is_no_zero() {
        for (a, b, expected) in [
            (json!({"a": 1}), json!({"a": 1, "b": null}), true),
            (json!({"a": []}), json!({"a": null}), true),
            (json!({"a": 1, "b": 2}), json!({"b": 2, "a": 1}), true),
            (json!({"a": {}}), json!({}), false),
            (json!({"a": 1}), json!({"a": 2}), false),
            (json!({"a": 0}), json!({}), false),
            (json!({"a": false}), json!({}), false),
            (json!({"a": ""}), json!({}), false),
            (json!([1]), json!([1, 2]), false),
            (json!({"x": {"y": ""}}), json!(null), false),
            (json!(0), json!(false), false),
        ] {
            assert_eq!(is_unchanged(&a, &b), expected, "{a} {b}");
            assert_eq!(is_unchanged(&b, &a), expected, "{b} {a}");
        }
    }

    #[test]
    fn carried_entries_leave_no_empty_map_behind() {
        for (from, to, expected) in [
            (json!({}), json!({}), json!({})),
            (json!({"m": {"k": "1"}}), json!({}), json!({"m": {"k": "1"}})),
            (json!({}), json!({"m": {"k": "1"}}), json!({})),
            (json!({}), json!({"m": {"k": "1", "l": "2"}}), json!({"m": {"l": "2"}})),
            (
                json!({"m": {"k": "1"}}),
                json!({"m": {"k": "2", "l": "2"}}),
                json!({"m": {"k": "1", "l": "2"}}),
            ),
        ] {
            let mut carried = to.clone();
            carry_entries(&from, &mut carried, "m", &["k"]);
            assert_eq!(carried, expected, "{from} {to}");
        }
    }

    #[test]
    fn defaults_fill_only_what_is_unset() {
        let mut value = json!({"a": null, "b": "", "c": 0, "d": "set"});
        set_default(&mut value, "a", 1);
        set_default_text(&mut value, "b", "x");
        set_default_int(&mut value, "c", 7);
        set_default_text(&mut value, "d", "other");
        assert_eq!(value, json!({"a": 1, "b": "x", "c": 7, "d": "set"}));
    }
}
