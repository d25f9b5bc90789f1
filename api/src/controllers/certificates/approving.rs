//! Approval of kubelets' client certificates, for users with the right to it.
//!
//! Owns the two questions, in the reference's order: may the user create `certificatesigningrequests/selfnodeclient`
//! (a certificate under the own name), or `certificatesigningrequests/nodeclient` (under any node's name). A request that
//! nobody may have approved waits for a grant.

use std::convert::Infallible;

use orch_proto::Brand;
use orch_raft::Store;
use orch_rules::Action;
use orch_rules::certificates::BuiltinSigner;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Client, Progress, Stored, has_condition, work};
use crate::authn::User;
use crate::authz::{Attributes, ResourceAttributes};
use crate::error::ApiError;
use crate::follow::Applied;

/// Approves requests. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    work((client, "certificate_approving"), is_open, |stored, applied| pass(client, stored, applied)).await
}

fn is_open(brand: &Brand, request: &Value) -> bool {
    request.at("spec").text("signerName") == BuiltinSigner::ApiServerClientKubelet.name(brand)
        && request.at("status").is_empty_at("certificate")
        && !has_condition(request, "Approved")
        && !has_condition(request, "Denied")
}

async fn pass<S: Store>(client: &Client<S>, stored: Stored, applied: Applied) -> Result<Progress, ApiError> {
    let Ok(request) = stored.request() else { return Ok(Progress::Settled) };
    if BuiltinSigner::ApiServerClientKubelet.check(&request, &stored.usages()).is_err() {
        return Ok(Progress::Settled);
    }
    let user = requester(stored.spec());
    let own = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.");
    let any = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
    let is_own = user.name == request.common_name;
    for (subresource, message) in is_own.then_some(own).into_iter().chain([any]) {
        let group = client.registry().brand.group("certificates");
        let (verb, resource) = ("create", "certificatesigningrequests");
        let asked = ResourceAttributes {
            verb,
            group: &group,
            resource,
            subresource,
            ..ResourceAttributes::default()
        };
        if client.gate().rule(&user, Attributes::Resource(asked), &applied).await.is_allowed() {
            let condition =
                json!({"type": "Approved", "status": "True", "reason": "AutoApproved", "message": message});
            stored.add_condition(client, Action::Approval, condition).await?;
            return Ok(Progress::Settled);
        }
    }
    Ok(Progress::Waiting)
}

/// The user that made the request, as the server recorded it.
fn requester(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    User {
        name: spec.text("username").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: texts(spec.at("groups")),
        extra: spec.entries("extra").into_iter().map(|(key, value)| (key.to_owned(), texts(value))).collect(),
    }
}
