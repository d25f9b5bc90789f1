//! Following what changes, in batches.
//!
//! Owns the revision up to which a loop has seen everything. It reads the store's history, so nothing is queued for a
//! loop that is slow; one that is too slow is told to look at the state anew.

use std::sync::Arc;

use orch_raft::{Change, Compacted, Revision, State};

/// Up to where a loop has seen.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    seen: Revision,
}

impl Cursor {
    /// Everything up to `revision` has been seen.
    pub(super) fn at(revision: Revision) -> Self {
        Cursor { seen: revision }
    }

    /// Shows `each` the changes of `resources` that `state` has and this has not seen, in order within a resource.
    ///
    /// # Errors
    /// Some of them are no longer held. The caller starts again from the state; the cursor stands at its end.
    pub(super) fn advance(
        &mut self,
        state: &State,
        resources: &[Arc<str>],
        mut each: impl FnMut(&Arc<str>, &Change),
    ) -> Result<(), Compacted> {
        let seen = std::mem::replace(&mut self.seen, state.applied());
        for resource in resources {
            let collection = state.collection(resource);
            if collection.changed() <= seen {
                continue;
            }
            for change in collection.changes_after(seen)? {
                each(resource, change);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::Fixture;

    use crate::json;

    #[tokio::test]
    async fn each_change_is_shown_once_and_lost_history_is_told() {
        let fixture = Fixture::new();
        fixture.create("namespaces", "", json!({"metadata": {"name": "a"}})).await;
        let resources: Vec<Arc<str>> = vec!["namespaces".into()];
        let mut cursor = Cursor::default();
        let seen = |cursor: &mut Cursor| {
            let mut paths = Vec::new();
            let state = fixture.state();
            cursor
                .advance(&state, &resources, |_, change| paths.push(change.path.to_string()))
                .map(|()| paths)
        };
        assert_eq!(seen(&mut cursor).unwrap(), ["a"]);
        assert!(seen(&mut cursor).unwrap().is_empty());
        fixture.create("namespaces", "", json!({"metadata": {"name": "b"}})).await;
        fixture.forget_history();
        assert!(seen(&mut cursor).is_err());
        fixture.create("namespaces", "", json!({"metadata": {"name": "c"}})).await;
        assert_eq!(seen(&mut cursor).unwrap(), ["c"]);
    }
}
