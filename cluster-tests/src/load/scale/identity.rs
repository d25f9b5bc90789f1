//! Client certificates of nodes and users, signed by the authority of a cluster that was started for the run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
};

use crate::client::Identity;

/// Group of all nodes.
const GROUP: &str = "system:nodes";

/// An authority with its key.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Reads the authority of clients from the directory that `orch certs init` made.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let key = KeyPair::from_pem(&read("ca.key")?).context("ca.key is no key")?;
        let issuer = Issuer::from_ca_cert_pem(&read("ca.crt")?, key).context("ca.crt is no authority")?;
        Ok(Self { issuer })
    }

    /// A new certificate of the node `name`.
    pub(super) fn node(&self, name: &str) -> Result<Identity> {
        self.user(&format!("system:node:{name}"), GROUP)
    }

    /// A new certificate of the user `name` of `group`.
    pub(super) fn user(&self, name: &str, group: &str) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate()?;
        let chain = params.signed_by(&key, &self.issuer)?.pem().into_bytes();
        Ok(Identity::Certificate { chain, key: key.serialize_pem().into_bytes() })
    }
}
