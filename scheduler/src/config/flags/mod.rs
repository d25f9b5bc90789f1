//! The command line: every flag with its type, default and help, and the texts of errors.
//!
//! Owns names, groups and syntax of the flags. Combinations of values are checked where they take effect:
//! [`crate::config::settle`] for values, the parts that open files for paths. A flag whose presence matters is an
//! `Option`, because a configuration file is overridden by leader election flags that were given and by no default.
//!
//! Names with the brand in them (`--orch-api-qps`) stand here with [`PREFIX`] in its place.

mod access;
mod election;
mod general;
mod parse;
mod serving;
mod value;

pub use access::{AuthenticationFlags, AuthorizationFlags};
pub use election::{DeprecatedFlags, ElectionFlags};
pub use general::{ConfigurationFlags, FeatureFlags, LogFlags, MetricsFlags, VersionRequest};
pub use parse::{CommandLine, FlagError, command, log_format, parse};
pub use serving::ServingFlags;
pub(super) use value::feature_gates;
pub use value::{FeatureGate, List, Pairs, SniPair, VmodulePattern};

use clap::Args;
use orch_proto::Brand;

/// Stands in names and help texts for the prefix of the brand's component names.
const PREFIX: &str = "{brand}";
/// Stands in help texts for the brand's system namespace.
const NAMESPACE: &str = "{namespace}";
/// Stands in help texts for the brand's domain of API groups.
const DOMAIN: &str = "{domain}";
/// Stands in help texts for the brand's Protobuf media type.
const PROTOBUF: &str = "{protobuf}";

/// All flags, as given.
#[derive(Clone, Debug, Args)]
pub struct Flags {
    /// Where the configuration comes from.
    #[command(flatten)]
    pub configuration: ConfigurationFlags,
    /// The HTTPS port.
    #[command(flatten)]
    pub serving: ServingFlags,
    /// Flags of authentication.
    #[command(flatten)]
    pub authentication: AuthenticationFlags,
    /// Flags of authorization.
    #[command(flatten)]
    pub authorization: AuthorizationFlags,
    /// Leader election.
    #[command(flatten)]
    pub election: ElectionFlags,
    /// Feature gates.
    #[command(flatten)]
    pub features: FeatureFlags,
    /// Metrics.
    #[command(flatten)]
    pub metrics: MetricsFlags,
    /// Log lines.
    #[command(flatten)]
    pub logs: LogFlags,
    /// Flags that the configuration file replaces.
    #[command(flatten)]
    pub deprecated: DeprecatedFlags,
}

impl Flags {
    /// Takes empty paths for absent ones: scripts write `--config=` where they have none.
    fn forget_empty_paths(&mut self) {
        let paths = [
            &mut self.configuration.config,
            &mut self.configuration.write_config_to,
            &mut self.configuration.cloud_container_registry_config,
            &mut self.serving.cert_dir,
            &mut self.serving.tls_cert_file,
            &mut self.serving.tls_private_key_file,
            &mut self.authentication.authentication_client_config,
            &mut self.authentication.client_ca_file,
            &mut self.authentication.requestheader_client_ca_file,
            &mut self.authorization.authorization_client_config,
            &mut self.deprecated.client_config,
        ];
        for path in paths {
            path.take_if(|path| path.as_os_str().is_empty());
        }
    }
}

/// `text` with the names of `brand`.
fn branded(text: &str, brand: &Brand) -> String {
    text.replace(PREFIX, brand.component_prefix)
        .replace(NAMESPACE, brand.system_namespace)
        .replace(DOMAIN, brand.group_domain)
        .replace(PROTOBUF, brand.protobuf_media_type)
}

#[cfg(test)]
mod tests;
