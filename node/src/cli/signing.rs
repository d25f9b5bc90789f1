//! The flags of the built-in signers of certificates.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration::parse_duration;

/// Flags of the built-in signers.
#[derive(Clone, Debug, Args)]
pub struct SigningArgs {
    /// Certificate of the authority that signs approved requests for certificates [default: ca.crt of the data or certificate
    /// directory, where its key lies beside it]
    #[arg(long, value_name = "FILE", help_heading = "Certificates and identity")]
    pub cluster_signing_cert_file: Option<PathBuf>,
    /// Its key
    #[arg(long, value_name = "FILE", help_heading = "Certificates and identity")]
    pub cluster_signing_key_file: Option<PathBuf>,
    /// Longest validity of the certificates that it signs; requests may ask for less
    #[arg(long, value_name = "TIME", default_value = "8760h", value_parser = parse_duration,
        help_heading = "Certificates and identity")]
    pub cluster_signing_duration: Duration,
}
