//! `Priority`: pods get their priority from their class, and a class is not made the default beside another.

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::schema::value::Value;
use crate::validate::tree::{Tree, carry, child_mut, set, set_default};

const CLASSES: &str = "priorityclasses.scheduling";
const PREEMPT: &str = "PreemptLowerPriority";

#[derive(Debug)]
pub(super) struct Priority;

impl Plugin for Priority {
    fn name(&self) -> &'static str {
        "Priority"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let writes = [Operation::Create, Operation::Update];
        attributes.is("pods", &writes) || attributes.is(CLASSES, &writes)
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: &'a mut Value,
        view: &'a dyn View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        if *attributes.resource.storage == *CLASSES {
            return rule(Ok(()));
        }
        rule(match attributes.old {
            None => set_priority(pod, view).map_err(Refusal::Forbidden),
            Some(old) => {
                keep_priority(old, pod);
                Ok(())
            }
        })
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        class: Option<&'a Value>,
        view: &'a dyn View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(match class {
            Some(class) if *attributes.resource.storage == *CLASSES => {
                check_only_default(class, view).map_err(Refusal::Forbidden)
            }
            _ => Ok(()),
        })
    }
}

fn check_only_default(class: &Value, view: &dyn View) -> Result<(), String> {
    if !class.flag("globalDefault") {
        return Ok(());
    }
    let name = class.at("metadata").text("name");
    let classes = view.list(CLASSES, "");
    // once: one class is looked for.
    let other = classes.iter().find(|c| c.flag("globalDefault") && c.at("metadata").text("name") != name);
    other.map_or(Ok(()), |other| {
        let other = other.at("metadata").text("name");
        Err(format!("PriorityClass {other} is already marked as default. Only one default can exist"))
    })
}

/// Sets the priority of a new pod by its class, or by the class that is the default.
fn set_priority(pod: &mut Value, view: &dyn View) -> Result<(), String> {
    let spec = child_mut(pod, "spec");
    let wanted = spec.text("priorityClassName").to_owned();
    let class = if wanted.is_empty() {
        default_class(view)
    } else {
        let class = view.find(CLASSES, "", &wanted);
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
fn keep_priority(old: &Value, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if !spec.has(field) {
            carry(old.at("spec"), spec, field);
        }
    }
}

// With several defaults the lowest counts, so that nobody gains by adding one.
fn default_class(view: &dyn View) -> Option<Value> {
    let classes = view.list(CLASSES, "");
    let defaults = classes.into_iter().filter(|class| class.flag("globalDefault"));
    defaults.min_by_key(|class| class.int("value").unwrap_or(0))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::admission::testing::Objects;
    use crate::json;

    fn classes(classes: &[Value]) -> Objects {
        let key =
            |class: &Value| (CLASSES.to_owned(), String::new(), class.at("metadata").text("name").to_owned());
        Objects(classes.iter().map(|class| (key(class), class.clone())).collect())
    }

    #[test]
    fn classes_give_priorities() {
        let high = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
        let usual = json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true});
        let classes = classes(&[high, usual]);
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
        let nothing = Objects::default();
        let mut pod = json!({"spec": {"priority": 7}});
        assert_eq!(
            set_priority(&mut pod, &nothing),
            Err("the integer value of priority (7) must not be provided in pod spec; priority admission controller \
                 computed 0 from the given PriorityClass name"
                .to_owned())
        );
        let mut pod = json!({"spec": {"priority": 0}});
        assert_eq!(set_priority(&mut pod, &nothing), Ok(()));
        let old = pod.clone();
        let mut changed = json!({"spec": {}});
        keep_priority(&old, &mut changed);
        assert_eq!(changed["spec"], old["spec"]);
    }

    #[test]
    fn one_class_is_the_default() {
        let usual = json!({"metadata": {"name": "usual"}, "globalDefault": true});
        let classes = classes(std::slice::from_ref(&usual));
        let class = json!({"metadata": {"name": "mine"}, "globalDefault": true});
        assert_eq!(
            check_only_default(&class, &classes),
            Err("PriorityClass usual is already marked as default. Only one default can exist".to_owned())
        );
        assert_eq!(check_only_default(&usual, &classes), Ok(()));
    }
}
