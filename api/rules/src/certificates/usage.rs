//! Key usages: their names in the API and what they are in a certificate.
//!
//! Owns both tables. Names that stand for the same usage (`signing` and `digital signature`) are one.

use std::collections::BTreeSet;

/// Names of all usages, sorted.
pub const ALL_USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// An extended key usage, in the order in which certificates list them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExtendedUsage {
    /// Any usage.
    Any,
    /// TLS server.
    ServerAuth,
    /// TLS client.
    ClientAuth,
    /// Code signing.
    CodeSigning,
    /// E-mail protection.
    EmailProtection,
    /// IPsec end system.
    IpsecEndSystem,
    /// IPsec tunnel.
    IpsecTunnel,
    /// IPsec user.
    IpsecUser,
    /// Time stamping.
    TimeStamping,
    /// OCSP signing.
    OcspSigning,
    /// Microsoft server gated cryptography.
    MicrosoftSgc,
    /// Netscape server gated cryptography.
    NetscapeSgc,
}

impl ExtendedUsage {
    /// The object identifier of the usage.
    pub fn oid(self) -> &'static [u64] {
        match self {
            ExtendedUsage::Any => &[2, 5, 29, 37, 0],
            ExtendedUsage::ServerAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 1],
            ExtendedUsage::ClientAuth => &[1, 3, 6, 1, 5, 5, 7, 3, 2],
            ExtendedUsage::CodeSigning => &[1, 3, 6, 1, 5, 5, 7, 3, 3],
            ExtendedUsage::EmailProtection => &[1, 3, 6, 1, 5, 5, 7, 3, 4],
            ExtendedUsage::IpsecEndSystem => &[1, 3, 6, 1, 5, 5, 7, 3, 5],
            ExtendedUsage::IpsecTunnel => &[1, 3, 6, 1, 5, 5, 7, 3, 6],
            ExtendedUsage::IpsecUser => &[1, 3, 6, 1, 5, 5, 7, 3, 7],
            ExtendedUsage::TimeStamping => &[1, 3, 6, 1, 5, 5, 7, 3, 8],
            ExtendedUsage::OcspSigning => &[1, 3, 6, 1, 5, 5, 7, 3, 9],
            ExtendedUsage::MicrosoftSgc => &[1, 3, 6, 1, 4, 1, 311, 10, 3, 3],
            ExtendedUsage::NetscapeSgc => &[2, 16, 840, 1, 113_730, 4, 1],
        }
    }
}

/// The usages of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyUsages {
    /// Key usage: bit `n` is bit number `n` of the extension (0: digital signature).
    pub bits: u16,
    /// Extended key usages.
    pub extended: BTreeSet<ExtendedUsage>,
}

impl KeyUsages {
    /// The usages with these names.
    ///
    /// # Errors
    /// The names that are none.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<KeyUsages, Vec<&'n str>> {
        let (mut usages, mut unknown) = (KeyUsages::default(), Vec::new());
        for name in names {
            if let Some(bit) = bit(name) {
                usages.bits |= 1 << bit;
            } else if let Some(usage) = extended(name) {
                usages.extended.insert(usage);
            } else {
                unknown.push(name);
            }
        }
        if unknown.is_empty() { Ok(usages) } else { Err(unknown) }
    }
}

fn bit(name: &str) -> Option<u32> {
    Some(match name {
        "signing" | "digital signature" => 0,
        "content commitment" => 1,
        "key encipherment" => 2,
        "data encipherment" => 3,
        "key agreement" => 4,
        "cert sign" => 5,
        "crl sign" => 6,
        "encipher only" => 7,
        "decipher only" => 8,
        _ => return None,
    })
}

fn extended(name: &str) -> Option<ExtendedUsage> {
    Some(match name {
        "any" => ExtendedUsage::Any,
        "server auth" => ExtendedUsage::ServerAuth,
        "client auth" => ExtendedUsage::ClientAuth,
        "code signing" => ExtendedUsage::CodeSigning,
        "email protection" | "s/mime" => ExtendedUsage::EmailProtection,
        "ipsec end system" => ExtendedUsage::IpsecEndSystem,
        "ipsec tunnel" => ExtendedUsage::IpsecTunnel,
        "ipsec user" => ExtendedUsage::IpsecUser,
        "timestamping" => ExtendedUsage::TimeStamping,
        "ocsp signing" => ExtendedUsage::OcspSigning,
        "microsoft sgc" => ExtendedUsage::MicrosoftSgc,
        "netscape sgc" => ExtendedUsage::NetscapeSgc,
        _ => return None,
    })
}
