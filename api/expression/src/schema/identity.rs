//! Lists whose items are told apart by themselves or by their keys.
//!
//! Owns their equality in any order and their sums. Items are looked up by the scalars that tell them apart, so that both
//! take about a step for each item.

use std::collections::HashMap;

use super::{ListShape, Topology};
use crate::error::{EvaluationError, Failure};
use crate::evaluate::Run;
use crate::value::{Equality, List, Map, TooLong, Val, equal};

/// Bytes of texts that are looked up in the time of one step.
const BYTES_PER_STEP: usize = 16;

/// The identity of an item: the item itself in a set, the values of its keys in a list with keys.
type Identity<'v> = Vec<Option<Val<'v>>>;

/// A tag that equal values share; of a scalar, its value.
#[derive(PartialEq, Eq, Hash)]
enum Tag<'t> {
    Absent,
    Bool(bool),
    /// The bits of the nearest double.
    Number(u64),
    Text(&'t str),
    Bytes(&'t [u8]),
    Nanoseconds(i128),
    Other,
}

impl<'t> Tag<'t> {
    #[allow(clippy::cast_precision_loss)] // equal numbers have one nearest double
    fn of(value: Option<&'t Val<'_>>) -> Tag<'t> {
        // Zero has two signs.
        let number = |double: f64| Tag::Number((double + 0.0).to_bits());
        match value {
            None => Tag::Absent,
            Some(Val::Bool(truth)) => Tag::Bool(*truth),
            Some(Val::Int(integer)) => number(*integer as f64),
            Some(Val::Uint(integer)) => number(*integer as f64),
            Some(Val::Double(double)) => number(*double),
            Some(Val::Text(text)) => Tag::Text(text),
            Some(Val::Bytes(bytes)) => Tag::Bytes(bytes),
            Some(Val::Duration(nanoseconds)) => Tag::Nanoseconds(i128::from(*nanoseconds)),
            Some(Val::Timestamp(time)) => Tag::Nanoseconds(time.unix_timestamp_nanos()),
            Some(_) => Tag::Other,
        }
    }

    fn steps(&self) -> u64 {
        let bytes = match self {
            Tag::Text(text) => text.len(),
            Tag::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        1 + u64::try_from(bytes / BYTES_PER_STEP).unwrap_or(u64::MAX)
    }
}

/// Places of items, by what tells them apart.
#[derive(Default)]
struct Places<'i, 'v>(HashMap<Vec<Tag<'i>>, Vec<(&'i Identity<'v>, usize)>>);

impl<'i, 'v> Places<'i, 'v> {
    fn of(identities: &'i [Identity<'v>], steps: &mut dyn Equality) -> Result<Places<'i, 'v>, TooLong> {
        let mut places = Places::default();
        for (place, identity) in identities.iter().enumerate() {
            places.add(identity, place, steps)?;
        }
        Ok(places)
    }

    fn add(
        &mut self,
        identity: &'i Identity<'v>,
        place: usize,
        steps: &mut dyn Equality,
    ) -> Result<(), TooLong> {
        self.0.entry(tags(identity, steps)?).or_default().push((identity, place));
        Ok(())
    }

    /// The first place with this identity.
    fn find(&self, identity: &Identity<'v>, steps: &mut dyn Equality) -> Result<Option<usize>, TooLong> {
        let alike = self.0.get(&tags(identity, steps)?);
        for (known, place) in alike.into_iter().flatten() {
            if is_same(known, identity, steps)? {
                return Ok(Some(*place));
            }
        }
        Ok(None)
    }
}

fn tags<'t>(identity: &'t Identity<'_>, steps: &mut dyn Equality) -> Result<Vec<Tag<'t>>, TooLong> {
    let tags: Vec<Tag<'t>> = identity.iter().map(|value| Tag::of(value.as_ref())).collect();
    steps.take(tags.iter().map(Tag::steps).sum())?;
    Ok(tags)
}

fn is_same<'v>(one: &Identity<'v>, other: &Identity<'v>, steps: &mut dyn Equality) -> Result<bool, TooLong> {
    for pair in one.iter().zip(other) {
        steps.take(1)?;
        let is_equal = match pair {
            (Some(one), Some(other)) => equal(one, other, steps)?,
            (one, other) => one.is_none() && other.is_none(),
        };
        if !is_equal {
            return Ok(false);
        }
    }
    Ok(true)
}

impl ListShape {
    /// Whether items are told apart by more than their place.
    pub(crate) fn has_identity(&self) -> bool {
        self.topology != Topology::Atomic
    }

    /// Whether two lists are equal in any order: the first has this declaration, and items with an identity.
    pub(crate) fn equal<'v>(
        &self,
        one: &List<'v>,
        other: &List<'v>,
        steps: &mut dyn Equality,
    ) -> Result<bool, TooLong> {
        if one.len() != other.len() {
            return Ok(false);
        }
        let others: Vec<Val<'v>> = other.iter().collect();
        let identities = self.identities(&others);
        let places = Places::of(&identities, steps)?;
        for (at, item) in one.iter().enumerate() {
            // Most sets are in one order, and what an item of many parts is told apart by is all of it.
            if self.topology == Topology::Set && equal(&item, &others[at], steps)? {
                continue;
            }
            let found = places.find(&self.identity(&item), steps)?;
            let Some(found) = found.map(|place| &others[place]) else { return Ok(false) };
            if self.topology != Topology::Set && !equal(&item, found, steps)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The sum of two lists, the first of which has this declaration and items with an identity: those of the first, in the places of which
    /// stand those of the second with their keys, and behind them those that are new.
    pub(crate) fn joined<'v>(
        &self,
        run: &mut Run<'v>,
        one: &List<'v>,
        other: &List<'v>,
    ) -> Result<Vec<Val<'v>>, Failure> {
        let others: Vec<Val<'v>> = other.iter().collect();
        self.join(run, one.iter().collect(), others).map_err(|TooLong| Box::new(EvaluationError::Cost))
    }

    fn join<'v>(
        &self,
        steps: &mut dyn Equality,
        mut values: Vec<Val<'v>>,
        others: Vec<Val<'v>>,
    ) -> Result<Vec<Val<'v>>, TooLong> {
        let (known, new) = (self.identities(&values), self.identities(&others));
        let mut places = Places::of(&known, steps)?;
        for (value, identity) in others.into_iter().zip(&new) {
            match places.find(identity, steps)? {
                Some(place) if self.topology != Topology::Set => values[place] = value,
                Some(_) => {}
                None => {
                    // Two new items with the same keys are both added, as in the reference.
                    if self.topology == Topology::Set {
                        places.add(identity, values.len(), steps)?;
                    }
                    values.push(value);
                }
            }
        }
        Ok(values)
    }

    fn identities<'v>(&self, items: &[Val<'v>]) -> Vec<Identity<'v>> {
        items.iter().map(|item| self.identity(item)).collect()
    }

    fn identity<'v>(&self, item: &Val<'v>) -> Identity<'v> {
        match &self.topology {
            Topology::Keyed(keys) => keys.iter().map(|key| key_of(item, key)).collect(),
            _ => vec![Some(item.clone())],
        }
    }
}

/// The value of a key of an item, as the document has it: the reference looks for the escaped name there.
fn key_of<'v>(item: &Val<'v>, key: &str) -> Option<Val<'v>> {
    match item {
        Val::Map(Map::Shaped(_, map) | Map::Declared(_, map) | Map::Json(map)) => map.get(key).map(Val::json),
        Val::Map(map) => map.member(key),
        _ => None,
    }
}
