//! The authority of the servers' certificates that pods get, and its reload.
//!
//! Owns the file's content as last read. A file without a usable authority is not taken up: a rotation copies it to each
//! member, and pods with half a file would reach no server.

use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use orch_api::controllers::RootAuthority;
use time::OffsetDateTime;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::service_accounts::ServiceAccountPlan;
use crate::report::Causes;
use crate::tls::{self, MaterialError, load_authorities};

/// The content of `--root-ca-file`, or of `ca.crt`.
#[derive(Debug)]
pub(super) struct PublishedAuthority(watch::Sender<String>);

impl PublishedAuthority {
    /// The authority in `plan`, and what its file says later, until `stopped`.
    pub(super) fn follow(plan: &ServiceAccountPlan, stopped: CancellationToken) -> Arc<PublishedAuthority> {
        let published = Arc::new(PublishedAuthority(watch::Sender::new(plan.root_ca.clone())));
        let (file, followed) = (plan.root_ca_file.clone(), Arc::clone(&published));
        tokio::spawn(async move {
            let files = vec![file.clone()];
            let reload = || followed.reload(&file);
            // The cluster may have been waited for since the first reading.
            if let Err(error) = reload() {
                tracing::warn!(error = %Causes(&error), "the authority for pods cannot be read again");
            }
            if let Err(error) = tls::follow("authority for pods", files, reload, stopped).await {
                tracing::warn!(%error, "a rotated authority is not published by itself");
            }
        });
        published
    }

    fn reload(&self, file: &Path) -> Result<(), MaterialError> {
        load_authorities(file, OffsetDateTime::now_utc())?;
        let read = std::fs::read_to_string(file);
        let found = read.map_err(|source| MaterialError::Unreadable { path: file.to_owned(), source })?;
        self.0.send_if_modified(|known| {
            let is_other = *known != found;
            *known = found;
            is_other
        });
        Ok(())
    }
}

impl RootAuthority for PublishedAuthority {
    fn current(&self) -> String {
        self.0.borrow().clone()
    }

    fn changed(&self) -> BoxFuture<'static, ()> {
        let mut changes = self.0.subscribe();
        Box::pin(async move {
            if changes.changed().await.is_err() {
                std::future::pending().await
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use futures::FutureExt;

    use super::*;
    use crate::certs::Authority;

    #[tokio::test]
    async fn a_rotated_file_is_taken_up_and_half_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.crt");
        let made = |name| Authority::create(name, OffsetDateTime::now_utc()).unwrap().pair.certificate;
        let (old, new) = (made("old"), made("new"));
        let published = PublishedAuthority(watch::Sender::new(old.clone()));
        let mut changed = published.changed();
        for broken in ["", &new[..new.len() / 2]] {
            fs::write(&file, broken).unwrap();
            assert!(published.reload(&file).is_err());
        }
        fs::write(&file, &old).unwrap();
        published.reload(&file).unwrap();
        assert!((&mut changed).now_or_never().is_none(), "nothing has changed");
        fs::write(&file, format!("{old}{new}")).unwrap();
        published.reload(&file).unwrap();
        changed.await;
        assert_eq!(published.current(), format!("{old}{new}"));
    }
}
