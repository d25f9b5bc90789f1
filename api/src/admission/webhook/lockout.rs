//! Writes that pass beside a dead webhook: those without which a cluster cannot come back, and the administrator's bypass.
//!
//! Owns one table, [`TABLE`]: which writes pass although a webhook that has to allow them is dead, why, and whether that is
//! so by default. It is looked at only behind a call that failed, of a webhook that did not answer its last calls
//! ([`super::health`]) and whose failures refuse. Invariant: a webhook that answers is never passed by.
//!
//! Writes of the configurations of webhooks and policies are not in the table: no webhook is asked about them at all.
//!
//! An administrator opts in to rows, and sets a bypass, by annotations of the configuration: that right is the one to change
//! its failure policy.

use orch_proto::Brand;
use orch_raft::Key;
use orch_rules::selector::LabelSet;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::prepared::Webhook;
use crate::admission::matching::{Asked, labels_of};
use crate::admission::{Attributes, Operation, View};
use crate::ambient::Timestamp;
use crate::authn::User;
use crate::authn::service_account_name::{self, ServiceAccountName};
use crate::selector::StoredLabels;

/// Writes that pass beside a dead webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Heartbeats of nodes. Without them all nodes are taken for lost, and their pods with them.
    NodeLease,
    /// Elections of the cluster's loops. Without a leader nothing makes the webhook's own pods again.
    LeaderLease,
    /// Writes that bring the pods of the webhook's own service back: the webhook may be what stops them. A user who may edit in the
    /// namespace of the service gains nothing directly; the pods of a workload of theirs pass where the service selects
    /// them. Such a user could as well replace the webhook's own program or its certificate.
    OwnService,
    /// Deletions by the loops that clean up: they change nothing that remains.
    CleanUp,
}

/// Whether writes pass by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    /// Always. The content of such writes gives no right to anyone, so that no webhook guards it.
    On,
    /// Where the configuration's annotation names it: a webhook may guard what these writes contain.
    OptIn,
}

/// The passages, by the names of annotations and metrics.
const TABLE: [(Passage, &str, Switch); 4] = [
    (Passage::NodeLease, "node-lease", Switch::On),
    (Passage::LeaderLease, "leader-lease", Switch::On),
    (Passage::OwnService, "own-service", Switch::OptIn),
    (Passage::CleanUp, "clean-up", Switch::OptIn),
];

/// Stem of the group of annotations.
pub const GROUP: &str = "lockout.admission";
/// Annotation of a configuration: names of [`TABLE`], separated by commas.
const PASSES: &str = "passes";
/// Annotation of a configuration: the time, as RFC 3339, until which its webhooks are not asked.
pub const BYPASS_UNTIL: &str = "bypass-until";

/// Longest time for which a bypass is heeded, in microseconds: a day, and an hour by which clocks may differ. A later time is
/// none, so that a slip of a year, or a bypass made to last, does not switch a webhook off.
const BYPASS_MICROS_MAX: u64 = 25 * 3600 * 1_000_000;

const LEASES: &str = "leases.coordination";
const PODS: &str = "pods";
const SECRETS: &str = "secrets";
const SERVICES: &str = "services";
const ENDPOINTS: &str = "endpoints";
const SLICES: &str = "endpointslices.discovery";
const ACCOUNTS: &str = "serviceaccounts";
const NODES: &str = "nodes";
/// The collection of bindings: the body of the request names the pod.
const BINDINGS: &str = "bindings";
/// Programs of the control plane that have a name of the system, behind the brand's prefix.
const PROGRAMS: [&str; 2] = ["controller-manager", "scheduler"];
/// The program of a cloud, which has no prefix.
const CLOUD_PROGRAM: &str = "cloud-controller-manager";
/// Accounts of the loops that clean up, where they run beside this server.
const CLEANERS: [&str; 2] = ["generic-garbage-collector", "namespace-controller"];

/// The writes that the annotations of a configuration exempt from its webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lockout {
    passes: Vec<Passage>,
    /// Microseconds since 1970.
    bypass_until: Option<u64>,
}

impl Passage {
    /// The name in annotations and metrics.
    pub(super) fn name(self) -> &'static str {
        TABLE.iter().find(|(passage, ..)| *passage == self).map_or("", |(_, name, _)| name)
    }
}

impl Lockout {
    /// That of the `annotations` of a configuration.
    pub(super) fn of(annotations: &Value, brand: &Brand) -> Lockout {
        let annotation = |name: &str| annotations.text(&format!("{}/{name}", brand.group(GROUP)));
        let named = annotation(PASSES);
        // few: the names of an annotation that an administrator wrote, and the rows of the table, here and below.
        let is_named = |wanted: &str| named.split(',').any(|name| name.trim() == wanted);
        let passes = TABLE
            .iter()
            .filter(|(_, name, switch)| *switch == Switch::On || is_named(name))
            .map(|(passage, ..)| *passage);
        Lockout { passes: passes.collect(), bypass_until: micros(annotation(BYPASS_UNTIL)) }
    }

    /// Whether the webhooks of the configuration are not asked at `now`.
    pub(super) fn is_bypassed(&self, now: Timestamp) -> bool {
        self.bypass_until.is_some_and(|until| now.0 < until && until - now.0 <= BYPASS_MICROS_MAX)
    }

    /// The row by which the write of `object` passes beside the dead `webhook`.
    pub(super) fn passage(
        &self,
        webhook: &Webhook,
        asked: &Asked<'_>,
        object: Option<&Value>,
        view: &View,
    ) -> Option<Passage> {
        let mut passes = self.passes.iter().copied();
        // few: the rows of the table.
        passes.find(|passage| match passage {
            Passage::NodeLease => is_node_lease(asked.attributes),
            Passage::LeaderLease => is_leader_lease(asked.attributes),
            Passage::OwnService => {
                webhook.service().is_some_and(|service| is_of_service(asked, object, service, view))
            }
            Passage::CleanUp => is_clean_up(asked.attributes),
        })
    }
}

/// Microseconds since 1970 of a text in RFC 3339.
fn micros(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1000).ok()
}

fn is_node_lease(attributes: &Attributes<'_>) -> bool {
    attributes.is(LEASES, &[Operation::Create, Operation::Update])
        && attributes.namespace == attributes.brand.node_lease_namespace
        && attributes.user.node_name().is_some_and(|node| node == attributes.name)
}

fn is_leader_lease(attributes: &Attributes<'_>) -> bool {
    attributes.is(LEASES, &[Operation::Create, Operation::Update])
        && attributes.namespace == attributes.brand.system_namespace
        && is_of_control_plane(attributes)
}

/// Whether the user is the control plane: this server, a program that has a name of its own, or an account in the namespace of the
/// system. Nodes, tokens of joining nodes and other names of the system are not.
fn is_of_control_plane(attributes: &Attributes<'_>) -> bool {
    let (user, brand) = (attributes.user, attributes.brand);
    if let Some(ServiceAccountName { namespace, .. }) = service_account_name::parse(&user.name) {
        return namespace == brand.system_namespace;
    }
    let own = user.name.strip_prefix("system:").unwrap_or_default();
    let component = own.strip_prefix(brand.component_prefix).and_then(|name| name.strip_prefix('-'));
    // few: two names.
    let is_program = component.is_some_and(|name| PROGRAMS.contains(&name)) || own == CLOUD_PROGRAM;
    *user == User::server() || is_program
}

fn is_clean_up(attributes: &Attributes<'_>) -> bool {
    let user = attributes.user;
    let is_cleaner = match service_account_name::parse(&user.name) {
        Some(ServiceAccountName { namespace, name }) => {
            // few: two names.
            namespace == attributes.brand.system_namespace && CLEANERS.contains(&name)
        }
        None => *user == User::server(),
    };
    attributes.operation == Operation::Delete && is_cleaner
}

/// Whether the write is one by which the service `(namespace, name)` comes back. The control plane makes its pods, binds them and
/// writes its endpoints; nodes write their own status, start the pods and write theirs; the accounts of its namespace, one of which is
/// the webhook's, renew certificates and elections. Other users, and whoever may edit the service itself, are not behind such writes.
fn is_of_service(
    asked: &Asked<'_>,
    object: Option<&Value>,
    service @ (namespace, name): (&str, &str),
    view: &View,
) -> bool {
    let attributes = asked.attributes;
    // Documents of sub-resources have a name of their own behind that of the resource.
    let stored = attributes.resource.storage.split('/').next().unwrap_or_default();
    if stored == NODES {
        return is_node_that_returns(asked, object);
    }
    if asked.namespace != namespace || attributes.operation == Operation::Connect {
        return false;
    }
    let is_own_account = service_account_name::parse(&attributes.user.name)
        .is_some_and(|account| account.namespace == namespace && asked.subresource.is_empty());
    let is_kept = attributes.operation != Operation::Delete;
    match stored {
        ENDPOINTS => asked.name == name && is_of_control_plane(attributes),
        SLICES => {
            let label = attributes.brand.label("service-name");
            let names = |object: &Value| object.at("metadata").at("labels").text(&label) == name;
            let mut slices = object.into_iter().chain(attributes.old).peekable();
            is_of_control_plane(attributes) && slices.peek().is_some() && slices.all(names)
        }
        PODS | BINDINGS => {
            let is_nodes = !is_new_pod(asked) && attributes.user.node_name().is_some();
            (is_nodes || is_of_control_plane(attributes)) && is_of_pods(asked, object, service, view)
        }
        ACCOUNTS => is_token_of_pod(asked, object, service, view),
        // For its certificate. The server fills secrets of tokens, for any account of the namespace.
        SECRETS => {
            let kind = attributes.brand.label("service-account-token");
            let is_token = |secret: &Value| secret.text("type") == kind;
            is_own_account && is_kept && !object.into_iter().chain(attributes.old).any(is_token)
        }
        // For its own election.
        LEASES => is_own_account && is_kept,
        _ => false,
    }
}

/// Whether a node writes its own status, or the control plane its taints: pods are bound to no node that is taken for lost.
fn is_node_that_returns(asked: &Asked<'_>, object: Option<&Value>) -> bool {
    let attributes = asked.attributes;
    let is_itself = attributes.user.node_name().is_some_and(|node| node == asked.name);
    attributes.operation == Operation::Update
        && match asked.subresource {
            "status" => is_itself || is_of_control_plane(attributes),
            "" => is_of_control_plane(attributes) && changes_taints_alone(attributes.old, object),
            _ => false,
        }
}

/// Whether `before` and `after`, of a node, differ in nothing but its taints, whether pods may be bound to it, and what the server itself
/// keeps about the write. A webhook may guard labels and annotations of nodes.
fn changes_taints_alone(before: Option<&Value>, after: Option<&Value>) -> bool {
    let without = |node: &Value| {
        let mut node = node.clone();
        for (part, field) in [
            ("spec", "taints"),
            ("spec", "unschedulable"),
            ("metadata", "managedFields"),
            ("metadata", "resourceVersion"),
            ("metadata", "generation"),
        ] {
            if let Some(members) = node.get_mut(part).and_then(Value::as_object_mut) {
                members.shift_remove(field);
            }
        }
        node
    };
    before.zip(after).is_some_and(|(before, after)| without(before) == without(after))
}

/// Whether the write makes a pod.
fn is_new_pod(asked: &Asked<'_>) -> bool {
    *asked.attributes.resource.storage == *PODS
        && asked.subresource.is_empty()
        && asked.attributes.operation == Operation::Create
}

/// Whether a node asks for a token of a pod of `service`: the pod does not start without.
fn is_token_of_pod(asked: &Asked<'_>, object: Option<&Value>, service: (&str, &str), view: &View) -> bool {
    let bound = object.map(|request| request.at("spec").at("boundObjectRef"));
    let pod = bound.filter(|bound| bound.text("kind") == "Pod").map(|bound| bound.text("name"));
    asked.subresource == "token"
        && asked.attributes.user.node_name().is_some()
        && pod.is_some_and(|pod| selects_stored(service, pod, view))
}

/// Whether the pod of the write is one that `service` selects. Of a pod that is stored its own labels count: a binding or an eviction
/// has none, and an update could bring them.
fn is_of_pods(asked: &Asked<'_>, object: Option<&Value>, service: (&str, &str), view: &View) -> bool {
    match is_new_pod(asked) {
        true => object.is_some_and(|object| selects(service, &labels_of(object), view)),
        false => selects_stored(service, asked.name, view),
    }
}

/// Whether the service `(namespace, _)` selects the pod that is stored there as `pod`.
fn selects_stored(service @ (namespace, _): (&str, &str), pod: &str, view: &View) -> bool {
    let key = Key::new(&PODS.into(), namespace, pod).ok();
    let stored = key.and_then(|key| view.applied().state.object(&key).cloned());
    stored.is_some_and(|stored| selects(service, &StoredLabels::of(&stored), view))
}

/// Whether the service `(namespace, name)` selects pods with `labels`.
fn selects((namespace, name): (&str, &str), labels: &impl LabelSet, view: &View) -> bool {
    let service = view.find(SERVICES, namespace, name);
    let selector = service.as_ref().map(|service| service.at("spec").entries("selector"));
    selector.is_some_and(|selector| {
        let is_met =
            |(key, value): &(&str, &Value)| labels.find(key).is_some_and(|own| Some(own) == value.as_str());
        !selector.is_empty() && selector.iter().all(is_met)
    })
}
