//! Fields of every object that have no owner: `apiVersion`, `kind`, and the identity in `metadata`.
//!
//! Owns their list. No field set of a manager holds them, and no apply removes them: not even one that gives up every
//! other member of `metadata`.

use std::sync::LazyLock;

use super::element::PathElement;
use super::set::FieldSet;

/// Fields of `metadata` without owners. Comparing them would be wasted, and `managedFields` would be costly.
pub(super) const UNOWNED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// The fields without owners, and `metadata` itself, which holds them.
pub(super) fn unowned_fields() -> &'static FieldSet {
    static UNOWNED: LazyLock<FieldSet> = LazyLock::new(|| {
        let metadata = PathElement::field("metadata");
        let mut unowned = FieldSet::EMPTY;
        for name in ["apiVersion", "kind", "metadata"] {
            unowned.insert(&[PathElement::field(name)]);
        }
        for name in UNOWNED_METADATA {
            unowned.insert(&[metadata.clone(), PathElement::field(name)]);
        }
        unowned
    });
    &UNOWNED
}
