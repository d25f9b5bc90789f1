//! Resolves the flags of the built-in signers.

use std::path::Path;
use std::sync::Arc;

use orch_api::signing::CertificateSigner;

use super::error::RunError;
use crate::certs::{FileAuthority, FileSigner, Layout};
use crate::cli::SigningArgs;

/// The signer of the flags, or else of `layout`, where the authority's key is there. `None`: this node signs nothing.
///
/// # Errors
/// One of two flags is missing, or what they name cannot sign.
pub(super) fn signer(
    arguments: &SigningArgs,
    layout: &Layout,
) -> Result<Option<Arc<dyn CertificateSigner>>, RunError> {
    let life_s_max = i64::try_from(arguments.cluster_signing_duration.as_secs()).unwrap_or(i64::MAX);
    let made = |certificate: &Path, key: &Path| -> Option<Arc<dyn CertificateSigner>> {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        Some(Arc::new(FileSigner { certificate, key, life_s_max }))
    };
    match (&arguments.cluster_signing_cert_file, &arguments.cluster_signing_key_file) {
        (Some(certificate), Some(key)) => {
            FileAuthority::load(certificate, key)?;
            Ok(made(certificate, key))
        }
        (None, None) => {
            let (certificate, key) = (layout.authority_certificate(), layout.authority_key());
            Ok(if key.is_file() { made(&certificate, &key) } else { None })
        }
        _ => {
            let reason = "--cluster-signing-cert-file and --cluster-signing-key-file go together";
            Err(RunError::Flags(reason.to_owned()))
        }
    }
}
