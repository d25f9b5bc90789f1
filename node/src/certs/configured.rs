//! Certificates inside configurations, as opposed to those with a file of their own.
//!
//! Owns what their reader tells of them. It knows no form of a configuration and reads no file.

use std::fmt;
use std::path::PathBuf;

use super::uses::CertificateUse;

/// Certificates that do not stand in a file of their own: inside client configurations, or in files that those name.
pub trait ConfiguredCertificates: fmt::Debug + Send + Sync {
    /// Reads them. What cannot be read is left out, with a warning in the log.
    fn read(&self) -> Configured;
}

/// The result of reading [`ConfiguredCertificates`].
#[derive(Debug, Default)]
pub struct Configured {
    /// Every file that was read or asked for: a change of one of them means to read all again.
    pub files: Vec<PathBuf>,
    /// The certificates.
    pub certificates: Vec<ConfiguredCertificate>,
}

/// Certificates of one use in a configuration.
pub struct ConfiguredCertificate {
    /// Their use.
    pub used_as: CertificateUse,
    /// The file that they stand in.
    pub path: PathBuf,
    /// PEM. A file that a configuration names may hold a private key beside the certificate.
    pub pem: Vec<u8>,
}

/// Shows the length of the PEM alone.
impl fmt::Debug for ConfiguredCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfiguredCertificate { used_as, path, pem } = self;
        let pem = format_args!("{} bytes", pem.len());
        let mut shown = f.debug_struct("ConfiguredCertificate");
        shown.field("used_as", used_as).field("path", path).field("pem", &pem).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_of_a_configuration_shows_nothing_of_its_text() {
        let pem = b"-----BEGIN PRIVATE KEY-----".to_vec();
        let certificate = ConfiguredCertificate { used_as: CertificateUse::Peer, path: "config".into(), pem };
        let configured = Configured { files: Vec::new(), certificates: vec![certificate] };
        let shown = format!("{configured:?} {configured:#?}");
        assert!(shown.contains("27 bytes") && shown.contains("config"), "{shown}");
        // The bytes of a vector are shown as numbers.
        assert!(!shown.contains("PRIVATE") && !shown.contains("45, 45"), "{shown}");
    }
}
