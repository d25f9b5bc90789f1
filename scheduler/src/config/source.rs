//! Checks that a file, a flag, the environment or the cluster names an API server.

use std::path::Path;

use orch_proto::Brand;

use super::file::system_text;
use super::settle::Settled;

/// Checks that a client configuration file, an address, the environment or the cluster around this process names a
/// server. `environment` looks a variable up.
pub fn check_source(
    settled: &Settled,
    master: Option<&str>,
    brand: &Brand,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    if let Some(path) = settled.client_config() {
        return match std::fs::metadata(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("stat {}: {}", path.display(), system_text(&error))),
        };
    }
    let is_set = |name: &str| environment(name).is_some_and(|value| !value.is_empty());
    let is_given = master.is_some_and(|master| !master.is_empty());
    let variable = format!("{}_MASTER", brand.name.to_uppercase());
    match is_given || is_inside(brand, &is_set) || is_set(&variable) {
        true => Ok(()),
        false => Err(format!(
            "invalid configuration: no configuration has been provided, try setting {variable} environment variable"
        )),
    }
}

/// Whether this process runs in a pod, with the account of which it can sign in.
fn is_inside(brand: &Brand, is_set: &impl Fn(&str) -> bool) -> bool {
    let service = brand.api_service.to_uppercase();
    let token = format!("/var/run/secrets/{}/serviceaccount/token", brand.label_domain);
    is_set(&format!("{service}_SERVICE_HOST"))
        && is_set(&format!("{service}_SERVICE_PORT"))
        && Path::new(&token).exists()
}
