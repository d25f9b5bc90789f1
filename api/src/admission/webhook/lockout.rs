//! What a dead webhook does not lock out: the writes without which a cluster cannot come back, and the administrator's bypass.
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
use crate::admission::matching::Asked;
use crate::admission::{Attributes, Operation, View};
use crate::ambient::Timestamp;
use crate::authn::User;
use crate::authn::service_account_name::{self, ServiceAccountName};

/// Writes that pass beside a dead webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Heartbeats of nodes. Without them all nodes are taken for lost, and their pods with them.
    NodeLease,
    /// Elections of the cluster's loops. Without a leader nothing makes the webhook's own pods again.
    LeaderLease,
    /// What the service of the webhook needs to come back: it may be the webhook that stops its own pods.
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
/// Accounts of the loops that clean up, where they run beside this server.
const CLEANERS: [&str; 2] = ["generic-garbage-collector", "namespace-controller"];

/// What the annotations of a configuration let pass.
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
    let (user, system) = (attributes.user, attributes.brand.system_namespace);
    let account = service_account_name::parse(&user.name);
    // Control-plane programs have names of the system, or accounts in its namespace.
    let is_of_control_plane = match account {
        Some(ServiceAccountName { namespace, .. }) => namespace == system,
        None => user.name.starts_with("system:") && *user != User::anonymous(),
    };
    attributes.is(LEASES, &[Operation::Create, Operation::Update])
        && attributes.namespace == system
        && is_of_control_plane
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

/// Whether the write is one of what the service `(namespace, name)` consists of.
fn is_of_service(
    asked: &Asked<'_>,
    object: Option<&Value>,
    (namespace, name): (&str, &str),
    view: &View,
) -> bool {
    if asked.namespace != namespace {
        return false;
    }
    let attributes = asked.attributes;
    let account = service_account_name::parse(&attributes.user.name);
    let is_own_account = account.is_some_and(|account| account.namespace == namespace);
    match &*attributes.resource.storage {
        SERVICES | ENDPOINTS => asked.name == name,
        SLICES => {
            let label = attributes.brand.label("service-name");
            let names = |object: &Value| object.at("metadata").at("labels").text(&label) == name;
            object.is_some_and(names) || attributes.old.is_some_and(names)
        }
        PODS => {
            let service = view.find(SERVICES, namespace, name);
            let selector = service.as_ref().map(|service| service.at("spec").entries("selector"));
            selector
                .is_some_and(|selector| !selector.is_empty() && is_selected(asked, object, &selector, view))
        }
        // Its certificate and its own election.
        SECRETS | LEASES => is_own_account,
        _ => false,
    }
}

/// Whether the pod of the write has the labels of `selector`.
fn is_selected(asked: &Asked<'_>, object: Option<&Value>, selector: &[(&str, &Value)], view: &View) -> bool {
    if asked.subresource.is_empty() && asked.attributes.operation == Operation::Create {
        let labels = object.map(|object| object.at("metadata").at("labels"));
        return labels.is_some_and(|labels| {
            selector.iter().all(|(key, value)| labels.text(key) == value.as_str().unwrap_or_default())
        });
    }
    // Of a pod that is stored its own labels count: a binding or an eviction has none, and an update could bring them.
    let key = Key::new(&PODS.into(), asked.namespace, asked.name).ok();
    let stored = key.and_then(|key| view.applied().state.object(&key).cloned());
    stored.is_some_and(|stored| {
        let labels = crate::selector::StoredLabels::of(&stored);
        selector.iter().all(|(key, value)| labels.find(key) == value.as_str())
    })
}
