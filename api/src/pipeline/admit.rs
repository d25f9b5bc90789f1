//! Admission around a write: the phases that are asked once for a document, and the one that is asked for each view.
//!
//! Owns asking a plugin again that refused in a view that may be old, and the waits in between. `crate::admission` owns the
//! chain. A request that waits here says so by its budget.

use std::ops::Range;
use std::time::Duration;

use orch_raft::Store;
use orch_schema::value::Value;

use super::Pipeline;
use super::judged::Rejected;
use crate::admission::{Additions, Attributes, Finality, Refused, View};
use crate::allocation::Unallotted;
use crate::error::ApiError;

/// Looks for an object that a background loop may be about to make, and the pause between two: a second in all, as in
/// the reference.
const LOOKS: Range<usize> = 0..20;
/// See [`LOOKS`]. Short, because the loop needs some milliseconds.
const LOOK_PACE: Duration = Duration::from_millis(50);

impl<S: Store> Pipeline<S> {
    /// Mutating admission of `object`, once for this document. `view` becomes the newest one where a plugin refuses in it.
    ///
    /// # Errors
    /// The refusal of the newest view, or a final one.
    pub(super) async fn mutate(
        &self,
        attributes: &Attributes<'_>,
        object: &mut Value,
        view: &mut View,
        additions: &mut Additions,
    ) -> Result<(), Rejected> {
        let (mut first, mut looks) = (0, LOOKS);
        while let Err(refused) = self.admission.mutate(attributes, object, view, additions, first).await {
            first = self.look_again(attributes, refused, &mut looks, view).await?;
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
        let (mut first, mut looks) = (0, LOOKS);
        while let Err(refused) = self.admission.validate(attributes, object, view, additions, first).await {
            first = self.look_again(attributes, refused, &mut looks, view).await?;
        }
        Ok(())
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
        self.mutate(attributes, options, &mut view, &mut additions).await?;
        self.validate(attributes, Some(&*options), &mut view, &mut additions).await?;
        // The document is not stored: reservations for it go, a refusal counts.
        self.admission.reserve(attributes, Some(&*options), &view, &mut additions)
    }

    /// Makes `view` the newest one for the plugin that refused, and returns its place.
    ///
    /// # Errors
    /// The refusal, if it stands.
    async fn look_again(
        &self,
        attributes: &Attributes<'_>,
        refused: Refused,
        looks: &mut Range<usize>,
        view: &mut View,
    ) -> Result<usize, Rejected> {
        let Refused { plugin, finality, error } = refused;
        // The first refusal may be due to a view that lacks writes which the client has seen on another node.
        match (finality, looks.next()) {
            (Finality::Final, _) => return Err(Rejected::Finally(error)),
            (_, Some(0)) => {}
            (Finality::Awaited, Some(_)) => self.pause(attributes).await,
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
                Some(_) if is_awaited => self.pause(attributes).await,
                _ => return Err(Rejected::ThisVersion(error)),
            }
            *view = self.newest_view().await?;
        }
        Ok(())
    }

    /// Waits for a background loop.
    async fn pause(&self, attributes: &Attributes<'_>) {
        let _waits = attributes.budget.wait();
        self.store.sleep(LOOK_PACE).await;
    }
}
