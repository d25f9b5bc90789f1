//! Reloads renewed certificates and revocation lists while the server runs; later connections use them.
//!
//! The files' modification times are checked every 30 seconds, and on SIGHUP all files are read at once. If they do not
//! load, the old certificates stay in use and a warning is logged. A revocation list, or a list of authorities that lost
//! one, takes effect all the same.

use std::path::PathBuf;
use std::sync::Arc;

use time::OffsetDateTime;
use tokio::sync::watch;

use super::material::MaterialError;
use super::settings::{Tls, TlsFiles};

/// The TLS settings in use. Clones share them.
#[derive(Clone, Debug)]
pub struct Reloader {
    files: Arc<TlsFiles>,
    current: Arc<watch::Sender<Arc<Tls>>>,
}

impl Reloader {
    /// Loads `files` for the first time. A server certificate that has ended is served, with an error in the log.
    pub fn load(files: TlsFiles) -> Result<Reloader, MaterialError> {
        let (tls, ended) = Tls::load_ended(&files, OffsetDateTime::now_utc())?;
        if let Some(expired) = ended {
            let file = files.certificate.display();
            tracing::error!(
                %file, %expired,
                "the server certificate has expired: clients refuse this node; replace its file (orch certs renew), which is \
                 taken up without a restart"
            );
        }
        Ok(Reloader { files: Arc::new(files), current: Arc::new(watch::Sender::new(Arc::new(tls))) })
    }

    /// The settings for a new connection.
    pub fn current(&self) -> Arc<Tls> {
        self.current.borrow().clone()
    }

    /// The settings of later reloads, for a connection that was made under [`Reloader::current`] ones.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Tls>> {
        self.current.subscribe()
    }

    /// Reads the files again. On failure the old settings stay, but for what can be read of the authorities and revocation
    /// lists.
    pub fn reload(&self) -> Result<(), MaterialError> {
        let now = OffsetDateTime::now_utc();
        let loaded = Tls::load(&self.files, now);
        if loaded.is_err()
            && let Some(tls) = self.current().with_readable_trust(&self.files, now)
        {
            tracing::info!(
                "authorities and revocation lists of clients are taken up without the other files"
            );
            self.current.send_replace(Arc::new(tls));
        }
        self.current.send_replace(Arc::new(loaded?));
        Ok(())
    }

    /// The files whose change causes a reload.
    pub fn files(&self) -> Vec<PathBuf> {
        let TlsFiles { certificate, key, client_authorities, server_authority, proxies, revocations } =
            &*self.files;
        let proxies = proxies.iter().map(|proxies| &proxies.authorities);
        let always = [certificate, key, client_authorities].into_iter();
        always.chain(server_authority).chain(proxies).chain(revocations).cloned().collect()
    }
}
