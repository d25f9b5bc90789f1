//! `DATA_DIR/endpoints.json`: where the running node listens, for scripts and tests that let it choose its ports.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::RunError;
use super::plan::host_port;
use crate::certs::{CertsError, replace_file};

/// Where a node listens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Endpoints {
    /// `https://HOST:PORT`.
    pub(super) https: String,
    /// The Unix socket's path from the root, on a development node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) socket: Option<PathBuf>,
    /// `http://127.0.0.1:PORT`, on a development node that was asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) http: Option<String>,
    /// `HOST:PORT` for peers, where it listens for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer: Option<String>,
    /// The process.
    pub(super) pid: u32,
    /// The port of `https`.
    #[serde(skip)]
    pub(super) secure_port: u16,
}

impl Endpoints {
    /// The endpoints of this process. A wildcard address is given as the loopback one: whoever reads the file is here.
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
            secure_port: secure.port(),
        }
    }

    /// The same with a Unix socket at `path`.
    pub(super) fn with_socket(mut self, path: Option<&Path>) -> Endpoints {
        let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        self.socket = path.map(absolute);
        self
    }

    /// Writes the file in one step.
    pub(super) fn write(&self, data_dir: &Path) -> Result<(), CertsError> {
        let text = serde_json::to_string_pretty(self).expect("a struct of strings serializes");
        replace_file(&path(data_dir), &format!("{text}\n"))
    }

    /// Removes the file, if it is there: nobody listens any more, or not yet.
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
