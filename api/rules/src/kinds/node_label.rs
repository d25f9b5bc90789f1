//! Deprecated labels of nodes.
//!
//! Owns the warnings about selectors that name one, outside of pods. Never refuses a label.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::Path;
use crate::validate::tree::Tree;

/// Most warnings about one list or map: the header that carries them is bounded, too.
const WARNINGS_MAX: usize = 32;

/// The text about a label that is deprecated: since which release, and what replaces it.
pub(super) fn deprecation(brand: &Brand, label: &str) -> Option<String> {
    let (domain, name) = label.split_once('/')?;
    let instead = |prefix: &str, name: &str| format!("use \"{prefix}{}\" instead", brand.label(name));
    if let Some(stable) = stable(brand, label) {
        let since = if matches!(name, "arch" | "os") { "v1.14" } else { "v1.17" };
        return Some(format!("deprecated since {since}; use \"{stable}\" instead"));
    }
    Some(match (domain.strip_suffix(brand.label_domain)?, name) {
        ("app.", "created-by") => "deprecated since v1.9".to_owned(),
        ("scheduler.alpha.", "preferAvoidPods") => {
            "deprecated since v1.22; use Taints and Tolerations instead".to_owned()
        }
        ("node-role.", "master") => instead("node-role.", "control-plane"),
        _ => return None,
    })
}

/// The stable name of a label that has a beta name.
pub(super) fn stable(brand: &Brand, label: &str) -> Option<String> {
    let (domain, name) = label.split_once('/')?;
    let prefix = match (domain.strip_suffix(brand.label_domain)?, name) {
        ("beta.", "arch" | "os") => "",
        ("beta.", "instance-type") => "node.",
        ("failure-domain.beta.", "region" | "zone") => "topology.",
        _ => return None,
    };
    Some(format!("{prefix}{}", brand.label(name)))
}

/// Warnings about the requirements of a list at `path`, each with a `key`.
pub(super) fn warn_about_requirements(brand: &Brand, requirements: &[Value], path: &Path) -> Vec<String> {
    let keys = requirements.iter().numbered().map(|(at, requirement)| (at, requirement.text("key")));
    let found = keys.filter_map(|(at, key)| Some((at, key, deprecation(brand, key)?)));
    found
        .map(|(at, key, text)| format!("{}: {key} is {text}", path.index(at).child("key")))
        .take(WARNINGS_MAX)
        .collect()
}

/// Warnings about a label selector over nodes.
pub(super) fn warn_about_selector(brand: &Brand, selector: &Value, path: &Path) -> Vec<String> {
    let requirements = selector.items("matchExpressions");
    let mut warnings = warn_about_requirements(brand, requirements, &path.child("matchExpressions"));
    let labels = selector.entries("matchLabels").into_iter();
    let found = labels.filter_map(|(label, _)| Some((label, deprecation(brand, label)?)));
    let path = path.child("matchLabels");
    warnings.extend(found.map(|(label, text)| format!("{}: {text}", path.child(label))).take(WARNINGS_MAX));
    warnings
}

/// Warnings about the terms of a node selector at `path`.
pub(super) fn warn_about_node_selector(brand: &Brand, selector: &Value, path: &Path) -> Vec<String> {
    let path = path.child("nodeSelectorTerms");
    let terms = selector.items("nodeSelectorTerms").iter().numbered();
    let warnings = terms.flat_map(|(at, term)| {
        let path = path.index(at).child("matchExpressions");
        warn_about_requirements(brand, term.items("matchExpressions"), &path)
    });
    warnings.take(WARNINGS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::*;

    #[test]
    fn each_deprecated_label_has_its_text() {
        for (label, expected) in [
            ("beta.orch.io/arch", Some("deprecated since v1.14; use \"orch.io/arch\" instead")),
            ("beta.orch.io/os", Some("deprecated since v1.14; use \"orch.io/os\" instead")),
            (
                "beta.orch.io/instance-type",
                Some("deprecated since v1.17; use \"node.orch.io/instance-type\" instead"),
            ),
            (
                "failure-domain.beta.orch.io/region",
                Some("deprecated since v1.17; use \"topology.orch.io/region\" instead"),
            ),
            (
                "failure-domain.beta.orch.io/zone",
                Some("deprecated since v1.17; use \"topology.orch.io/zone\" instead"),
            ),
            ("app.orch.io/created-by", Some("deprecated since v1.9")),
            (
                "scheduler.alpha.orch.io/preferAvoidPods",
                Some("deprecated since v1.22; use Taints and Tolerations instead"),
            ),
            ("node-role.orch.io/master", Some("use \"node-role.orch.io/control-plane\" instead")),
            ("orch.io/os", None),
            ("beta.orch.io/other", None),
            ("beta.example.com/os", None),
            ("os", None),
        ] {
            assert_eq!(deprecation(&ORCH, label).as_deref(), expected, "{label}");
        }
    }

    #[test]
    fn few_of_many_warnings_are_given() {
        let requirements = vec![json!({"key": "beta.orch.io/os"}); 1000];
        let warnings = warn_about_requirements(&ORCH, &requirements, &Path::new("r"));
        assert_eq!(warnings.len(), WARNINGS_MAX);
        assert_eq!(
            warnings[1],
            "r[1].key: beta.orch.io/os is deprecated since v1.14; use \"orch.io/os\" instead"
        );
    }
}
