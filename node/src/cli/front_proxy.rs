//! Flags of front proxies, under the reference's names, and of revoked certificates, which the reference does not know.

use std::path::PathBuf;

use clap::Args;

const FRONT_PROXIES: &str = "Front proxies";
const REVOCATION: &str = "Revoked certificates";

/// Which front proxies are trusted, and the headers in which they name their users.
#[derive(Clone, Debug, Args)]
pub struct FrontProxyArgs {
    /// Authorities of front proxies, which name the user of each request in headers. Not those of --client-ca-file unless
    /// --requestheader-allowed-names is given
    #[arg(long, value_name = "FILE", help_heading = FRONT_PROXIES)]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that the certificates of front proxies may have [default: any]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = FRONT_PROXIES)]
    pub requestheader_allowed_names: Vec<String>,
    /// Headers of the user's name; the first that has a value counts
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', default_value = "X-Remote-User", help_heading = FRONT_PROXIES)]
    pub requestheader_username_headers: Vec<String>,
    /// Headers of the user's uid, for example X-Remote-Uid; the first that has a value counts [default: none]
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', help_heading = FRONT_PROXIES)]
    pub requestheader_uid_headers: Vec<String>,
    /// Headers of the user's groups; all values count
    #[arg(long, value_name = "HEADERS", value_delimiter = ',', default_value = "X-Remote-Group", help_heading = FRONT_PROXIES)]
    pub requestheader_group_headers: Vec<String>,
    /// Prefixes of headers of further attributes of the user; the rest of a header's name is the attribute's
    #[arg(long, value_name = "PREFIXES", value_delimiter = ',', default_value = "X-Remote-Extra-", help_heading = FRONT_PROXIES)]
    pub requestheader_extra_headers_prefix: Vec<String>,
}

/// Files of revoked certificates.
#[derive(Clone, Debug, Args)]
pub struct RevocationArgs {
    /// Revocation lists of the authorities of clients and front proxies, PEM or DER; read again when they change
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = REVOCATION)]
    pub client_crl_file: Vec<PathBuf>,
    /// Revocation lists of the peer authority, PEM or DER; read again when they change
    #[arg(long, value_name = "FILE", value_delimiter = ',', help_heading = REVOCATION)]
    pub peer_crl_file: Vec<PathBuf>,
}
