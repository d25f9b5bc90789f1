//! The requests of a level, from their arrival until they leave, by small numbers that are used again.

/// Names a request from its arrival until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::flow) struct Ticket(u32);

impl Ticket {
    /// A small number, unique among the requests that are here.
    pub(in crate::flow) fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Waiting,
    /// Since this time, in microseconds.
    Executing(u64),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// `None`: the level has no queues.
    pub(super) queue: Option<u32>,
    /// Hash of its flow.
    pub(super) flow: u64,
    pub(super) seats: u32,
    /// Virtual time of its arrival.
    pub(super) arrival_r: i64,
    pub(super) phase: Phase,
}

impl Request {
    /// Whether it takes more than one seat, as long lists do.
    pub(super) fn is_wide(&self) -> bool {
        self.seats > 1
    }
}

/// All requests of a level.
#[derive(Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Option<Request>>,
    /// Numbers of empty slots.
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn insert(&mut self, request: Request) -> Ticket {
        match self.free.pop() {
            Some(at) => {
                let ticket = Ticket(at);
                self.slots[ticket.index()] = Some(request);
                ticket
            }
            None => {
                self.slots.push(Some(request));
                Ticket(u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }

    pub(super) fn take(&mut self, ticket: Ticket) -> Option<Request> {
        let request = self.slots.get_mut(ticket.index())?.take()?;
        self.free.push(ticket.0);
        Some(request)
    }

    pub(super) fn find(&self, ticket: Ticket) -> Option<&Request> {
        self.slots.get(ticket.index())?.as_ref()
    }

    /// Marks a waiting request as executing since `now`.
    pub(super) fn begin(&mut self, ticket: Ticket, now: u64) {
        if let Some(Some(request)) = self.slots.get_mut(ticket.index()) {
            request.phase = Phase::Executing(now);
        }
    }
}
