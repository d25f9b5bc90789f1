//! Checks of the level `baseline` about the node itself: its namespaces, files, ports and processes.

use std::collections::BTreeSet;

use orch_schema::value::Value;

use super::Violation;
use super::pod::{Pod, containers, joined, plural, quoted_list, quoted_set, setters};
use crate::validate::tree::Tree;

/// No container has all rights on its node.
pub(super) fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let bad = pod.containers_with(|context| context.flag("privileged"));
    (!bad.is_empty()).then(|| Violation {
        reason: "privileged",
        detail: format!("{} must not set securityContext.privileged=true", containers(&bad)),
    })
}

/// The pod has its own network, processes and memory.
pub(super) fn namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let fields = ["hostNetwork", "hostPID", "hostIPC"].into_iter();
    let set: Vec<String> =
        fields.filter(|field| pod.spec.flag(field)).map(|field| format!("{field}=true")).collect();
    (!set.is_empty()).then(|| Violation { reason: "host namespaces", detail: set.join(", ") })
}

/// No volume is a directory of the node.
pub(super) fn paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = pod.spec.items("volumes").iter().filter(|volume| volume.has("hostPath"));
    let names: Vec<&str> = volumes.map(|volume| volume.text("name")).collect();
    (!names.is_empty()).then(|| Violation {
        reason: "hostPath volumes",
        detail: format!("{} {}", plural("volume", "volumes", names.len()), quoted_list(names)),
    })
}

/// No container takes a port of the node. Ports are listed in the order of their digits, as in the reference.
pub(super) fn ports(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut ports) = (Vec::new(), BTreeSet::new());
    for container in pod.containers() {
        let numbers = container.items("ports").iter().filter_map(|port| port.int("hostPort"));
        let mut taken = numbers.filter(|port| *port != 0).map(|port| port.to_string()).peekable();
        if taken.peek().is_some() {
            bad.push(container.text("name"));
        }
        ports.extend(taken);
    }
    if bad.is_empty() {
        return None;
    }
    let (use_them, named) = (plural("uses", "use", bad.len()), plural("hostPort", "hostPorts", ports.len()));
    let detail = format!("{} {use_them} {named} {}", containers(&bad), joined(ports));
    Some(Violation { reason: "hostPort", detail })
}

/// No probe and no hook makes the kubelet ask another address than the pod's.
pub(super) fn probes(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut hosts) = (BTreeSet::new(), BTreeSet::new());
    for container in pod.containers() {
        let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|probe| container.at(probe));
        let hooks = ["postStart", "preStop"].map(|hook| container.at("lifecycle").at(hook));
        let mut asked = probes.into_iter().chain(hooks).flat_map(hosts_of).peekable();
        if asked.peek().is_some() {
            bad.insert(container.text("name"));
        }
        hosts.extend(asked);
    }
    if bad.is_empty() {
        return None;
    }
    let names: Vec<&str> = bad.into_iter().collect();
    let (use_them, named) = (
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
    );
    let detail = format!("{} {use_them} {named} {}", containers(&names), quoted_set(&hosts));
    Some(Violation { reason: "probe or lifecycle host", detail })
}

/// The hosts that a probe or a hook names.
fn hosts_of(handler: &Value) -> impl Iterator<Item = &str> {
    let named = ["httpGet", "tcpSocket"].map(|way| handler.at(way).text("host"));
    named.into_iter().filter(|host| !host.is_empty())
}

/// Check `windowsHostProcess`: no container runs as a process of a Windows node.
pub(super) fn processes(pod: &Pod<'_>) -> Option<Violation> {
    let is_host_process = |context: &Value| context.at("windowsOptions").flag("hostProcess");
    let setters = setters(is_host_process(pod.context()), &pod.containers_with(is_host_process));
    (!setters.is_empty()).then(|| Violation {
        reason: "hostProcess",
        detail: format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    })
}
