//! Clusters made anew, compared with the point of the earlier cluster that they were made from.
//!
//! Owns that comparison. What is read of a survivor or a snapshot must be what the ledger has at that point; the new
//! cluster's first state must be the same objects, each as if it was written at the beginning: none lost, none invented.
//! Revisions between the point's last one and the beginning are a gap of the ledger. A revision that is given out again is
//! none, and disagrees with the changes that the ledger has there.

use std::collections::BTreeMap;

use orch_raft::Revision;
use orch_raft::member::CLUSTER_RESOURCE;

use super::{Disagreement, Inner, Ledger, Model, Place};
use crate::sim::history::{Tag, Version};

/// The write that made an object, and whether it is marked: all of a version but the revision, which a new cluster replaces.
type Content = (Tag, bool);

/// Printed differences of one kind in a finding.
const SHOWN_MAX: usize = 4;

/// Objects that a new cluster must begin with.
#[derive(Debug)]
pub(super) struct Expected(BTreeMap<Place, Content>);

impl Expected {
    fn of(model: &Model) -> Self {
        Expected(contents(model))
    }
}

/// The contents of a model, but for those of the store's own, some of which tell of one cluster.
fn contents(model: &Model) -> BTreeMap<Place, Content> {
    let kept = model.iter().filter(|((resource, _), _)| **resource != *CLUSTER_RESOURCE);
    kept.map(|(place, version)| (place.clone(), (version.tag, version.marked))).collect()
}

impl Ledger {
    /// Checks `kept`, the objects read of an earlier cluster as of `point`, and expects them of the cluster that begins at
    /// `beginning`.
    ///
    /// # Errors
    /// They are not what the ledger has at that point.
    pub fn make_anew(&self, point: Revision, kept: &Model, beginning: Revision) -> Result<(), Disagreement> {
        let mut inner = self.0.lock();
        inner.check_kept(point, kept)?;
        inner.expected.insert(beginning, Expected::of(kept));
        Ok(())
    }
}

impl Inner {
    /// Checks objects read as of `point`. Entries behind the frontier were applied by no member: of those, only the
    /// survivor's log tells, and the rest must be as at the frontier.
    fn check_kept(&self, point: Revision, kept: &Model) -> Result<(), Disagreement> {
        let Some(known) = self.model_at(point.min(self.frontier)) else { return Ok(()) };
        let unknown = usize::try_from(point.0.saturating_sub(self.frontier.0)).unwrap_or(usize::MAX);
        let invented = |(place, version): &(&Place, &Version)| {
            version.revision <= self.frontier && known.get(*place) != Some(*version)
        };
        let invented = kept.iter().filter(invented).map(|(place, version)| format!("{place:?} {version:?}"));
        let lost: Vec<String> = known
            .iter()
            .filter(|(place, _)| !kept.contains_key(*place))
            .map(|(place, version)| format!("{place:?} {version:?}"))
            .collect();
        let lost = if lost.len() > unknown { lost } else { Vec::new() };
        differ(point, lost, invented.collect())
    }

    /// Compares the objects at `beginning`, where the ledger has just taken them over from a member, with those expected of
    /// a cluster that begins there.
    pub(super) fn check_beginning(&mut self, beginning: Revision) -> Result<(), Disagreement> {
        let Some(Expected(expected)) = self.expected.remove(&beginning) else { return Ok(()) };
        let shown = self.bases.get(&beginning).cloned().unwrap_or_default();
        let old = shown.iter().filter(|((resource, _), version)| {
            **resource != *CLUSTER_RESOURCE && version.revision != beginning
        });
        let mut invented: Vec<String> =
            old.map(|(place, version)| format!("{place:?} is still at {}", version.revision)).collect();
        let shown = contents(&shown);
        let only = |one: &BTreeMap<Place, Content>, other: &BTreeMap<Place, Content>| -> Vec<String> {
            let only = one.iter().filter(|(place, content)| other.get(*place) != Some(*content));
            only.map(|(place, content)| format!("{place:?} {content:?}")).collect()
        };
        invented.extend(only(&shown, &expected));
        differ(beginning, only(&expected, &shown), invented)
    }
}

/// A disagreement, unless there is nothing lost and nothing invented.
fn differ(at: Revision, mut lost: Vec<String>, mut invented: Vec<String>) -> Result<(), Disagreement> {
    if lost.is_empty() && invented.is_empty() {
        return Ok(());
    }
    lost.truncate(SHOWN_MAX);
    invented.truncate(SHOWN_MAX);
    Err(Disagreement::Remade { at, lost: lost.join("; "), invented: invented.join("; ") })
}
