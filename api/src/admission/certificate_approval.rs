//! `CertificateApproval`: who decides on a request for a certificate needs the right to `approve` for its signer.
//!
//! Owns the question that this plugin and `CertificateSigning` ask: a right on `signers` named like the signer, or on
//! all signers of its domain (`example.com/*`).

use futures::future::{Either, FutureExt};
use orch_rules::Action;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::{Additions, Attributes, Plugin, Refusal, Ruling, View, rule};
use crate::authz::{Attributes as Asked, ResourceAttributes};

/// Storage resource of requests for certificates.
pub(super) const REQUESTS: &str = "certificatesigningrequests.certificates";

#[derive(Debug)]
pub(super) struct CertificateApproval;

impl Plugin for CertificateApproval {
    fn name(&self) -> &'static str {
        "CertificateApproval"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        *attributes.resource.storage == *REQUESTS && attributes.action == Action::Approval
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        // The stored signer counts: an approval cannot change it.
        match attributes.old {
            Some(old) => Either::Right(check_right(attributes, "approve", old, view).boxed()),
            None => rule(Ok(())),
        }
    }
}

/// Refuses a user without the right to `verb` for the signer of `request`.
pub(super) async fn check_right(
    attributes: &Attributes<'_>,
    verb: &'static str,
    request: &Value,
    view: &View,
) -> Result<(), Refusal> {
    let signer = request.at("spec").text("signerName");
    let domain = signer.split('/').next().unwrap_or_default();
    let group = attributes.brand.group("certificates");
    for name in [signer, &format!("{domain}/*")] {
        let resource = "signers";
        let asked =
            ResourceAttributes { verb, group: &group, version: "*", resource, name, ..Default::default() };
        let ruling = attributes.gate.rule(attributes.user, Asked::Resource(asked), view.applied()).await;
        if ruling.is_allowed() {
            return Ok(());
        }
    }
    let signer = quoted(signer);
    Err(Refusal::Forbidden(format!("user not permitted to {verb} requests with signerName {signer}")))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::Operation;
    use crate::admission::testing::{Objects, attributes, validate};
    use crate::authn::User;
    use crate::authz::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES};
    use crate::error::ApiError;

    /// The outcome of a write through a sub-resource by a user with `verb` on the signer called `right`.
    fn written(action: Action, verb: &str, right: &str, new: &Value) -> Result<(), ApiError> {
        let old = json!({"spec": {"signerName": "example.com/one"}, "status": {}});
        let user = User { name: "ann".to_owned(), ..User::default() };
        let rules = json!([{
            "verbs": [verb], "apiGroups": ["certificates.orch.io"], "resources": ["signers"], "resourceNames": [right],
        }]);
        let binding = json!({
            "roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": [{"kind": "User", "name": "ann"}],
        });
        let at = |storage: &str, object| ((storage.to_owned(), String::new(), "r".to_owned()), object);
        let objects =
            [at(CLUSTER_ROLES, json!({"rules": rules})), at(CLUSTER_ROLE_BINDINGS, binding)].into_iter();
        let gate = crate::testing::gate();
        let asked = Attributes {
            action,
            user: &user,
            gate: &gate,
            old: Some(&old),
            namespace: "",
            ..attributes(REQUESTS, Operation::Update)
        };
        validate(&asked, new, &Objects(objects.collect()))
    }

    #[test]
    fn deciding_and_signing_need_rights_for_the_signer_or_its_domain() {
        let decided =
            json!({"spec": {"signerName": "example.org/x"}, "status": {"conditions": [{"type": "Denied"}]}});
        let signed = json!({"status": {"certificate": "eA=="}});
        let untouched = json!({"status": {"conditions": []}});
        for (action, verb, right, new, is_allowed) in [
            (Action::Approval, "approve", "example.com/one", &decided, true),
            (Action::Approval, "approve", "example.com/*", &decided, true),
            (Action::Approval, "approve", "example.com/two", &decided, false),
            (Action::Approval, "approve", "example.org/x", &decided, false),
            (Action::Approval, "sign", "example.com/one", &decided, false),
            (Action::Status, "sign", "example.com/one", &signed, true),
            (Action::Status, "sign", "example.com/*", &decided, true),
            (Action::Status, "approve", "example.com/one", &signed, false),
            (Action::Status, "approve", "example.com/one", &untouched, true),
            (Action::Object, "none", "none", &signed, true),
        ] {
            let outcome = written(action, verb, right, new);
            assert_eq!(outcome.is_ok(), is_allowed, "{action:?} {verb} {right} {new}: {outcome:?}");
        }
        let told = written(Action::Status, "none", "none", &signed).unwrap_err().to_string();
        let reason = "user not permitted to sign requests with signerName \"example.com/one\"";
        assert!(told.ends_with(reason), "{told}");
    }
}
