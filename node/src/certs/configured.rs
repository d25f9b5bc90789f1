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
#[derive(Debug)]
pub struct ConfiguredCertificate {
    /// Their use.
    pub used_as: CertificateUse,
    /// The file that they stand in.
    pub path: PathBuf,
    /// PEM.
    pub pem: Vec<u8>,
}
