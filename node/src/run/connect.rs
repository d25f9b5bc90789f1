//! Resolves the flags of requests that are passed on to kubelets, pods and services.

use std::sync::Arc;

use orch_api::connect::{Connector, Reach};

use super::error::RunError;
use crate::cli::ConnectArgs;
use crate::connect::{KubeletFiles, Sockets, TrustStore};

/// The connector to other servers, by which requests are passed on.
///
/// # Errors
/// One of two flags is missing, or a file that they name cannot be used.
pub(super) fn connector(arguments: &ConnectArgs) -> Result<Connector, RunError> {
    let pair = match (&arguments.kubelet_client_certificate, &arguments.kubelet_client_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        _ => {
            let reason = "--kubelet-client-certificate and --kubelet-client-key go together";
            return Err(RunError::Flags(reason.to_owned()));
        }
    };
    let files = KubeletFiles { authority: arguments.kubelet_certificate_authority.clone(), pair };
    // Each alone first, so that the error names the flags of the file.
    let flags = ["--kubelet-certificate-authority", "--kubelet-client-certificate, --kubelet-client-key"];
    let authority = KubeletFiles { authority: files.authority.clone(), pair: None };
    let read = |files, flags| TrustStore::read(files).map_err(|source| RunError::Kubelets { flags, source });
    read(authority, flags[0])?;
    let trust = read(files, flags[1])?;
    if arguments.kubelet_client_certificate.is_some() && !trust.verifies_kubelets() {
        tracing::warn!(
            "the certificates of kubelets are not verified: --kubelet-certificate-authority is not given"
        );
    }
    Ok(Connector {
        backends: Arc::new(Sockets::new(trust, arguments.kubelet_timeout)),
        reach: Reach { allowed: arguments.proxy_local_addresses.clone() },
        address_types: arguments.kubelet_preferred_address_types.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command, parse};

    fn resolved(flags: &str) -> Result<Connector, String> {
        let line = format!("orch dev {flags}");
        let Cli { command } = parse(line.split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        connector(&arguments.shared.connect).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_say_how_kubelets_are_reached() {
        let found = resolved("").unwrap();
        assert_eq!(found.address_types[0], "Hostname");
        assert!(!found.reach.allows([127, 0, 0, 1].into()));
        let flags =
            "--kubelet-preferred-address-types=InternalIP --proxy-local-addresses 127.0.0.1,fe80::/10";
        let found = resolved(flags).unwrap();
        assert_eq!(found.address_types, ["InternalIP"]);
        assert!(found.reach.allows([127, 0, 0, 1].into()) && !found.reach.allows([127, 0, 0, 2].into()));
        assert!(found.reach.allows("fe80::1".parse().unwrap()));
        let half = resolved("--kubelet-client-key x.key").unwrap_err();
        assert_eq!(half, "--kubelet-client-certificate and --kubelet-client-key go together");
        assert!(resolved("--kubelet-certificate-authority /nowhere/ca.crt").is_err());
    }
}
