//! Subscriptions filed under the demands of their selections, so that a change visits the watchers that it concerns and no others.
//!
//! [`Interest`] is the narrowest demand of a selection, [`index`] finds the watchers of a change, and [`hub`] keeps how far
//! each watcher is and wakes it. Everything here is derived from the state and from the subscriptions of this node: nothing
//! of it is replicated or stored.
//!
//! An interest may be wider than its selection, never narrower: a change that the selection would show always concerns the
//! watcher. The selection itself is applied by the watcher.

mod hub;
mod index;
#[cfg(any(test, feature = "simulation"))]
mod planted;
#[cfg(test)]
mod tests;

pub use hub::Subscription;
#[cfg(any(test, feature = "simulation"))]
pub use planted::{HUB_BUGS, HubBug, with_hub_bug};

pub(crate) use hub::{Hub, Turn};

/// The narrowest demand of a selection on an object. A change concerns a watcher if the object before it or the
/// object after it meets the demand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interest {
    /// Every change of the resource.
    #[default]
    Everything,
    /// The object at this path (`namespace/name`, or `name`).
    Object(Box<str>),
    /// Objects of this name, in every namespace.
    Name(Box<str>),
    /// Objects of this namespace; of the empty one those of cluster scope.
    Namespace(Box<str>),
    /// Objects whose selectable field has this value.
    Field {
        /// Stored name of the field.
        name: Box<str>,
        /// The field's position among those of its kind, for objects that were stored without names.
        place: usize,
        /// The value; empty for objects without one.
        value: Box<str>,
        /// The namespace of the objects; `None`: any.
        namespace: Option<Box<str>>,
        /// Most objects may have the value: the demand is hardly narrower than one without it.
        is_common: bool,
    },
    /// Objects that have this label with this value.
    Label {
        /// Key of the label.
        key: Box<str>,
        /// Its value.
        value: Box<str>,
        /// The namespace of the objects; `None`: any.
        namespace: Option<Box<str>>,
    },
}
