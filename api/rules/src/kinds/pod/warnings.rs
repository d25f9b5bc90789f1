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

/// Warnings about the metadata and the spec of the pod or template at `path`, in the order of the reference.
pub(crate) fn warn_about_pod(context: &Context<'_>, pod: &Value, path: &Path) -> Vec<String> {
    let (spec, spec_path) = (pod.at("spec"), path.child("spec"));
    let annotations = path.child("metadata").child("annotations");
    let mut warnings = warn_about_places(context.brand, spec, &spec_path);
    warnings.extend(warn_about_annotations(context.brand, pod, &annotations));
    warnings.extend(warn_about_volumes(spec, &spec_path.child("volumes")));
    warnings.extend(warn_about_lists(spec, &spec_path));
    let profiles = Profiles { brand: context.brand, pod, path: &annotations };
    warnings.extend(profiles.warn_about_pod());
    for (container, path) in containers(spec, &spec_path) {
        warnings.extend(profiles.warn_about_container(container));
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
    warnings.extend(warn_about_neighbours(spec.at("affinity"), &spec_path.child("affinity")));
    warnings.extend(warn_about_addresses(context.brand, spec, &spec_path));
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

/// Warnings about where a pod may run: old labels of nodes, values that no label has, and selectors of nothing.
fn warn_about_places(brand: &Brand, spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let selector = path.child("nodeSelector");
    for (label, _) in spec.entries("nodeSelector") {
        warnings.extend(renamed_label(brand, label).map(|text| format!("{}: {text}", selector.key(label))));
    }
    let affinity = spec.at("affinity").at("nodeAffinity");
    let path_of = |field: &str| path.child("affinity").child("nodeAffinity").child(field);
    let terms = path_of(REQUIRED).child("nodeSelectorTerms");
    for (at, term) in affinity.at(REQUIRED).items("nodeSelectorTerms").iter().numbered() {
        warnings.extend(warn_about_term(brand, term, &terms.index(at), |_| Vec::new()));
    }
    let terms = path_of(PREFERRED);
    for (at, term) in affinity.items(PREFERRED).iter().numbered() {
        let path = terms.index(at).child("preference");
        warnings.extend(warn_about_term(brand, term.at("preference"), &path, names::label_value));
    }
    let spread = path.child("topologySpreadConstraints");
    for (at, constraint) in spec.items("topologySpreadConstraints").iter().numbered() {
        let (path, label) = (spread.index(at), constraint.text("topologyKey"));
        let text = renamed_label(brand, label);
        warnings.extend(text.map(|text| format!("{}: {label} is {text}", path.child("topologyKey"))));
        warnings.extend(null_selector(constraint, &path));
    }
    warnings
}

/// Warnings about a term that selects nodes. `faults` are those of a value.
fn warn_about_term(brand: &Brand, term: &Value, path: &Path, faults: fn(&str) -> Vec<String>) -> Vec<String> {
    let (mut warnings, path) = (Vec::new(), path.child("matchExpressions"));
    for (at, requirement) in term.items("matchExpressions").iter().numbered() {
        let (path, label) = (path.index(at), requirement.text("key"));
        let text = renamed_label(brand, label);
        warnings.extend(text.map(|text| format!("{}: {label} is {text}", path.child("key"))));
        let path = path.child("values");
        for (at, value) in requirement.texts("values").into_iter().numbered() {
            let faults = faults(value).into_iter();
            warnings.extend(
                faults.map(|fault| format!("{}: {} is invalid, {fault}", path.index(at), part(value))),
            );
        }
    }
    warnings
}

/// The warning about a selector that is not there, and so selects nothing.
fn null_selector(holder: &Value, path: &Path) -> Option<String> {
    let path = path.child("labelSelector");
    let is_null = !holder.has("labelSelector");
    is_null.then(|| format!("{path}: a null labelSelector results in matching no pod"))
}

/// Warnings about terms of an affinity to other pods that select none.
fn warn_about_neighbours(affinity: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (terms, path) = (affinity.at(kind), path.child(kind));
        for (at, term) in terms.items(REQUIRED).iter().numbered() {
            warnings.extend(null_selector(term, &path.child(REQUIRED).index(at)));
        }
        for (at, term) in terms.items(PREFERRED).iter().numbered() {
            let path = path.child(PREFERRED).index(at).child("podAffinityTerm");
            warnings.extend(null_selector(term.at("podAffinityTerm"), &path));
        }
    }
    warnings
}

fn warn_about_annotations(brand: &Brand, pod: &Value, path: &Path) -> Vec<String> {
    let annotations = pod.at("metadata").at("annotations");
    if annotations.is_null() {
        return Vec::new();
    }
    let keys =
        ANNOTATIONS.iter().map(|(prefix, name, text)| (format!("{prefix}.{}", brand.label(name)), text));
    keys.filter(|(key, _)| annotations.has(key))
        .map(|(key, text)| format!("{}: {text}", path.key(&key)))
        .collect()
}

/// The annotations of a pod that once named profiles, beside the fields that name them now.
struct Profiles<'a> {
    brand: &'a Brand,
    pod: &'a Value,
    /// The annotations.
    path: &'a Path,
}

impl Profiles<'_> {
    fn warn_about_pod(&self) -> Option<String> {
        let lacks = lacks(self.pod.at("spec"), "seccompProfile");
        self.warning("seccomp.security.alpha", "pod", SECCOMP).filter(|_| lacks)
    }

    fn warn_about_container(&self, container: &Value) -> Vec<String> {
        let name = container.text("name");
        let seccomp = self
            .warning("container.seccomp.security.alpha", name, SECCOMP)
            .filter(|_| lacks(container, "seccompProfile"));
        // The containers of a pod have got the profile from it by now, so that their fields tell nothing.
        let is_pod = self.path.as_str().starts_with("metadata");
        let has_none = lacks(container, "appArmorProfile") && lacks(self.pod.at("spec"), "appArmorProfile");
        let armor =
            self.warning("container.apparmor.security.beta", name, APPARMOR).filter(|_| is_pod || has_none);
        seccomp.into_iter().chain(armor).collect()
    }

    /// The warning about the annotation of this name, if it is there.
    fn warning(&self, prefix: &str, name: &str, text: &str) -> Option<String> {
        let annotations = self.pod.at("metadata").at("annotations").as_object()?;
        let key = format!("{prefix}.{}", self.brand.label(name));
        annotations.get(&key).map(|_| format!("{}: {text}", self.path.key(&key)))
    }
}

fn lacks(holder: &Value, field: &str) -> bool {
    !holder.at("securityContext").has(field)
}

fn warn_about_lists(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    let aliases = path.child("hostAliases");
    let mut seen = Distinct::new();
    for (at, alias) in spec.items("hostAliases").iter().numbered() {
        let ip = alias.text("ip");
        if seen.is_repeated(ip) {
            warnings.push(format!("{}: duplicate ip {}", aliases.index(at).child("ip"), quoted(ip)));
        }
    }
    let (secrets, list) = (path.child("imagePullSecrets"), spec.items("imagePullSecrets"));
    let mut seen = Distinct::new();
    for (at, secret) in list.iter().numbered() {
        let name = secret.text("name");
        if seen.is_repeated(name) {
            warnings.push(format!("{}: duplicate name {}", secrets.index(at).child("name"), quoted(name)));
        }
    }
    let nameless = list.iter().numbered().filter(|(_, secret)| secret.text("name").is_empty());
    warnings.extend(
        nameless.map(|(at, _)| format!("{}: invalid empty name \"\"", secrets.index(at).child("name"))),
    );
    for resource in ["memory", "ephemeral-storage"] {
        let amount = spec.at("overhead").text(resource);
        warnings.extend(fractional(amount, &path.child("overhead").key(resource)));
    }
    warnings
}

/// Warnings about addresses in a form that is to go.
fn warn_about_addresses(brand: &Brand, spec: &Value, path: &Path) -> Vec<String> {
    let servers = path.child("dnsConfig").child("nameservers");
    let given = spec.at("dnsConfig").texts("nameservers").into_iter().numbered();
    let mut warnings: Vec<String> =
        given.filter_map(|(at, server)| ip_warning(brand, &servers.index(at), server)).collect();
    let (aliases, given) = (path.child("hostAliases"), spec.items("hostAliases").iter().numbered());
    warnings.extend(
        given.filter_map(|(at, alias)| ip_warning(brand, &aliases.index(at).child("ip"), alias.text("ip"))),
    );
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
    for resource in ["memory", "ephemeral-storage"] {
        for kind in ["limits", "requests"] {
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
                "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
                "spec.imagePullSecrets[2].name: duplicate name \"s\"",
                "spec.imagePullSecrets[0].name: invalid empty name \"\"",
                "metadata.annotations[seccomp.security.alpha.orch.io/pod]: non-functional in v1.27+; use the \
                 \"seccompProfile\" field instead",
                "metadata.annotations[container.apparmor.security.beta.orch.io/c]: deprecated since v1.30; use the \
                 \"appArmorProfile\" field instead",
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
        let mut told = warn_about_places(CONTEXT.brand, &spec, &Path::new("s"));
        let value =
            format!("s.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[1]");
        assert!(told[0].starts_with(&format!("{value}: -1 is invalid, a valid label must")), "{told:?}");
        told.extend(warn_about_neighbours(&spec["affinity"], &Path::new("s.affinity")));
        assert_eq!(
            told[1..],
            [
                format!("s.topologySpreadConstraints[0].{none}"),
                format!("s.affinity.podAffinity.{REQUIRED}[0].{none}"),
                format!("s.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.{none}"),
            ]
        );
    }
}
