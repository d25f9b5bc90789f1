//! Rulings of plugins: admitted or refused, at once or after a wait.
//!
//! Owns the kinds of refusals, and telling the request's budget that it waits. A [`Ruling`] that is ready allocates nothing.

use futures::future::{BoxFuture, Either, Ready, ready};
use orch_schema::budget::Budget;
use orch_schema::excerpt::quoted;

use super::Attributes;
use crate::error::{ApiError, Subject};
use crate::waiting::waited;

/// The reason why a plugin refuses a write. Every refusal but a final one is given only if it is repeated in view of a state
/// that is no older than the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The reason behind `is forbidden: ` in the message of a 403.
    Forbidden(String),
    /// The same for now: a background loop may be about to make the object that the write depends on.
    Awaited(String),
    /// Any other error.
    Error(ApiError),
    /// An error that no newer state changes, such as the answer of another server. The plugin is not asked again.
    Final(ApiError),
}

/// Whether a plugin that refused a write may be asked about it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finality {
    /// Once, in view of the newest state.
    OfView,
    /// For a while, in view of newer and newer states.
    Awaited,
    /// Never.
    Final,
}

/// The place of a [`Refused`] that is no plugin's.
pub(super) const ENDPOINT: usize = usize::MAX;

/// The refusal of a write, by one plugin of a [`super::Chain`] or by the endpoint.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The plugin's place in the chain; [`ENDPOINT`] where the pipeline itself refuses.
    pub(crate) plugin: usize,
    pub(crate) finality: Finality,
    pub(crate) error: ApiError,
}

/// A plugin's decision: ready, or a future that may wait for another server.
pub type Ruling<'a> = Either<Ready<Result<(), Refusal>>, BoxFuture<'a, Result<(), Refusal>>>;

/// A ruling that is known at once.
pub fn rule<'a>(result: Result<(), Refusal>) -> Ruling<'a> {
    Either::Left(ready(result))
}

/// The result of `ruling`. While it is pending, `budget` says that its request waits. What a pending ruling does is done once for a
/// request: a try ends before it.
pub(super) async fn awaited(ruling: Ruling<'_>, budget: &Budget) -> Result<(), Refusal> {
    match ruling {
        Either::Left(known) => known.into_inner(),
        Either::Right(pending) => {
            budget.begin_effects().map_err(|stopped| Refusal::Final(stopped.into()))?;
            waited(pending, budget).await
        }
    }
}

impl Refused {
    /// The refusal of the write by the plugin at place `plugin`.
    pub(super) fn of(plugin: usize, refusal: Refusal, attributes: &Attributes<'_>) -> Refused {
        Refused { plugin, finality: refusal.finality(), error: refusal.into_error(attributes) }
    }
}

/// A refusal of the pipeline itself, in this view.
impl From<ApiError> for Refused {
    fn from(error: ApiError) -> Self {
        Refused { plugin: ENDPOINT, finality: Finality::OfView, error }
    }
}

impl Refusal {
    /// Whether the plugin may be asked again.
    fn finality(&self) -> Finality {
        match self {
            Refusal::Forbidden(_) | Refusal::Error(_) => Finality::OfView,
            Refusal::Awaited(_) => Finality::Awaited,
            Refusal::Final(_) => Finality::Final,
        }
    }

    pub(super) fn into_error(self, attributes: &Attributes<'_>) -> ApiError {
        match self {
            Refusal::Forbidden(reason) | Refusal::Awaited(reason) => forbidden(attributes.subject(), &reason),
            Refusal::Error(error) | Refusal::Final(error) => error,
        }
    }
}

/// The error of a write that is forbidden for `reason`.
pub(crate) fn forbidden(subject: Subject, reason: &str) -> ApiError {
    let name = if subject.name.is_empty() { String::new() } else { format!(" {}", quoted(&subject.name)) };
    let message = format!("{}{name} is forbidden: {reason}", subject.qualified());
    ApiError::Forbidden { subject, message, cause: None }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_try_ends_before_a_ruling_that_may_have_effects() {
        fn pending<'a>() -> Ruling<'a> {
            Either::Right(Box::pin(async { Err(Refusal::Forbidden("it was asked".to_owned())) }))
        }
        let budget = Budget::default();
        budget.make_brief();
        let refused = awaited(pending(), &budget).now_or_never().unwrap();
        assert!(matches!(refused, Err(Refusal::Final(_))), "{refused:?}");
        assert!(budget.make_whole(), "the request is begun again");
        let refused = awaited(pending(), &budget).now_or_never().unwrap();
        assert_eq!(refused, Err(Refusal::Forbidden("it was asked".to_owned())));
        budget.make_brief();
        assert_eq!(awaited(rule(Ok(())), &budget).now_or_never(), Some(Ok(())), "known at once");
    }
}
