//! HTTP without TLS on the HTTPS port: told from the first byte, and answered in words.
//!
//! Owns the answer, which is the reference's. A client gets it instead of a TLS alert, which it would show as a broken
//! answer. Nothing of the request is looked at but its first byte, and no more than one read of it is taken.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::connection::ConnectionError;

/// The answer to a request without TLS.
const ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes of the request that are taken from the socket: an unread request would reset the connection before its answer.
const REQUEST_BYTES_MAX: usize = 4096;

/// Whether the first byte of a connection begins the name of a method. A TLS handshake begins with 0x16.
pub(super) async fn speaks_http(stream: &TcpStream) -> Result<bool, ConnectionError> {
    let mut first = [0];
    let count = stream.peek(&mut first).await.map_err(ConnectionError::Socket)?;
    Ok(count == 1 && first[0].is_ascii_alphabetic())
}

/// Answers that the port speaks TLS, and closes.
pub(super) async fn refuse(mut stream: TcpStream) -> Result<(), ConnectionError> {
    take_request(&stream)?;
    stream.write_all(ANSWER).await.map_err(ConnectionError::Socket)?;
    stream.shutdown().await.map_err(ConnectionError::Socket)
}

/// Takes one read of the request. In a function of its own, because the future of every connection would hold the buffer.
fn take_request(stream: &TcpStream) -> Result<(), ConnectionError> {
    let mut request = [0; REQUEST_BYTES_MAX];
    match stream.try_read(&mut request) {
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(ConnectionError::Socket(error)),
        _ => Ok(()),
    }
}
