//! Warnings about ports of containers.

use std::collections::HashMap;

use orch_schema::budget::{Numbered, count_step};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::WARNINGS_MAX;
use crate::kinds::pod::os::containers;
use crate::validate::Path;
use crate::validate::tree::Tree;

/// Ports of other containers with the same number and protocol that one port is compared with.
const OVERLAPS_MAX: usize = 4;

/// Warnings about ports of containers that overlap, share a name or have no use.
pub(super) fn warn_about_ports(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut by_number: HashMap<(i64, &str), Vec<(&Value, Path)>> = HashMap::new();
    let mut by_name: HashMap<&str, Path> = HashMap::new();
    let mut initial = spec.items("initContainers");
    for (container, path) in containers(spec, path) {
        // Names of ports of containers that end before the others start mean nothing to services.
        let keeps_running = initial.is_empty() || container.text("restartPolicy") == "Always";
        initial = initial.get(1..).unwrap_or_default();
        let path = path.child("ports");
        for (at, port) in container.items("ports").iter().numbered() {
            if warnings.len() > WARNINGS_MAX || !count_step() {
                return warnings;
            }
            let path = path.index(at);
            if !port.text("hostIP").is_empty() && host(port) == 0 {
                warnings.push(format!("{path}: hostIP set without hostPort: {}", shown(port)));
            }
            let key = (port.int("containerPort").unwrap_or(0), port.text("protocol"));
            let others = by_number.entry(key).or_default();
            let told = others.iter().filter_map(|(other, place)| Some((overlap(port, other)?, place)));
            warnings.extend(told.map(|(told, place)| format!("{path}: {told} port definition with {place}")));
            if others.len() < OVERLAPS_MAX {
                others.push((port, path.clone()));
            }
            let name = port.text("name");
            if name.is_empty() || !keeps_running {
                continue;
            }
            match by_name.get(name) {
                Some(other) => warnings.push(format!(
                    "{path}: duplicate port name {} with {other}, services and probes that select ports by name will \
                     use {other}",
                    quoted(name)
                )),
                None => {
                    by_name.insert(name, path);
                }
            }
        }
    }
    warnings
}

/// How two ports of one number and protocol overlap.
fn overlap(one: &Value, other: &Value) -> Option<&'static str> {
    let (address, other_address) = (one.text("hostIP"), other.text("hostIP"));
    if address == other_address && host(one) == host(other) {
        Some("duplicate")
    } else if host(one) == 0 || host(other) == 0 {
        Some("overlapping")
    } else if host(one) == host(other) && address.is_empty() != other_address.is_empty() {
        Some("dangerously ambiguous")
    } else {
        None
    }
}

fn host(port: &Value) -> i64 {
    port.int("hostPort").unwrap_or(0)
}

/// The port as the reference prints it.
fn shown(port: &Value) -> String {
    format!(
        "{{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
        part(port.text("name")),
        host(port),
        port.int("containerPort").unwrap_or(0),
        part(port.text("protocol")),
        part(port.text("hostIP"))
    )
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn an_address_of_the_host_needs_a_port_there() {
        let port = json!({"containerPort": 80, "protocol": "UDP", "hostIP": "10.0.0.1"});
        assert_eq!(
            warn_about_ports(&json!({"containers": [{"ports": [port]}]}), &Path::new("s")),
            [
                "s.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80 Protocol:UDP \
              HostIP:10.0.0.1}"
            ]
        );
    }
}
