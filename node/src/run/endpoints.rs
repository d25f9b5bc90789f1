//! `DATA_DIR/endpoints.json`: addresses of the running node, for scripts and tests that let it choose its ports.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::RunError;
use super::plan::host_port;
use crate::certs::{CertsError, replace_file};

/// Addresses of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Endpoints {
    /// `https://HOST:PORT`.
    pub(super) https: String,
    /// Absolute path of the Unix socket, on a development node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) socket: Option<PathBuf>,
    /// `http://127.0.0.1:PORT`, on a development node with `--insecure-port`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http: Option<String>,
    /// `HOST:PORT` of the peer port, if the node has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    /// Process id.
    pub(super) pid: u32,
    /// The address at which HTTPS listens, which may be a wildcard.
    #[serde(skip)]
    pub(super) secure: SocketAddr,
}

impl Endpoints {
    /// The endpoints of this process. A wildcard address becomes the loopback address: readers of the file are on this
    /// machine.
    pub(super) fn new(secure: SocketAddr, plain: Option<SocketAddr>, peer: Option<String>) -> Endpoints {
        let host = match secure.ip() {
            ip if ip.is_unspecified() => "127.0.0.1".to_owned(),
            ip => ip.to_string(),
        };
        Endpoints {
            https: format!("https://{}", host_port(&host, secure.port())),
            socket: None,
            http: plain.map(|plain| format!("http://{plain}")),
            peer,
            pid: std::process::id(),
            secure,
        }
    }

    /// Adds a Unix socket at `path`, made absolute.
    pub(super) fn with_socket(mut self, path: Option<&Path>) -> Endpoints {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.socket = path.map(absolute);
        self
    }

    /// Writes the file atomically.
    pub(super) fn write(&self, data_dir: &Path) -> Result<(), CertsError> {
        let text = serde_json::to_string_pretty(self).expect("a struct of strings serializes");
        replace_file(&path(data_dir), &format!("{text}\n"))
    }

    /// Removes the file if it exists, before the node serves and after it has stopped.
    pub(super) fn remove(data_dir: &Path) -> Result<(), RunError> {
        let path = path(data_dir);
        match std::fs::remove_file(&path) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(RunError::DataFile { action: "remove", path, source })
            }
            _ => Ok(()),
        }
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("endpoints.json")
}
