//! The rules of one node beside its type, in little memory: most nodes that have any have one or two.
//!
//! Owns their form, and whether two nodes have the same. Checking is in [`super::check`].

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use orch_schema::value::{SmolStr, Value};

use super::constraint::Node;

/// The rules of one node.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) required: Box<[SmolStr]>,
    pub(super) bounds: Box<[Bound]>,
    pub(super) rest: Option<Box<Rest>>,
    pub(super) is_maximum_exclusive: bool,
    pub(super) is_minimum_exclusive: bool,
    pub(super) has_unique_items: bool,
    /// Members that are not declared are refused.
    pub(super) is_closed: bool,
}

/// A bound. Those of values are numbers as the reference holds them, which reads them as floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    LengthMax(i64),
    LengthMin(i64),
    ItemsMax(i64),
    ItemsMin(i64),
    MembersMax(i64),
    MembersMin(i64),
    Maximum(f64),
    Minimum(f64),
    MultipleOf(f64),
}

/// Rules that few nodes have.
#[derive(Debug, Default)]
pub(super) struct Rest {
    pub(super) pattern: SmolStr,
    /// As the schema spells it.
    pub(super) format_name: SmolStr,
    pub(super) list_keys: Box<[SmolStr]>,
    pub(super) allowed: Option<Arc<[Value]>>,
    pub(super) junctors: Option<Box<Junctors>>,
}

/// Schemas that a value must match besides.
#[derive(Debug, Default)]
pub(super) struct Junctors {
    pub(super) all_of: Box<[Node]>,
    pub(super) any_of: Box<[Node]>,
    pub(super) one_of: Box<[Node]>,
    pub(super) not: Option<Node>,
}

impl Rest {
    fn is_empty(&self) -> bool {
        let Rest { pattern, format_name, list_keys, allowed, junctors } = self;
        let has_texts = !(pattern.is_empty() && format_name.is_empty() && list_keys.is_empty());
        !has_texts && allowed.is_none() && junctors.is_none()
    }
}

/// The value of the first bound of one kind.
macro_rules! bound {
    ($($(#[$doc:meta])* $name:ident: $kind:ident -> $of:ty,)*) => {$(
        $(#[$doc])*
        pub(super) fn $name(&self) -> Option<$of> {
            // few: nine bounds.
            self.bounds.iter().find_map(|bound| match bound {
                Bound::$kind(value) => Some(*value),
                _ => None,
            })
        }
    )*};
}

impl Rules {
    /// These rules with bounds and what else there is. `None`: there is no rule at all.
    pub(super) fn with(self, bounds: impl IntoIterator<Item = Bound>, rest: Rest) -> Option<Box<Rules>> {
        let bounds: Box<[Bound]> = bounds.into_iter().collect();
        let rest = (!rest.is_empty()).then(|| Box::new(rest));
        let rules = Rules { bounds, rest, ..self };
        let has_lists = !(rules.required.is_empty() && rules.bounds.is_empty());
        // Exclusive bounds without a bound say nothing.
        let has_any = has_lists || rules.rest.is_some() || rules.has_unique_items || rules.is_closed;
        has_any.then(|| Box::new(rules))
    }

    bound! {
        length_max: LengthMax -> i64,
        length_min: LengthMin -> i64,
        items_max: ItemsMax -> i64,
        items_min: ItemsMin -> i64,
        members_max: MembersMax -> i64,
        members_min: MembersMin -> i64,
        maximum: Maximum -> f64,
        minimum: Minimum -> f64,
        multiple_of: MultipleOf -> f64,
    }

    /// The pattern; empty where there is none.
    pub(super) fn pattern(&self) -> &SmolStr {
        static NONE: SmolStr = SmolStr::new_static("");
        self.rest.as_ref().map_or(&NONE, |rest| &rest.pattern)
    }

    /// The format as the schema spells it, where it is one of texts.
    pub(super) fn format_name(&self) -> &str {
        self.rest.as_ref().map(|rest| rest.format_name.as_str()).unwrap_or_default()
    }

    /// The fields by which items of a list are told apart.
    pub(super) fn list_keys(&self) -> &[SmolStr] {
        self.rest.as_ref().map(|rest| &*rest.list_keys).unwrap_or_default()
    }

    /// The values that are allowed, where they are listed.
    pub(super) fn allowed(&self) -> Option<&Arc<[Value]>> {
        self.rest.as_ref()?.allowed.as_ref()
    }

    pub(super) fn junctors(&self) -> Option<&Junctors> {
        self.rest.as_ref()?.junctors.as_deref()
    }

    /// Whether `other` has the same rules. Those with further schemas are not compared.
    pub(super) fn is_alike(&self, other: &Rules) -> bool {
        let flags = |of: &Rules| {
            [of.is_maximum_exclusive, of.is_minimum_exclusive, of.has_unique_items, of.is_closed]
        };
        let texts = |of: &Rules| (of.pattern().clone(), of.format_name().to_owned());
        self.junctors().is_none()
            && other.junctors().is_none()
            && flags(self) == flags(other)
            && (&self.required, &self.bounds) == (&other.required, &other.bounds)
            && texts(self) == texts(other)
            && self.list_keys() == other.list_keys()
            && self.allowed() == other.allowed()
    }

    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        let texts = |texts: &[SmolStr]| size_of_val(texts);
        let rest = self.rest.as_ref().map_or(0, |rest| {
            let allowed = rest.allowed.as_ref().map_or(0, |allowed| size_of_val(&**allowed));
            size_of::<Rest>() + texts(&rest.list_keys) + allowed
        });
        size_of::<Self>() + texts(&self.required) + size_of_val(&*self.bounds) + rest
    }
}

impl Hash for Bound {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Bound::LengthMax(value)
            | Bound::LengthMin(value)
            | Bound::ItemsMax(value)
            | Bound::ItemsMin(value)
            | Bound::MembersMax(value)
            | Bound::MembersMin(value) => value.hash(state),
            Bound::Maximum(value) | Bound::Minimum(value) | Bound::MultipleOf(value) => {
                value.to_bits().hash(state);
            }
        }
    }
}

/// Of what is compared, all but the allowed values.
impl Hash for Rules {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.required.hash(state);
        self.bounds.hash(state);
        self.pattern().hash(state);
        self.list_keys().hash(state);
    }
}
