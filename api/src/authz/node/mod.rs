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
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;

use orch_proto::Brand;
use orch_rules::selector::FieldSelector;

use self::graph::Graph;
pub(crate) use self::pod::{MIRROR_ANNOTATION, PodDocument, ReferenceKind, ephemeral_claim};
use super::rbac::{Asked, Rule};
use super::review::UserRules;
use super::{Attributes, Authorizer, Deciding, Decision, Reason, ResourceAttributes, decided};
use crate::authn::User;
use crate::controllers::bootstrap::default_rules;
use crate::follow::{Applied, Prepared};

/// The role whose rules hold for all nodes.
const ROLE: &str = "system:node";

/// Decides on the requests of nodes.
pub struct NodeAuthorizer {
    brand: &'static Brand,
    graph: Prepared<Graph>,
    /// What every node may do, whatever its relations.
    rules: Vec<Rule>,
}

/// Allowed, or a remark of why not, possibly empty.
type Verdict = Result<(), String>;

/// A request of a node, at one state.
struct Request<'a> {
    authorizer: &'a NodeAuthorizer,
    node: &'a str,
    asked: &'a ResourceAttributes<'a>,
    applied: &'a Applied,
}

impl NodeAuthorizer {
    /// An authorizer over the objects of a cluster of `brand`.
    pub fn new(brand: &'static Brand) -> NodeAuthorizer {
        let rules = Rule::prepare(&default_rules(brand, ROLE));
        NodeAuthorizer { brand, graph: Prepared::default(), rules }
    }

    fn graph(&self, applied: &Applied) -> Arc<Graph> {
        self.graph.at_least_from(applied, || Graph::new(self.brand))
    }

    fn ask(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Decision {
        let Some(node) = user.node_name() else { return Decision::NoOpinion(String::new()) };
        if node.is_empty() {
            return Decision::NoOpinion(format!("unknown node for user {:?}", user.name));
        }
        let verdict = match &attributes {
            Attributes::Path { .. } => Err(String::new()),
            Attributes::Resource(asked) => Request { authorizer: self, node, asked, applied }.decide(),
        };
        verdict.map_or_else(Decision::NoOpinion, |()| Decision::Allow(Reason::default()))
    }

    /// Decides by the rules that hold for all nodes.
    fn decide_by_rules(&self, asked: &ResourceAttributes<'_>) -> Verdict {
        let qualified = asked.qualified();
        let prepared = Asked::new(Attributes::Resource(*asked), &qualified);
        let is_allowed = self.rules.iter().any(|rule| rule.allows(&prepared));
        allow_if(is_allowed, String::new)
    }
}

fn allow_if(is_allowed: bool, remark: impl FnOnce() -> String) -> Verdict {
    if is_allowed { Ok(()) } else { Err(remark()) }
}

fn refuse(remark: &str) -> Verdict {
    Err(remark.to_owned())
}

impl Request<'_> {
    fn decide(&self) -> Verdict {
        let asked = self.asked;
        match (asked.group, asked.resource) {
            ("", "secrets") => self.decide_read(ReferenceKind::Secret),
            ("", "configmaps") => self.decide_read(ReferenceKind::ConfigMap),
            ("", "persistentvolumeclaims") => self.decide_volume_claim(),
            ("", "persistentvolumes") => {
                self.check_is_get()?;
                self.check_related(|graph| graph.has_volume(self.node, asked.name))
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
                        self.check_related(|graph| graph.has_attachment(self.node, asked.name))
                    }
                    (Some("coordination"), "leases") => self.decide_lease(),
                    (Some("storage"), "csinodes") => self.decide_csi_node(),
                    (Some("resource"), "resourceslices") => self.decide_resource_slice(),
                    _ => self.authorizer.decide_by_rules(asked),
                }
            }
        }
    }

    fn check_related(&self, is_related: impl FnOnce(&Graph) -> bool) -> Verdict {
        if self.asked.name.is_empty() {
            return refuse("No Object name found");
        }
        let graph = self.authorizer.graph(self.applied);
        allow_if(is_related(&graph), || {
            format!("no relationship found between node '{}' and this object", self.node)
        })
    }

    /// Checks that pods of the node refer to the object, which is one of a namespace.
    fn check_uses(&self, kind: ReferenceKind) -> Verdict {
        self.check_related(|graph| graph.has_object(self.node, kind, &self.path()))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.asked.namespace, self.asked.name)
    }

    fn check_is_get(&self) -> Verdict {
        if self.asked.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        allow_if(self.asked.subresource.is_empty(), || "cannot get subresource".to_owned())
    }

    fn decide_read(&self, kind: ReferenceKind) -> Verdict {
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

    fn decide_volume_claim(&self) -> Verdict {
        if self.asked.subresource == "status" {
            if !matches!(self.asked.verb, "update" | "patch") {
                return refuse("can only get/update/patch this type");
            }
        } else {
            self.check_is_get()?;
        }
        self.check_uses(ReferenceKind::VolumeClaim)
    }

    fn decide_service_account(&self) -> Verdict {
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
    fn decide_node(&self) -> Verdict {
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

    fn decide_pod(&self) -> Verdict {
        let is_own = || self.check_related(|graph| graph.has_pod(self.node, &self.path()));
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

    fn decide_lease(&self) -> Verdict {
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

    fn decide_csi_node(&self) -> Verdict {
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

    fn decide_resource_slice(&self) -> Verdict {
        if !self.asked.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match self.asked.verb {
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => {
                self.check_related(|graph| graph.has_slice(self.node, self.asked.name))
            }
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
        decided(self.ask(user, asked, applied))
    }

    /// A node's rights depend on relations and cannot be listed.
    fn rules_of(&self, user: &User, _namespace: &str, _applied: &Applied) -> UserRules {
        if user.node_name().is_none() {
            return UserRules::default();
        }
        let faults = vec!["node authorizer does not support user rule resolution".to_owned()];
        UserRules { is_incomplete: true, faults, ..UserRules::default() }
    }
}
