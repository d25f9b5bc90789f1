//! The listening socket.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::config::system_text;

/// Connections that wait to be accepted; more are refused by the kernel.
const BACKLOG: i32 = 1024;
/// How `/proc/net/tcp` writes the state of a socket that listens.
const LISTENING: &str = "0A";

/// Where and how to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    /// The address; an unspecified one is every interface.
    pub address: IpAddr,
    /// The port.
    pub port: u16,
    /// Whether to share the address with a socket that is bound to it.
    pub shares_address: bool,
    /// Whether to share address and port with other processes that do.
    pub shares_port: bool,
}

/// Listens.
pub(crate) fn listen(listen: &Listen) -> Result<TcpListener, String> {
    open(listen).map_err(|error| {
        let at = SocketAddr::new(listen.address, listen.port);
        format!(
            "failed to create listener: failed to listen on {at}: listen tcp {at}: bind: {}",
            system_text(&error)
        )
    })
}

fn open(listen: &Listen) -> io::Result<TcpListener> {
    match bound(listen, listen.shares_address) {
        // Connections of a former process of this port that only linger must not keep the next one from starting. The
        // kernel lets no two sockets listen, whatever their options.
        Err(error)
            if error.kind() == io::ErrorKind::AddrInUse && !listen.shares_address && lingers(listen.port) =>
        {
            bound(listen, true)
        }
        bound => bound,
    }
}

fn bound(listen: &Listen, shares_address: bool) -> io::Result<TcpListener> {
    let at = SocketAddr::new(listen.address, listen.port);
    if listen.address.is_unspecified() {
        // One socket for both families. A machine without IPv6 gets the other one.
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), listen.port);
        match socket(both, shares_address, listen.shares_port) {
            Err(error) if listen.address.is_ipv4() && error.kind() != io::ErrorKind::AddrInUse => {}
            bound => return bound,
        }
    }
    socket(at, shares_address, listen.shares_port)
}

fn socket(at: SocketAddr, shares_address: bool, shares_port: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
    if at.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(shares_address)?;
    socket.set_reuse_port(shares_port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    // Connections have the option of their listener. With it, the next process can bind although they linger; it is set
    // after the bind, so that this process shares its address with nobody who does not listen.
    socket.set_reuse_address(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Whether there are connections of `port`, and nobody listens on it.
fn lingers(port: u16) -> bool {
    let suffix = format!(":{port:04X}");
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables = tables.map(|path| fs::read_to_string(path).unwrap_or_default());
    let states = || {
        tables.iter().flat_map(|table| table.lines()).filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields.as_slice() {
                [_, local, _, state, ..] if local.ends_with(&suffix) => Some((*state).to_owned()),
                _ => None,
            }
        })
    };
    states().next().is_some() && states().all(|state| state != LISTENING)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn on(port: u16) -> Listen {
        let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Listen { address, port, shares_address: false, shares_port: false }
    }

    #[test]
    fn a_port_in_use_is_told_in_the_references_words() {
        let first = listen(&on(0)).unwrap();
        let port = first.local_addr().unwrap().port();
        assert_eq!(
            listen(&on(port)).unwrap_err(),
            format!(
                "failed to create listener: failed to listen on 127.0.0.1:{port}: listen tcp 127.0.0.1:{port}: bind: \
                 address already in use"
            )
        );
    }

    #[test]
    fn a_port_whose_connections_linger_is_bound_again() {
        let first = listen(&on(0)).unwrap();
        first.set_nonblocking(false).unwrap();
        let at = first.local_addr().unwrap();
        let client = std::net::TcpStream::connect(at).unwrap();
        // The side that closes first lingers: once before the other has closed, and once after.
        drop(first.accept().unwrap());
        drop(first);
        let second = listen(&on(at.port())).unwrap();
        drop((second, client));
        let third = listen(&on(at.port())).unwrap();
        assert!(listen(&on(at.port())).is_err(), "two listen");
        assert!(listen(&Listen { shares_address: true, ..on(at.port()) }).is_err(), "two listen");
        drop(third);
    }

    #[test]
    fn an_address_is_shared_with_a_socket_that_does_not_listen() {
        let bound = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)).unwrap();
        bound.set_reuse_address(true).unwrap();
        bound.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let port = bound.local_addr().unwrap().as_socket().unwrap().port();
        assert!(listen(&on(port)).is_err());
        listen(&Listen { shares_address: true, ..on(port) }).unwrap();
    }

    #[test]
    fn a_port_is_shared_by_those_who_say_so() {
        let first = listen(&Listen { shares_port: true, ..on(0) }).unwrap();
        let port = first.local_addr().unwrap().port();
        assert!(listen(&on(port)).is_err());
        listen(&Listen { shares_port: true, ..on(port) }).unwrap();
    }

    #[test]
    fn an_unspecified_address_is_every_interface() {
        let any = Listen { address: IpAddr::V4(Ipv4Addr::UNSPECIFIED), ..on(0) };
        let listener = listen(&any).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    }
}
