//! The flags of the built-in signers of certificates.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;

const HEADING: &str = "Built-in signers of certificates";

/// Flags of the built-in signers.
#[derive(Clone, Debug, Args)]
pub struct SigningArgs {
    /// Certificate of the authority that signs approved requests for certificates [default: ca.crt of the data or certificate
    /// directory, where its key lies beside it]
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// Certificate of an authority for the signer kube-apiserver-client alone. With one such flag, signers without theirs
    /// answer nothing
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,
    /// The same for the signer kube-apiserver-client-kubelet
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kubelet_client_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kubelet_client_key_file: Option<PathBuf>,
    /// The same for the signer kubelet-serving
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// The same for the signer legacy-unknown
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub cluster_signing_legacy_unknown_key_file: Option<PathBuf>,
    /// Longest validity of the certificates that are signed; requests may ask for less
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = parse_duration, help_heading = HEADING)]
    pub cluster_signing_duration: Duration,
}
