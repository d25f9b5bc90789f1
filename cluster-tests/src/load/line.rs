//! A benchmark client's line to its server: an HTTP/1.1 connection of its own, or one stream at a time of an HTTP/2
//! connection.
//!
//! Owns the sharing of HTTP/2 connections. It knows no work.

use std::collections::HashMap;

use anyhow::Result;

use super::multiplex::Multiplexed;
use super::target::Target;
use super::wire::{Call, Connection, Reply};

/// The protocol and the sharing of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// HTTP/1.1: each client has its own connection.
    One,
    /// HTTP/2: `sharers` clients of one thread share a connection to each server.
    Two { sharers: u32 },
}

/// One client's connection, or its handle on a shared one.
pub(super) enum Line {
    Own(Connection),
    Shared(Multiplexed),
}

/// Opens the lines of one thread's clients.
pub(super) struct Lines {
    protocol: Protocol,
    /// By index of the server: the newest connection, and the number of clients that may still join it.
    open: HashMap<usize, (Multiplexed, u32)>,
}

impl Lines {
    /// No lines yet, of `protocol`.
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, open: HashMap::new() }
    }

    /// A line for the next client of the server at `place` among `targets`.
    pub(super) async fn open(&mut self, targets: &[Target], place: usize) -> Result<Line> {
        let Protocol::Two { sharers } = self.protocol else {
            return Line::open(&targets[place], Protocol::One).await;
        };
        if let Some((connection, room)) = self.open.get_mut(&place).filter(|(_, room)| *room > 0) {
            *room -= 1;
            return Ok(Line::Shared(connection.clone()));
        }
        let connection = Multiplexed::open(&targets[place]).await?;
        self.open.insert(place, (connection.clone(), sharers - 1));
        Ok(Line::Shared(connection))
    }
}

impl Line {
    /// Opens a connection that is not shared.
    pub(super) async fn open(target: &Target, protocol: Protocol) -> Result<Self> {
        match protocol {
            Protocol::One => Ok(Self::Own(Connection::open(target).await?)),
            Protocol::Two { .. } => Ok(Self::Shared(Multiplexed::open(target).await?)),
        }
    }

    /// Sends `call` and reads the whole response.
    pub(super) async fn exchange(&mut self, call: &Call<'_>) -> Result<Reply> {
        match self {
            Self::Own(connection) => Ok(connection.exchange(call).await?),
            Self::Shared(connection) => connection.exchange(call).await,
        }
    }

    /// Sends `call` and reads the head of the response; returns the status. The body follows through `piece`.
    pub(super) async fn begin(&mut self, call: &Call<'_>) -> Result<u16> {
        match self {
            Self::Own(connection) => Ok(connection.begin(call).await?),
            Self::Shared(connection) => connection.begin(call).await,
        }
    }

    /// Passes the next piece of the body to `take`; `false` at its end. Cancel-safe.
    pub(super) async fn piece(&mut self, take: impl FnOnce(&[u8])) -> Result<bool> {
        match self {
            Self::Own(connection) => Ok(connection.piece().await?.map(take).is_some()),
            Self::Shared(connection) => connection.piece(take).await,
        }
    }

    /// The first bytes of the last body, at most 4 KiB.
    pub(super) fn head(&self) -> &[u8] {
        match self {
            Self::Own(connection) => connection.head(),
            Self::Shared(connection) => connection.head(),
        }
    }
}
