//! Drawing free values from a range, in an order that differs from service to service.

use std::ops::RangeInclusive;

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

/// Values looked at before a range counts as full: all of the usual ranges. It bounds the time of one request.
const LOOKS_MAX: usize = 1 << 16;

/// Numbers that two nodes, or two services, are unlikely to draw alike.
pub(super) struct Dice(u64);

impl Dice {
    /// The dice of a write: the uid is random, and the version differs with every change.
    pub(super) fn of(service: &Value) -> Dice {
        let metadata = service.at("metadata");
        let uid = metadata.text("uid").parse::<uuid::Uuid>().unwrap_or_default().as_u64_pair();
        let version = metadata.text("resourceVersion").parse::<u64>().unwrap_or(0);
        Dice(uid.0 ^ uid.1.rotate_left(32) ^ version)
    }

    /// The next number: splitmix64.
    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// A range of values whose first `reserved` are given out last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Band {
    pub(super) first: u128,
    pub(super) last: u128,
    pub(super) reserved: u128,
}

impl Band {
    /// A free value, from the upper part if it has one.
    pub(super) fn draw(self, dice: &mut Dice, is_free: impl Fn(u128) -> bool) -> Option<u128> {
        let split = self.first.saturating_add(self.reserved);
        let upper = around(split..=self.last, dice.roll());
        let lower = around(self.first..=split.saturating_sub(1).min(self.last), dice.roll());
        upper.chain(lower).take(LOOKS_MAX).find(|value| is_free(*value))
    }
}

/// All values of `range` from a random one on, and then those before it.
fn around(range: RangeInclusive<u128>, random: u64) -> impl Iterator<Item = u128> {
    let (first, last) = range.into_inner();
    let size = last.checked_sub(first).map_or(0, |distance| distance.saturating_add(1));
    let start = first.saturating_add(u128::from(random).checked_rem(size).unwrap_or(0));
    let is_empty = size == 0;
    (start..=last).chain(first..start).skip_while(move |_| is_empty)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_value_is_drawn_once_and_the_reserved_ones_last() {
        for seed in 0..50 {
            let mut dice = Dice(seed);
            let band = Band { first: 10, last: 29, reserved: 4 };
            let mut taken = BTreeSet::new();
            let mut order = Vec::new();
            while let Some(value) = band.draw(&mut dice, |value| !taken.contains(&value)) {
                taken.insert(value);
                order.push(value);
            }
            assert_eq!(taken.into_iter().collect::<Vec<_>>(), (10..=29).collect::<Vec<_>>());
            assert!(order[..16].iter().all(|value| *value >= 14), "{order:?}");
        }
    }

    #[test]
    fn ranges_of_one_value_and_of_none() {
        let mut dice = Dice(7);
        let draw =
            |first, last, reserved, dice: &mut Dice| Band { first, last, reserved }.draw(dice, |_| true);
        assert_eq!(draw(5, 5, 0, &mut dice), Some(5));
        assert_eq!(draw(5, 5, 9, &mut dice), Some(5), "all of it is reserved");
        assert_eq!(draw(6, 5, 0, &mut dice), None);
        assert!(draw(0, u128::MAX, 0, &mut dice).is_some());
    }
}
