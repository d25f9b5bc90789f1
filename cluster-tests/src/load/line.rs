//! What a client speaks through: an HTTP/1.1 connection of its own, or a stream at a time of an HTTP/2 connection.
//!
//! Owns how many clients share a connection over HTTP/2. It knows no work.

use std::collections::HashMap;

use anyhow::Result;

use super::multiplex::Multiplexed;
use super::target::Target;
use super::wire::{Call, Connection, Reply};

/// The protocol, and who shares a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Each client has its own connection.
    One,
    /// So many clients of one thread share a connection to each server.
    Two { sharers: u32 },
}

/// One client's way to its server.
pub(super) enum Line {
    Own(Connection),
    Shared(Multiplexed),
}

/// Opens the lines of one thread's clients.
pub(super) struct Lines {
    protocol: Protocol,
    /// By place of the server: the newest connection, and how many may still join it.
    open: HashMap<usize, (Multiplexed, u32)>,
}

impl Lines {
    /// Of `protocol`.
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
    /// A line of its own.
    pub(super) async fn open(target: &Target, protocol: Protocol) -> Result<Self> {
        match protocol {
            Protocol::One => Ok(Self::Own(Connection::open(target).await?)),
            Protocol::Two { .. } => Ok(Self::Shared(Multiplexed::open(target).await?)),
        }
    }

    /// Sends `call` and reads its answer to the end.
    pub(super) async fn exchange(&mut self, call: &Call<'_>) -> Result<Reply> {
        match self {
            Self::Own(connection) => Ok(connection.exchange(call).await?),
            Self::Shared(connection) => connection.exchange(call).await,
        }
    }

    /// Sends `call` and reads the head of its answer: the status. The body follows through `piece`.
    pub(super) async fn begin(&mut self, call: &Call<'_>) -> Result<u16> {
        match self {
            Self::Own(connection) => Ok(connection.begin(call).await?),
            Self::Shared(connection) => connection.begin(call).await,
        }
    }

    /// Hands the next piece of the body to `take`; `false` at its end. May be dropped while it waits.
    pub(super) async fn piece(&mut self, take: impl FnOnce(&[u8])) -> Result<bool> {
        match self {
            Self::Own(connection) => Ok(connection.piece().await?.map(take).is_some()),
            Self::Shared(connection) => connection.piece(take).await,
        }
    }

    /// The first bytes of the last body.
    pub(super) fn head(&self) -> &[u8] {
        match self {
            Self::Own(connection) => connection.head(),
            Self::Shared(connection) => connection.head(),
        }
    }
}
