//! `CertificateSigning`: who answers a request for a certificate needs the right to `sign` for its signer.

use futures::future::{Either, FutureExt};
use orch_rules::Action;
use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::value::Value;

use super::certificate_approval::{REQUESTS, check_right};
use super::{Additions, Attributes, Plugin, Ruling, View, rule};

#[derive(Debug)]
pub(super) struct CertificateSigning;

impl Plugin for CertificateSigning {
    fn name(&self) -> &'static str {
        "CertificateSigning"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *REQUESTS && attributes.action == Action::Status
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let (Some(old), Some(new)) = (attributes.old, object) else { return rule(Ok(())) };
        let is_same = |field: &&str| is_unchanged(old.at("status").at(field), new.at("status").at(field));
        if ["certificate", "conditions"].iter().all(is_same) {
            return rule(Ok(()));
        }
        Either::Right(check_right(attributes, "sign", old, view).boxed())
    }
}
