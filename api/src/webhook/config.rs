//! A `clientConfig`, read once: where a webhook is, and whose certificate it has.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::egress::{Scheme, Url};

/// Port of a service whose configuration names none: the default of the field.
const SERVICE_PORT: u16 = 443;

/// The service of a webhook, or of an aggregated server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ServicePort {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) port: u16,
}

impl ServicePort {
    /// The service that `reference` names by `namespace`, `name` and `port`.
    pub(crate) fn of(reference: &Value) -> ServicePort {
        let port = reference.int("port").and_then(|port| port.try_into().ok()).unwrap_or(SERVICE_PORT);
        let (namespace, name) = (reference.text("namespace").to_owned(), reference.text("name").to_owned());
        ServicePort { namespace, name, port }
    }

    /// The name that its certificate has to have.
    pub(crate) fn host(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }
}

/// Where a webhook is called, and who it has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClientConfig {
    /// Without the time of a call.
    url: Url,
    service: Option<ServicePort>,
    authorities: Option<Arc<[u8]>>,
}

impl ClientConfig {
    /// Reads `config`.
    ///
    /// # Errors
    /// A stored configuration that this server cannot call: the reason.
    pub(crate) fn of(config: &Value) -> Result<ClientConfig, String> {
        let authorities = authorities(config.text("caBundle"))?;
        let reference = config.at("service");
        if reference.is_null() {
            let url = Url::parse(config.text("url")).map_err(|error| error.to_string())?;
            if url.scheme != Scheme::Https {
                return Err("the scheme of the URL must be https".to_owned());
            }
            return Ok(ClientConfig { url, service: None, authorities });
        }
        let service = ServicePort::of(reference);
        let path = reference.text("path");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let text = format!("https://{}:{}{slash}{path}", service.host(), service.port);
        let url = Url::parse(&text).map_err(|error| error.to_string())?;
        Ok(ClientConfig { url, service: Some(service), authorities })
    }

    /// The URL of a call; with `timeout`, which the webhook reads there in whole seconds.
    pub(super) fn url(&self, timeout: Option<Duration>) -> Url {
        let mut url = self.url.clone();
        if let Some(timeout) = timeout {
            let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
            let mark = if url.target.contains('?') { '&' } else { '?' };
            url.target.push_str(&format!("{mark}timeout={seconds}s"));
        }
        url
    }

    /// `url`, one of this configuration's, as failures name it: with the port of a service in any case.
    pub(super) fn shown(&self, url: &Url) -> String {
        match &self.service {
            Some(service) => format!("https://{}:{}{}", service.host(), service.port, url.target),
            None => url.to_string(),
        }
    }

    pub(super) fn service(&self) -> Option<&ServicePort> {
        self.service.as_ref()
    }

    pub(super) fn authorities(&self) -> Option<Arc<[u8]>> {
        self.authorities.clone()
    }
}

/// The PEM text of a bundle in base64. One of white space counts as none, as in the reference.
///
/// # Errors
/// It is no base64.
pub(crate) fn authorities(bundle: &str) -> Result<Option<Arc<[u8]>>, String> {
    let text = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
    Ok((!text.trim_ascii().is_empty()).then(|| text.into()))
}
