//! The data of the config map in which the cluster announces its authorities of clients and front proxies.
//!
//! Owns the union of what is announced already and what this node trusts: other members may have other files while
//! authorities are replaced. As in the reference, an authority leaves the union five minutes after it has expired, and
//! lists of names only grow.

use std::collections::{BTreeMap, HashSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use orch_api::ambient::Timestamp;
use orch_api::controllers::Announcement;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::cli::FrontProxyArgs;
use crate::tls::Reloader;

const CLIENTS: &str = "client-ca-file";
const PROXIES: &str = "requestheader-client-ca-file";

/// How long an expired authority stays announced.
const EXPIRED_SLACK_SECONDS: i64 = 300;

/// Bytes of the whole data. Beyond, what was announced before is dropped: a config map holds one mebibyte.
const DATA_BYTES_MAX: usize = 512 << 10;

/// Characters of a line of PEM.
const PEM_LINE: usize = 64;

/// Announces what a node trusts.
#[derive(Debug)]
pub(super) struct Trust {
    tls: Reloader,
    flags: FrontProxyArgs,
}

impl Trust {
    /// Announces the authorities of `tls`, and the names and headers of front proxies as `flags` spell them.
    pub(super) fn new(tls: Reloader, flags: FrontProxyArgs) -> Trust {
        Trust { tls, flags }
    }

    /// The lists of names, by their keys.
    fn lists(&self) -> [(&'static str, &[String]); 5] {
        let FrontProxyArgs {
            requestheader_client_ca_file: _,
            requestheader_allowed_names,
            requestheader_username_headers,
            requestheader_uid_headers,
            requestheader_group_headers,
            requestheader_extra_headers_prefix,
        } = &self.flags;
        [
            ("requestheader-allowed-names", requestheader_allowed_names),
            ("requestheader-username-headers", requestheader_username_headers),
            ("requestheader-uid-headers", requestheader_uid_headers),
            ("requestheader-group-headers", requestheader_group_headers),
            ("requestheader-extra-headers-prefix", requestheader_extra_headers_prefix),
        ]
    }

    /// The union of `found` and this node's own. Texts in `found` that are not what their keys say count as empty.
    fn union(&self, found: &BTreeMap<String, String>, now_seconds: i64) -> BTreeMap<String, String> {
        let tls = self.tls.current();
        let authorities = |key: &str, own: &[CertificateDer<'static>]| {
            let found = found.get(key).map_or("", String::as_str);
            let found = CertificateDer::pem_slice_iter(found.as_bytes()).filter_map(Result::ok);
            let all = found.chain(own.iter().cloned());
            distinct(all.filter(|certificate| is_announced(certificate, now_seconds)))
        };
        let mut data = BTreeMap::new();
        let clients = authorities(CLIENTS, &tls.client_authorities);
        if !clients.is_empty() {
            data.insert(CLIENTS.to_owned(), pem(&clients));
        }
        let proxies = authorities(PROXIES, &tls.proxy_authorities);
        if !proxies.is_empty() {
            data.insert(PROXIES.to_owned(), pem(&proxies));
            let is_own = !tls.proxy_authorities.is_empty();
            for (key, own) in self.lists() {
                let found: Vec<String> =
                    found.get(key).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
                let own = own.iter().filter(|_| is_own).cloned();
                let names = distinct(found.into_iter().chain(own));
                data.insert(key.to_owned(), serde_json::Value::from(names).to_string());
            }
        }
        data
    }
}

impl Announcement for Trust {
    fn data(&self, found: &BTreeMap<String, String>, now: Timestamp) -> BTreeMap<String, String> {
        let now_seconds = i64::try_from(now.0 / 1_000_000).unwrap_or(i64::MAX);
        let data = self.union(found, now_seconds);
        match data.values().map(String::len).sum::<usize>() {
            ..=DATA_BYTES_MAX => data,
            _ => self.union(&BTreeMap::new(), now_seconds),
        }
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut reloads = self.tls.subscribe();
        Box::pin(async move {
            if reloads.changed().await.is_err() {
                std::future::pending().await
            }
        })
    }
}

/// `items` in their order, each once.
fn distinct<T: Clone + Eq + std::hash::Hash>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut seen = HashSet::new();
    items.filter(|item| seen.insert(item.clone())).collect()
}

fn is_announced(certificate: &CertificateDer<'_>, now_seconds: i64) -> bool {
    X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| {
        parsed.validity().not_after.timestamp().saturating_add(EXPIRED_SLACK_SECONDS) > now_seconds
    })
}

fn pem(certificates: &[CertificateDer<'_>]) -> String {
    let mut text = String::new();
    for certificate in certificates {
        let encoded = STANDARD.encode(certificate);
        text.push_str("-----BEGIN CERTIFICATE-----\n");
        for line in encoded.as_bytes().chunks(PEM_LINE) {
            text.extend(line.iter().map(|&byte| char::from(byte)));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use time::{Duration, OffsetDateTime};

    use super::*;
    use crate::certs::{Authority, server_leaf};
    use crate::cli::{Cli, Command, parse};
    use crate::run::front_proxy;
    use crate::tls::TlsFiles;

    fn authority(name: &str, made: Duration) -> Authority {
        Authority::create(name, OffsetDateTime::now_utc() + made).unwrap()
    }

    fn flags(line: &str) -> FrontProxyArgs {
        let Cli { command } =
            parse(format!("orch dev {line}").split_whitespace().map(Into::into).collect()).unwrap();
        let Command::Dev(arguments) = command else { panic!("{line}") };
        arguments.shared.front_proxy
    }

    /// A node that trusts `clients`, and the front proxies of the file in `flags`.
    fn trust(directory: &Path, clients: &Authority, line: &str) -> Trust {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let leaf = server_leaf("a", &[], &orch_proto::brand::ORCH);
        let pair = clients.issue(&leaf, OffsetDateTime::now_utc()).unwrap();
        let flags = flags(line);
        let files = TlsFiles {
            certificate: write("server.crt", &pair.certificate),
            key: write("server.key", &pair.key),
            client_authorities: write("ca.crt", &clients.pair.certificate),
            proxies: front_proxy::files(&flags),
            ..TlsFiles::default()
        };
        Trust::new(Reloader::load(files).unwrap(), flags)
    }

    fn now() -> Timestamp {
        Timestamp(u64::try_from(OffsetDateTime::now_utc().unix_timestamp()).unwrap() * 1_000_000)
    }

    fn unix_lines(pem: &str) -> String {
        pem.replace("\r\n", "\n")
    }

    #[test]
    fn authorities_and_names_are_announced_as_the_reference_does() {
        let directory = tempfile::tempdir().unwrap();
        let (clients, proxies) = (authority("clients", Duration::ZERO), authority("proxies", Duration::ZERO));
        let plain = trust(directory.path(), &clients, "").data(&BTreeMap::new(), now());
        assert_eq!(plain.keys().collect::<Vec<_>>(), [CLIENTS]);
        assert_eq!(plain[CLIENTS], unix_lines(&clients.pair.certificate));
        let path = directory.path().join("proxies.crt");
        std::fs::write(&path, &proxies.pair.certificate).unwrap();
        let line = format!(
            "--requestheader-client-ca-file {} --requestheader-allowed-names front,b",
            path.display()
        );
        let data = trust(directory.path(), &clients, &line).data(&plain, now());
        assert_eq!(data[CLIENTS], plain[CLIENTS], "each authority once");
        assert_eq!(data[PROXIES], unix_lines(&proxies.pair.certificate));
        for (key, expected) in [
            ("requestheader-allowed-names", r#"["front","b"]"#),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#),
            ("requestheader-uid-headers", "[]"),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
        ] {
            assert_eq!(data[key], expected, "{key}");
        }
        assert_eq!(data.len(), 7);
    }

    #[test]
    fn announcements_of_other_members_stay_until_they_have_expired() {
        let directory = tempfile::tempdir().unwrap();
        let clients = authority("clients", Duration::ZERO);
        let (other, old) = (authority("other", Duration::ZERO), authority("old", Duration::days(-40_000)));
        let found = |key: &str, text: String| (key.to_owned(), text);
        let found = BTreeMap::from([
            found(CLIENTS, format!("{}{}", old.pair.certificate, other.pair.certificate)),
            found(PROXIES, other.pair.certificate.clone()),
            found("requestheader-allowed-names", r#"["theirs"]"#.to_owned()),
            found("requestheader-uid-headers", "no list".to_owned()),
            found("more", "x".to_owned()),
        ]);
        let trust = trust(directory.path(), &clients, "");
        let data = trust.data(&found, now());
        let both = format!("{}{}", other.pair.certificate, clients.pair.certificate);
        assert_eq!(data[CLIENTS], unix_lines(&both));
        assert_eq!(data["requestheader-allowed-names"], r#"["theirs"]"#);
        assert_eq!(data["requestheader-uid-headers"], "[]");
        assert!(!data.contains_key("more"));
        assert_eq!(trust.data(&data, now()), data, "the union is stable");
        let mut large = found;
        let names: Vec<String> = (0..100_000).map(|number| format!("name-{number}")).collect();
        large.insert("requestheader-allowed-names".to_owned(), serde_json::Value::from(names).to_string());
        assert_eq!(trust.data(&large, now()).keys().collect::<Vec<_>>(), [CLIENTS], "too much is dropped");
    }
}
