//! Warnings about pods and pod templates: what is deprecated or has no effect, and what is probably a mistake.
//!
//! Owns the texts that clients see beside the answer. Nothing here refuses an object.

mod port;
mod volume;

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::excerpt::{part, quoted};
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use self::port::warn_about_ports;
use self::volume::warn_about_volumes;
use crate::kinds::Context;
use crate::kinds::pod::os::containers;
use crate::validate::address::ip_warning;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, Path, names};

/// Most warnings about one object: the header that carries them is bounded, too.
pub(crate) const WARNINGS_MAX: usize = 32;
/// Annotations without effect, by the part before and behind the brand's domain.
const ANNOTATIONS: [(&str, &str, &str); 3] = [
    (
        "scheduler.alpha",
        "critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    ("security.alpha", "sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
    ("security.alpha", "unsafe-sysctls", "non-functional in v1.11+; use the \"sysctls\" field instead"),
];
/// Labels of nodes that have a new name: the old one, the release that deprecates it, the new one.
const NODE_LABELS: [(&str, &str, &str, &str, &str); 5] = [
    ("beta", "arch", "v1.14", "", "arch"),
    ("beta", "os", "v1.14", "", "os"),
    ("failure-domain.beta", "region", "v1.17", "topology", "region"),
    ("failure-domain.beta", "zone", "v1.17", "topology", "zone"),
    ("beta", "instance-type", "v1.17", "node", "instance-type"),
];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const SECCOMP: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APPARMOR: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";

/// The warning about the name of a new object after which pods are named.
pub(crate) fn warn_about_name(object: &Value) -> Option<String> {
    let messages = names::dns1123_label(object.at("metadata").text("name"));
    (!messages.is_empty()).then(|| {
        format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [{}]",
            messages.join(" ")
        )
    })
}

/// Warnings about the metadata and the spec of the pod or template at `path`.
pub(crate) fn warn_about_pod(context: &Context<'_>, pod: &Value, path: &Path) -> Vec<String> {
    let (spec, spec_path) = (pod.at("spec"), path.child("spec"));
    let mut warnings = warn_about_labels(context.brand, spec, &spec_path);
    warnings.extend(warn_about_annotations(context.brand, pod, &path.child("metadata").child("annotations")));
    warnings.extend(warn_about_selectors(spec, &spec_path));
    warnings.extend(warn_about_volumes(spec, &spec_path.child("volumes")));
    warnings.extend(warn_about_lists(context.brand, spec, &spec_path));
    for (container, path) in containers(spec, &spec_path) {
        warnings.extend(warn_about_container(container, &path));
        if warnings.len() > WARNINGS_MAX {
            break;
        }
    }
    warnings.extend(warn_about_ports(spec, &spec_path));
    if spec.int("terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0) {
        let path = spec_path.child("terminationGracePeriodSeconds");
        warnings.push(format!("{path}: must be >= 0; negative values are invalid and will be treated as 1"));
    }
    warnings.truncate(WARNINGS_MAX);
    warnings
}

/// The warning about a label of nodes, if it has a new name.
fn renamed_label(brand: &Brand, label: &str) -> Option<String> {
    let (domain, name) = label.split_once('/')?;
    let prefix = domain.strip_suffix(brand.label_domain)?.strip_suffix('.')?;
    // few: five labels.
    let found = NODE_LABELS.iter().find(|(old, old_name, ..)| *old == prefix && *old_name == name)?;
    let (_, _, since, prefix, name) = found;
    let domain = if prefix.is_empty() { String::new() } else { format!("{prefix}.") };
    Some(format!("deprecated since {since}; use \"{domain}{}\" instead", brand.label(name)))
}

fn warn_about_labels(brand: &Brand, spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let selector = path.child("nodeSelector");
    for (label, _) in spec.entries("nodeSelector") {
        warnings.extend(renamed_label(brand, label).map(|text| format!("{}: {text}", selector.key(label))));
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let path_of = |field: &str| path.child("affinity").child("nodeAffinity").child(field);
    let terms = affinity.at(REQUIRED).items("nodeSelectorTerms").iter().numbered();
    let terms = terms.map(|(at, term)| (term, path_of(REQUIRED).child("nodeSelectorTerms").index(at)));
    let others = affinity.items(PREFERRED).iter().numbered();
    let others =
        others.map(|(at, term)| (term.at("preference"), path_of(PREFERRED).index(at).child("preference")));
    for (term, path) in terms.chain(others) {
        let path = path.child("matchExpressions");
        for (at, requirement) in term.items("matchExpressions").iter().numbered() {
            let label = requirement.text("key");
            let text = renamed_label(brand, label);
            warnings.extend(text.map(|text| format!("{}: {label} is {text}", path.index(at).child("key"))));
        }
    }
    let spread = path.child("topologySpreadConstraints");
    for (at, constraint) in spec.items("topologySpreadConstraints").iter().numbered() {
        let label = constraint.text("topologyKey");
        let text = renamed_label(brand, label);
        warnings
            .extend(text.map(|text| format!("{}: {label} is {text}", spread.index(at).child("topologyKey"))));
    }
    warnings
}

/// Selectors that select nothing, and preferences for labels that no node can have.
fn warn_about_selectors(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |holder: &Value, path: Path| {
        if holder.at("labelSelector").is_null() {
            let path = path.child("labelSelector");
            warnings.push(format!("{path}: a null labelSelector results in matching no pod"));
        }
    };
    let spread = path.child("topologySpreadConstraints");
    for (at, constraint) in spec.items("topologySpreadConstraints").iter().numbered() {
        warn(constraint, spread.index(at));
    }
    let (affinity, path) = (spec.at("affinity"), path.child("affinity"));
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, path) = (affinity.at(kind), path.child(kind));
        for (at, term) in terms.items(REQUIRED).iter().numbered() {
            warn(term, path.child(REQUIRED).index(at));
        }
        for (at, term) in terms.items(PREFERRED).iter().numbered() {
            let path = path.child(PREFERRED).index(at).child("podAffinityTerm");
            warn(term.at("podAffinityTerm"), path);
        }
    }
    let path = path.child("nodeAffinity").child(PREFERRED);
    for (at, term) in affinity.at("nodeAffinity").items(PREFERRED).iter().numbered() {
        let path = path.index(at).child("preference").child("matchExpressions");
        for (at, requirement) in term.at("preference").items("matchExpressions").iter().numbered() {
            let path = path.index(at).child("values");
            for (at, value) in requirement.texts("values").into_iter().numbered() {
                let messages = names::label_value(value).into_iter();
                warnings.extend(
                    messages.map(|text| format!("{}: {} is invalid, {text}", path.index(at), part(value))),
                );
            }
        }
    }
    warnings
}

fn warn_about_annotations(brand: &Brand, pod: &Value, path: &Path) -> Vec<String> {
    let annotations = pod.at("metadata").at("annotations");
    if annotations.is_null() {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let mut warn = |key: String, text: &str| {
        if annotations.has(&key) {
            warnings.push(format!("{}: {text}", path.key(&key)));
        }
    };
    for (prefix, name, text) in ANNOTATIONS {
        warn(format!("{prefix}.{}", brand.label(name)), text);
    }
    let spec = pod.at("spec");
    let lacks = |holder: &Value, field: &str| !holder.at("securityContext").has(field);
    if lacks(spec, "seccompProfile") {
        warn(format!("seccomp.security.alpha.{}", brand.label("pod")), SECCOMP);
    }
    for (container, _) in containers(spec, &Path::default()) {
        let name = container.text("name");
        if lacks(container, "seccompProfile") {
            warn(format!("container.seccomp.security.alpha.{}", brand.label(name)), SECCOMP);
        }
        // The containers of a pod have got the profile from it by now, so that their fields tell nothing.
        let is_pod = path.as_str().starts_with("metadata");
        if !is_pod && (!lacks(container, "appArmorProfile") || !lacks(spec, "appArmorProfile")) {
            continue;
        }
        warn(format!("container.apparmor.security.beta.{}", brand.label(name)), APPARMOR);
    }
    warnings
}

fn warn_about_lists(brand: &Brand, spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for resource in ["memory", "ephemeral-storage"] {
        let amount = spec.at("overhead").text(resource);
        warnings.extend(fractional(amount, &path.child("overhead").key(resource)));
    }
    let servers = path.child("dnsConfig").child("nameservers");
    for (at, server) in spec.at("dnsConfig").texts("nameservers").into_iter().numbered() {
        warnings.extend(ip_warning(brand, &servers.index(at), server));
    }
    let aliases = path.child("hostAliases");
    let mut seen = Distinct::new();
    for (at, alias) in spec.items("hostAliases").iter().numbered() {
        let ip = alias.text("ip");
        if seen.is_repeated(ip) {
            warnings.push(format!("{}: duplicate ip {}", aliases.index(at).child("ip"), quoted(ip)));
        }
        warnings.extend(ip_warning(brand, &aliases.index(at).child("ip"), ip));
    }
    let secrets = path.child("imagePullSecrets");
    let mut seen = Distinct::new();
    for (at, secret) in spec.items("imagePullSecrets").iter().numbered() {
        let (name, path) = (secret.text("name"), secrets.index(at).child("name"));
        if name.is_empty() {
            warnings.push(format!("{path}: invalid empty name \"\""));
        }
        if seen.is_repeated(name) {
            warnings.push(format!("{path}: duplicate name {}", quoted(name)));
        }
    }
    warnings
}

/// The warning about an amount of bytes that is no whole number.
pub(crate) fn fractional(amount: &str, path: &Path) -> Option<String> {
    let is_fractional = Quantity::parse(amount).is_some_and(|quantity| !quantity.is_whole());
    is_fractional
        .then(|| format!("{path}: fractional byte value {} is invalid, must be an integer", quoted(amount)))
}

fn warn_about_container(container: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for kind in ["requests", "limits"] {
        for resource in ["memory", "ephemeral-storage"] {
            let amount = container.at("resources").at(kind).text(resource);
            warnings.extend(fractional(amount, &path.child("resources").child(kind).key(resource)));
        }
    }
    let environment = path.child("env");
    let mut seen = Distinct::new();
    for (at, variable) in container.items("env").iter().numbered() {
        let name = variable.text("name");
        if !seen.is_repeated(name) {
            continue;
        }
        // `X: $(X)b` extends the definition before it.
        let (value, own) = (variable.text("value"), format!("$({name})"));
        if variable.has("valueFrom") || value == own || !value.contains(own.as_str()) {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                environment.index(at),
                quoted(name)
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn mistakes_and_old_names_are_told() {
        let port = json!({"containerPort": 80, "protocol": "TCP", "name": "http"});
        let pod = json!({
            "metadata": {"annotations": {
                "seccomp.security.alpha.orch.io/pod": "x", "container.apparmor.security.beta.orch.io/c": "y"
            }},
            "spec": {
                "nodeSelector": {"beta.orch.io/arch": "a"},
                "terminationGracePeriodSeconds": -1,
                "volumes": [{"name": "v", "gitRepo": {}}],
                "imagePullSecrets": [{}, {"name": "s"}, {"name": "s"}],
                "initContainers": [{"name": "i", "ports": [port]}],
                "containers": [{"name": "c", "ports": [port], "resources": {"limits": {"memory": "100m"}}, "env": [
                    {"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}
                ]}, {"name": "d", "ports": [port]}],
            },
        });
        assert_eq!(
            warn_about_pod(&CONTEXT, &pod, &Path::default()),
            [
                "spec.nodeSelector[beta.orch.io/arch]: deprecated since v1.14; use \"orch.io/arch\" instead",
                "metadata.annotations[seccomp.security.alpha.orch.io/pod]: non-functional in v1.27+; use the \
                 \"seccompProfile\" field instead",
                "metadata.annotations[container.apparmor.security.beta.orch.io/c]: deprecated since v1.30; use the \
                 \"appArmorProfile\" field instead",
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.imagePullSecrets[0].name: invalid empty name \"\"",
                "spec.imagePullSecrets[2].name: duplicate name \"s\"",
                "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an \
                 integer",
                "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
                "spec.containers[0].ports[0]: duplicate port definition with spec.initContainers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port definition with spec.initContainers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port definition with spec.containers[0].ports[0]",
                "spec.containers[1].ports[0]: duplicate port name \"http\" with spec.containers[0].ports[0], services and \
                 probes that select ports by name will use spec.containers[0].ports[0]",
                "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
            ]
        );
    }

    #[test]
    fn names_that_are_no_labels_are_told() {
        let named = |name: &str| warn_about_name(&json!({"metadata": {"name": name}}));
        assert_eq!(named("a"), None);
        assert_eq!(
            named("a.b").unwrap(),
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS \
             label is recommended: [must not contain dots]"
        );
    }

    #[test]
    fn selectors_without_effect_are_told() {
        let term = json!({"topologyKey": "a"});
        let spec = json!({
            "topologySpreadConstraints": [term, {"labelSelector": {}}],
            "affinity": {
                "podAffinity": {REQUIRED: [term]},
                "podAntiAffinity": {PREFERRED: [{"podAffinityTerm": term}]},
                "nodeAffinity": {PREFERRED: [{"preference": {"matchExpressions": [{"key": "a", "values": ["b", "-1"]}]}}]}
            }
        });
        let none = "labelSelector: a null labelSelector results in matching no pod";
        let told = warn_about_selectors(&spec, &Path::new("s"));
        assert_eq!(
            told[..3],
            [
                format!("s.topologySpreadConstraints[0].{none}"),
                format!("s.affinity.podAffinity.{REQUIRED}[0].{none}"),
                format!("s.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.{none}"),
            ]
        );
        let value =
            format!("s.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[1]");
        assert!(told[3].starts_with(&format!("{value}: -1 is invalid, a valid label must")), "{told:?}");
        assert_eq!(told.len(), 4);
    }
}
