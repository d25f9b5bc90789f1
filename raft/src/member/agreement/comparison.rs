//! The comparison of one round: which members have a wrong state, by the digests that they report.
//!
//! Owns the rule: at one revision, the digest of a majority of the voters is right. Where members differ and no digest
//! has a majority, no member is called wrong. The digest of the resources' newest changes counts only where every member
//! reports it and a majority agrees on it: members that once loaded a state of the format without these changes hold
//! estimates. Pure functions over the reports.

use std::collections::{BTreeMap, BTreeSet};

use crate::key::Revision;
use crate::member::machine::Checkpoint;

/// Digests at one revision: of objects and membership, and of the resources' newest changes; `None` where not reported.
type Digests = (u128, Option<u128>);

/// Digests by revision, as one member reports them.
pub(super) type Report = BTreeMap<Revision, Digests>;

/// Member ids by the digests that they report at one revision.
type Groups = BTreeMap<Digests, BTreeSet<u64>>;

/// The result of one round of reports, as one member sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Too few members reported a digest of one revision.
    #[default]
    Unknown,
    /// A majority of the voters, and every other member that reported, agrees at this revision; at no other reported
    /// revision do members differ.
    Agreed { revision: Revision },
    /// This member and a majority agree; these members differ from them.
    OthersDiffer { revision: Revision, members: BTreeSet<u64> },
    /// A majority agrees, and this member differs from it.
    OwnDiffers { revision: Revision, majority: BTreeSet<u64> },
    /// Members differ, and none of the digests has a majority: which one is wrong cannot be known. `groups`: the members by
    /// digest.
    Split { revision: Revision, groups: Vec<BTreeSet<u64>> },
}

pub(super) fn report(checkpoints: impl IntoIterator<Item = Checkpoint>) -> Report {
    let digests = |checkpoint: Checkpoint| (checkpoint.revision, (checkpoint.digest, checkpoint.changes));
    checkpoints.into_iter().map(digests).collect()
}

/// The members by their digests at `revision`; the digest of changes is left out where it does not count.
fn groups(
    reports: &BTreeMap<u64, Report>,
    revision: Revision,
    is_majority: impl Fn(&BTreeSet<u64>) -> bool,
) -> Groups {
    let mut exact = Groups::new();
    for (member, report) in reports {
        if let Some(digests) = report.get(&revision) {
            exact.entry(*digests).or_default().insert(*member);
        }
    }
    if exact.keys().all(|(_, changes)| changes.is_some()) && exact.values().any(is_majority) {
        return exact;
    }
    let mut of_states = Groups::new();
    for ((state, _), members) in exact {
        of_states.entry((state, None)).or_default().extend(members);
    }
    of_states
}

/// Judges at the newest revision at which members differ, else at the newest that a majority reported. Only revisions of
/// which `own` has a digest count. `voters` are the sets whose majorities decide: two in a joint membership.
pub(super) fn judge(own: u64, voters: &[BTreeSet<u64>], reports: &BTreeMap<u64, Report>) -> Comparison {
    let Some(own_report) = reports.get(&own) else { return Comparison::Unknown };
    // Before the first membership there are no voters, and no majority.
    let is_majority = |members: &BTreeSet<u64>| {
        !voters.is_empty() && voters.iter().all(|set| 2 * set.intersection(members).count() > set.len())
    };
    let mut agreed = Comparison::Unknown;
    for &revision in own_report.keys().rev() {
        let groups = groups(reports, revision, is_majority);
        let everyone: BTreeSet<u64> = groups.values().flatten().copied().collect();
        match groups.iter().find(|(_, members)| is_majority(members)) {
            Some(_) if groups.len() == 1 => {
                agreed = match agreed {
                    Comparison::Unknown => Comparison::Agreed { revision },
                    newer => newer,
                };
            }
            Some((_, members)) if members.contains(&own) => {
                let members = everyone.difference(members).copied().collect();
                return Comparison::OthersDiffer { revision, members };
            }
            Some((_, majority)) => return Comparison::OwnDiffers { revision, majority: majority.clone() },
            None if groups.len() > 1 => {
                return Comparison::Split { revision, groups: groups.into_values().collect() };
            }
            None => {}
        }
    }
    agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn voters(ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().collect()
    }

    /// Reports from `(member, [(revision, digest), ...])`, all with the same digest of changes.
    fn reports(of: &[(u64, &[(u64, u128)])]) -> BTreeMap<u64, Report> {
        let report = |digests: &[(u64, u128)]| -> Report {
            digests.iter().map(|(at, digest)| (Revision(*at), (*digest, Some(1)))).collect()
        };
        of.iter().map(|(member, digests)| (*member, report(digests))).collect()
    }

    fn split(revision: Revision, groups: &[&[u64]]) -> Comparison {
        Comparison::Split { revision, groups: groups.iter().map(|ids| voters(ids)).collect() }
    }

    #[test]
    fn members_that_agree_agree_at_the_newest_revision_of_a_majority() {
        let all =
            reports(&[(1, &[(256, 5), (512, 6), (600, 7)]), (2, &[(256, 5), (512, 6)]), (3, &[(256, 5)])]);
        let comparison = judge(1, &[voters(&[1, 2, 3])], &all);
        assert_eq!(comparison, Comparison::Agreed { revision: Revision(512) });
        assert_eq!(judge(1, &[voters(&[1])], &all), Comparison::Agreed { revision: Revision(600) });
        assert_eq!(judge(9, &[voters(&[1, 2, 3])], &all), Comparison::Unknown);
        assert_eq!(judge(1, &[], &reports(&[(1, &[(256, 5)])])), Comparison::Unknown);
        assert_eq!(judge(3, &[voters(&[1, 2, 3])], &reports(&[(3, &[(256, 5)])])), Comparison::Unknown);
    }

    #[test]
    fn a_member_of_three_that_differs_is_found() {
        let all = reports(&[(1, &[(256, 5)]), (2, &[(256, 8)]), (3, &[(256, 5)])]);
        let (set, revision) = ([voters(&[1, 2, 3])], Revision(256));
        assert_eq!(judge(1, &set, &all), Comparison::OthersDiffer { revision, members: voters(&[2]) });
        assert_eq!(judge(2, &set, &all), Comparison::OwnDiffers { revision, majority: voters(&[1, 3]) });
        let joint = [voters(&[1, 2, 3]), voters(&[2, 3, 4])];
        assert_eq!(judge(2, &joint, &all), split(revision, &[&[1, 3], &[2]]));
    }

    #[test]
    fn a_missed_removal_is_wrong_where_a_majority_agrees_on_it() {
        let (set, revision) = ([voters(&[1, 2, 3])], Revision(256));
        let judged = |own, changes: [Option<u128>; 3]| {
            let members = [1, 2, 3].into_iter().zip(changes);
            let reports = members.map(|(member, changes)| (member, Report::from([(revision, (5, changes))])));
            judge(own, &set, &reports.collect())
        };
        let differs = Comparison::OwnDiffers { revision, majority: voters(&[1, 3]) };
        assert_eq!(judged(2, [Some(7), Some(8), Some(7)]), differs);
        assert_eq!(
            judged(3, [Some(7), Some(8), Some(7)]),
            Comparison::OthersDiffer { revision, members: voters(&[2]) }
        );
        let agreed = Comparison::Agreed { revision };
        assert_eq!(judged(1, [Some(7), Some(8), Some(9)]), agreed, "estimates");
        assert_eq!(judged(1, [Some(7), None, Some(7)]), agreed, "an older program does not tell");
    }

    #[test]
    fn a_learner_counts_for_no_majority() {
        let all = reports(&[(1, &[(256, 5)]), (2, &[(256, 8)]), (3, &[(256, 5)]), (4, &[(256, 5)])]);
        let (set, revision) = ([voters(&[1, 2])], Revision(256));
        assert_eq!(judge(4, &set, &all), split(revision, &[&[1, 3, 4], &[2]]));
        let set = [voters(&[1, 3, 5])];
        assert_eq!(judge(2, &set, &all), Comparison::OwnDiffers { revision, majority: voters(&[1, 3, 4]) });
    }

    #[test]
    fn without_a_majority_nobody_is_called_wrong() {
        let (set, revision) = ([voters(&[1, 2, 3])], Revision(256));
        for reports in [
            reports(&[(1, &[(256, 5)]), (2, &[(256, 8)])]),
            reports(&[(1, &[(256, 5)]), (2, &[(256, 8)]), (3, &[(256, 9)])]),
        ] {
            let groups = reports.keys().map(|member| voters(&[*member])).collect();
            let split = Comparison::Split { revision, groups };
            for own in [1, 2] {
                assert_eq!(judge(own, &set, &reports), split);
            }
        }
    }

    #[test]
    fn a_difference_at_an_older_revision_is_seen_behind_agreement_at_a_newer_one() {
        let all = reports(&[(1, &[(256, 5), (512, 6)]), (2, &[(256, 8)]), (3, &[(256, 5), (512, 6)])]);
        let members = voters(&[2]);
        let comparison = Comparison::OthersDiffer { revision: Revision(256), members };
        assert_eq!(judge(1, &[voters(&[1, 2, 3])], &all), comparison);
    }
}
