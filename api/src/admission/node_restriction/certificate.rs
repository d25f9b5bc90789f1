//! Certificates that a kubelet may request from the signers of kubelets: those of its own node.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_rules::certificates::{BuiltinSigner, CertificateRequest};
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::part;

use super::{Operation, Refusal, Write, forbidden, refuse_unless};
use crate::authn::USER_NODE_PREFIX;

pub(super) fn check(write: Write<'_>) -> Result<(), Refusal> {
    let (Operation::Create, Some(request)) = (write.attributes.operation, write.object) else {
        return Ok(());
    };
    let spec = request.at("spec");
    let signer = BuiltinSigner::named(write.attributes.brand, spec.text("signerName"));
    if !matches!(signer, Some(BuiltinSigner::KubeletServing | BuiltinSigner::ApiServerClientKubelet)) {
        return Ok(());
    }
    let encoded = STANDARD.decode(spec.text("request")).unwrap_or_default();
    let asked = CertificateRequest::parse(&encoded)
        .map_err(|error| forbidden(format!("unable to parse csr: {error}")))?;
    let is_own = asked.common_name.strip_prefix(USER_NODE_PREFIX) == Some(write.node);
    refuse_unless(is_own, || {
        format!("can only create a node CSR with CN={USER_NODE_PREFIX}{}", part(write.node))
    })
}
