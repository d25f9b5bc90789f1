//! `NamespaceExists`: refuses writes in a namespace that is absent. `NamespaceLifecycle` refuses creates there already;
//! this plugin asks for the namespace of changes and deletions, too.

use orch_raft::state::NAMESPACES;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::error::{ApiError, Subject};

#[derive(Debug)]
pub(super) struct NamespaceExists;

impl Plugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation != Operation::Connect && !attributes.namespace.is_empty()
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        if view.is_terminating(attributes.namespace).is_some() {
            return rule(Ok(()));
        }
        let (kind, name) = (NAMESPACES.to_owned(), attributes.namespace.to_owned());
        rule(Err(Refusal::Error(ApiError::NotFound(Subject { group: String::new(), kind, name }))))
    }
}
