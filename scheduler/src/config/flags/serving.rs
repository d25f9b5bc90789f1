//! Flags of the HTTPS port.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgAction, Args};

use super::value::{List, SniPair, address, boolean, integer, list, path, sni_pair};

const SERVING: &str = "Serving (HTTPS)";

/// Flags of the HTTPS port.
#[derive(Clone, Debug, Args)]
pub struct ServingFlags {
    /// IP address to listen on; blank, 0.0.0.0 or :: is every interface
    #[arg(long, value_name = "IP", value_parser = address, default_value = "0.0.0.0", allow_hyphen_values = true,
        help_heading = SERVING)]
    pub bind_address: IpAddr,
    /// HTTPS port; 0 serves nothing
    #[arg(long, value_name = "PORT", value_parser = integer, default_value = "10259", allow_hyphen_values = true,
        help_heading = SERVING)]
    pub secure_port: i64,
    /// Directory of the pair {brand}-scheduler.crt and {brand}-scheduler.key. It is made there, self-signed, where none
    /// is. Ignored with --tls-cert-file and --tls-private-key-file; without a directory the pair lives in memory only
    #[arg(long, value_name = "DIR", value_parser = path, allow_hyphen_values = true, help_heading = SERVING)]
    pub cert_dir: Option<PathBuf>,
    /// Server certificate, followed by its intermediates; read again when the file changes
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = SERVING)]
    pub tls_cert_file: Option<PathBuf>,
    /// Private key of --tls-cert-file
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = SERVING)]
    pub tls_private_key_file: Option<PathBuf>,
    /// Another pair, for clients that ask for its names: CERT,KEY or CERT,KEY:NAME,NAME. Repeatable. Names without a
    /// wildcard win over wildcards, names given here over names in certificates. Example: example.crt,example.key or
    /// foo.crt,foo.key:*.foo.com,foo.com
    #[arg(long, value_name = "CERT,KEY[:NAMES]", value_parser = sni_pair, action = ArgAction::Append,
        allow_hyphen_values = true, help_heading = SERVING)]
    pub tls_sni_cert_key: Vec<SniPair>,
    /// Cipher suites of TLS 1.2, comma-separated [default: all that are secure]. Those of TLS 1.3 are always on
    #[arg(long, value_name = "NAMES", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        help_heading = SERVING)]
    pub tls_cipher_suites: Vec<List>,
    /// Lowest TLS version: VersionTLS12 or VersionTLS13 [default: VersionTLS12]. VersionTLS10 and VersionTLS11 are known
    /// and refused: the TLS library does not speak them
    #[arg(long, value_name = "VERSION", allow_hyphen_values = true, help_heading = SERVING)]
    pub tls_min_version: Option<String>,
    /// Streams that one HTTP/2 connection may have open; 0 is the default of the HTTP library
    #[arg(long, value_name = "NUMBER", value_parser = integer, default_value = "0", allow_hyphen_values = true,
        help_heading = SERVING)]
    pub http2_max_streams_per_connection: i64,
    /// Listen with SO_REUSEADDR, also on an address that another socket is bound to without listening
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", value_parser = boolean, action = ArgAction::Set, help_heading = SERVING)]
    pub permit_address_sharing: bool,
    /// Listen with SO_REUSEPORT: several processes may serve the same address and port
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", value_parser = boolean, action = ArgAction::Set, help_heading = SERVING)]
    pub permit_port_sharing: bool,
}
