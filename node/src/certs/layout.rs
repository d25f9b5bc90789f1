//! Paths of the files in a certificate directory.
//!
//! The only place that spells their names. `orch certs init` makes all of them, `orch serve --certs-dir` reads some,
//! and `orch dev` keeps the same layout for its single member.

use std::path::{Path, PathBuf};

use super::clients::Client;

/// A certificate directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// The files of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFiles {
    /// Server certificate, shown to clients.
    pub server_certificate: PathBuf,
    /// Its key.
    pub server_key: PathBuf,
    /// Peer certificate, shown to other members.
    pub peer_certificate: PathBuf,
    /// Its key.
    pub peer_key: PathBuf,
}

/// The files of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFiles {
    /// Its certificate.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Its client configuration.
    pub config: PathBuf,
}

/// The files of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorityFiles {
    /// Its certificate; during a rotation those of the old and the new one.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Certificate of the authority that is to replace it; present between the first two steps of a rotation.
    pub next_certificate: PathBuf,
    /// Its key.
    pub next_key: PathBuf,
}

impl Layout {
    /// The directory at `root`.
    pub fn new(root: &Path) -> Layout {
        Layout { root: root.to_owned() }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Certificate of the authority for servers and clients.
    pub fn authority_certificate(&self) -> PathBuf {
        self.root.join("ca.crt")
    }

    /// Key of the authority for servers and clients.
    pub fn authority_key(&self) -> PathBuf {
        self.root.join("ca.key")
    }

    /// Certificate of the authority for members.
    pub fn peer_authority_certificate(&self) -> PathBuf {
        self.root.join("peer-ca.crt")
    }

    /// Key of the authority for members.
    pub fn peer_authority_key(&self) -> PathBuf {
        self.root.join("peer-ca.key")
    }

    /// The authority for servers and clients.
    pub fn authority(&self) -> AuthorityFiles {
        AuthorityFiles {
            certificate: self.authority_certificate(),
            key: self.authority_key(),
            next_certificate: self.root.join("ca-next.crt"),
            next_key: self.root.join("ca-next.key"),
        }
    }

    /// The authority for members.
    pub fn peer_authority(&self) -> AuthorityFiles {
        AuthorityFiles {
            certificate: self.peer_authority_certificate(),
            key: self.peer_authority_key(),
            next_certificate: self.root.join("peer-ca-next.crt"),
            next_key: self.root.join("peer-ca-next.key"),
        }
    }

    /// Private key that signs service account tokens; the same on every member.
    pub fn token_key(&self) -> PathBuf {
        self.root.join("service-account.key")
    }

    /// Public key of the service account tokens.
    pub fn token_public_key(&self) -> PathBuf {
        self.root.join("service-account.pub")
    }

    /// The files of `client`.
    pub fn client(&self, client: Client) -> ClientFiles {
        let file = |extension: &str| self.root.join(format!("{}.{extension}", client.name()));
        ClientFiles { certificate: file("crt"), key: file("key"), config: file("conf") }
    }

    /// The directory with one directory for each member.
    pub fn members(&self) -> PathBuf {
        self.root.join("members")
    }

    /// The files of member `name`.
    pub fn member(&self, name: &str) -> MemberFiles {
        let directory = self.members().join(name);
        MemberFiles {
            server_certificate: directory.join("server.crt"),
            server_key: directory.join("server.key"),
            peer_certificate: directory.join("peer.crt"),
            peer_key: directory.join("peer.key"),
        }
    }
}
