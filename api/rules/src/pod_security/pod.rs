//! A pod as the checks see it, and the texts in which they name its containers.
//!
//! Invariant: a message repeats no value of a client but through `part` or `quoted`, and no more than a hundred of them.

use std::collections::BTreeSet;

use orch_proto::Brand;
use orch_schema::excerpt::part;
use orch_schema::value::Value;

use crate::validate::tree::Tree;

/// Values that one detail lists; a client chooses how many there are.
const LISTED_MAX: usize = 100;

/// Metadata and spec of a pod or of a template.
pub(super) struct Pod<'a> {
    pub(super) brand: &'a Brand,
    pub(super) metadata: &'a Value,
    pub(super) spec: &'a Value,
}

impl<'a> Pod<'a> {
    /// All containers: init containers, containers, ephemeral containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(move |list| spec.items(list))
    }

    /// Names of the containers whose security context is `bad`.
    pub(super) fn containers_with(&self, bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let found = self.containers().filter(|container| bad(container.at("securityContext")));
        found.map(|container| container.text("name")).collect()
    }

    /// The security context of the pod.
    pub(super) fn context(&self) -> &'a Value {
        self.spec.at("securityContext")
    }

    /// An annotation of the pod; `None` where there is none.
    pub(super) fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.at("annotations").at(key).as_str()
    }

    /// Whether the pod says that it runs on Windows, where rules about Linux mean nothing.
    pub(super) fn is_on_windows(&self) -> bool {
        self.spec.at("os").text("name") == "windows"
    }

    /// Whether the pod has a user namespace of its own, in which its root is none on the node.
    pub(super) fn has_user_namespace(&self) -> bool {
        self.spec.at("hostUsers").as_bool() == Some(false)
    }
}

/// `container "c"`, or `containers "c", "d"`.
pub(super) fn containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted_list(names.iter().copied()))
}

/// The setters of a forbidden value: `pod`, `container "c"`, or both joined by `and`. Empty where there is none.
pub(super) fn setters(of_pod: bool, names: &[&str]) -> String {
    let mut setters = Vec::new();
    if of_pod {
        setters.push("pod".to_owned());
    }
    if !names.is_empty() {
        setters.push(containers(names));
    }
    setters.join(" and ")
}

/// The form for one, or for many.
pub(super) fn plural(one: &'static str, many: &'static str, count: usize) -> &'static str {
    if count == 1 { one } else { many }
}

/// `"a", "b"`. The quotes are plain, as the reference's are.
pub(super) fn quoted_list<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    joined(texts.into_iter().map(|text| format!("\"{}\"", part(text))))
}

/// `"a", "b"`, in order.
pub(super) fn quoted_set(texts: &BTreeSet<&str>) -> String {
    quoted_list(texts.iter().copied())
}

/// `a, b`, and how many more there are.
pub(super) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let mut texts = texts.into_iter();
    let mut listed: Vec<String> = texts.by_ref().take(LISTED_MAX).collect();
    let more = texts.count();
    if more > 0 {
        listed.push(format!("and {more} more"));
    }
    listed.join(", ")
}
