//! Shuffle sharding: the queues that a flow may use.
//!
//! Owns the choice of a few queues (a hand) among all (the deck) by a flow's hash. Two flows rarely have the same hand, so
//! that a flow that fills its queues leaves others a free one.

use smallvec::SmallVec;

/// Cards that a hand holds without allocation: more than any suggested level deals.
const HAND_INLINE: usize = 16;

/// `hand_size` different queues below `deck_size`, chosen by `hash`. All hands are about equally likely, as long as the
/// hash has more bits than the choice, which validation of a level ensures.
pub(super) fn deal(mut hash: u64, deck_size: u32, hand_size: u32) -> SmallVec<[u32; HAND_INLINE]> {
    let mut hand = SmallVec::new();
    // In ascending order, to skip cards that are dealt already.
    let mut dealt: SmallVec<[u32; HAND_INLINE]> = SmallVec::new();
    for left in (1..=deck_size).rev().take(usize::try_from(hand_size).unwrap_or(usize::MAX)) {
        let (rest, mut card) = (hash / u64::from(left), u32::try_from(hash % u64::from(left)).unwrap_or(0));
        hash = rest;
        let mut at = 0;
        while at < dealt.len() && card >= dealt[at] {
            card += 1;
            at += 1;
        }
        dealt.insert(at, card);
        hand.push(card);
    }
    hand
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_hand_has_different_cards_of_the_deck() {
        for (deck, hand) in [(1, 1), (2, 2), (64, 6), (128, 6), (7, 7), (10_000_000, 2)] {
            for hash in (0..2000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
                let cards = deal(hash, deck, hand);
                assert!(cards.iter().all(|card| *card < deck), "{cards:?}");
                assert_eq!(cards.iter().collect::<BTreeSet<_>>().len(), cards.len(), "{cards:?}");
                assert_eq!(u32::try_from(cards.len()).unwrap(), hand);
            }
        }
    }

    #[test]
    fn every_hand_is_dealt_as_often() {
        let mut counts = std::collections::BTreeMap::new();
        for hash in 0..20 * 1000 {
            *counts.entry(deal(hash, 5, 2).to_vec()).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 20, "ordered hands of two of five");
        assert!(counts.values().all(|count| *count == 1000), "{counts:?}");
    }
}
