//! Two plain limits, for reads and for writes, where priority and fairness are off.
//!
//! Owns the counts of requests under way. Watches are not counted, and administrators are never refused.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::authn::{GROUP_MASTERS, User};
use crate::error::ApiError;
use crate::request::Verb;

/// Seconds that a refused client is told to wait: the reference's.
const RETRY_AFTER_S: u32 = 1;

/// The limits; `None`: no limit.
pub(super) struct InFlightLimits {
    reads: Option<Arc<Semaphore>>,
    writes: Option<Arc<Semaphore>>,
}

/// A place among the requests under way.
pub(super) struct Place(#[expect(dead_code, reason = "its drop frees the place")] OwnedSemaphorePermit);

impl InFlightLimits {
    /// Limits of this many reads and writes; 0 is no limit.
    pub(super) fn new(reads_max: u32, writes_max: u32) -> Self {
        let limit = |most: u32| {
            let most = usize::try_from(most).ok().filter(|most| *most > 0)?;
            Some(Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))))
        };
        InFlightLimits { reads: limit(reads_max), writes: limit(writes_max) }
    }

    /// A place for a request of `user`; `verb` is `None` for paths that are no resource, which count as reads.
    ///
    /// # Errors
    /// `TooManyRequests`: no place is free.
    pub(super) fn admit(&self, user: &User, verb: Option<Verb>) -> Result<Option<Place>, ApiError> {
        let limit = match verb {
            Some(Verb::Watch) => return Ok(None),
            Some(verb) if !verb.is_read() => &self.writes,
            _ => &self.reads,
        };
        let Some(limit) = limit else { return Ok(None) };
        match limit.clone().try_acquire_owned() {
            Ok(permit) => Ok(Some(Place(permit))),
            Err(_) if user.is_in_group(GROUP_MASTERS) => Ok(None),
            Err(_) => Err(ApiError::TooManyRequests { retry_after_s: RETRY_AFTER_S }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_their_own_limits_and_masters_none() {
        let limits = InFlightLimits::new(1, 2);
        let (ann, admin) = (User::default(), User::local_admin());
        let read = limits.admit(&ann, Some(Verb::Get)).ok().flatten().unwrap();
        assert!(limits.admit(&ann, None).is_err());
        assert!(limits.admit(&admin, Some(Verb::List)).is_ok());
        assert!(limits.admit(&ann, Some(Verb::Watch)).is_ok());
        let writes = [(); 2].map(|()| limits.admit(&ann, Some(Verb::Create)).ok().flatten().unwrap());
        assert!(limits.admit(&ann, Some(Verb::Delete)).is_err());
        drop((read, writes));
        assert!(
            limits.admit(&ann, Some(Verb::Get)).is_ok() && limits.admit(&ann, Some(Verb::Delete)).is_ok()
        );
        let unlimited = InFlightLimits::new(0, 0);
        assert!(unlimited.admit(&ann, Some(Verb::Get)).is_ok_and(|place| place.is_none()));
    }
}
