//! Validity of a connection's client certificate, while the connection lasts.
//!
//! Owns the timer of its expiry, and judging it again after each reload that changed an authority or a revocation list.
//! A certificate that identified nobody is not judged again: its client makes a new connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use tokio::sync::watch;

use super::limits;
use crate::tls::{CertificateRoles, ClientAuthorities, Identified, Tls};

/// End of a certificate's validity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its time is over.
    Expired,
    /// It was revoked, or its authority is no longer trusted.
    Revoked,
}

/// A certificate that identifies the client of a connection.
pub(super) struct Validity {
    left: Duration,
    chain: Vec<CertificateDer<'static>>,
    roles: CertificateRoles,
}

impl Validity {
    /// The certificate of `session`, judged as `identified`; `None` if it identifies nobody.
    pub(super) fn of(
        session: &rustls::ServerConnection,
        identified: Option<&Identified>,
    ) -> Option<Validity> {
        let identified = identified?;
        let left = identified.valid_for?;
        let chain = session.peer_certificates()?.iter().map(|link| link.clone().into_owned()).collect();
        Some(Validity { left, chain, roles: identified.roles() })
    }

    /// Completes when the certificate expires, or no longer identifies its client by the settings of a reload. `clients` are
    /// the authorities that it was judged by. Never completes for `None`.
    pub(super) async fn ended(
        validity: Option<Validity>,
        mut reloads: watch::Receiver<Arc<Tls>>,
        mut clients: ClientAuthorities,
    ) -> Ending {
        let Some(Validity { left, chain, roles }) = validity else { return std::future::pending().await };
        let mut expired = pin!(tokio::time::sleep(left.min(limits::IDENTITY_MAX)));
        loop {
            let is_open = tokio::select! {
                () = expired.as_mut() => return Ending::Expired,
                changed = reloads.changed() => changed.is_ok(),
            };
            if !is_open {
                // The port is closed: no reload follows.
                expired.await;
                return Ending::Expired;
            }
            let settings = Arc::clone(&reloads.borrow_and_update());
            if settings.clients.is_same_as(&clients) {
                continue;
            }
            clients = settings.clients.clone();
            let found = clients.identify(Some(&chain), SystemTime::now());
            if found.is_none_or(|found| found.lost_since(roles)) {
                return Ending::Revoked;
            }
        }
    }
}
