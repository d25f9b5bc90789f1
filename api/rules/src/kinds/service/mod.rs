//! core/v1 Service: a name, cluster addresses and ports under which pods are reached.
//!
//! Owns defaults, rules and table columns of services. Cluster addresses and node ports are chosen elsewhere, from what
//! the cluster has free; `families` says which of them a service needs.
//!
//! A service is a union that `type` decides over. An update that changes the type drops the fields that the old type had
//! and the new one has not, where the client left them as they were (`update`).

mod families;
mod spec;
mod status;
mod update;

use orch_schema::json;
use orch_schema::value::Value;

pub use families::{complete, settle_families};
pub(super) use spec::validate_protocol;

use crate::Action;
use crate::kinds::workload::format_labels;
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::FieldErrors;
use crate::validate::tree::{Tree, carry, child_mut, items_mut, set, set_default, set_default_text, unset};

/// Type of services that stand for a name outside the cluster, and have neither addresses nor ports of nodes.
pub const EXTERNAL_NAME: &str = "ExternalName";
/// Type of services whose ports are open on every node and behind a balancer outside the cluster.
pub const LOAD_BALANCER: &str = "LoadBalancer";
/// Type of services whose ports are open on every node.
pub const NODE_PORT: &str = "NodePort";
/// Type of services that are reached inside the cluster.
pub const CLUSTER_IP: &str = "ClusterIP";
/// Cluster address of services that want none.
pub const HEADLESS: &str = "None";

/// Seconds for which a client stays with an endpoint, unless the service says otherwise: the reference's three hours.
const STICKY_SECONDS: i64 = 10_800;

/// The rules of services.
#[derive(Debug)]
pub struct Service;

impl Strategy for Service {
    fn default(&self, _context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        default_affinity(spec);
        set_default_text(spec, "type", CLUSTER_IP);
        for port in items_mut(spec, "ports") {
            set_default_text(port, "protocol", "TCP");
            if port.is_empty_at("targetPort") {
                let number = port.int("port").unwrap_or(0);
                set(port, "targetPort", number);
            }
        }
        if is_reached_from_outside(spec) {
            set_default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        // few: types.
        if [CLUSTER_IP, NODE_PORT, LOAD_BALANCER].contains(&spec.text("type")) {
            set_default(spec, "internalTrafficPolicy", "Cluster");
        }
        if spec.text("type") == LOAD_BALANCER {
            set_default(spec, "allocateLoadBalancerNodePorts", true);
            for point in items_mut(child_mut(child_mut(new, "status"), "loadBalancer"), "ingress") {
                if !point.text("ip").is_empty() {
                    set_default(point, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        set(new, "status", json!({"loadBalancer": {}}));
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Object {
            update::drop_fields_of_old_type(old, new);
        }
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(spec::validate_service(context, new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            errors.extend(status::validate_balancer(new));
            return errors;
        }
        errors.extend(update::validate_change(old.at("spec"), new.at("spec")));
        errors.extend(spec::validate_service(context, new));
        errors
    }

    fn warnings(&self, context: &Context<'_>, _old: Option<&Value>, new: &Value) -> Vec<String> {
        if context.action == Action::Status { Vec::new() } else { spec::warnings(context, new) }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let address = spec.texts("clusterIPs").first().map_or("<none>", |first| *first);
        let ports: Vec<String> = spec.items("ports").iter().map(format_port).collect();
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("type")),
            json!(address),
            json!(status::format_external_addresses(object)),
            json!(or_none(ports.join(","))),
            json!(age::age(object, now)),
            json!(format_labels(spec.at("selector"))),
        ])
    }
}

fn default_affinity(spec: &mut Value) {
    set_default_text(spec, "sessionAffinity", "None");
    match spec.text("sessionAffinity") {
        "None" => unset(spec, "sessionAffinityConfig"),
        "ClientIP" => {
            let client = child_mut(child_mut(spec, "sessionAffinityConfig"), "clientIP");
            set_default(client, "timeoutSeconds", STICKY_SECONDS);
        }
        _ => {}
    }
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text }
}

fn format_port(port: &Value) -> String {
    let (number, protocol) = (port.int("port").unwrap_or(0), port.text("protocol"));
    match port.int("nodePort").unwrap_or(0) {
        0 => format!("{number}/{protocol}"),
        of_nodes => format!("{number}:{of_nodes}/{protocol}"),
    }
}

/// `HOST:PORT`, with an IPv6 address in brackets.
pub(super) fn format_host_port(host: &str, port: i64) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Whether clients outside the cluster reach the service: through nodes, a balancer or external addresses.
fn is_reached_from_outside(spec: &Value) -> bool {
    uses_node_ports(spec) || spec.text("type") == CLUSTER_IP && !spec.is_empty_at("externalIPs")
}

/// Whether the service's type has ports on nodes.
pub fn uses_node_ports(spec: &Value) -> bool {
    // few: types.
    [NODE_PORT, LOAD_BALANCER].contains(&spec.text("type"))
}

/// Whether ports without a node port get one. A balancer may do without (`allocateLoadBalancerNodePorts: false`).
pub fn wants_node_ports(spec: &Value) -> bool {
    match spec.text("type") {
        NODE_PORT => true,
        LOAD_BALANCER => spec.at("allocateLoadBalancerNodePorts").as_bool().unwrap_or(true),
        _ => false,
    }
}

/// Whether a balancer asks the nodes on a port of its own whether they have endpoints.
pub fn needs_health_check(spec: &Value) -> bool {
    spec.text("type") == LOAD_BALANCER && spec.text("externalTrafficPolicy") == "Local"
}

/// Whether the service wants no cluster address.
pub fn is_headless(spec: &Value) -> bool {
    spec.texts("clusterIPs") == [HEADLESS]
}

/// The cluster addresses that the service holds; none for headless services and external names.
pub fn addresses(spec: &Value) -> Vec<&str> {
    let all = if spec.text("type") == EXTERNAL_NAME { Vec::new() } else { spec.texts("clusterIPs") };
    all.into_iter().filter(|address| !address.is_empty() && *address != HEADLESS).collect()
}

/// The ports of nodes that the service holds, each once: those of its ports, and that of its health check.
pub fn node_ports(spec: &Value) -> std::collections::BTreeSet<i64> {
    let of_ports = spec.items("ports").iter().filter_map(|port| port.int("nodePort"));
    let of_ports = of_ports.filter(|_| uses_node_ports(spec));
    let health = spec.int("healthCheckNodePort").filter(|_| needs_health_check(spec));
    of_ports.chain(health).filter(|port| *port != 0).collect()
}

/// Copies `field` of `from` unless it is absent there.
fn adopt(from: &Value, to: &mut Value, field: &str) {
    if from.has(field) {
        carry(from, to, field);
    }
}

#[cfg(test)]
mod tests;
