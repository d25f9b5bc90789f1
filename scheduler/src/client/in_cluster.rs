//! The configuration of a process that runs in a pod: the service account that is mounted into it.
//!
//! Owns the places: the address in the environment, token and certificate authority in files of the brand's folder.

use std::path::Path;

use orch_proto::Brand;
use orch_serving::files;

use super::config::{Bearer, Config, ConfigError, Pem, Trust};
use super::endpoint::Endpoint;

/// Bytes of the file with the namespace, whose name has at most 63.
const NAMESPACE_BYTES_MAX: u64 = 4 << 10;

/// The configuration of the pod's service account. `env` gives the value of an environment variable, `root` is `/` but
/// in tests.
///
/// # Errors
/// [`ConfigError::NotInCluster`] where the environment or the token is missing.
pub fn in_cluster(
    brand: &Brand,
    root: &Path,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Config, ConfigError> {
    let variable = |suffix: &str| {
        let name = format!("{}_SERVICE_{suffix}", brand.name.to_uppercase());
        env(&name)
            .filter(|value| !value.is_empty())
            .ok_or(ConfigError::NotInCluster(format!("{name} is not set")))
    };
    let (host, port) = (variable("HOST")?, variable("PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let endpoint: Endpoint = format!("https://{host}:{port}").parse()?;
    let folder = root.join("var/run/secrets").join(brand.label_domain).join("serviceaccount");
    let (token, authority) = (folder.join("token"), folder.join("ca.crt"));
    if !token.is_file() {
        return Err(ConfigError::NotInCluster(format!("there is no token at {}", token.display())));
    }
    let mut config = Config::new(vec![endpoint]);
    config.bearer = Bearer::File(token);
    if authority.is_file() {
        config.trust = Trust::Authority(Pem::File(authority));
    }
    if let Ok(namespace) = files::read_text(&folder.join("namespace"), NAMESPACE_BYTES_MAX) {
        namespace.trim().clone_into(&mut config.namespace);
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "ORCH_SERVICE_HOST" => Some("10.0.0.1".to_owned()),
            "ORCH_SERVICE_PORT" => Some("443".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn the_service_account_gives_token_authority_and_namespace() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("var/run/secrets").join(orch_proto::brand::ORCH.label_domain);
        let folder = folder.join("serviceaccount");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in [("token", "t"), ("ca.crt", "ca"), ("namespace", "system\n")] {
            std::fs::write(folder.join(name), text).unwrap();
        }
        let config = in_cluster(&orch_proto::brand::ORCH, root.path(), env).unwrap();
        assert_eq!(config.endpoints[0].to_string(), "https://10.0.0.1:443");
        assert_eq!(config.bearer, Bearer::File(folder.join("token")));
        assert_eq!(config.trust, Trust::Authority(Pem::File(folder.join("ca.crt"))));
        assert_eq!(config.namespace, "system");
    }

    #[test]
    fn outside_a_cluster_it_says_what_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let error = in_cluster(&orch_proto::brand::ORCH, root.path(), env).unwrap_err();
        assert!(error.to_string().contains("there is no token at"), "{error}");
        let error = in_cluster(&orch_proto::brand::KUBERNETES, root.path(), env).unwrap_err();
        assert_eq!(error.to_string(), "not in a cluster: KUBERNETES_SERVICE_HOST is not set");
    }
}
