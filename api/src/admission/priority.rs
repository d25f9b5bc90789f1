//! `Priority`: sets the priority of pods from their PriorityClass, and refuses a second default class.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use futures::future::Either;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State};
use orch_rules::validate::tree::{Tree, carry, child_mut, set, set_default};
use orch_schema::value::{SmolStr, Value};

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};
use crate::follow::{Derived, Maintained};

const CLASSES: &str = "priorityclasses.scheduling";
const PREEMPT: &str = "PreemptLowerPriority";

#[derive(Debug, Default)]
pub(super) struct Priority {
    classes: Maintained<Classes>,
}

/// The priority classes, decoded: every create of a pod looks one up.
#[derive(Clone, Debug, Default)]
struct Classes {
    by_name: BTreeMap<Arc<str>, Class>,
    /// Value and name of the classes with `globalDefault`.
    defaults: BTreeSet<(i64, Arc<str>)>,
}

#[derive(Clone, Debug)]
struct Class {
    value: i64,
    policy: SmolStr,
    is_default: bool,
}

impl Class {
    fn of(object: &SharedObject) -> Option<Class> {
        let class: Value = serde_json::from_slice(&object.json).ok()?;
        Some(Class {
            value: class.int("value").unwrap_or(0),
            policy: class.at("preemptionPolicy").as_str().unwrap_or(PREEMPT).into(),
            is_default: class.flag("globalDefault"),
        })
    }
}

impl Classes {
    fn set(&mut self, name: &Arc<str>, class: Option<Class>) {
        let old = match &class {
            Some(class) => self.by_name.insert(name.clone(), class.clone()),
            None => self.by_name.remove(name),
        };
        if let Some(old) = old {
            self.defaults.remove(&(old.value, name.clone()));
        }
        if let Some(new) = class.filter(|class| class.is_default) {
            self.defaults.insert((new.value, name.clone()));
        }
    }

    /// The class of pods that name none: of several defaults the one with the lowest value, so that adding a default
    /// never raises priorities.
    fn default_class(&self) -> Option<(&Arc<str>, &Class)> {
        let (_, name) = self.defaults.first()?;
        self.by_name.get_key_value(name)
    }
}

impl Derived for Classes {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        static SOURCE: LazyLock<Arc<str>> = LazyLock::new(|| CLASSES.into());
        std::iter::once(&*SOURCE)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref().and_then(Class::of));
    }

    fn rebuild(&mut self, state: &State) {
        *self = Classes::default();
        for (name, object) in state.collection(CLASSES).range_from("") {
            self.set(name, Class::of(object));
        }
    }
}

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
        pod: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        if *attributes.resource.storage == *CLASSES {
            return rule(Ok(()));
        }
        if let Some(old) = attributes.old {
            keep_priority(old, pod);
            return rule(Ok(()));
        }
        let applied = view.applied();
        match self.classes.try_read(applied, |classes| set_priority(pod, classes)) {
            Some(result) => rule(result.map_err(Refusal::Forbidden)),
            None => Either::Right(Box::pin(async move {
                let result = self.classes.read(applied, |classes| set_priority(pod, classes)).await;
                result.map_err(Refusal::Forbidden)
            })),
        }
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        class: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(class) = class.filter(|_| *attributes.resource.storage == *CLASSES) else {
            return rule(Ok(()));
        };
        let (is_new, applied) = (attributes.old.is_none(), view.applied());
        let check = move |classes: &Classes| check_only_default(class, is_new, classes);
        match self.classes.try_read(applied, check) {
            Some(result) => rule(result.map_err(Refusal::Forbidden)),
            None => Either::Right(Box::pin(async move {
                self.classes.read(applied, check).await.map_err(Refusal::Forbidden)
            })),
        }
    }
}

/// Refuses a default class while another is the default. Two created at the same time may both be stored; the one in
/// effect can still be changed.
fn check_only_default(class: &Value, is_new: bool, classes: &Classes) -> Result<(), String> {
    let default = classes.default_class().filter(|_| class.flag("globalDefault"));
    match default {
        Some((name, _)) if is_new || **name != *class.at("metadata").text("name") => {
            Err(format!("PriorityClass {name} is already marked as default. Only one default can exist"))
        }
        _ => Ok(()),
    }
}

/// Sets the priority of a new pod from its class, or from the default class.
fn set_priority(pod: &mut Value, classes: &Classes) -> Result<(), String> {
    let spec = child_mut(pod, "spec");
    let class = match spec.text("priorityClassName") {
        "" => classes.default_class(),
        wanted => {
            let class = classes.by_name.get_key_value(wanted);
            Some(class.ok_or_else(|| format!("no PriorityClass with name {wanted} was found"))?)
        }
    };
    let (priority, policy) = class.map_or((0, PREEMPT), |(_, class)| (class.value, &*class.policy));
    if let Some(given) = spec.int("priority").filter(|&given| given != priority) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    let given = spec.at("preemptionPolicy").as_str().unwrap_or(policy);
    if given != policy {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    if let Some((name, _)) = class {
        set(spec, "priorityClassName", &**name);
    }
    set(spec, "priority", priority);
    set_default(spec, "preemptionPolicy", policy);
    Ok(())
}

/// Carries priority and preemption policy over to a changed pod that leaves them out.
fn keep_priority(old: &Value, pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    for field in ["priority", "preemptionPolicy"] {
        if !spec.has(field) {
            carry(old.at("spec"), spec, field);
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::Objects;

    fn classes(classes: &[Value]) -> Classes {
        let key =
            |class: &Value| (CLASSES.to_owned(), String::new(), class.at("metadata").text("name").to_owned());
        let objects = Objects(classes.iter().map(|class| (key(class), class.clone())).collect());
        let read = Maintained::<Classes>::default().try_read(objects.view("ns").applied(), Classes::clone);
        read.expect("few classes")
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
        let nothing = Classes::default();
        let mut pod = json!({"spec": {"priority": 7}});
        assert_eq!(
            set_priority(&mut pod, &nothing),
            Err("the integer value of priority (7) must not be provided in pod spec; priority admission controller \
                 computed 0 from the given PriorityClass name"
                .to_owned())
        );
        let usual = classes(&[json!({"metadata": {"name": "usual"}, "value": 5, "globalDefault": true})]);
        for refused in [json!({"spec": {"priority": 7}}), json!({"spec": {"preemptionPolicy": "Never"}})] {
            let mut pod = refused.clone();
            assert!(set_priority(&mut pod, &usual).is_err());
            assert_eq!(pod, refused, "the next view may have another default");
        }
        let mut pod = json!({"spec": {"priority": 0}});
        assert_eq!(set_priority(&mut pod, &nothing), Ok(()));
        let old = pod.clone();
        let mut changed = json!({"spec": {}});
        keep_priority(&old, &mut changed);
        assert_eq!(changed["spec"], old["spec"]);
    }

    #[test]
    fn of_several_defaults_the_lowest_counts_while_it_is_one() {
        let class = |name: &str, value: i64| json!({"metadata": {"name": name}, "value": value, "globalDefault": true});
        let mut classes = classes(&[class("a", 7), class("b", 5), class("c", 9)]);
        let default = |classes: &Classes| classes.default_class().map(|(name, _)| name.to_string());
        assert_eq!(default(&classes).as_deref(), Some("b"));
        let (value, policy) = (5, PREEMPT.into());
        classes.set(&"b".into(), Some(Class { value, policy, is_default: false }));
        assert_eq!(default(&classes).as_deref(), Some("a"));
        classes.set(&"a".into(), None);
        classes.set(&"c".into(), None);
        assert_eq!(default(&classes), None);
    }

    #[test]
    fn a_second_default_class_is_refused() {
        let usual = json!({"metadata": {"name": "usual"}, "globalDefault": true});
        let classes = classes(std::slice::from_ref(&usual));
        let class = json!({"metadata": {"name": "mine"}, "globalDefault": true});
        assert_eq!(
            check_only_default(&class, false, &classes),
            Err("PriorityClass usual is already marked as default. Only one default can exist".to_owned())
        );
        assert_eq!(check_only_default(&usual, false, &classes), Ok(()));
        assert!(check_only_default(&usual, true, &classes).is_err(), "told before that it exists");
    }
}
