//! `CertificateSubjectRestriction`: nobody gets a certificate of the group `system:masters` from the signer of clients.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_rules::certificates::{BuiltinSigner, CertificateRequest};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::certificate_approval::REQUESTS;
use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::authn::GROUP_MASTERS;

#[derive(Debug)]
pub(super) struct CertificateSubjectRestriction;

impl Plugin for CertificateSubjectRestriction {
    fn name(&self) -> &'static str {
        "CertificateSubjectRestriction"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is(REQUESTS, &[Operation::Create])
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let signer = BuiltinSigner::ApiServerClient.name(attributes.brand);
        rule(if object.at("spec").text("signerName") == signer { check(object, &signer) } else { Ok(()) })
    }
}

fn check(object: &Value, signer: &str) -> Result<(), Refusal> {
    let encoded = STANDARD.decode(object.at("spec").text("request")).unwrap_or_default();
    let request = CertificateRequest::parse(&encoded)
        .map_err(|error| Refusal::Forbidden(format!("failed to parse CSR: {error}")))?;
    // once: for a request.
    let asks_for_masters = request.organizations.iter().any(|group| group == GROUP_MASTERS);
    match asks_for_masters {
        true => Err(Refusal::Forbidden(format!(
            "use of {signer} signer with system:masters group is not allowed"
        ))),
        false => Ok(()),
    }
}
