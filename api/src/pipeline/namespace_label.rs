//! Labels that the namespace of an object must have, for example one that allows administrator's access to devices.
//!
//! Owns reading the namespace: strategies state what they need and read no store.

use orch_raft::Store;
use orch_raft::state::NAMESPACES;
use orch_rules::kinds::NamespaceRequirement;
use orch_rules::validate::FieldError;
use orch_rules::validate::tree::Tree;

use super::{Pipeline, Request};
use crate::admission::View;
use crate::error::ApiError;

impl<S: Store> Pipeline<S> {
    /// The error of `required` if the namespace of `request` lacks the label, even after all writes that were
    /// acknowledged before.
    pub(super) async fn unmet(
        &self,
        request: Request<'_>,
        required: Option<NamespaceRequirement>,
        view: &View,
    ) -> Result<Option<FieldError>, ApiError> {
        let Some(required) = required else { return Ok(None) };
        let is_met = |view: &View| {
            let namespace = view.find(NAMESPACES, "", &request.target.namespace);
            let labels = namespace.as_ref().map(|namespace| namespace.at("metadata").at("labels"));
            labels.is_some_and(|labels| labels.text(&required.label) == required.value)
        };
        let met = is_met(view) || is_met(&self.newest_view().await?);
        Ok((!met).then_some(required.error))
    }
}
