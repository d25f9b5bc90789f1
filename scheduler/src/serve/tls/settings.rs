//! The TLS settings: versions, cipher suites, certificates and clients, and their reload.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use orch_serving::stamps::{Stamp, stamps, stamps_at_start};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use tokio::time::Instant;

use super::clients::Clients;
use super::material::MaterialError;
use super::resolver::{AtAddress, Resolver};

/// Time between looks at the files: the longest wait of a renewal. A few calls of `stat` each time are cheap.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// TLS flags other than certificates.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsOptions {
    /// Names of cipher suites; empty for all.
    pub cipher_suites: Vec<String>,
    /// Name of the lowest version; empty for the library's.
    pub min_version: String,
}

/// TLS of a port.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    base: Arc<ServerConfig>,
    resolver: Arc<Resolver>,
    clients: Arc<ArcSwap<Clients>>,
}

impl TlsOptions {
    /// The versions and suites that are served.
    fn offer(&self) -> Result<(Vec<&'static SupportedProtocolVersion>, CryptoProvider), MaterialError> {
        let mut provider = default_provider();
        let is_named = |suite: &SupportedCipherSuite, name: &str| {
            let known = format!("{:?}", suite.suite()).replacen("TLS13_", "TLS_", 1);
            known == name || known.strip_suffix("_SHA256") == Some(name) && name.ends_with("POLY1305")
        };
        if let Some(unknown) = self
            .cipher_suites
            .iter()
            .find(|name| !provider.cipher_suites.iter().any(|suite| is_named(suite, name)))
        {
            return Err(MaterialError(format!("Cipher suite {unknown} not supported or doesn't exist")));
        }
        let mut versions = match self.min_version.as_str() {
            "" | "VersionTLS12" => vec![&TLS13, &TLS12],
            "VersionTLS13" => vec![&TLS13],
            "VersionTLS10" | "VersionTLS11" => {
                return Err(MaterialError(format!(
                    "tls version \"{}\" cannot be served: the TLS library speaks TLS 1.2 and TLS 1.3 only; use \
                     --tls-min-version=VersionTLS12 or VersionTLS13",
                    self.min_version
                )));
            }
            unknown => return Err(MaterialError(format!("unknown tls version {unknown:?}"))),
        };
        if !self.cipher_suites.is_empty() {
            // Suites of TLS 1.3 cannot be chosen, as in the reference.
            provider.cipher_suites.retain(|suite| {
                suite.tls13().is_some() || self.cipher_suites.iter().any(|name| is_named(suite, name))
            });
        }
        if provider.cipher_suites.iter().all(|suite| suite.tls13().is_some()) {
            versions = vec![&TLS13];
        }
        Ok((versions, provider))
    }
}

impl Tls {
    /// TLS with these certificates and clients.
    pub(crate) fn new(
        options: &TlsOptions,
        resolver: Resolver,
        clients: Clients,
    ) -> Result<Tls, MaterialError> {
        let (versions, provider) = options.offer()?;
        let setup = |error: rustls::Error| MaterialError(format!("cannot set up TLS: {error}"));
        let resolver = Arc::new(resolver);
        let builder = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(setup)?;
        let builder = match clients.handshake() {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let at = AtAddress { resolver: Arc::clone(&resolver), local: None };
        let mut base = builder.with_cert_resolver(Arc::new(at));
        base.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        base.ticketer = Ticketer::new().map_err(setup)?;
        base.send_tls13_tickets = 1;
        Ok(Tls { base: Arc::new(base), resolver, clients: Arc::new(ArcSwap::from_pointee(clients)) })
    }

    /// The settings of a connection to the address `local`.
    pub(in crate::serve) fn at(&self, local: Option<IpAddr>) -> Arc<ServerConfig> {
        let mut config = (*self.base).clone();
        config.cert_resolver = Arc::new(AtAddress { resolver: Arc::clone(&self.resolver), local });
        Arc::new(config)
    }

    /// A pair of its own, and no clients.
    #[cfg(test)]
    pub(in crate::serve) fn for_test() -> Tls {
        let default = super::default_pair(None, None, None, "test").expect("a pair in memory");
        let resolver = Resolver::load(default, Vec::new()).expect("a pair in memory");
        let clients = Clients::load(None, None, Vec::new()).expect("no files");
        Tls::new(&TlsOptions::default(), resolver, clients).expect("the defaults")
    }

    /// The authorities of clients.
    pub(in crate::serve) fn clients(&self) -> Arc<Clients> {
        self.clients.load_full()
    }

    /// Trusts `clients` and no longer those before.
    pub(in crate::serve) fn replace_clients(&self, clients: Clients) {
        self.clients.store(Arc::new(clients));
    }

    /// Reads all files again, on the caller's thread: they are a few kilobytes on a local disk, read only when one of them has
    /// changed. Returns whether all could be.
    pub(in crate::serve) fn reload(&self) -> bool {
        let certificates = measured("serving_certificate", || self.resolver.reload());
        measured("client_ca", || self.clients().reload()) && certificates
    }

    /// Reads the files again whenever one of them has changed, and never ends. A file that cannot be read is tried again
    /// at the next look.
    pub(in crate::serve) async fn follow(self) {
        let mut seen = self.stamped(stamps_at_start);
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = self.stamped(stamps);
            if now != seen {
                tracing::info!("certificates have changed and are read again");
                if self.reload() {
                    seen = now;
                }
            }
        }
    }

    /// The files, each with its stamp. A look at a few inodes, once per `LOOK_EVERY`, is shorter than handing it to another thread.
    pub(super) fn stamped(&self, stamps: impl FnOnce(&[PathBuf]) -> Vec<Stamp>) -> Vec<(PathBuf, Stamp)> {
        let clients = self.clients();
        let files: Vec<PathBuf> = self.resolver.files().chain(clients.files()).cloned().collect();
        let stamps = stamps(&files);
        files.into_iter().zip(stamps).collect()
    }
}

/// Reads files, and tells the metrics of work queues: the reference has a queue of one item for each set of files.
fn measured(queue: &'static str, read: impl FnOnce() -> bool) -> bool {
    let began = Instant::now();
    ::metrics::counter!("workqueue_adds_total", "name" => queue).increment(1);
    // The task that notices the change does the work.
    ::metrics::histogram!("workqueue_queue_duration_seconds", "name" => queue).record(0.0);
    let is_done = read();
    ::metrics::histogram!("workqueue_work_duration_seconds", "name" => queue)
        .record(began.elapsed().as_secs_f64());
    if !is_done {
        ::metrics::counter!("workqueue_retries_total", "name" => queue).increment(1);
    }
    is_done
}
