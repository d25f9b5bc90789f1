//! Controllers whose pods are spread without constraints of their own.
//!
//! Owns which kinds these are. A kind of another group that has the same name is none of them.

use crate::api::meta::v1::OwnerReference;

/// A kind of controllers whose selectors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of the API")]
pub enum Controller {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
}

impl Controller {
    /// The kind of an owner, if it is one of them.
    pub fn of(owner: &OwnerReference) -> Option<Controller> {
        Some(match (owner.api_version.as_str(), owner.kind.as_str()) {
            ("v1", "ReplicationController") => Controller::ReplicationController,
            ("apps/v1", "ReplicaSet") => Controller::ReplicaSet,
            ("apps/v1", "StatefulSet") => Controller::StatefulSet,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_other_groups_are_no_controllers() {
        let of = |api_version: &str, kind: &str| {
            Controller::of(&OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..Default::default()
            })
        };
        assert_eq!(of("apps/v1", "StatefulSet"), Some(Controller::StatefulSet));
        assert_eq!(of("apps/v1", "ReplicaSet"), Some(Controller::ReplicaSet));
        assert_eq!(of("v1", "ReplicationController"), Some(Controller::ReplicationController));
        for (api_version, kind) in
            [("apps.example.com/v1", "StatefulSet"), ("v1", "ReplicaSet"), ("apps/v1", "Job")]
        {
            assert_eq!(of(api_version, kind), None, "{api_version} {kind}");
        }
    }
}
