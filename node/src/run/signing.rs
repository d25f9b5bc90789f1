//! Resolves the flags of the built-in signers.
//!
//! Owns which authority each signer has: the one of its own flags, or where no signer has any, the common one of the
//! flags or of the certificate directory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use orch_api::signing::{BuiltinSigner, CertificateSigner};

use super::error::RunError;
use crate::certs::{FileAuthority, FileSigner, Layout, SigningFiles};
use crate::cli::SigningArgs;

/// The signers of the flags, or else all with the authority of `layout`, where its key is there. `None`: this node signs
/// nothing.
///
/// # Errors
/// One of two flags is missing, flags exclude each other, or what they name cannot sign.
pub(super) fn signer(
    arguments: &SigningArgs,
    layout: &Layout,
) -> Result<Option<Arc<dyn CertificateSigner>>, RunError> {
    let authorities = authorities(arguments, layout)?;
    if authorities.is_empty() {
        return Ok(None);
    }
    let life_s_max = i64::try_from(arguments.cluster_signing_duration.as_secs()).unwrap_or(i64::MAX);
    Ok(Some(Arc::new(FileSigner { authorities, life_s_max })))
}

fn authorities(
    arguments: &SigningArgs,
    layout: &Layout,
) -> Result<BTreeMap<BuiltinSigner, SigningFiles>, RunError> {
    let SigningArgs { cluster_signing_cert_file, cluster_signing_key_file, .. } = arguments;
    let common = pair("", cluster_signing_cert_file.as_ref(), cluster_signing_key_file.as_ref())?;
    let mut own = BTreeMap::new();
    for (signer, flag, certificate, key) in specific(arguments) {
        own.extend(pair(flag, certificate, key)?.map(|files| (signer, files)));
    }
    let all = |files: SigningFiles| BuiltinSigner::ALL.map(|signer| (signer, files.clone())).into();
    match common {
        Some(_) if !own.is_empty() => Err(RunError::Flags(
            "--cluster-signing-cert-file does not go with flags of single signers".to_owned(),
        )),
        Some(files) => Ok(all(files)),
        None if !own.is_empty() => Ok(own),
        None => {
            let (certificate, key) = (layout.authority_certificate(), layout.authority_key());
            Ok(if key.is_file() { all(SigningFiles { certificate, key }) } else { own })
        }
    }
}

/// The flags of each signer: the part of their names, certificate and key.
fn specific(
    arguments: &SigningArgs,
) -> [(BuiltinSigner, &'static str, Option<&PathBuf>, Option<&PathBuf>); 4] {
    [
        (
            BuiltinSigner::ApiServerClient,
            "kube-apiserver-client-",
            arguments.cluster_signing_kube_apiserver_client_cert_file.as_ref(),
            arguments.cluster_signing_kube_apiserver_client_key_file.as_ref(),
        ),
        (
            BuiltinSigner::ApiServerClientKubelet,
            "kubelet-client-",
            arguments.cluster_signing_kubelet_client_cert_file.as_ref(),
            arguments.cluster_signing_kubelet_client_key_file.as_ref(),
        ),
        (
            BuiltinSigner::KubeletServing,
            "kubelet-serving-",
            arguments.cluster_signing_kubelet_serving_cert_file.as_ref(),
            arguments.cluster_signing_kubelet_serving_key_file.as_ref(),
        ),
        (
            BuiltinSigner::LegacyUnknown,
            "legacy-unknown-",
            arguments.cluster_signing_legacy_unknown_cert_file.as_ref(),
            arguments.cluster_signing_legacy_unknown_key_file.as_ref(),
        ),
    ]
}

/// The files of two flags, which can sign; `None` where neither is given.
fn pair(
    flag: &'static str,
    certificate: Option<&PathBuf>,
    key: Option<&PathBuf>,
) -> Result<Option<SigningFiles>, RunError> {
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(certificate), Some(key)) => {
            FileAuthority::load(certificate, key)
                .map_err(|source| RunError::Signing { signer: flag, source })?;
            Ok(Some(SigningFiles { certificate: certificate.clone(), key: key.clone() }))
        }
        _ => Err(RunError::Flags(format!(
            "--cluster-signing-{flag}cert-file and --cluster-signing-{flag}key-file go together"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use time::OffsetDateTime;

    use super::*;
    use crate::certs::Authority;

    fn none() -> SigningArgs {
        SigningArgs {
            cluster_signing_cert_file: None,
            cluster_signing_key_file: None,
            cluster_signing_kube_apiserver_client_cert_file: None,
            cluster_signing_kube_apiserver_client_key_file: None,
            cluster_signing_kubelet_client_cert_file: None,
            cluster_signing_kubelet_client_key_file: None,
            cluster_signing_kubelet_serving_cert_file: None,
            cluster_signing_kubelet_serving_key_file: None,
            cluster_signing_legacy_unknown_cert_file: None,
            cluster_signing_legacy_unknown_key_file: None,
            cluster_signing_duration: Duration::from_secs(60),
        }
    }

    #[test]
    fn signers_have_the_authority_of_their_flags_or_the_common_one() {
        let directory = tempfile::tempdir().unwrap();
        let layout = Layout::new(directory.path());
        let signs = |arguments: &SigningArgs| {
            let found = authorities(arguments, &layout);
            found.map(|found| found.len()).map_err(|error| error.to_string())
        };
        assert_eq!(signs(&none()), Ok(0), "there is no key");
        let made = Authority::create("x", OffsetDateTime::now_utc()).unwrap();
        let (certificate, key) = (layout.authority_certificate(), layout.authority_key());
        std::fs::write(&certificate, &made.pair.certificate).unwrap();
        std::fs::write(&key, &made.pair.key).unwrap();
        assert_eq!(signs(&none()), Ok(4), "that of the directory");
        let (certificate, key) = (Some(certificate), Some(key));
        let common = SigningArgs {
            cluster_signing_cert_file: certificate.clone(),
            cluster_signing_key_file: key.clone(),
            ..none()
        };
        assert_eq!(signs(&common), Ok(4));
        let own = SigningArgs {
            cluster_signing_kubelet_serving_cert_file: certificate.clone(),
            cluster_signing_kubelet_serving_key_file: key.clone(),
            ..none()
        };
        assert_eq!(signs(&own), Ok(1));
        let both = SigningArgs {
            cluster_signing_cert_file: certificate,
            cluster_signing_key_file: key.clone(),
            ..own
        };
        assert!(signs(&both).unwrap_err().contains("does not go with"));
        let half = SigningArgs { cluster_signing_legacy_unknown_key_file: key, ..none() };
        assert!(signs(&half).unwrap_err().starts_with("--cluster-signing-legacy-unknown-cert-file and"));
    }
}
