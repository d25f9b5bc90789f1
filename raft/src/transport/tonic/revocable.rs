//! A peer's connection that ends when the peer's certificate is revoked.
//!
//! Owns the certificate chain that the peer proved, and judging it again when the member's credentials were reloaded:
//! with the next read or write, which keepalive brings about within seconds. A reload of other things than revocation
//! lists leaves connections alone: a replaced authority holds for new ones.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tls::{Credentials, PeerTls};

/// A stream over which a peer proved its certificate.
pub(super) struct Revocable<S> {
    io: S,
    tls: PeerTls,
    chain: Vec<CertificateDer<'static>>,
    /// The credentials that the chain was last judged by; `None` before the first read or write, since a reload may have
    /// come during the handshake.
    judged_by: Option<Arc<Credentials>>,
}

impl<S> Revocable<S> {
    /// The stream `io` of a peer that presented `chain`.
    pub(super) fn new(io: S, tls: PeerTls, chain: Option<Vec<CertificateDer<'static>>>) -> Self {
        Revocable { io, tls, chain: chain.unwrap_or_default(), judged_by: None }
    }

    fn check(&mut self) -> io::Result<()> {
        if self.judged_by.as_ref().is_some_and(|credentials| self.tls.uses(credentials)) {
            return Ok(());
        }
        let credentials = self.tls.credentials();
        if credentials.has_revoked(&self.chain) {
            let reason = "the peer's certificate was revoked";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        self.judged_by = Some(credentials);
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Revocable<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check()?;
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Revocable<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check()?;
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}
