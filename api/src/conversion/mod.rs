//! Conversion of objects between the form that they were written in, the form that is stored, and that of a request's version.
//!
//! Owns the two ways in which a kind's objects are converted, and the interface to whatever converts them. The stage itself,
//! between the state and the renderer, and between the rules of a kind and the store, is `pipeline::staged`:
//!
//!     direct   built-in kinds: a function. The renderer calls it for one object at a time, so that a list holds one tree; the
//!              rules of the kind apply to the stored form.
//!     staged   kinds that a definition declares: before the renderer, in batches, possibly by another server. The rules of the
//!              kind apply to the form of the request's version.
//!
//! A stored object of a declared kind says in which version, and under which revision of the definition, it was written
//! ([`WrittenAs`]). Where these are the request's, its bytes are handed out undecoded. Of a built-in kind no object says so: it
//! passes the stage untouched, without an allocation or a wait.
//!
//! A definition with a conversion webhook has a `hook`: the question (`review`), the judgement of the answer (`restored`), what is counted
//! (`measures`) and what is kept of it (`kept`).
//!
//! Invariant: a conversion keeps the identity of an object (name, namespace, uid) and its revision.
//!
//! As in the reference, the rules of a declared kind apply to the version of the request, and an object is converted to the stored
//! version behind them.

mod converter;
mod hook;
mod kept;
mod measures;
#[cfg(any(test, feature = "simulation"))]
mod planted;
mod restored;
mod review;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt;
use std::sync::Arc;

use orch_raft::WrittenAs;
use orch_schema::TypeId;
use orch_schema::value::Value;

use crate::tables::Tables;

pub(crate) use hook::{Hook, HookParts, HookedKind, Post, Unposted, Way};
pub(crate) use kept::Known;
pub(crate) use review::Reviews;

pub use converter::{Batch, Converted, Converter, Converting, Failure, Piece, converted};
pub use kept::Kept;
#[cfg(any(test, feature = "simulation"))]
pub use planted::{ConversionBug, with_conversion_bug};

/// The way from stored objects to those of one version of a kind, and back.
#[derive(Clone, Debug)]
pub enum Conversion {
    /// By functions that are known when the program starts.
    Direct(Direct),
    /// Before the renderer, possibly by another server.
    Staged(Staged),
}

/// Converts an object from one form to another. It cannot fail, and needs no other server.
pub type ConvertFn = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// Converts between the one stored form of a built-in kind and the form of another version.
#[derive(Clone)]
pub struct Direct {
    /// Converts from the stored form.
    pub from_stored: ConvertFn,
    /// Converts to the stored form.
    pub to_stored: ConvertFn,
    /// Maps the name of a selectable field to its stored name.
    pub stored_field: fn(&str) -> Option<&'static str>,
    /// Group of the stored version, which validation errors name.
    pub stored_group: &'static str,
    /// The type of the stored form.
    pub stored_type: TypeId,
}

/// A version of a kind whose objects say which form they were written in. The version that is stored has it, too: older
/// objects may be of another one.
#[derive(Clone, Debug)]
pub struct Staged {
    /// The form of this version's bytes.
    pub shown: Arc<WrittenAs>,
    /// The form in which objects are written now.
    pub stored: Arc<WrittenAs>,
    /// The type of the form in which objects are written now.
    pub stored_type: TypeId,
    /// The schema that holds that type: each version has one of its own.
    pub stored_schema: Tables,
    /// Converts from any version of the kind to any other.
    pub converter: Arc<dyn Converter>,
}

impl Staged {
    /// Whether objects are written in this version.
    pub fn is_stored(&self) -> bool {
        self.shown.version == self.stored.version
    }

    /// Whether `written_as` is the stored version under an earlier definition.
    pub fn is_older(&self, written_as: &WrittenAs) -> bool {
        written_as.version == self.stored.version && *written_as != *self.stored
    }
}

impl fmt::Debug for Direct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Direct { stored_group, stored_type, .. } = self;
        f.debug_struct("Direct")
            .field("group", stored_group)
            .field("type", stored_type)
            .finish_non_exhaustive()
    }
}
