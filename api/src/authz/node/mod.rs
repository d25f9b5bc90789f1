//! The Node authorizer: what a kubelet may do with the objects that concern its node.
//!
//! Owns the decision on requests of nodes' users (`system:node:NAME` in the group `system:nodes`). It allows or has no
//! opinion, with the reason; it never denies, so that roles may grant a node more. What depends on relations between
//! objects is decided by the prepared graph; the rest by the rules of the default role `system:node`, whether that role is
//! stored or not. A create does not tell what is created: the admission plugin `NodeRestriction` looks at that.

mod graph;
#[cfg(test)]
mod oracle;
mod pod;
mod search;
#[cfg(test)]
mod tests;
mod volume;

use std::cell::Cell;

use futures::future::{BoxFuture, Either};
use orch_proto::Brand;
use orch_rules::selector::FieldSelector;

use self::graph::{Graph, PODS, VOLUMES};
pub(crate) use self::pod::{MIRROR_ANNOTATION, PodDocument, ReferenceKind, ephemeral_claim};
use super::rbac::{Asked, Rules};
use super::review::UserRules;
use super::{
    Attributes, Authorizer, Deciding, Decision, Listing, Reason, ResourceAttributes, decided, listed,
};
use crate::authn::User;
use crate::authz::rbac::default_roles::default_rules;
use crate::follow::{Applied, Maintained};

/// The role whose rules hold for all nodes.
const ROLE: &str = "system:node";

/// Storage resources that the prepared graph is derived from.
pub(super) const SOURCES: [&str; 2] = [PODS, VOLUMES];

/// Storage resources whose objects each name a node.
const ATTACHMENTS: &str = "volumeattachments.storage";
const SLICES: &str = "resourceslices.resource";

/// Decides on the requests of nodes.
pub struct NodeAuthorizer {
    brand: &'static Brand,
    graph: Maintained<Graph>,
    /// Rules of every node, whatever its pods refer to.
    rules: Rules,
}

/// Allowed, or the reason for having no opinion, possibly empty.
type NodeDecision = Result<(), String>;

/// A request of a node, at one state.
struct Request<'a> {
    authorizer: &'a NodeAuthorizer,
    node: &'a str,
    asked: &'a ResourceAttributes<'a>,
    applied: &'a Applied,
    /// The decision takes a graph that is not there yet.
    is_early: Cell<bool>,
}

impl NodeAuthorizer {
    /// An authorizer over the objects of a cluster of `brand`.
    pub fn new(brand: &'static Brand) -> NodeAuthorizer {
        let rules = Rules::new(&default_rules(brand, ROLE));
        NodeAuthorizer { brand, graph: Maintained::new(move || Graph::new(brand)), rules }
    }

    /// Brings the graph up to `applied`, so that requests need not wait for it.
    async fn catch_up(&self, applied: &Applied) {
        self.graph.catch_up(applied).await;
    }

    /// The decision; `None` where it takes a graph that is not there yet.
    fn ask(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Option<Decision> {
        let Some(node) = user.node_name() else { return Some(Decision::NoOpinion(String::new())) };
        if node.is_empty() {
            return Some(Decision::NoOpinion(format!("unknown node for user {:?}", user.name)));
        }
        let Attributes::Resource(asked) = &attributes else {
            return Some(Decision::NoOpinion(String::new()));
        };
        let request = Request { authorizer: self, node, asked, applied, is_early: Cell::new(false) };
        let decision = request.decide();
        let decision = decision.map_or_else(Decision::NoOpinion, |()| Decision::Allow(Reason::default()));
        (!request.is_early.get()).then_some(decision)
    }

    /// The decision, once the graph is there.
    async fn ask_later(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Decision {
        loop {
            self.catch_up(applied).await;
            if let Some(decision) = self.ask(user, attributes, applied) {
                return decision;
            }
        }
    }

    /// Decides by the rules that hold for all nodes.
    fn decide_by_rules(&self, asked: &ResourceAttributes<'_>) -> NodeDecision {
        let qualified = asked.qualified();
        let prepared = Asked::new(Attributes::Resource(*asked), &qualified);
        let is_allowed = self.rules.allow(&prepared);
        allow_if(is_allowed, String::new)
    }
}

fn allow_if(is_allowed: bool, reason: impl FnOnce() -> String) -> NodeDecision {
    if is_allowed { Ok(()) } else { Err(reason()) }
}

fn refuse(reason: &str) -> NodeDecision {
    Err(reason.to_owned())
}

impl Request<'_> {
    fn decide(&self) -> NodeDecision {
        let asked = self.asked;
        match (asked.group, asked.resource) {
            ("", "secrets") => self.decide_read(ReferenceKind::Secret),
            ("", "configmaps") => self.decide_read(ReferenceKind::ConfigMap),
            ("", "persistentvolumeclaims") => self.decide_volume_claim(),
            ("", "persistentvolumes") => {
                self.check_is_get()?;
                let claim = search::claim_of(&self.applied.state, asked.name).unwrap_or_default();
                self.check_refers(ReferenceKind::VolumeClaim, &claim)
            }
            ("", "serviceaccounts") => self.decide_service_account(),
            ("", "nodes") => self.decide_node(),
            ("", "pods") => self.decide_pod(),
            (group, resource) => {
                let own = group.strip_suffix(self.authorizer.brand.group_domain);
                match (own.and_then(|group| group.strip_suffix('.')), resource) {
                    (Some("resource"), "resourceclaims") => {
                        self.check_is_get()?;
                        self.check_uses(ReferenceKind::ResourceClaim)
                    }
                    (Some("storage"), "volumeattachments") => {
                        self.check_is_get()?;
                        self.check_names_node(ATTACHMENTS, asked.name)
                    }
                    (Some("coordination"), "leases") => self.decide_lease(),
                    (Some("storage"), "csinodes") => self.decide_csi_node(),
                    (Some("resource"), "resourceslices") => self.decide_resource_slice(),
                    _ => self.authorizer.decide_by_rules(asked),
                }
            }
        }
    }

    fn check_related(&self, is_related: impl FnOnce() -> bool) -> NodeDecision {
        if self.asked.name.is_empty() {
            return refuse("No Object name found");
        }
        allow_if(is_related(), || {
            format!("no relationship found between node '{}' and this object", self.node)
        })
    }

    /// Checks that pods of the node refer to the object, which is one of a namespace.
    fn check_uses(&self, kind: ReferenceKind) -> NodeDecision {
        self.check_refers(kind, &self.path())
    }

    /// Checks that pods of the node refer to the object at `path`.
    fn check_refers(&self, kind: ReferenceKind, path: &str) -> NodeDecision {
        self.check_related(|| {
            let state = &self.applied.state;
            let has = |graph: &Graph| graph.has_object(state, self.node, kind, path);
            let found = self.authorizer.graph.try_read(self.applied, has);
            self.is_early.set(found.is_none());
            found.unwrap_or(false)
        })
    }

    /// Checks that the object at `path` names the node as its own.
    fn check_names_node(&self, storage: &str, path: &str) -> NodeDecision {
        self.check_related(|| {
            search::node_of(&self.applied.state, storage, path).is_some_and(|of| of == self.node)
        })
    }

    fn path(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }

    fn check_is_get(&self) -> NodeDecision {
        if self.asked.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        allow_if(self.asked.subresource.is_empty(), || "cannot get subresource".to_owned())
    }

    fn decide_read(&self, kind: ReferenceKind) -> NodeDecision {
        if !matches!(self.asked.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !self.asked.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if self.asked.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.check_uses(kind)
    }

    fn decide_volume_claim(&self) -> NodeDecision {
        if self.asked.subresource == "status" {
            if !matches!(self.asked.verb, "update" | "patch") {
                return refuse("can only get/update/patch this type");
            }
        } else {
            self.check_is_get()?;
        }
        self.check_uses(ReferenceKind::VolumeClaim)
    }

    fn decide_service_account(&self) -> NodeDecision {
        let ResourceAttributes { verb, subresource, name, .. } = *self.asked;
        if verb == "get" && subresource.is_empty() {
            return self.decide_read(ReferenceKind::ServiceAccount);
        }
        if verb != "create" || name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.check_uses(ReferenceKind::ServiceAccount)
    }

    /// A node reads its own object by name, which works before it is registered, too.
    fn decide_node(&self) -> NodeDecision {
        let (node, name) = (self.node, self.asked.name);
        match (self.asked.subresource, self.asked.verb) {
            ("", "create") | ("" | "status", "update" | "patch") => Ok(()),
            ("", "get" | "list" | "watch") if name == node => Ok(()),
            ("", "get" | "list" | "watch") if name.is_empty() => {
                Err(format!("node '{node}' cannot read all nodes, only its own Node object"))
            }
            ("", "get" | "list" | "watch") => {
                Err(format!("node '{node}' cannot read '{name}', only its own Node object"))
            }
            _ => Err(String::new()),
        }
    }

    fn decide_pod(&self) -> NodeDecision {
        let is_own = || self.check_names_node(PODS, &self.path());
        match (self.asked.subresource, self.asked.verb) {
            ("", "get") => is_own(),
            ("", "list" | "watch") if self.selects_own("spec.nodeName") => Ok(()),
            ("", "list" | "watch") if !self.asked.name.is_empty() => is_own(),
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => Err(String::new()),
        }
    }

    /// Whether the field selector requires that `field` names this node.
    fn selects_own(&self, field: &str) -> bool {
        FieldSelector::does_require(self.asked.field_selector, field, self.node)
    }

    fn decide_lease(&self) -> NodeDecision {
        let ResourceAttributes { verb, namespace, name, .. } = *self.asked;
        if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a node lease");
        }
        let own = self.authorizer.brand.node_lease_namespace;
        if namespace != own {
            return Err(format!("can only access leases in the {own:?} system namespace"));
        }
        allow_if(verb == "create" || name == self.node, || {
            "can only access node lease with the same name as the requesting node".to_owned()
        })
    }

    fn decide_csi_node(&self) -> NodeDecision {
        let ResourceAttributes { verb, subresource, name, .. } = *self.asked;
        if !matches!(verb, "get" | "create" | "update" | "patch" | "delete") {
            return refuse("can only get, create, update, patch, or delete a CSINode");
        }
        if !subresource.is_empty() {
            return refuse("cannot authorize CSINode subresources");
        }
        allow_if(verb == "create" || name == self.node, || {
            "can only access CSINode with the same name as the requesting node".to_owned()
        })
    }

    fn decide_resource_slice(&self) -> NodeDecision {
        if !self.asked.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.check_names_node(SLICES, self.asked.name),
            "watch" | "list" | "deletecollection" => allow_if(self.selects_own("spec.nodeName"), || {
                "can only list/watch/deletecollection resourceslices with nodeName field selector".to_owned()
            }),
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }
}

impl Authorizer for NodeAuthorizer {
    fn name(&self) -> &'static str {
        "Node"
    }

    fn decide<'a>(&'a self, user: &'a User, asked: Attributes<'a>, applied: &'a Applied) -> Deciding<'a> {
        match self.ask(user, asked, applied) {
            Some(decision) => decided(decision),
            None => Either::Right(Box::pin(self.ask_later(user, asked, applied))),
        }
    }

    fn prepare<'a>(&'a self, applied: &'a Applied) -> BoxFuture<'a, ()> {
        Box::pin(self.catch_up(applied))
    }

    /// A node's rights depend on relations and cannot be listed.
    fn rules_of<'a>(&'a self, user: &'a User, _namespace: &'a str, _applied: &'a Applied) -> Listing<'a> {
        let is_node = user.node_name().is_some();
        let fault = || "node authorizer does not support user rule resolution".to_owned();
        let faults = is_node.then(fault).into_iter().collect();
        listed(UserRules { is_incomplete: is_node, faults, ..UserRules::default() })
    }
}
