//! The built-in signers: their names, and which requests each accepts.
//!
//! Owns the rules that the approving and the signing loop share. The texts are the reference's: they stand in the
//! `Failed` condition of a request.

use std::collections::BTreeSet;

use orch_proto::Brand;

use super::request::{AlternativeName, CertificateRequest};

/// Group of the users of nodes, and the start of their names.
const NODES_GROUP: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// A signer that this server answers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuiltinSigner {
    /// Client certificates of users.
    ApiServerClient,
    /// Client certificates of kubelets.
    ApiServerClientKubelet,
    /// Serving certificates of kubelets.
    KubeletServing,
    /// No rules and no promise of trust.
    LegacyUnknown,
}

/// Why a signer refuses a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerRefusal {
    /// The subject's organization is not the nodes' group alone.
    #[error("subject organization is not system:nodes")]
    Organization,
    /// The common name is no node's.
    #[error("subject common name does not begin with system:node:")]
    CommonName,
    /// A serving certificate names no host.
    #[error("DNS or IP subjectAltName is required")]
    HostRequired,
    /// Alternative names of a form that the signer does not certify.
    #[error("{0} subjectAltNames are not allowed")]
    NameNotAllowed(&'static str),
    /// The subject carries a uid, which its requester chose. The reference signs without it; this signer copies subjects.
    #[error("subject uid is not allowed")]
    Uid,
    /// The usages are not those that the signer certifies.
    #[error("usages did not match [{0}]")]
    Usages(&'static str),
    /// A usage that is not a client's.
    #[error("invalid usage for client certificate: {0}")]
    InvalidClientUsage(String),
    /// A client certificate without the client's usage.
    #[error("missing required usage for client certificate: client auth")]
    NoClientUsage,
}

impl BuiltinSigner {
    /// Every built-in signer.
    pub const ALL: [BuiltinSigner; 4] = [
        BuiltinSigner::ApiServerClient,
        BuiltinSigner::ApiServerClientKubelet,
        BuiltinSigner::KubeletServing,
        BuiltinSigner::LegacyUnknown,
    ];

    /// The signer called `signer_name` under `brand`.
    pub fn named(brand: &Brand, signer_name: &str) -> Option<BuiltinSigner> {
        // few: four signers.
        BuiltinSigner::ALL.into_iter().find(|signer| signer.name(brand) == signer_name)
    }

    /// The `spec.signerName` of its requests.
    pub fn name(self, brand: &Brand) -> String {
        brand.label(match self {
            BuiltinSigner::ApiServerClient => "kube-apiserver-client",
            BuiltinSigner::ApiServerClientKubelet => "kube-apiserver-client-kubelet",
            BuiltinSigner::KubeletServing => "kubelet-serving",
            BuiltinSigner::LegacyUnknown => "legacy-unknown",
        })
    }

    /// Whether the signer certifies `request` for `usages`.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(self, request: &CertificateRequest, usages: &[&str]) -> Result<(), SignerRefusal> {
        if request.has_uid {
            return Err(SignerRefusal::Uid);
        }
        match self {
            BuiltinSigner::ApiServerClient => check_client_usages(usages),
            BuiltinSigner::ApiServerClientKubelet => check_kubelet_client(request, usages),
            BuiltinSigner::KubeletServing => check_kubelet_serving(request, usages),
            BuiltinSigner::LegacyUnknown => Ok(()),
        }
    }
}

fn check_client_usages(usages: &[&str]) -> Result<(), SignerRefusal> {
    let mut is_client = false;
    for usage in usages {
        match *usage {
            "digital signature" | "key encipherment" => {}
            "client auth" => is_client = true,
            other => return Err(SignerRefusal::InvalidClientUsage(other.to_owned())),
        }
    }
    if is_client { Ok(()) } else { Err(SignerRefusal::NoClientUsage) }
}

fn check_kubelet_client(request: &CertificateRequest, usages: &[&str]) -> Result<(), SignerRefusal> {
    check_organization(request)?;
    for form in ["DNS", "Email", "IP", "URI"] {
        refuse_names(request, form)?;
    }
    check_common_name(request)?;
    check_usages(usages, "client auth", "client auth digital signature key encipherment")
}

fn check_kubelet_serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), SignerRefusal> {
    check_organization(request)?;
    let is_host = |name: &AlternativeName| matches!(name, AlternativeName::Dns(_) | AlternativeName::Ip(_));
    // once: for a request.
    if !request.names.iter().any(is_host) {
        return Err(SignerRefusal::HostRequired);
    }
    for form in ["Email", "URI"] {
        refuse_names(request, form)?;
    }
    check_usages(usages, "server auth", "digital signature key encipherment server auth")?;
    check_common_name(request)
}

fn check_organization(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    if request.organizations == [NODES_GROUP] { Ok(()) } else { Err(SignerRefusal::Organization) }
}

fn check_common_name(request: &CertificateRequest) -> Result<(), SignerRefusal> {
    if request.common_name.starts_with(NODE_PREFIX) { Ok(()) } else { Err(SignerRefusal::CommonName) }
}

fn refuse_names(request: &CertificateRequest, form: &'static str) -> Result<(), SignerRefusal> {
    let is_of_form = |name: &AlternativeName| {
        let own = match name {
            AlternativeName::Dns(_) => "DNS",
            AlternativeName::Email(_) => "Email",
            AlternativeName::Ip(_) => "IP",
            AlternativeName::Uri(_) => "URI",
        };
        own == form
    };
    // once: for each of four forms.
    let is_refused = request.names.iter().any(is_of_form);
    if is_refused { Err(SignerRefusal::NameNotAllowed(form)) } else { Ok(()) }
}

/// The usages have to be a signature, `purpose`, and for RSA keys the encipherment of keys; `listed` is all of them.
fn check_usages(usages: &[&str], purpose: &str, listed: &'static str) -> Result<(), SignerRefusal> {
    let asked: BTreeSet<&str> = usages.iter().copied().collect();
    let mut required = BTreeSet::from(["digital signature", purpose]);
    if asked == required {
        return Ok(());
    }
    required.insert("key encipherment");
    if asked == required { Ok(()) } else { Err(SignerRefusal::Usages(listed)) }
}
