//! Usage of services: number, load balancers, node ports.

use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use super::Amounts;
use crate::validate::tree::Tree;

const NUMBER: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

pub(super) fn counts(resource: &str) -> bool {
    matches!(resource, NUMBER | LOAD_BALANCERS | NODE_PORTS)
}

/// The usage of a service. Node ports are counted by intent: they are not yet allocated when a quota is charged.
pub(super) fn usage(service: &Value) -> Amounts {
    let spec = service.at("spec");
    let ports = spec.items("ports");
    let (balancers, node_ports) = match spec.text("type") {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if spec.at("allocateLoadBalancerNodePorts").as_bool() == Some(false) => {
            (1, ports.iter().filter(|port| !port.is_empty_at("nodePort")).count())
        }
        "LoadBalancer" => (1, ports.len()),
        _ => (0, 0),
    };
    [(NUMBER, 1), (LOAD_BALANCERS, balancers), (NODE_PORTS, node_ports)]
        .map(|(name, number)| (name.to_owned(), Amount::count(number)))
        .into()
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::super::tests::check;

    #[test]
    fn services_use_ports_by_their_type() {
        let ports = json!([{"port": 80}, {"port": 81, "nodePort": 30_000}]);
        for (kind, allocates, balancers, node_ports) in [
            ("ClusterIP", json!(null), "0", "0"),
            ("ExternalName", json!(null), "0", "0"),
            ("NodePort", json!(null), "0", "2"),
            ("LoadBalancer", json!(null), "1", "2"),
            ("LoadBalancer", json!(false), "1", "1"),
        ] {
            let spec = json!({"type": kind, "ports": ports, "allocateLoadBalancerNodePorts": allocates});
            check(
                "services",
                json!({"spec": spec}),
                &[
                    ("count/services", "1"),
                    ("services", "1"),
                    ("services.loadbalancers", balancers),
                    ("services.nodeports", node_ports),
                ],
            );
        }
    }
}
