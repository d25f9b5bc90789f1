//! Requested capacities, and the amounts that they consume of shared devices.
//!
//! Owns the rounding by a device's policy: to the default, to the next valid value, or up to a step of a range.

use std::collections::BTreeMap;

use orch_schema::quantity::{self, Quantity};

use super::slice::{Capacity, Device};
use crate::api::resource;
use crate::api::resource::v1::{CapacityRequestPolicy, CapacityRequestPolicyRange};

/// Amounts by name of the capacity with its domain.
pub(super) type Consumed = BTreeMap<String, Amount>;

/// An amount, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) value: Quantity,
    pub(super) text: String,
}

impl Amount {
    fn of_text(text: &str) -> Amount {
        Amount { value: Quantity::parse(text).unwrap_or_default(), text: text.to_owned() }
    }

    fn of_value(value: Quantity) -> Amount {
        let text = value.to_string();
        Amount { value, text: quantity::canonical(&text).unwrap_or(text) }
    }
}

/// The capacities that a request for `wanted` consumes of `device`; `None` if the device lacks one, or cannot give it by its
/// policy.
pub(super) fn consumption(device: &Device, wanted: &BTreeMap<String, String>) -> Option<Consumed> {
    let mut by_name = BTreeMap::new();
    for (name, text) in wanted {
        let name = super::slice::full_name(&device.id.pool.driver, name);
        if !device.capacity.contains_key(&name) {
            return None;
        }
        by_name.insert(name, text.as_str());
    }
    let consumed = device.capacity.iter().map(|(name, capacity)| {
        let amount = rounded(by_name.get(name).copied(), capacity);
        let is_valid = !amount.value.is_negative() && !violates(amount.value, capacity.policy.as_ref());
        is_valid.then(|| (name.clone(), amount))
    });
    consumed.collect()
}

/// Whether the device has that much left: `used` are the amounts that others consume already, by the same names.
pub(super) fn has_room(device: &Device, consumed: &Consumed, used: impl Fn(&str) -> Quantity) -> bool {
    consumed.iter().all(|(name, amount)| {
        device.capacity.get(name).is_some_and(|capacity| used(name).plus(amount.value) <= capacity.value)
    })
}

/// The consumed capacities of a result, by the names that the slice uses.
pub(super) fn written(device: &Device, consumed: &Consumed) -> BTreeMap<String, resource::Quantity> {
    let named = consumed.iter().filter_map(|(name, amount)| {
        let name = device.capacity.get(name)?.name.clone();
        Some((name, resource::Quantity { string: amount.text.clone() }))
    });
    named.collect()
}

fn rounded(wanted: Option<&str>, capacity: &Capacity) -> Amount {
    let policy = capacity.policy.as_ref();
    let Some(wanted) = wanted else {
        let default = policy.and_then(|policy| policy.default.as_ref()).map(|one| one.string.as_str());
        return Amount::of_text(default.unwrap_or(&capacity.text));
    };
    let wanted = Amount::of_text(wanted);
    let Some(policy) = policy else { return wanted };
    if let Some(range) = &policy.valid_range {
        return rounded_in(wanted, range);
    }
    let values = policy.valid_values.iter().map(|one| Amount::of_text(&one.string));
    let next = values.filter(|one| one.value >= wanted.value).min_by_key(|one| one.value);
    next.unwrap_or(wanted)
}

fn rounded_in(wanted: Amount, range: &CapacityRequestPolicyRange) -> Amount {
    let Some(min) = range.min.as_ref().map(|min| Amount::of_text(&min.string)) else { return wanted };
    if wanted.value < min.value {
        return min;
    }
    let Some(step) = range.step.as_ref().and_then(|step| Quantity::parse(&step.string)) else {
        return wanted;
    };
    let up = wanted.value.rounded_up_from(min.value, step);
    if up == wanted.value { wanted } else { Amount::of_value(up) }
}

fn violates(value: Quantity, policy: Option<&CapacityRequestPolicy>) -> bool {
    let Some(policy) = policy else { return false };
    let of = |quantity: &resource::Quantity| Quantity::parse(&quantity.string).unwrap_or_default();
    if let Some(range) = &policy.valid_range {
        let above = range.max.as_ref().is_some_and(|max| value > of(max));
        let below = range.min.as_ref().is_some_and(|min| value < of(min));
        return above || below;
    }
    !policy.valid_values.is_empty() && policy.valid_values.iter().all(|valid| of(valid) != value)
}
