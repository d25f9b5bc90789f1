//! A change of a stored object between its judgement and its proposal.
//!
//! Owns what is kept of a judgement, so that the change can reserve again in another view without being judged again, and
//! how long its trees are kept: until nothing is left to reserve, because they take many times their bytes.

use orch_raft::object::SharedObject;
use orch_raft::{Key, Put, Store};
use orch_schema::budget::Stopped;
use orch_schema::value::Value;

use super::allotment::Transfer;
use super::definitions::declares;
use super::stored::is_same;
use super::{Pipeline, Request};
use crate::admission::{Additions, Attributes, Extent, Finality, Operation, Refused, View};
use crate::error::ApiError;

/// The reason why a version of an object is not changed.
#[derive(Debug)]
pub(super) enum Rejected {
    /// The rejection stands, whatever the newest version is.
    Finally(ApiError),
    /// The rejection stands if this is the newest version.
    ThisVersion(ApiError),
}

/// The outcome of a change to an object's value.
#[derive(Clone, Debug)]
pub(super) enum Write {
    /// Store this version.
    Put(Put),
    /// Remove the object. `Some`: its last form, for the response.
    Remove(Option<Put>),
    /// Remove the object, whose last hold (finalizer or other) an update has ended; the response shows the update.
    Free(Put),
}

/// A change of one version of an object, which its kind and the plugins have judged.
#[derive(Debug)]
pub(super) struct Judged {
    pub(super) write: Write,
    /// The object before the change, as plugins see it.
    pub(super) old: Value,
    /// The object after it; `None` for a deletion.
    pub(super) new: Option<Value>,
    /// The addresses and ports that change hands.
    transfer: Option<Transfer>,
    /// Additions of the phases that are asked once, and behind them those of the last view.
    pub(super) additions: Additions,
    /// The count of the additions of the phases that are asked once.
    once: Extent,
}

impl Judged {
    /// The change of `old` to `new` by `write`. `additions` are those of the phases that are asked once.
    pub(super) fn new(write: Write, old: Value, new: Option<Value>, additions: Additions) -> Judged {
        let once = additions.extent();
        Judged { write, old, new, transfer: None, additions, once }
    }

    /// The same change, with which addresses and ports change hands.
    pub(super) fn with_transfer(self, transfer: Option<Transfer>) -> Judged {
        Judged { transfer, ..self }
    }

    /// Whether the object is gone afterwards.
    pub(super) fn is_removal(&self) -> bool {
        matches!(self.write, Write::Remove(_) | Write::Free(_))
    }

    /// Whether the write would leave `before` as it is.
    pub(super) fn is_nothing(&self, before: &SharedObject) -> bool {
        matches!(&self.write, Write::Put(put) if is_same(put, before))
    }

    /// Takes back what was reserved in an earlier view.
    pub(super) fn begin_view(&mut self) {
        self.additions.truncate(self.once);
    }

    /// Whether anything was reserved in the last view, so that the change may have to reserve again.
    pub(super) fn reserves(&self) -> bool {
        self.additions.extent() != self.once
    }

    /// The count of the additions that no view changes.
    pub(super) fn once(&self) -> Extent {
        self.once
    }

    /// The write and its additions; frees the trees.
    pub(super) fn into_write(self) -> (Write, Additions) {
        (self.write, self.additions)
    }
}

impl<S: Store> Pipeline<S> {
    /// Has the plugins and the allocator reserve in `view` what goes with the change of the object under `key`. `request`
    /// is the one that the plugins are asked about.
    ///
    /// # Errors
    /// The first refusal.
    pub(super) fn reserve(
        &self,
        (request, operation, dry_run): (Request<'_>, Operation, bool),
        key: &Key,
        judged: &mut Judged,
        view: &View,
    ) -> Result<(), Refused> {
        let is_removal = judged.is_removal();
        let Judged { old, new, additions, .. } = judged;
        let attributes = Attributes {
            namespace: key.namespace(),
            name: key.name(),
            old: Some(&*old),
            dry_run,
            is_removal,
            ..self.attributes(request, operation)
        };
        self.admission.reserve(&attributes, new.as_ref(), view, additions)?;
        Ok(self.reserve_unjudged(request, key, judged, view)?)
    }

    /// [`Pipeline::reserve`] without plugins: the record of a definition, and the allocator's addresses and ports.
    ///
    /// # Errors
    /// `Internal`.
    pub(super) fn reserve_unjudged(
        &self,
        request: Request<'_>,
        key: &Key,
        judged: &mut Judged,
        view: &View,
    ) -> Result<(), ApiError> {
        let is_removal = judged.is_removal();
        let Judged { old, new, transfer, additions, .. } = judged;
        if declares(request.resource) {
            self.record_change(key, (&*old, new.as_ref()), is_removal, view, additions)?;
        }
        match transfer {
            Some(transfer) => self.transfer(request, key.path(), transfer, view, additions),
            None => Ok(()),
        }
    }
}

impl Rejected {
    /// The same with another error, made of this one.
    pub(super) fn map(self, change: impl FnOnce(ApiError) -> ApiError) -> Rejected {
        match self {
            Rejected::Finally(error) => Rejected::Finally(change(error)),
            Rejected::ThisVersion(error) => Rejected::ThisVersion(change(error)),
        }
    }
}

impl From<ApiError> for Rejected {
    fn from(error: ApiError) -> Self {
        Rejected::ThisVersion(error)
    }
}

/// A rejection while something is reserved: a plugin that may be asked again was looked at in the newest view already.
impl From<Rejected> for Refused {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Finally(error) => Refused { finality: Finality::Final, ..Refused::from(error) },
            Rejected::ThisVersion(error) => Refused::from(error),
        }
    }
}

impl From<Stopped> for Rejected {
    fn from(stopped: Stopped) -> Self {
        Rejected::Finally(stopped.into())
    }
}

impl From<Rejected> for ApiError {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Finally(error) | Rejected::ThisVersion(error) => error,
        }
    }
}
