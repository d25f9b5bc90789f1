//! Opens TCP listeners.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use super::limits;

/// A port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {purpose}{hint}")]
pub struct BindError {
    /// The address asked for.
    pub address: SocketAddr,
    /// Purpose of the port, for the message: `HTTPS`.
    pub purpose: &'static str,
    /// The error of `bind` or `listen`.
    pub source: std::io::Error,
    /// Advice to the operator, in brackets, with a leading space; empty for other errors.
    pub hint: String,
}

/// Listens on `address`; port 0 takes any free one. `flag` is the flag that chooses the port, for the error.
pub fn bind(address: SocketAddr, purpose: &'static str, flag: &str) -> Result<TcpListener, BindError> {
    listen(address).map_err(|source| {
        let hint = match source.kind() {
            std::io::ErrorKind::AddrInUse => format!(" (choose another with {flag}, 0 takes any free one)"),
            std::io::ErrorKind::PermissionDenied => format!(" (choose a port above 1023 with {flag})"),
            std::io::ErrorKind::AddrNotAvailable => {
                // The address of HTTPS has a flag of its own.
                let flag = if flag == "--secure-port" { "--bind-address" } else { flag };
                format!(" (this machine has no such address: {flag})")
            }
            _ => String::new(),
        };
        BindError { address, purpose, source, hint }
    })
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server can bind its port although old connections are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(limits::BACKLOG)
}
