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

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;
    use crate::admission::testing::{Objects, attributes, validate};

    fn request(organization: &str, signer: &str) -> Value {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({"spec": {"request": STANDARD.encode(pem), "signerName": signer}})
    }

    #[test]
    fn no_client_gets_a_certificate_of_the_masters() {
        let client = "orch.io/kube-apiserver-client";
        for (organization, signer, expected) in [
            (
                GROUP_MASTERS,
                client,
                Some("use of orch.io/kube-apiserver-client signer with system:masters group is not allowed"),
            ),
            ("team", client, None),
            (GROUP_MASTERS, "example.com/x", None),
        ] {
            let create = attributes(REQUESTS, Operation::Create);
            let told = validate(&create, &request(organization, signer), &Objects::default()).err();
            let told = told.map(|error| error.to_string());
            assert_eq!(told.is_some(), expected.is_some(), "{organization} {signer}: {told:?}");
            assert!(told.is_none_or(|told| told.ends_with(expected.unwrap_or_default())));
        }
    }
}
