//! Extenders of the configuration file as the executor and the planner take them.
//!
//! Owns the translation of one extender's members. Calls are [`crate::run::Extender`]'s.

use std::path::PathBuf;

use crate::client::Pem;
use crate::config::types::{self, ExtenderTls};
use crate::config::wire::Bytes;
use crate::run::{ExtenderConfig, inline_pem, pem_file};

/// The extenders in the order of the configuration, in which they are asked.
pub(super) fn configs(configured: &[types::Extender]) -> Result<Vec<ExtenderConfig>, String> {
    let named = |extender: &types::Extender| {
        config(extender).map_err(|fault| format!("extender {}: {fault}", extender.url_prefix))
    };
    configured.iter().map(named).collect()
}

fn config(extender: &types::Extender) -> Result<ExtenderConfig, String> {
    let tls = extender.tls_config.as_ref().map(tls).transpose()?;
    Ok(ExtenderConfig {
        url_prefix: extender.url_prefix.trim_end_matches('/').to_owned(),
        filter_verb: extender.filter_verb.clone(),
        preempt_verb: extender.preempt_verb.clone(),
        prioritize_verb: extender.prioritize_verb.clone(),
        weight: extender.weight,
        bind_verb: extender.bind_verb.clone(),
        enable_https: extender.enable_https,
        tls: tls.unwrap_or_default(),
        timeout: extender.http_timeout.duration(),
        is_node_cache_capable: extender.node_cache_capable,
        managed_resources: extender.managed_resources.iter().map(|resource| resource.name.clone()).collect(),
        is_ignorable: extender.ignorable,
    })
}

fn tls(tls: &ExtenderTls) -> Result<crate::run::ExtenderTls, String> {
    let certificate = pem("certData", &tls.cert_data, &tls.cert_file)?;
    let key = pem("keyData", &tls.key_data, &tls.key_file)?;
    let certificate = match (certificate, key) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        (Some(_), None) => return Err("tlsConfig has a certificate without a key".to_owned()),
        (None, Some(_)) => return Err("tlsConfig has a key without a certificate".to_owned()),
    };
    Ok(crate::run::ExtenderTls {
        insecure: tls.insecure,
        server_name: tls.server_name.clone(),
        certificate,
        authority: pem("caData", &tls.ca_data, &tls.ca_file)?,
    })
}

/// The data, or else the file; `None` where neither is given.
fn pem(field: &str, data: &Bytes, file: &str) -> Result<Option<Pem>, String> {
    if !data.0.is_empty() {
        // The error would quote the bytes, which may be a key's.
        let text = std::str::from_utf8(&data.0).map_err(|_| format!("tlsConfig.{field} is not PEM"))?;
        return Ok(Some(inline_pem(text)));
    }
    Ok((!file.is_empty()).then(|| pem_file(PathBuf::from(file))))
}

#[cfg(test)]
mod tests {
    use orch_schema::SignedDuration;

    use std::time::Duration;

    use super::*;

    #[test]
    fn every_member_arrives() {
        let resource =
            types::ManagedResource { name: "example.com/a".to_owned(), ignored_by_scheduler: true };
        let configured = types::Extender {
            url_prefix: "http://127.0.0.1:1/x/".to_owned(),
            filter_verb: "f".to_owned(),
            preempt_verb: "e".to_owned(),
            prioritize_verb: "p".to_owned(),
            weight: 5,
            bind_verb: "b".to_owned(),
            enable_https: true,
            tls_config: Some(ExtenderTls {
                server_name: "s".to_owned(),
                cert_file: "cert".to_owned(),
                key_data: Bytes(b"key".to_vec()),
                ca_file: "ca".to_owned(),
                ca_data: Bytes(b"authority".to_vec()),
                ..ExtenderTls::default()
            }),
            http_timeout: SignedDuration::from_secs(3),
            node_cache_capable: true,
            managed_resources: vec![resource],
            ignorable: true,
        };
        let expected = ExtenderConfig {
            url_prefix: "http://127.0.0.1:1/x".to_owned(),
            filter_verb: "f".to_owned(),
            preempt_verb: "e".to_owned(),
            prioritize_verb: "p".to_owned(),
            weight: 5,
            bind_verb: "b".to_owned(),
            enable_https: true,
            tls: crate::run::ExtenderTls {
                insecure: false,
                server_name: "s".to_owned(),
                certificate: Some((pem_file("cert".into()), inline_pem("key"))),
                authority: Some(inline_pem("authority")),
            },
            timeout: Duration::from_secs(3),
            is_node_cache_capable: true,
            managed_resources: vec!["example.com/a".to_owned()],
            is_ignorable: true,
        };
        assert_eq!(config(&configured), Ok(expected));
    }

    #[test]
    fn half_a_pair_and_bytes_that_are_no_text_are_refused() {
        let fault = |tls_config: ExtenderTls| {
            config(&types::Extender { tls_config: Some(tls_config), ..types::Extender::default() })
                .unwrap_err()
        };
        let file = || "file".to_owned();
        for (tls, expected) in [
            (ExtenderTls { cert_file: file(), ..Default::default() }, "a certificate without a key"),
            (ExtenderTls { key_file: file(), ..Default::default() }, "a key without a certificate"),
            (ExtenderTls { ca_data: Bytes(vec![0xff]), ..Default::default() }, "tlsConfig.caData is not PEM"),
        ] {
            assert!(fault(tls).ends_with(expected), "{expected}");
        }
    }
}
