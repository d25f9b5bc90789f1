//! What the built-in admission adds to pods: their priority, and how long they tolerate a node that is gone.

use serde_json::{Value, json};

use crate::kinds::Objects;
use crate::validate::tree::{Tree, carry, child_mut, set, set_default};
use orch_proto::Brand;

const TOLERATION_SECONDS: i64 = 300;
const PREEMPT: &str = "PreemptLowerPriority";

/// Tolerations that every pod has for a while, unless it says otherwise.
pub(super) fn default_tolerations(brand: &Brand, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    for condition in ["not-ready", "unreachable"] {
        let key = format!("node.{}", brand.label(condition));
        let mut tolerations = spec.items("tolerations").to_vec();
        let fits = |value: &str, wanted: &str| value.is_empty() || value == wanted;
        let tolerated =
            // few: asked about two taints.
            tolerations.iter().any(|t| fits(t.text("key"), &key) && fits(t.text("effect"), "NoExecute"));
        if !tolerated {
            let seconds = TOLERATION_SECONDS;
            tolerations.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}),
            );
            set(spec, "tolerations", tolerations);
        }
    }
}

/// The priority of a new pod by its class, or by the class that is the default.
pub(super) fn set_priority(pod: &mut Value, objects: &dyn Objects) -> Result<(), String> {
    let spec = child_mut(pod, "spec");
    let wanted = spec.text("priorityClassName").to_owned();
    let class = if wanted.is_empty() {
        default_class(objects)
    } else {
        let class = objects.find("priorityclasses.scheduling", "", &wanted);
        Some(class.ok_or_else(|| format!("no PriorityClass with name {wanted} was found"))?)
    };
    let class = class.unwrap_or_default();
    if wanted.is_empty() && !class.is_null() {
        set(spec, "priorityClassName", class.at("metadata").text("name"));
    }
    let priority = class.int("value").unwrap_or(0);
    if let Some(given) = spec.int("priority").filter(|&given| given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    set(spec, "priority", priority);
    let policy = class.at("preemptionPolicy").as_str().unwrap_or(PREEMPT);
    set_default(spec, "preemptionPolicy", policy);
    let given = spec.text("preemptionPolicy");
    if given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    Ok(())
}

/// A changed pod that does not name its priority keeps it.
pub(super) fn keep_priority(old: &Value, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if !spec.has(field) {
            carry(old.at("spec"), spec, field);
        }
    }
}

// With several defaults the lowest counts, so that nobody gains by adding one.
fn default_class(objects: &dyn Objects) -> Option<Value> {
    let classes = objects.list("priorityclasses.scheduling", "");
    let defaults = classes.into_iter().filter(|class| class.flag("globalDefault"));
    defaults.min_by_key(|class| class.int("value").unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::Nothing;

    struct Classes(Vec<Value>);

    impl Objects for Classes {
        fn find(&self, _resource: &str, _namespace: &str, name: &str) -> Option<Value> {
            self.0.iter().find(|class| class["metadata"]["name"] == name).cloned()
        }

        fn list(&self, _resource: &str, _namespace: &str) -> Vec<Value> {
            self.0.clone()
        }
    }

    #[test]
    fn tolerations_are_added_once() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": "node.orch.io/not-ready", "operator": "Exists"}]}});
        default_tolerations(&orch_proto::brand::ORCH, &mut pod);
        let expected = json!([
            {"key": "node.orch.io/not-ready", "operator": "Exists"},
            {"key": "node.orch.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        ]);
        assert_eq!(pod["spec"]["tolerations"], expected);
        default_tolerations(&orch_proto::brand::ORCH, &mut pod);
        assert_eq!(pod["spec"]["tolerations"], expected);
    }

    #[test]
    fn classes_give_priorities() {
        let high = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
        let usual = json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true});
        let classes = Classes(vec![high, usual]);
        let mut pod = json!({"spec": {"priorityClassName": "high"}});
        assert_eq!(set_priority(&mut pod, &classes), Ok(()));
        assert_eq!(
            pod["spec"],
            json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"})
        );
        let mut pod = json!({});
        assert_eq!(set_priority(&mut pod, &classes), Ok(()));
        assert_eq!(pod["spec"]["priorityClassName"], "usual");
        assert_eq!(pod["spec"]["priority"], 5);
        let mut pod = json!({"spec": {"priorityClassName": "v-none"}});
        assert_eq!(
            set_priority(&mut pod, &classes),
            Err("no PriorityClass with name v-none was found".to_owned())
        );
    }

    #[test]
    fn priorities_are_not_chosen_freely() {
        let mut pod = json!({"spec": {"priority": 7}});
        assert_eq!(
            set_priority(&mut pod, &Nothing),
            Err("the integer value of priority (7) must not be provided in pod spec; priority admission controller \
                 computed 0 from the given PriorityClass name"
                .to_owned())
        );
        let mut pod = json!({"spec": {"priority": 0}});
        assert_eq!(set_priority(&mut pod, &Nothing), Ok(()));
        let old = pod.clone();
        let mut changed = json!({"spec": {}});
        keep_priority(&old, &mut changed);
        assert_eq!(changed["spec"], old["spec"]);
    }
}
