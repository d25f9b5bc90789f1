//! Virtual time R: the work, in seat-microseconds, that each busy queue would have received by now if all busy queues had
//! shared what was done in equal parts.

/// The virtual time of a level.
#[derive(Debug, Default)]
pub(super) struct VirtualTime {
    r: i64,
    /// Work that was too little to raise R, in shares of a seat-microsecond.
    remainder: u64,
}

impl VirtualTime {
    /// R, in seat-microseconds.
    pub(super) fn r(&self) -> i64 {
        self.r
    }

    /// Raises R by the work of `seats` in use for `micros`, for `busy` queues.
    pub(super) fn advance(&mut self, micros: u64, seats: u32, busy: usize) {
        let busy = u64::try_from(busy).unwrap_or(u64::MAX);
        // Seats that are free because the next request is too wide for them do no work for anybody.
        let work = micros * u64::from(seats) + self.remainder;
        if let Some(share) = work.checked_div(busy) {
            self.r += i64::try_from(share).unwrap_or(0);
            self.remainder = work % busy;
        }
    }
}
