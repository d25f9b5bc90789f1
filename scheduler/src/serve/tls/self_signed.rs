//! The default server certificate: from files, or self-signed.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use rustls::sign::CertifiedKey;
use time::{Duration, OffsetDateTime};

use super::material::{MaterialError, pair_of};
use crate::ambient;
use crate::config::unreadable;

/// Name in a self-signed certificate.
const HOST: &str = "localhost";
/// Life of a self-signed certificate: that of the reference's.
const LIFE: Duration = Duration::days(365);

/// The default server certificate.
#[derive(Clone, Debug)]
pub(crate) enum DefaultPair {
    /// In files, which are read again when they change.
    Files {
        /// The certificate, followed by its intermediates.
        certificate: PathBuf,
        /// Its key.
        key: PathBuf,
    },
    /// Made for this process.
    Memory(Arc<CertifiedKey>),
}

/// The pair of the flags, or a self-signed one: kept in `directory` under `name`, or in memory where there is no
/// directory.
pub(crate) fn default_pair(
    certificate: Option<&Path>,
    key: Option<&Path>,
    directory: Option<&Path>,
    name: &str,
) -> Result<DefaultPair, MaterialError> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            return Ok(DefaultPair::Files { certificate: certificate.to_owned(), key: key.to_owned() });
        }
        (None, None) => {}
        _ => return Err(MaterialError("missing filename for serving cert".to_owned())),
    }
    let made =
        |error: rcgen::Error| MaterialError(format!("error creating self-signed certificates: {error}"));
    let Some(directory) = directory else {
        let (certificate, key) = make(ambient::utc()).map_err(made)?;
        let pair = pair_of(certificate.as_bytes(), key.as_bytes(), "the self-signed pair")?;
        return Ok(DefaultPair::Memory(pair));
    };
    let (certificate, key) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    if !(certificate.exists() && key.exists()) {
        let (certificate_text, key_text) = make(ambient::utc()).map_err(made)?;
        let saved = save(directory, &key, &key_text, 0o600)
            .and_then(|()| save(directory, &certificate, &certificate_text, 0o644));
        saved.map_err(|error| {
            let text = unreadable(&certificate, &error);
            MaterialError(format!("error creating self-signed certificates: {text}"))
        })?;
        tracing::info!(certificate = %certificate.display(), "made a self-signed certificate");
    }
    Ok(DefaultPair::Files { certificate, key })
}

/// Makes a certificate and its key, as PEM.
fn make(now: OffsetDateTime) -> Result<(String, String), rcgen::Error> {
    let mut params = CertificateParams::new(vec![HOST.to_owned(), "127.0.0.1".to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, format!("{HOST}@{}", now.unix_timestamp()));
    // A minute earlier, for clients whose clocks are behind.
    params.not_before = now - Duration::MINUTE;
    params.not_after = now + LIFE;
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Writes a file that is whole or absent, whenever the process ends.
fn save(directory: &Path, path: &Path, text: &str, mode: u32) -> std::io::Result<()> {
    fs::create_dir_all(directory)?;
    let part = path.with_extension(format!("part-{}", std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&part)?;
    // The umask of this process leaves files to their owner alone: clients read the certificate.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&part, path)
}
