//! Writes of namespaces: their labels are valid, and a stricter level is compared with the pods that are there.
//!
//! Owns the warnings about those pods, which are grouped by what they break. Their number and size are bounded; a warning
//! says how many were looked at.

use std::collections::{BTreeMap, BTreeSet};

use orch_raft::object::SharedObject;
use orch_rules::pod_security::{Level, LevelVersion, Mode, Policy, evaluate, label, reasons};
use orch_rules::validate::FieldErrors;
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;

use super::{PODS, PodSecurity};
use crate::admission::{Attributes, Refusal, View};
use crate::error::{ApiError, Subject};

/// Pods of a namespace that are compared with a new level, as in the reference.
const PODS_MAX: usize = 3000;

/// Bytes of those pods: 3,000 of the usual size. Larger ones would hold up the thread that serves the request.
const PODS_BYTES_MAX: usize = 16 << 20;

impl PodSecurity {
    /// Refuses a namespace with new labels that are wrong, and warns of pods that a stricter level would refuse.
    pub(super) fn check_namespace(
        &self,
        attributes: &Attributes<'_>,
        namespace: &Value,
        view: &View,
    ) -> Result<(), Refusal> {
        let name = namespace.at("metadata").text("name");
        let (policy, errors) = self.policy_in(attributes, namespace);
        let old = attributes.old.map(|old| self.policy_in(attributes, old));
        let are_known = old.as_ref().is_some_and(|(_, before)| **before == *errors);
        if !errors.is_empty() && !are_known {
            let subject = Subject::kind(attributes.resource, name);
            return Err(Refusal::Error(ApiError::Invalid { subject, errors }));
        }
        let is_exempt = self.settings.exempt_namespaces.contains(name);
        match old {
            None => {
                if is_exempt {
                    self.warn_of_exemption(attributes, namespace, policy);
                }
            }
            Some((before, _)) if is_stricter(policy.enforce, before.enforce) => {
                if is_exempt {
                    self.warn_of_exemption(attributes, namespace, policy);
                } else {
                    self.warn_of_pods(attributes, name, policy.enforce, view);
                }
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn policy_in(&self, attributes: &Attributes<'_>, namespace: &Value) -> (Policy, FieldErrors) {
        let labels = namespace.at("metadata").at("labels");
        Policy::of(attributes.brand, |key| labels.at(key).as_str(), self.settings.defaults)
    }

    /// Warns of labels that mean nothing, because the namespace is exempt.
    fn warn_of_exemption(&self, attributes: &Attributes<'_>, namespace: &Value, policy: Policy) {
        if policy.is_privileged() || policy.is_equivalent(&self.settings.defaults) {
            return;
        }
        let labels = namespace.at("metadata").at("labels");
        let is_named = |mode: &Mode| {
            let names = [mode.name().to_owned(), format!("{}-version", mode.name())];
            // few: two labels.
            let is_named = names.iter().any(|name| labels.has(&label(attributes.brand, name)));
            policy.of_mode(*mode).level != Level::Privileged && is_named
        };
        let named = Mode::ALL.into_iter().filter(is_named);
        let shown: Vec<String> =
            named.map(|mode| format!("{}={}", mode.name(), policy.of_mode(mode))).collect();
        let name = quoted(namespace.at("metadata").text("name"));
        let policy = shown.join(", ");
        attributes.warn(format!(
            "namespace {name} is exempt from Pod Security, and the policy ({policy}) will be ignored"
        ));
    }

    fn warn_of_pods(&self, attributes: &Attributes<'_>, namespace: &str, enforce: LevelVersion, view: &View) {
        let pods = view.applied().state.collection(PODS);
        let ordered = one_of_each_owner_first(pods.within(namespace, "").map(|(_, pod)| pod));
        let (mut checked, mut bytes) = (0, 0);
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for pod in ordered.iter().take(PODS_MAX) {
            bytes += pod.json.len();
            if bytes > PODS_BYTES_MAX && checked > 0 {
                break;
            }
            checked += 1;
            let Ok(pod) = serde_json::from_slice::<Value>(&pod.json) else { continue };
            if self.has_exempt_runtime(pod.at("spec")) {
                continue;
            }
            let violations = evaluate(enforce, attributes.brand, pod.at("metadata"), pod.at("spec"));
            if !violations.is_empty() {
                groups.entry(reasons(&violations)).or_default().add(pod.at("metadata").text("name"));
            }
        }
        let all = ordered.len();
        if checked < all {
            attributes.warn(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {all} existing pods"
            ));
        }
        if groups.is_empty() {
            return;
        }
        let name = quoted(namespace);
        attributes.warn(format!(
            "existing pods in namespace {name} violate the new PodSecurity enforce level \"{enforce}\""
        ));
        let mut texts: Vec<String> = groups.iter().map(|(reasons, group)| group.text(reasons)).collect();
        texts.sort_unstable();
        texts.into_iter().for_each(|text| attributes.warn(text));
    }
}

/// Whether a change to `new` can refuse a pod that `old` allows. Another version may have other checks.
fn is_stricter(new: LevelVersion, old: LevelVersion) -> bool {
    let is_relaxed = new.version == old.version && new.level <= old.level;
    new != old && new.level != Level::Privileged && !is_relaxed
}

/// Pods that break the same rules.
#[derive(Default)]
struct Group {
    /// The first by name.
    name: String,
    count: usize,
}

impl Group {
    fn add(&mut self, name: &str) {
        if self.count == 0 || name < self.name.as_str() {
            name.clone_into(&mut self.name);
        }
        self.count += 1;
    }

    fn text(&self, reasons: &str) -> String {
        let name = &self.name;
        match self.count {
            0 | 1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            count => format!("{name} (and {} other pods): {reasons}", count - 1),
        }
    }
}

/// The pods; of those with the same owner all but the first come last, because they are alike.
fn one_of_each_owner_first<'p>(pods: impl Iterator<Item = &'p SharedObject>) -> Vec<&'p SharedObject> {
    let (mut seen, mut ordered, mut alike) = (BTreeSet::new(), Vec::new(), Vec::new());
    for pod in pods {
        let is_first = pod.index.owners.first().is_none_or(|owner| seen.insert(owner.as_str()));
        if is_first { ordered.push(pod) } else { alike.push(pod) }
    }
    ordered.append(&mut alike);
    ordered
}
