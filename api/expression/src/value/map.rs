//! Maps: objects of documents, objects with members of their own, and made ones.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};

use super::{Text, Val};
use crate::schema::{Declared, ObjectShape};

/// An object whose members are found by its owner, such as a device.
#[expect(clippy::len_without_is_empty, reason = "the language has `size` only")]
pub trait Members: fmt::Debug + Send + Sync {
    /// The member `name`.
    fn find<'v>(&'v self, name: &str) -> Option<Val<'v>>;
    /// Whether there is a member `name`, where [`Members::find`] may give a value for one that is not.
    fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }
    /// Names of the members in order.
    fn name(&self, at: usize) -> Option<&str>;
    /// Number of members.
    fn len(&self) -> usize;
}

/// A map.
#[derive(Clone, Debug)]
pub enum Map<'v> {
    /// An object of a document.
    Json(&'v orch_schema::value::Map),
    /// A map of a document, with the declaration of its values.
    Declared(&'v Declared, &'v orch_schema::value::Map),
    /// An object of a document, with its declaration.
    Shaped(&'v ObjectShape, &'v orch_schema::value::Map),
    /// An object that finds its members.
    Object(&'v dyn Members),
    /// Made by the evaluation.
    Made(Arc<MadeMap<'v>>),
}

impl<'v> Map<'v> {
    /// Number of entries.
    #[expect(clippy::len_without_is_empty, reason = "the language has `size` only")]
    pub fn len(&self) -> usize {
        match self {
            Map::Json(map) | Map::Declared(_, map) | Map::Shaped(_, map) => map.len(),
            Map::Object(object) => object.len(),
            Map::Made(map) => map.entries.len(),
        }
    }

    /// The value behind the text `name`.
    pub fn member(&self, name: &str) -> Option<Val<'v>> {
        match self {
            Map::Json(map) => map.get(name).map(Val::json),
            Map::Declared(of, map) => map.get(name).map(|value| of.read(value)),
            Map::Shaped(shape, map) => {
                let field = shape.field(name)?;
                // A property that is null is absent.
                let value = map.get(&field.property).filter(|value| !value.is_null())?;
                Some(field.declared.read(value))
            }
            Map::Object(object) => object.find(name),
            Map::Made(map) => map.member(name),
        }
    }

    /// The value behind `key`; `None` as well where no entry can have such a key.
    pub fn find(&self, key: &Val<'v>) -> Option<Val<'v>> {
        match (self, key) {
            (_, Val::Text(name)) => self.member(name),
            (Map::Made(map), other) => map.find(&Key::of(other)?),
            _ => None,
        }
    }

    /// Whether there is an entry with the text `name`.
    pub fn has_member(&self, name: &str) -> bool {
        match self {
            Map::Json(map) | Map::Declared(_, map) => map.contains_key(name),
            Map::Object(object) => object.has(name),
            Map::Shaped(..) | Map::Made(_) => self.member(name).is_some(),
        }
    }

    /// Whether there is an entry with `key`.
    pub fn has(&self, key: &Val<'v>) -> bool {
        match (self, key) {
            (Map::Made(_), _) => self.find(key).is_some(),
            (_, Val::Text(name)) => self.has_member(name),
            _ => false,
        }
    }

    /// The entries in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Val<'v>, Val<'v>)> + '_> {
        match self {
            Map::Json(map) => {
                Box::new(map.iter().map(|(name, value)| (Val::Text(Text::Borrowed(name)), Val::json(value))))
            }
            Map::Declared(of, map) => {
                Box::new(map.iter().map(|(name, value)| (Val::Text(Text::Borrowed(name)), of.read(value))))
            }
            Map::Shaped(shape, map) => Box::new(shape.fields.iter().filter_map(|field| {
                let value = map.get(&field.property).filter(|value| !value.is_null())?;
                Some((Val::Text(Text::Borrowed(&field.name)), field.declared.read(value)))
            })),
            Map::Object(object) => Box::new((0..object.len()).filter_map(|at| {
                let name = object.name(at)?;
                Some((Val::Text(Text::Borrowed(name)), object.find(name)?))
            })),
            Map::Made(map) => Box::new(map.entries.iter().map(|(key, value)| (key.value(), value.clone()))),
        }
    }
}

/// A key of a made map.
#[derive(Clone, Debug)]
pub enum Key<'v> {
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `uint`.
    Uint(u64),
    /// `string`.
    Text(Text<'v>),
}

impl<'v> Key<'v> {
    /// The key that `value` is or equals; `None` of one that is equal to no key.
    pub fn of(value: &Val<'v>) -> Option<Key<'v>> {
        match value {
            Val::Bool(truth) => Some(Key::Bool(*truth)),
            Val::Int(number) => Some(Key::Int(*number)),
            Val::Uint(number) => Some(Key::Uint(*number)),
            Val::Text(text) => Some(Key::Text(text.clone())),
            Val::Double(number) => whole(*number).map(Key::Int),
            _ => None,
        }
    }

    /// The key as a value.
    pub fn value(&self) -> Val<'v> {
        match self {
            Key::Bool(truth) => Val::Bool(*truth),
            Key::Int(number) => Val::Int(*number),
            Key::Uint(number) => Val::Uint(*number),
            Key::Text(text) => Val::Text(text.clone()),
        }
    }

    /// Numbers of both types are one range.
    fn number(&self) -> Option<i128> {
        match self {
            Key::Int(number) => Some(i128::from(*number)),
            Key::Uint(number) => Some(i128::from(*number)),
            Key::Bool(_) | Key::Text(_) => None,
        }
    }
}

/// The integer that `number` equals.
pub(crate) fn whole(number: f64) -> Option<i64> {
    // 2^63 is the first double beyond.
    let fits = number.trunc() == number
        && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    #[expect(clippy::cast_possible_truncation, reason = "the range was tested")]
    fits.then_some(number as i64)
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Key::Bool(one), Key::Bool(other)) => one == other,
            (Key::Text(one), Key::Text(other)) => **one == **other,
            (one, other) => one.number().is_some() && one.number() == other.number(),
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Key::Bool(truth) => truth.hash(state),
            Key::Text(text) => (**text).hash(state),
            Key::Int(_) | Key::Uint(_) => self.number().hash(state),
        }
    }
}

/// A text that is looked for among keys.
struct Name<'n>(&'n str);

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Equivalent<Key<'_>> for Name<'_> {
    fn equivalent(&self, key: &Key<'_>) -> bool {
        matches!(key, Key::Text(text) if **text == *self.0)
    }
}

/// Entries of a made map, in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct MadeMap<'v> {
    /// The name of its type, of an object.
    object: Option<Arc<str>>,
    entries: Vec<(Key<'v>, Val<'v>)>,
    /// Place of each entry.
    places: HashMap<Key<'v>, usize, std::hash::RandomState>,
}

impl<'v> MadeMap<'v> {
    /// An empty map, or an empty object of the type `object`.
    pub(crate) fn of(object: Option<Arc<str>>) -> MadeMap<'v> {
        MadeMap { object, ..MadeMap::default() }
    }

    /// The name of the type of an object.
    pub fn object(&self) -> Option<&Arc<str>> {
        self.object.as_ref()
    }

    /// Adds an entry; gives the key back if there is one.
    pub fn insert(&mut self, key: Key<'v>, value: Val<'v>) -> Result<(), Key<'v>> {
        if self.places.contains_key(&key) {
            return Err(key);
        }
        self.places.insert(key.clone(), self.entries.len());
        self.entries.push((key, value));
        Ok(())
    }

    /// The value behind the text `name`.
    fn member(&self, name: &str) -> Option<Val<'v>> {
        self.places.get(&Name(name)).map(|at| self.entries[*at].1.clone())
    }

    /// The value behind `key`.
    pub fn find(&self, key: &Key<'v>) -> Option<Val<'v>> {
        self.places.get(key).map(|at| self.entries[*at].1.clone())
    }
}
