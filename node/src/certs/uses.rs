//! The uses of certificates by a node.
//!
//! Owns their names in metrics, in the log and in the cluster's status, and the remedy against the end of each. It reads no file.

use super::clients::Client;

/// A server that a node asks, by a client configuration of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Webhook {
    /// It judges bearer tokens.
    Token,
    /// It rules on requests; of several, any.
    Authorization,
    /// It stores audit events.
    Audit,
}

/// The use of a certificate by a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateUse {
    /// Shown to clients.
    Serving,
    /// Shown to other members.
    Peer,
    /// Of a client of the cluster, in the certificate directory of this node.
    Client(Client),
    /// Shown to kubelets.
    Kubelet,
    /// Shown to aggregated servers, which know this server by it.
    Proxy,
    /// Shown to a webhook.
    Webhook(Webhook),
    /// Authority of the servers.
    ServingAuthority,
    /// Authorities of clients.
    ClientAuthority,
    /// Authority of members.
    PeerAuthority,
    /// Authorities of front proxies.
    FrontProxyAuthority,
    /// Authority of the servers that pods get.
    PodAuthority,
    /// Authorities of kubelets.
    KubeletAuthority,
    /// Authorities of the built-in signers, where flags name them.
    SigningAuthority,
    /// Authorities of a webhook.
    WebhookAuthority(Webhook),
    /// Authorities of the issuers of tokens.
    IssuerAuthority,
}

impl CertificateUse {
    /// Its name in metrics, in the log and in the cluster's status.
    pub fn name(self) -> &'static str {
        match self {
            CertificateUse::Serving => "serving",
            CertificateUse::Peer => "peer",
            CertificateUse::Client(Client::Admin) => "client_admin",
            CertificateUse::Client(Client::Scheduler) => "client_scheduler",
            CertificateUse::Client(Client::ControllerManager) => "client_controller_manager",
            CertificateUse::Kubelet => "client_kubelet",
            CertificateUse::Proxy => "client_proxy",
            CertificateUse::Webhook(Webhook::Token) => "webhook_token",
            CertificateUse::Webhook(Webhook::Authorization) => "webhook_authorization",
            CertificateUse::Webhook(Webhook::Audit) => "webhook_audit",
            CertificateUse::ServingAuthority => "authority_serving",
            CertificateUse::ClientAuthority => "authority_client",
            CertificateUse::PeerAuthority => "authority_peer",
            CertificateUse::FrontProxyAuthority => "authority_front_proxy",
            CertificateUse::PodAuthority => "authority_pod",
            CertificateUse::KubeletAuthority => "authority_kubelet",
            CertificateUse::SigningAuthority => "authority_signing",
            CertificateUse::WebhookAuthority(Webhook::Token) => "authority_webhook_token",
            CertificateUse::WebhookAuthority(Webhook::Authorization) => "authority_webhook_authorization",
            CertificateUse::WebhookAuthority(Webhook::Audit) => "authority_webhook_audit",
            CertificateUse::IssuerAuthority => "authority_issuer",
        }
    }
}

/// The remedy against the end of a certificate of the use called `name`, which a newer server may have and this program not.
pub fn remedy(name: &str) -> &'static str {
    match name {
        "authority_issuer" => "replace it in the authentication configuration or the file of --oidc-ca-file",
        "client_proxy" => "replace the files of --proxy-client-cert-file and --proxy-client-key-file",
        name if name.starts_with("webhook_") || name.starts_with("authority_webhook_") => {
            "replace it in the webhook's client configuration"
        }
        name if name.starts_with("authority_") => "orch certs rotate-ca",
        _ => "orch certs renew",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_use_has_the_remedy_of_whoever_has_its_file() {
        let [pairs, authorities, configuration] =
            ["orch certs renew", "orch certs rotate-ca", "replace it in the webhook's client configuration"];
        for (used_as, expected) in [
            (CertificateUse::Serving, pairs),
            (CertificateUse::Kubelet, pairs),
            (CertificateUse::Client(Client::Admin), pairs),
            (CertificateUse::PeerAuthority, authorities),
            (CertificateUse::SigningAuthority, authorities),
            (CertificateUse::Webhook(Webhook::Audit), configuration),
            (CertificateUse::WebhookAuthority(Webhook::Token), configuration),
        ] {
            assert_eq!(remedy(used_as.name()), expected, "{used_as:?}");
        }
        assert!(remedy(CertificateUse::Proxy.name()).contains("--proxy-client-key-file"));
        assert!(remedy(CertificateUse::IssuerAuthority.name()).contains("--oidc-ca-file"));
    }
}
