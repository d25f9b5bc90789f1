//! Places in an object beside the object before it.
//!
//! Owns how old values are found, by the keys of lists, and the paths of errors. Never evaluates.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::fmt;

use orch_schema::value::{Map, SmolStr, Value};

use crate::validate::Path;

/// Errors of the root have this path in the reference.
const ROOT: &str = "<nil>";

/// The schema of a value, as far as it tells whether a value is as it was.
pub trait Sameness: fmt::Debug {
    /// The schema of the property `name`.
    fn property(&self, name: &str) -> Option<&dyn Sameness>;
    /// The schema of the values of a map, or of the items of a list.
    fn element(&self) -> Option<&dyn Sameness>;
    /// Whether `new` is as `old` was.
    fn is_same(&self, new: &Value, old: &Value) -> bool;
}

/// A value, and the value before it.
pub(super) struct Pair<'v> {
    pub(super) new: &'v Value,
    pub(super) old: &'v Value,
    shape: Option<&'v dyn Sameness>,
    /// Compared once, and only where a rule is broken, since most rules hold.
    is_unchanged: OnceCell<bool>,
}

impl Pair<'_> {
    pub(super) fn is_unchanged(&self) -> bool {
        *self.is_unchanged.get_or_init(|| match self.shape {
            Some(shape) => shape.is_same(self.new, self.old),
            None => self.new == self.old,
        })
    }
}

/// Where a value stands.
pub(super) struct Place<'p> {
    step: Step<'p>,
    /// The schema of the value, of an object that is whole.
    shape: Option<&'p dyn Sameness>,
    pub(super) own: Option<Pair<'p>>,
    /// The nearest value around whose old value was found.
    pub(super) around: Option<&'p Pair<'p>>,
    /// It is `apiVersion` or `kind` of the object, whose errors stay errors.
    pub(super) is_head: bool,
}

/// The way from the value around.
pub(super) enum Step<'p> {
    Root,
    /// A part of a schema.
    Base(&'p Path),
    Property(&'p Place<'p>, &'p str),
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl<'p> Place<'p> {
    pub(super) fn of(
        step: Step<'p>,
        new: &'p Value,
        old: Option<&'p Value>,
        shape: Option<&'p dyn Sameness>,
        around: Option<&'p Pair<'p>>,
    ) -> Place<'p> {
        let own = old.map(|old| Pair { new, old, shape, is_unchanged: OnceCell::new() });
        Place { step, shape, own, around, is_head: false }
    }

    /// A part of the value here.
    pub(super) fn part<'q>(&'q self, step: Step<'q>, new: &'q Value, old: Option<&'q Value>) -> Place<'q>
    where
        'p: 'q,
    {
        let shape = self.shape.and_then(|shape| match step {
            Step::Property(_, name) => shape.property(name),
            _ => shape.element(),
        });
        Place::of(step, new, old, shape, self.own.as_ref().or(self.around))
    }

    pub(super) fn old(&self) -> Option<&'p Value> {
        self.own.as_ref().map(|pair| pair.old)
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    pub(super) fn path(&self) -> Path {
        match self.step {
            Step::Root => Path::new(ROOT),
            Step::Base(path) => path.clone(),
            Step::Property(around, name) if around.is_root() => Path::new(name),
            Step::Property(around, name) => around.path().child(name),
            Step::Key(around, key) => around.path().key(key),
            Step::Index(around, at) => around.path().index(at),
        }
    }
}

/// Old items of a list by the values of their key properties.
pub(super) struct Keyed<'v> {
    keys: &'v [SmolStr],
    items: HashMap<Vec<&'v Value>, &'v Value>,
}

impl<'v> Keyed<'v> {
    pub(super) fn of(keys: &'v [SmolStr], old: &'v Value) -> Keyed<'v> {
        let mut items = HashMap::new();
        for item in old.as_array().into_iter().flatten() {
            // Of repeated keys the first counts.
            if let Some(key) = key_of(keys, item) {
                items.entry(key).or_insert(item);
            }
        }
        Keyed { keys, items }
    }

    pub(super) fn find(&self, item: &'v Value) -> Option<&'v Value> {
        self.items.get(&key_of(self.keys, item)?).copied()
    }
}

/// The values of the key properties of an item; `None` if one is absent or no scalar.
fn key_of<'v>(keys: &[SmolStr], item: &'v Value) -> Option<Vec<&'v Value>> {
    let item: &Map = item.as_object()?;
    keys.iter()
        .map(|key| item.get(key).filter(|value| !value.is_object() && !value.is_array() && !value.is_null()))
        .collect()
}
