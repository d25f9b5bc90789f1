//! Chooses the server certificate by the name that a client asks for.
//!
//! Owns the precedence: a name without wildcard wins over a wildcard, a name that a flag gives over one that stands in a
//! certificate, and of equals the earlier flag. A client that asks for no name is matched by the address that it
//! connected to; whatever matches nothing gets the default certificate.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::material::{self, MaterialError};
use super::self_signed::DefaultPair;
use crate::config::flags::SniPair;

/// The certificates.
#[derive(Debug)]
pub(crate) struct Resolver {
    default: DefaultPair,
    named: Vec<SniPair>,
    current: ArcSwap<Certificates>,
}

#[derive(Debug)]
struct Certificates {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Resolver {
    /// Reads the certificates.
    pub(crate) fn load(default: DefaultPair, named: Vec<SniPair>) -> Result<Resolver, MaterialError> {
        let current = ArcSwap::from_pointee(read(&default, &named)?);
        Ok(Resolver { default, named, current })
    }

    /// Reads the files again. If one cannot be used, all stay as they are. Returns whether all could be.
    pub(super) fn reload(&self) -> bool {
        match read(&self.default, &self.named) {
            Ok(read) => {
                self.current.store(Arc::new(read));
                true
            }
            Err(error) => {
                tracing::warn!(%error, "server certificates cannot be read again: the former stay");
                false
            }
        }
    }

    /// The files that [`Resolver::reload`] reads.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let default = match &self.default {
            DefaultPair::Files { certificate, key } => vec![certificate, key],
            DefaultPair::Memory(_) => Vec::new(),
        };
        default.into_iter().chain(self.named.iter().flat_map(|pair| [&pair.certificate, &pair.key]))
    }

    /// The certificate for a client that asks for `name`, or for none and is connected to `local`.
    pub(super) fn choose(&self, name: Option<&str>, local: Option<IpAddr>) -> Arc<CertifiedKey> {
        let current = self.current.load();
        let address = local.map(|local| local.to_canonical().to_string());
        let asked = name.map(str::to_ascii_lowercase).or(address);
        let found = asked.and_then(|asked| {
            let asked = asked.trim_end_matches('.');
            let wildcard = asked.split_once('.').map(|(_, rest)| format!("*.{rest}"));
            current.by_name.get(asked).or_else(|| current.by_name.get(&wildcard?))
        });
        Arc::clone(found.unwrap_or(&current.default))
    }
}

fn read(default: &DefaultPair, named: &[SniPair]) -> Result<Certificates, MaterialError> {
    let default = match default {
        DefaultPair::Memory(pair) => Arc::clone(pair),
        DefaultPair::Files { certificate, key } => material::pair(certificate, key)?,
    };
    let context = |error: MaterialError| MaterialError(format!("failed to load SNI cert and key: {error}"));
    let mut loaded = Vec::with_capacity(named.len());
    for pair in named {
        loaded.push((material::pair(&pair.certificate, &pair.key).map_err(context)?, pair));
    }
    let mut by_name = HashMap::new();
    // Later insertions win: names of certificates come first, and earlier flags last.
    for (key, _) in loaded.iter().rev().filter(|(_, pair)| pair.names.is_empty()) {
        for name in names(key) {
            by_name.insert(name, Arc::clone(key));
        }
    }
    for (key, pair) in loaded.iter().rev() {
        for name in &pair.names {
            by_name.insert(name.to_ascii_lowercase(), Arc::clone(key));
        }
    }
    Ok(Certificates { default, by_name })
}

/// The names in a certificate: common name, DNS names and addresses.
fn names(key: &CertifiedKey) -> Vec<String> {
    let Some((_, parsed)) = key.cert.first().and_then(|end| X509Certificate::from_der(end).ok()) else {
        return Vec::new();
    };
    let common = parsed.subject().iter_common_name().filter_map(|value| value.as_str().ok());
    let mut names: Vec<String> = common.map(str::to_ascii_lowercase).collect();
    if let Ok(Some(alternatives)) = parsed.subject_alternative_name() {
        for name in &alternatives.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => {
                    names.extend(address(bytes).map(|address| address.to_string()))
                }
                _ => {}
            }
        }
    }
    names
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

/// The resolver of one connection, which knows the address that the client connected to.
#[derive(Debug)]
pub(super) struct AtAddress {
    pub(super) resolver: Arc<Resolver>,
    pub(super) local: Option<IpAddr>,
}

impl ResolvesServerCert for AtAddress {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.resolver.choose(hello.server_name(), self.local))
    }
}
