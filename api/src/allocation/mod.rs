//! Cluster addresses and node ports of services: which are taken, and which a service gets.
//!
//! Owns the choice. It is made on the state of one node, so that two nodes may choose the same at the same time; what
//! holds is the transaction of the service (`pipeline::allotment`), which requires that nobody has taken it meanwhile, and
//! takes it. The service whose condition breaks is given others.
//!
//!     claim        an object of the internal resource [`CLAIMS`] for each cluster address and node port
//!     IPAddress    what clients see of a taken cluster address; clients may take addresses for themselves by making one
//!
//! A claim lives exactly as long as a service has the address or port. So an address that an administrator frees by
//! deleting its IPAddress is not given to a second service, and the repair loop makes the object again.
//!
//! As in the reference, values are drawn at random from the upper part of a range first: the lower part is left to clients
//! that ask for values of their own.
//!
//! Invariant: no cluster address and no node port has two claims; a service holds only what it has claims for.

pub(crate) mod addresses;
pub(crate) mod claims;
mod draw;
pub(crate) mod ports;
pub(crate) mod ranges;
#[cfg(test)]
mod tests;

use orch_proto::Brand;
use orch_rules::Action;
use orch_rules::kinds::service::{EXTERNAL_NAME, complete, settle_families};
use orch_rules::validate::tree::Tree;
use orch_rules::validate::{FieldError, FieldErrors};
use orch_schema::value::Value;

use self::draw::Dice;
pub use self::ports::NodePorts;
use self::ranges::Ranges;
use crate::admission::View;
use crate::error::{ApiError, Subject};
use crate::registry::Resource;

/// The resource of services in the store.
pub(crate) const SERVICES: &str = "services";
/// The resource of taken addresses in the store.
pub(crate) const ADDRESSES: &str = "ipaddresses.networking";
/// The resource of ranges in the store.
pub(crate) const CIDRS: &str = "servicecidrs.networking";
/// The store's resource of claims; no API serves it, and nobody watches it.
pub const CLAIMS: &str = "_claims";

/// Allots cluster addresses and node ports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator {
    node_ports: NodePorts,
}

/// Why a service gets no addresses or ports.
#[derive(Debug)]
pub(crate) struct Unallotted {
    /// For now: the loop that makes the cluster's ranges may not have run yet.
    pub(crate) is_awaited: bool,
    pub(crate) error: ApiError,
}

/// Why one value is not allotted.
enum Unfit {
    /// The client's value, refused for this reason.
    Refused(FieldError),
    /// No value is free.
    Exhausted(String),
}

impl Allocator {
    /// An allocator of node ports in `node_ports`.
    pub fn new(node_ports: NodePorts) -> Allocator {
        Allocator { node_ports }
    }

    /// Whether writes of `resource` by `action` allot anything.
    pub(crate) fn handles(&self, resource: &Resource, action: Action) -> bool {
        action == Action::Object && self.holds(resource)
    }

    /// Whether objects of `resource` hold what is allotted. Any action may remove one, by its last finalizer.
    pub(crate) fn holds(&self, resource: &Resource) -> bool {
        *resource.storage == *SERVICES
    }

    /// Fills in what `service`, the new form of `old`, needs and has not: families, cluster addresses, node ports.
    /// Nothing is taken yet.
    ///
    /// # Errors
    /// A value that the client wants is taken or outside its range, or none is free. `service` is unchanged then.
    pub(crate) fn allot(
        &self,
        (brand, resource): (&'static Brand, &Resource),
        old: Option<&Value>,
        service: &mut Value,
        view: &View,
    ) -> Result<(), Unallotted> {
        let name = service.at("metadata").text("name").to_owned();
        let invalid = |errors: FieldErrors| Unallotted {
            is_awaited: false,
            error: ApiError::Invalid { subject: Subject::kind(resource, &name), errors },
        };
        let unfit = |unfit: Unfit| match unfit {
            Unfit::Refused(error) => invalid(error.into()),
            Unfit::Exhausted(reason) => {
                Unallotted { is_awaited: false, error: ApiError::Unavailable(reason) }
            }
        };
        let mut new = service.clone();
        complete(old, &mut new);
        let ranges = Ranges::of(brand, view);
        if ranges.families.is_empty() && new.at("spec").text("type") != EXTERNAL_NAME {
            let reason = "the cluster has no range of cluster addresses yet".to_owned();
            return Err(Unallotted { is_awaited: true, error: ApiError::Unavailable(reason) });
        }
        settle_families(old, &mut new, &ranges.families).map_err(invalid)?;
        let mut dice = Dice::of(&new);
        addresses::allot(old, &mut new, &ranges, view, &mut dice).map_err(unfit)?;
        ports::allot(self.node_ports, old, &mut new, view, &mut dice).map_err(unfit)?;
        *service = new;
        Ok(())
    }
}
