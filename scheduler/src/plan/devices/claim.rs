//! ResourceClaims and DeviceClasses as the allocator reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::expression::{Selector, Selectors};
use crate::api::resource::v1 as api;

/// A claim, with its requests read once.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) api: Arc<api::ResourceClaim>,
    pub(super) requests: Vec<Request>,
}

/// A request of a claim: for one kind of devices, or for the first of several that can be had.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) kind: RequestKind,
    /// The alternatives: a single one for an exact request.
    pub(super) alternatives: Vec<Alternative>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Exactly,
    FirstAvailable,
    /// A kind that is not known here.
    Unknown,
}

/// An alternative of a request.
#[derive(Debug)]
pub(super) struct Alternative {
    /// The name in the list, empty for an exact request.
    pub(super) name: String,
    pub(super) class: String,
    pub(super) selectors: Vec<Option<Arc<Selector>>>,
    pub(super) mode: Mode,
    pub(super) admin_access: bool,
    pub(super) tolerations: Vec<api::DeviceToleration>,
    /// Wanted capacities by name, as text.
    pub(super) capacity: BTreeMap<String, String>,
}

/// How many devices are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Count(i64),
    All,
    Unknown(String),
}

impl Mode {
    fn new(mode: &str, count: i64) -> Mode {
        match mode {
            // Older writers leave the defaults out.
            "ExactCount" | "" => Mode::Count(count.max(1)),
            "All" => Mode::All,
            other => Mode::Unknown(other.to_owned()),
        }
    }
}

impl Request {
    /// The name of an alternative in results and configurations.
    pub(super) fn full_name(&self, alternative: &Alternative) -> String {
        match self.kind {
            RequestKind::FirstAvailable => format!("{}/{}", self.name, alternative.name),
            RequestKind::Exactly | RequestKind::Unknown => self.name.clone(),
        }
    }

    /// The name of an alternative in errors of the search: its own, without the request's, as in the reference.
    pub(super) fn own_name<'a>(&'a self, alternative: &'a Alternative) -> &'a str {
        match self.kind {
            RequestKind::FirstAvailable => &alternative.name,
            RequestKind::Exactly | RequestKind::Unknown => &self.name,
        }
    }

    /// Whether `names` speaks of this request by an alternative. No names speak of all.
    pub(super) fn is_among(&self, names: &[String], alternative: &Alternative) -> bool {
        names.is_empty() || names.contains(&self.name) || names.contains(&self.full_name(alternative))
    }
}

impl Claim {
    pub(super) fn new(api: api::ResourceClaim, selectors: &mut Selectors) -> Claim {
        let devices = api.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        let requests = devices.map(|devices| devices.requests.as_slice()).unwrap_or_default();
        let requests = requests.iter().map(|request| read(request, selectors)).collect();
        Claim { api: Arc::new(api), requests }
    }

    /// Namespace and name, as messages show them.
    pub(super) fn key(&self) -> String {
        let (namespace, name) = names(&self.api);
        format!("{namespace}/{name}")
    }

    pub(super) fn uid(&self) -> &str {
        self.api.metadata.as_ref().map_or("", |metadata| &metadata.uid)
    }

    pub(super) fn allocation(&self) -> Option<&api::AllocationResult> {
        self.api.status.as_ref()?.allocation.as_ref()
    }

    pub(super) fn reserved_for(&self) -> &[api::ResourceClaimConsumerReference] {
        self.api.status.as_ref().map(|status| status.reserved_for.as_slice()).unwrap_or_default()
    }

    pub(super) fn constraints(&self) -> &[api::DeviceConstraint] {
        let devices = self.api.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        devices.map(|devices| devices.constraints.as_slice()).unwrap_or_default()
    }

    pub(super) fn config(&self) -> &[api::DeviceClaimConfiguration] {
        let devices = self.api.spec.as_ref().and_then(|spec| spec.devices.as_ref());
        devices.map(|devices| devices.config.as_slice()).unwrap_or_default()
    }
}

/// Namespace and name of a claim.
pub(super) fn names(claim: &api::ResourceClaim) -> (&str, &str) {
    claim.metadata.as_ref().map_or(("", ""), |metadata| (&metadata.namespace, &metadata.name))
}

fn read(request: &api::DeviceRequest, selectors: &mut Selectors) -> Request {
    let capacity = |capacity: &Option<api::CapacityRequirements>| {
        let requests = capacity.iter().flat_map(|capacity| &capacity.requests);
        requests.map(|(name, value)| (name.clone(), value.string.clone())).collect()
    };
    if let Some(exactly) = &request.exactly {
        let only = Alternative {
            name: String::new(),
            class: exactly.device_class_name.clone(),
            selectors: compiled(&exactly.selectors, selectors),
            mode: Mode::new(&exactly.allocation_mode, exactly.count),
            admin_access: exactly.admin_access == Some(true),
            tolerations: exactly.tolerations.clone(),
            capacity: capacity(&exactly.capacity),
        };
        return Request { name: request.name.clone(), kind: RequestKind::Exactly, alternatives: vec![only] };
    }
    let alternatives = request.first_available.iter().map(|one| Alternative {
        name: one.name.clone(),
        class: one.device_class_name.clone(),
        selectors: compiled(&one.selectors, selectors),
        mode: Mode::new(&one.allocation_mode, one.count),
        admin_access: false,
        tolerations: one.tolerations.clone(),
        capacity: capacity(&one.capacity),
    });
    let alternatives: Vec<_> = alternatives.collect();
    let kind = if alternatives.is_empty() { RequestKind::Unknown } else { RequestKind::FirstAvailable };
    Request { name: request.name.clone(), kind, alternatives }
}

/// The selectors; `None` stands for one of a kind that is not known here.
fn compiled(selectors: &[api::DeviceSelector], known: &mut Selectors) -> Vec<Option<Arc<Selector>>> {
    selectors.iter().map(|one| one.cel.as_ref().map(|cel| known.selector(&cel.expression))).collect()
}

/// A class of devices.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) selectors: Vec<Option<Arc<Selector>>>,
    pub(super) config: Vec<api::DeviceClassConfiguration>,
    /// The extended resource that its devices stand for.
    pub(super) extended_resource: Option<String>,
    /// When it was created: seconds since 1970, and nanoseconds.
    pub(super) created: (i64, i32),
}

impl Class {
    pub(super) fn new(api: &api::DeviceClass, selectors: &mut Selectors) -> Class {
        let spec = api.spec.clone().unwrap_or_default();
        let metadata = api.metadata.clone().unwrap_or_default();
        let created = metadata.creation_timestamp.unwrap_or_default();
        Class {
            name: metadata.name,
            created: (created.seconds, created.nanos),
            extended_resource: spec.extended_resource_name,
            selectors: compiled(&spec.selectors, selectors),
            config: spec.config,
        }
    }
}
