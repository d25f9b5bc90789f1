//! The interface to whatever converts the objects of a declared kind: a function, or another server.
//!
//! Owns the batch that a converter is asked about, and its answer, which is ready or comes after a wait. It calls no server
//! itself: a webhook is one more [`Converter`].

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, Either, Ready, ready};
use orch_raft::WrittenAs;
use orch_schema::value::Value;
use orch_spans::ActiveSpan;
use smallvec::SmallVec;

use super::kept::Kept;

/// Converts objects of one kind between its versions.
pub trait Converter: fmt::Debug + Send + Sync {
    /// The objects of `batch` in the form `to`, as many and in the same order. None of them is of the version of `to`
    /// already. Each question to another server is a part of `trace`; `None`: no request whose trace is recorded asks, or several do.
    ///
    /// # Errors
    /// [`Failure`] where one of them cannot be converted: then none is.
    fn convert(&self, batch: Batch, to: &Arc<WrittenAs>, trace: Option<&ActiveSpan>) -> Converting;

    /// Whether it asks another server, so that it is worth being asked about many objects at once.
    fn asks_others(&self) -> bool;

    /// The results that are kept with their objects; `None`: its results are not worth being kept.
    fn kept(&self) -> Option<&Arc<Kept>> {
        None
    }
}

/// An object to convert.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The form that it is in.
    pub written_as: Arc<WrittenAs>,
    /// Its tree, without `apiVersion` and `kind`.
    pub object: Value,
}

/// Objects that are converted together, mostly one.
pub type Batch = SmallVec<[Piece; 1]>;

/// The trees of a batch after its conversion.
pub type Converted = SmallVec<[Value; 1]>;

/// A conversion: ready, or a future that waits for another server. It holds all that it needs, since a watch keeps it between
/// two looks.
pub type Converting =
    Either<Ready<Result<Converted, Failure>>, BoxFuture<'static, Result<Converted, Failure>>>;

/// A conversion that is known at once.
pub fn converted(result: Result<Converted, Failure>) -> Converting {
    Either::Left(ready(result))
}

/// The reason why objects cannot be converted, in the words that the client reads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Failure(pub String);
