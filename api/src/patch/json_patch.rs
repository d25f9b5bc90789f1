//! JSON patch (RFC 6902).
//!
//! Owns the operations and their bounds: their number, the bytes that `copy` may add, the list items that insertions
//! and removals may shift, and the depth of the result. Like the reference it accepts more than the RFC: negative
//! indexes count from the end, a missing `value` is null, and an absent member passes a `test` for null. A library
//! exists, but it has none of these bounds and would have to be driven one operation at a time.

use std::collections::BTreeMap;

use orch_schema::budget::count_step;
use orch_schema::excerpt::part;
use orch_schema::value::{Map, SmolStr, Value};

use super::pointer::{Pointer, index};
use super::{DEPTH_MAX, PatchError, PatchScope, depth_of};

/// Operations a patch may have; more is refused outright.
pub const OPERATIONS_MAX: usize = 10_000;

/// Bytes that all `copy` operations of a patch may add: as much as a request body may have. Without a bound ten copies
/// of a document into itself make it a thousand times as long.
pub const COPIED_BYTES_MAX: usize = 3 * 1024 * 1024;

/// List items that a patch may shift by inserting and removing. Shifting an object of the largest size from its front
/// with every operation would keep a core busy for a minute; these are 320 MB, a twentieth of a second. Real patches
/// stay far below.
pub const MOVED_ITEMS_MAX: usize = 10_000_000;

/// Values that a patch may visit to measure the depth of moved values. Moving a large document with each of ten
/// thousand operations would keep a core busy for minutes; these take a twentieth of a second.
pub const LOOKED_AT_MAX: usize = 5_000_000;

/// A JSON patch.
#[derive(Debug)]
pub struct JsonPatch {
    operations: Vec<Operation>,
    unknown: Vec<String>,
}

#[derive(Debug)]
struct Operation {
    op: SmolStr,
    path: SmolStr,
    from: Option<SmolStr>,
    /// `None` without one, and of a client's null.
    value: Option<Value>,
    unknown: Map,
}

impl Operation {
    /// Decodes an operation; an error is a text for clients.
    fn parse(item: Value) -> Result<Operation, String> {
        let Value::Object(mut members) = item else {
            return Err(format!("invalid type: {}, expected an object", kind_of(&item)));
        };
        let mut text = |name: &str| match members.shift_remove(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Null) if name == "from" => Ok(None),
            Some(other) => Err(format!("{name}: invalid type: {}, expected a string", kind_of(&other))),
        };
        let (op, path, from) = (text("op")?, text("path")?, text("from")?);
        let value = members.shift_remove("value");
        Ok(Operation {
            op: op.unwrap_or_default(),
            path: path.unwrap_or_default(),
            from,
            value,
            unknown: members,
        })
    }
}

/// The JSON type of a value, for errors.
fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

impl JsonPatch {
    /// Reads a patch from its parsed body.
    pub fn parse(body: Value) -> Result<JsonPatch, PatchError> {
        let mut patch = JsonPatch::made(body)?;
        for operation in &mut patch.operations {
            operation.value = operation.value.take().filter(|value| !value.is_null());
        }
        Ok(patch)
    }

    /// Reads a patch that an expression made. A null in it is a value, as in the reference: no `test` for it holds, since a member that is
    /// null is absent.
    pub fn made(body: Value) -> Result<JsonPatch, PatchError> {
        let malformed = |text: String| PatchError::Malformed(format!("error decoding patch: {text}"));
        let Value::Array(items) = body else {
            return Err(malformed("a JSON patch is a list of operations".to_owned()));
        };
        if items.len() > OPERATIONS_MAX {
            return Err(PatchError::TooManyOperations(items.len()));
        }
        let mut patch = JsonPatch { operations: Vec::with_capacity(items.len()), unknown: Vec::new() };
        for (at, item) in items.into_iter().enumerate() {
            let operation =
                Operation::parse(item).map_err(|error| malformed(format!("operation {at}: {error}")))?;
            patch.unknown.extend(operation.unknown.keys().map(|name| format!("[{at}].{}", part(name))));
            patch.operations.push(operation);
        }
        Ok(patch)
    }

    /// Unknown members of operations, as `[1].foo`; field validation warns of them or refuses the patch.
    pub fn unknown_fields(&self) -> &[String] {
        &self.unknown
    }

    /// The members that the operations name. A malformed path reaches the whole object: applying the patch refuses it.
    pub fn scope(&self) -> PatchScope {
        let mut scope = PatchScope::Members(BTreeMap::new());
        for operation in &self.operations {
            for path in [Some(&operation.path), operation.from.as_ref()].into_iter().flatten() {
                match Pointer::parse(path) {
                    // Steps beyond the depth of a document are cut off: their parent is reached.
                    Ok(path) => scope.extend(path.steps().take(DEPTH_MAX)),
                    Err(_) => return PatchScope::Whole,
                }
            }
        }
        scope
    }

    /// Whether an operation has `path` as its target.
    pub fn targets(&self, path: &str) -> bool {
        // once: one patch, one path.
        self.operations.iter().any(|operation| operation.path == path)
    }

    /// Applies all operations to `document`, in order. Their values move into it.
    pub fn apply(self, document: &mut Value) -> Result<(), PatchError> {
        let mut run = Run { document, copied_bytes: 0, moved_items: 0, looked_at: 0 };
        self.operations.into_iter().try_for_each(|operation| run.step(operation))
    }
}

struct Run<'d> {
    document: &'d mut Value,
    copied_bytes: usize,
    moved_items: usize,
    looked_at: usize,
}

impl Run<'_> {
    fn step(&mut self, operation: Operation) -> Result<(), PatchError> {
        if !count_step() {
            return Err(PatchError::Stopped);
        }
        let path = Pointer::parse(&operation.path)?;
        match operation.op.as_str() {
            "add" => self.add(&path, operation.value.unwrap_or_default()),
            "remove" => self.remove(&path).map(drop),
            "replace" => self.replace(&path, operation.value.unwrap_or_default()),
            "test" => self.test(&path, operation.value.as_ref()),
            "move" => {
                let from = Pointer::parse(operation.from.as_deref().unwrap_or_default())?;
                let value = self.remove(&from)?;
                // A value that moves no deeper cannot get too deep.
                if path.len() > from.len() {
                    self.look(&path, &value)?;
                }
                self.put(&path, value)
            }
            "copy" => {
                let from = Pointer::parse(operation.from.as_deref().unwrap_or_default())?;
                let value = from.find(self.document).ok_or_else(|| from.missing())?;
                self.copied_bytes = self.copied_bytes.saturating_add(size_of_json(value));
                if self.copied_bytes > COPIED_BYTES_MAX {
                    return Err(PatchError::CannotApply(format!(
                        "the accumulated size increase of copy is {}, exceeding the limit {COPIED_BYTES_MAX}",
                        self.copied_bytes
                    )));
                }
                let value = value.clone();
                self.add(&path, value)
            }
            other => Err(PatchError::CannotApply(format!("unexpected operation: {other:?}"))),
        }
    }

    fn add(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), PatchError> {
        self.look(path, &value)?;
        self.put(path, value)
    }

    /// Adds a value whose depth is already checked.
    fn put(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), PatchError> {
        let Some((parent, last)) = path.parent_in(self.document)? else {
            *self.document = value;
            return Ok(());
        };
        match parent {
            Value::Object(map) => {
                map.insert(last.to_owned(), value);
            }
            Value::Array(items) => {
                let len = items.len();
                // The position behind the last item counts, too: -1 appends.
                let at = if last == "-" { Some(len) } else { index(last, len + 1) };
                let at = at.filter(|at| *at <= len).ok_or_else(|| path.missing())?;
                items.insert(at, value);
                self.spend(len - at)?;
            }
            _ => return Err(path.missing()),
        }
        Ok(())
    }

    fn remove(&mut self, path: &Pointer<'_>) -> Result<Value, PatchError> {
        let (parent, last) = path.parent_in(self.document)?.ok_or_else(|| path.missing())?;
        match parent {
            // The order of keys has no meaning, so the last one may take the position of the removed one.
            Value::Object(map) => map.swap_remove(last).ok_or_else(|| path.missing()),
            Value::Array(items) => {
                let at = index(last, items.len()).filter(|at| *at < items.len());
                let at = at.ok_or_else(|| path.missing())?;
                let shifted = items.len() - at;
                let value = items.remove(at);
                self.spend(shifted)?;
                Ok(value)
            }
            _ => Err(path.missing()),
        }
    }

    fn replace(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), PatchError> {
        self.look(path, &value)?;
        let Some((parent, last)) = path.parent_in(self.document)? else {
            *self.document = value;
            return Ok(());
        };
        let place = match parent {
            Value::Object(map) => map.get_mut(last),
            Value::Array(items) => index(last, items.len()).and_then(|at| items.get_mut(at)),
            _ => None,
        };
        *place.ok_or_else(|| path.missing())? = value;
        Ok(())
    }

    /// Whether the target is `expected`. Only members of objects may be absent.
    fn test(&mut self, path: &Pointer<'_>, expected: Option<&Value>) -> Result<(), PatchError> {
        let text = path.text();
        let missing = || {
            let reason = format!("test operation does not apply: is missing path: {text}: missing value");
            PatchError::CannotApply(reason)
        };
        let found = match path.parent_in(self.document).map_err(|_| missing())? {
            None => Some(&*self.document),
            Some((Value::Object(map), last)) => map.get(last),
            Some((Value::Array(items), last)) => {
                let found = index(last, items.len()).and_then(|at| items.get(at));
                let invalid = || {
                    let reason = format!(
                        "error in test for path: '{text}': Unable to access invalid index: {last}: invalid index referenced"
                    );
                    PatchError::CannotApply(reason)
                };
                Some(found.ok_or_else(invalid)?)
            }
            Some(_) => return Err(missing()),
        };
        if found.filter(|found| !found.is_null()) == expected { Ok(()) } else { Err(PatchError::TestFailed) }
    }

    /// Refuses a value that would be too deep at `path`.
    fn look(&mut self, path: &Pointer<'_>, value: &Value) -> Result<(), PatchError> {
        let depth = depth_of(value, &mut self.looked_at);
        if self.looked_at > LOOKED_AT_MAX {
            return Err(PatchError::CannotApply(format!(
                "the operations move more than {LOOKED_AT_MAX} values to a deeper place"
            )));
        }
        if path.len() + depth > DEPTH_MAX {
            return Err(PatchError::CannotApply(format!(
                "the result would have more than {DEPTH_MAX} levels"
            )));
        }
        Ok(())
    }

    fn spend(&mut self, items: usize) -> Result<(), PatchError> {
        self.moved_items = self.moved_items.saturating_add(items);
        if self.moved_items > MOVED_ITEMS_MAX {
            return Err(PatchError::CannotApply(format!(
                "the operations move more than {MOVED_ITEMS_MAX} list items"
            )));
        }
        Ok(())
    }
}

/// Bytes of the JSON text of `value`, without escapes.
fn size_of_json(value: &Value) -> usize {
    match value {
        _ if !count_step() => 0,
        Value::Null | Value::Bool(true) => 4,
        Value::Bool(false) => 5,
        Value::Number(number) => number.to_string().len(),
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size_of_json(item)).sum::<usize>(),
        Value::Object(map) => {
            2 + map.iter().map(|(key, value)| key.len() + 4 + size_of_json(value)).sum::<usize>()
        }
    }
}
