//! The HTTPS server: health, metrics, configuration, profiles.
//!
//! Owns the port from the flags to the answers: [`Bound::open`] listens and reads every file, so that all faults show
//! before the process is called started; [`Bound::serve`] answers. The parts:
//!
//! ```text
//! listener -> connection (limits, TLS) -> router { authentication -> authorization -> pages }
//!                                                        \-> review -> another server
//! ```
//!
//! It knows no pod and no node: pages about the scheduler's work get their content through [`Pages`] and [`Checks`].

mod answer;
mod authentication;
mod authorization;
mod connection;
mod health;
mod listener;
mod lookup;
mod pages;
mod places;
mod profile;
pub mod review;
mod router;
mod slis;
mod tls;
mod user;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use orch_bounded::WarningLimit;
use orch_proto::Brand;
use tokio_util::sync::CancellationToken;

use self::authentication::{Authenticator, ProxyHeaders};
use self::authorization::{Authorizer, DecisionTimes, OpenPaths};
use self::connection::Shared;
use self::listener::{Listen, listen};
use self::lookup::{Lookup, Trust};
use self::review::{ReviewServer, Reviewer};
use self::router::Router;
use self::slis::Slis;
use self::tls::{Authorities, Clients, Resolver, Tls, TlsOptions, default_pair};
use crate::client::{ConfigError, chain, from_file};
use crate::config::flags::{AuthenticationFlags, AuthorizationFlags, Flags, List, ServingFlags};
use crate::config::{component, system_text};
use crate::logging::Verbosity;
use crate::metrics::Metrics;

pub use health::{Check, Checks};
pub use pages::Pages;
pub use profile::Profiler;
pub use router::Health;

/// The port cannot be served. The text is the reference's.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ServeError(pub String);

/// The parts of the process that the port's pages show.
pub struct Content {
    /// Health.
    pub health: Health,
    /// Metrics.
    pub metrics: Metrics,
    /// Pages about the process.
    pub pages: Pages,
    /// Whether profiles are served, and the verbosity of log lines can be changed.
    pub profiling: bool,
    /// The verbosity of log lines.
    pub verbosity: Verbosity,
}

/// A port that listens and has read its files.
pub struct Bound {
    listener: std::net::TcpListener,
    tls: Tls,
    authenticator: Authenticator,
    authorizer: Authorizer,
    streams_max: Option<u32>,
    /// The config map to follow, and the trust that it gave; `None` if flags name all authorities.
    lookup: Option<(Lookup, Trust)>,
}

fn fault(error: impl std::fmt::Display) -> ServeError {
    ServeError(error.to_string())
}

fn flat(lists: &[List]) -> Vec<String> {
    lists.iter().flat_map(|list| list.0.iter().cloned()).collect()
}

impl Bound {
    /// Opens the port of `flags` and reads the files of its certificates and of its review servers. `None` where no port
    /// is to be served.
    pub async fn open(flags: &Flags, brand: &'static Brand) -> Result<Option<Bound>, ServeError> {
        let serving = &flags.serving;
        let port = u16::try_from(serving.secure_port).map_err(fault)?;
        if port == 0 {
            return Ok(None);
        }
        let listener = listen(&Listen {
            address: serving.bind_address,
            port,
            shares_address: serving.permit_address_sharing,
            shares_port: serving.permit_port_sharing,
        })
        .map_err(ServeError)?;
        let (options, resolver) = server_certificates(serving, brand)?;
        let (authenticator, clients, lookup) = authentication(&flags.authentication, brand).await?;
        let tls = Tls::new(&options, resolver, clients).map_err(fault)?;
        let authorizer = authorization(&flags.authorization, brand)?;
        let streams = serving.http2_max_streams_per_connection;
        let streams_max = u32::try_from(streams).ok().filter(|streams| *streams > 0);
        Ok(Some(Bound { listener, tls, authenticator, authorizer, streams_max, lookup }))
    }

    /// The address that is listened on.
    pub fn address(&self) -> Result<SocketAddr, ServeError> {
        self.listener.local_addr().map_err(fault)
    }

    /// Answers with `content` until `stopping`, and then until requests under way have ended.
    pub async fn serve(self, content: Content, stopping: CancellationToken) -> Result<(), ServeError> {
        let Bound { listener, tls, authenticator, authorizer, streams_max, lookup } = self;
        let Content { health, metrics, pages, profiling, verbosity } = content;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(fault)?;
        let profiler = profiling.then(Profiler::default);
        let router = Router {
            authenticator,
            authorizer,
            health,
            slis: Slis::default(),
            metrics,
            pages,
            profiler,
            verbosity,
            unauthorizable: WarningLimit::default(),
        };
        let router = Arc::new(router);
        tokio::spawn(stopping.clone().run_until_cancelled_owned(tls.clone().follow()));
        if let Some((lookup, found)) = lookup {
            tokio::spawn(stopping.clone().run_until_cancelled_owned(lookup.follow(found, tls.clone())));
        }
        let shared = Arc::new(Shared { tls, router, streams_max, stopping });
        let open = connection::accept(listener, shared).await;
        if open > 0 {
            tracing::warn!(open, "connections were cut off");
        }
        Ok(())
    }
}

/// Reads the server's certificates. Options of TLS are checked where they are used; their order is the reference's.
fn server_certificates(serving: &ServingFlags, brand: &Brand) -> Result<(TlsOptions, Resolver), ServeError> {
    let default = default_pair(
        serving.tls_cert_file.as_deref(),
        serving.tls_private_key_file.as_deref(),
        serving.cert_dir.as_deref(),
        &component(brand),
    )
    .map_err(fault)?;
    let resolver = Resolver::load(default, serving.tls_sni_cert_key.clone()).map_err(fault)?;
    let options = TlsOptions {
        cipher_suites: flat(&serving.tls_cipher_suites),
        min_version: serving.tls_min_version.clone().unwrap_or_default(),
    };
    Ok((options, resolver))
}

async fn authentication(
    flags: &AuthenticationFlags,
    brand: &'static Brand,
) -> Result<(Authenticator, Clients, Option<(Lookup, Trust)>), ServeError> {
    let reviewer = flags
        .authentication_client_config
        .as_deref()
        .map(|path| reviewer(path, brand, "authentication"))
        .transpose()?;
    let file = |path: &Option<std::path::PathBuf>| path.clone().map(Authorities::File);
    let given = Trust {
        users: file(&flags.client_ca_file),
        proxies: file(&flags.requestheader_client_ca_file),
        allowed_names: flat(&flags.requestheader_allowed_names),
        headers: ProxyHeaders {
            names: flat(&flags.requestheader_username_headers),
            groups: flat(&flags.requestheader_group_headers),
            extra_prefixes: flat(&flags.requestheader_extra_headers_prefix),
        },
    };
    let mut trust = given.clone();
    let asked = reviewer.clone().filter(|_| !flags.authentication_skip_lookup && !given.is_complete());
    if let Some(reviewer) = &asked
        && let Err(error) = lookup::complete(&mut trust, reviewer.as_ref(), brand).await
    {
        if !flags.authentication_tolerate_lookup_failure {
            return Err(ServeError(format!("unable to look up authorities of clients: {error}")));
        }
        tracing::warn!(
            error,
            "authorities of clients cannot be looked up: client certificates may count as anonymous"
        );
    }
    let clients = trust.clients().map_err(fault)?;
    let clients = if asked.is_some() { clients.looked_up() } else { clients };
    let headers = Arc::new(ArcSwap::from_pointee(trust.headers.clone()));
    let ttl = flags.authentication_token_webhook_cache_ttl.duration();
    let authenticator = Authenticator::new(headers.clone(), reviewer, ttl);
    let lookup = asked.map(|reviewer| (Lookup { given, reviewer, brand, headers }, trust));
    Ok((authenticator, clients, lookup))
}

fn authorization(flags: &AuthorizationFlags, brand: &'static Brand) -> Result<Authorizer, ServeError> {
    let reviewer = flags
        .authorization_client_config
        .as_deref()
        .map(|path| reviewer(path, brand, "authorization"))
        .transpose()?;
    if reviewer.is_none() {
        tracing::warn!("no server decides about requests: everything is forbidden but the open paths");
    }
    let open = OpenPaths::parse(&flat(&flags.authorization_always_allow_paths)).map_err(fault)?;
    let times = DecisionTimes {
        allowed: flags.authorization_webhook_cache_authorized_ttl.duration(),
        refused: flags.authorization_webhook_cache_unauthorized_ttl.duration(),
    };
    Ok(Authorizer::new(open, reviewer, times))
}

/// The server of the client configuration `path`, which reviews for `purpose`.
fn reviewer(path: &Path, brand: &'static Brand, purpose: &str) -> Result<Arc<dyn Reviewer>, ServeError> {
    let refused = |error: &ConfigError| {
        let failed = format!("failed to get delegated {purpose} {}config", brand.component_prefix);
        let error = match error {
            ConfigError::File { path, source } => format!("stat {}: {}", path.display(), system_text(source)),
            error => format!("{}: {}", path.display(), chain(error)),
        };
        ServeError(format!("{failed}: {failed}: {error}"))
    };
    let config = from_file(path, None, None).map_err(|error| refused(&error))?;
    Ok(Arc::new(ReviewServer::new(config, brand).map_err(|error| refused(&error))?))
}

/// Does what the metrics of the port measure, for the test that lists metrics.
#[cfg(test)]
pub(crate) fn exercise_tls() {
    tls::tests::exercise();
}
