//! Admission around a write: the phases that are asked once for a document, and the one that is asked for each view.
//!
//! Owns the repetition of a phase whose refusal may be due to an old view, and the waits in between. `crate::admission` owns the
//! chain. The budget of a request counts as waiting while the request waits here.

use std::ops::Range;
use std::time::Duration;

use orch_raft::Store;
use orch_schema::budget::Budget;
use orch_schema::value::Value;
use orch_schema::{Limits, decode_json};

use super::Pipeline;
use super::judged::Rejected;
use crate::admission::{Additions, Attributes, Finality, Refused, View, confirm_rights};
use crate::allocation::Unallotted;
use crate::error::ApiError;
use crate::exchange::Step;
use crate::request::Verb;

/// Looks for an object that a background loop may be about to make, and the pause between two: a second in all, as in
/// the reference.
pub(super) const LOOKS: Range<usize> = 0..20;
/// The pause between two of [`LOOKS`]. Short, because the loop needs some milliseconds.
const LOOK_PACE: Duration = Duration::from_millis(50);

impl<S: Store> Pipeline<S> {
    /// Mutating admission of `object`, `None` where it is to be deleted, once for this document. `view` becomes the newest
    /// one where a plugin refuses in it.
    ///
    /// # Errors
    /// The refusal of the newest view, or a final one.
    pub(super) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        view: &mut View,
        additions: &mut Additions,
    ) -> Result<(), Rejected> {
        let (mut first, mut looks, began) = (0, LOOKS, self.ambient.now());
        let admitted = loop {
            let mutated =
                self.admission.mutate(attributes, object.as_deref_mut(), view, additions, first).await;
            let Err(refused) = mutated else { break Ok(()) };
            match self.look_again(attributes.budget, refused, &mut looks, view).await {
                Ok(next) => first = next,
                Err(refused) => break Err(refused),
            }
        };
        attributes.exchange.note(Step::Mutate, began, self.ambient.now());
        admitted
    }

    /// Refuses rights beyond the user's own in the role or binding `object`, as mutating admission left it.
    ///
    /// # Errors
    /// As of [`Pipeline::mutate`].
    pub(super) async fn confirm_rights(
        &self,
        attributes: &Attributes<'_>,
        object: &Value,
        view: &mut View,
    ) -> Result<(), Rejected> {
        let mut looks = LOOKS;
        while let Err(refused) = confirm_rights(attributes, object, view).await {
            self.look_again(attributes.budget, refused, &mut looks, view).await?;
        }
        Ok(())
    }

    /// Validating admission of `object`, `None` where it is to be deleted, once for this document.
    ///
    /// # Errors
    /// As of [`Pipeline::mutate`].
    pub(super) async fn validate(
        &self,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        view: &mut View,
        additions: &mut Additions,
    ) -> Result<(), Rejected> {
        let (mut first, mut looks, began) = (0, LOOKS, self.ambient.now());
        let admitted = loop {
            let validated = self.admission.validate(attributes, object, view, additions, first).await;
            let Err(refused) = validated else { break Ok(()) };
            match self.look_again(attributes.budget, refused, &mut looks, view).await {
                Ok(next) => first = next,
                Err(refused) => break Err(refused),
            }
        };
        attributes.exchange.note(Step::Validate, began, self.ambient.now());
        admitted
    }

    /// Admission of a connection, whose `options` plugins may change.
    ///
    /// # Errors
    /// The refusal of the newest view, or a final one.
    pub(crate) async fn admit_connection(
        &self,
        attributes: &Attributes<'_>,
        options: &mut Value,
    ) -> Result<(), ApiError> {
        // No transaction protects a connection: a write that another member has answered counts.
        let (mut view, mut additions) = (self.newest_view().await?, Additions::default());
        self.mutate(attributes, Some(&mut *options), &mut view, &mut additions).await?;
        *options = read_again(attributes, options)?;
        self.validate_unstored(attributes, options, &mut view, &mut additions).await?;
        Ok(())
    }

    /// Validating admission of `document`, which is not stored, and the reserving phase, of which refusals
    /// count and reservations are dropped.
    ///
    /// # Errors
    /// As of [`Pipeline::mutate`].
    pub(super) async fn validate_unstored(
        &self,
        attributes: &Attributes<'_>,
        document: &Value,
        view: &mut View,
        additions: &mut Additions,
    ) -> Result<(), Rejected> {
        self.validate(attributes, Some(document), view, additions).await?;
        let (once, mut looks) = (additions.extent(), LOOKS);
        while let Err(refused) = self.admission.reserve(attributes, Some(document), view, additions) {
            additions.truncate(once);
            self.look_again(attributes.budget, refused, &mut looks, view).await?;
        }
        Ok(())
    }

    /// Makes `view` the newest one for the plugin that refused, and returns its place.
    ///
    /// # Errors
    /// The refusal, if it stands.
    pub(super) async fn look_again(
        &self,
        budget: &Budget,
        refused: Refused,
        looks: &mut Range<usize>,
        view: &mut View,
    ) -> Result<usize, Rejected> {
        let Refused { plugin, finality, error } = refused;
        // The first refusal may be due to a view that lacks writes which the client has seen on another node.
        match (finality, looks.next()) {
            (Finality::Final, _) => return Err(Rejected::Finally(error)),
            (_, Some(0)) => {}
            (Finality::Awaited, Some(_)) => self.pause(budget).await,
            (Finality::Awaited | Finality::OfView, _) => return Err(Rejected::ThisVersion(error)),
        }
        *view = self.newest_view().await?;
        Ok(plugin)
    }

    /// Allots what the object needs: `view` becomes one in which that was free.
    ///
    /// # Errors
    /// The newest view had no free one.
    pub(super) async fn allot_in_time(
        &self,
        attributes: &Attributes<'_>,
        value: &mut Value,
        view: &mut View,
    ) -> Result<(), Rejected> {
        if attributes.dry_run && self.allocator.handles(attributes.resource, attributes.action) {
            // No condition will show that the view lacks a write.
            *view = self.newest_view().await?;
        }
        let mut looks = LOOKS;
        while let Err(Unallotted { is_awaited, error }) = self.allot(attributes, value, view) {
            match looks.next() {
                Some(0) => {}
                Some(_) if is_awaited => self.pause(attributes.budget).await,
                _ => return Err(Rejected::ThisVersion(error)),
            }
            *view = self.newest_view().await?;
        }
        Ok(())
    }

    /// Waits for a background loop.
    async fn pause(&self, budget: &Budget) {
        let _waits = budget.wait();
        self.store.sleep(LOOK_PACE).await;
    }
}

/// The options of a connection as plugins left them, without fields that their kind does not have.
///
/// # Errors
/// `Internal`: they are no options of their kind any more. What runs in a container must not be guessed.
fn read_again(attributes: &Attributes<'_>, options: &Value) -> Result<Value, ApiError> {
    let (resource, action) = (attributes.resource, attributes.action);
    let type_id = resource.request_type(action, Verb::Create);
    let type_id = type_id.ok_or_else(|| ApiError::Internal(format!("{action:?} takes no options")))?;
    let decoded = decode_json(&resource.schema, type_id, options.to_string().as_bytes(), Limits::default());
    let decoded = decoded.map_err(|error| {
        let part = action.subresource();
        ApiError::Internal(format!("after mutating admission, the options of {part} cannot be read: {error}"))
    })?;
    Ok(decoded.value)
}
