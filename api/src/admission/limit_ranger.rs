//! `LimitRanger`: limit ranges complete the resources of containers, and bound those of pods, containers and volume claims.
//!
//! Owns the messages of broken bounds, and the annotation that tells which amounts were set. All limit ranges of the
//! namespace hold, in the order of their names. An object that is being deleted is left alone.

use std::collections::BTreeSet;

use orch_rules::quota::pod::{Extent, sum};
use orch_rules::quota::{Amounts, amounts};
use orch_rules::validate::tree::{Tree, child_mut, items_mut, set};
use orch_schema::budget::count_step;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

const RANGES: &str = "limitranges";
const PODS: &str = "pods";
const CLAIMS: &str = "persistentvolumeclaims";

/// Messages after which no further containers are checked: as many as a Status has causes.
const MESSAGES_MAX: usize = 100;

const CONTAINER: &str = "Container";
const POD: &str = "Pod";
const CLAIM: &str = "PersistentVolumeClaim";

#[derive(Debug)]
pub(super) struct LimitRanger;

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_going = attributes.old.is_some_and(|old| old.at("metadata").has("deletionTimestamp"));
        let is_resize = || {
            *attributes.resource.storage == *PODS
                && attributes.action.is_resize()
                && attributes.operation == Operation::Update
        };
        let is_limited = attributes.is(PODS, &[Operation::Create])
            || attributes.is(CLAIMS, &[Operation::Create, Operation::Update])
            || is_resize();
        is_limited && !is_going
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a mut Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        if *attributes.resource.storage == *PODS {
            for range in view.list(RANGES, attributes.namespace) {
                complete(&attributes.brand.label("limit-ranger"), &range, object);
            }
        }
        rule(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        object: Option<&'a Value>,
        view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(object) = object else { return rule(Ok(())) };
        let is_pod = *attributes.resource.storage == *PODS;
        let mut ranges = view.list(RANGES, attributes.namespace).into_iter();
        rule(ranges.try_for_each(|range| check(&range, object, is_pod)))
    }
}

/// Sets the amounts that containers of the pod leave out and that `range` has defaults for.
fn complete(annotation: &str, range: &Value, pod: &mut Value) {
    let (mut requests, mut limits) = (Amounts::new(), Amounts::new());
    for limit in limits_of(range, CONTAINER) {
        requests.extend(amounts(limit, "defaultRequest"));
        limits.extend(amounts(limit, "default"));
    }
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let mut notes = Vec::new();
    for (list, kind) in [("containers", "container"), ("initContainers", "init container")] {
        for container in items_mut(child_mut(pod, "spec"), list) {
            for (field, word, defaults) in [("requests", "request", &requests), ("limits", "limit", &limits)]
            {
                let names = fill(container, field, defaults);
                if !names.is_empty() {
                    let name = container.text("name");
                    notes.push(format!("{} {word} for {kind} {name}", names.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        set(child_mut(child_mut(pod, "metadata"), "annotations"), annotation, note);
    }
}

/// Sets the amounts of `defaults` that the container leaves out; returns their names in order.
fn fill<'a>(container: &mut Value, field: &str, defaults: &'a Amounts) -> Vec<&'a str> {
    let stated = container.at("resources").at(field);
    let lacking: Vec<&str> = defaults.keys().map(|name| &**name).filter(|name| !stated.has(name)).collect();
    for name in &lacking {
        let stated = child_mut(child_mut(container, "resources"), field);
        set(stated, name, defaults[*name].to_string());
    }
    lacking
}

/// The entries of `range` for objects of a type.
fn limits_of<'a>(range: &'a Value, kind: &'static str) -> impl Iterator<Item = &'a Value> {
    range.at("spec").items("limits").iter().filter(move |limit| limit.text("type") == kind)
}

/// Refuses an object outside the bounds of `range`, with one message for each broken bound.
fn check(range: &Value, object: &Value, is_pod: bool) -> Result<(), Refusal> {
    let mut broken = Vec::new();
    if is_pod {
        let spec = object.at("spec");
        for limit in limits_of(range, CONTAINER) {
            for container in spec.items("containers").iter().chain(spec.items("initContainers")) {
                if broken.len() > MESSAGES_MAX || !count_step() {
                    break;
                }
                let resources = container.at("resources");
                Needs {
                    requests: amounts(resources, "requests"),
                    limits: Some(amounts(resources, "limits")),
                }
                .check(limit, &mut broken);
            }
        }
        for limit in limits_of(range, POD) {
            let sum = |field| sum(object, field, Extent::Spec);
            Needs { requests: sum("requests"), limits: Some(sum("limits")) }.check(limit, &mut broken);
        }
    } else {
        for limit in limits_of(range, CLAIM) {
            let requests = amounts(object.at("spec").at("resources"), "requests");
            Needs { requests, limits: None }.check(limit, &mut broken);
        }
    }
    let mut seen = BTreeSet::new();
    // set: `seen` is one.
    broken.retain(|message| seen.insert(message.clone()));
    match broken.as_slice() {
        [] => Ok(()),
        [one] => Err(Refusal::Forbidden(one.clone())),
        several => Err(Refusal::Forbidden(format!("[{}]", several.join(", ")))),
    }
}

/// The amounts that one object asks for.
struct Needs {
    requests: Amounts,
    /// `None` for kinds without limits.
    limits: Option<Amounts>,
}

impl Needs {
    fn check(&self, limit: &Value, broken: &mut Vec<String>) {
        let kind = limit.text("type");
        for (resource, bound) in amounts(limit, "min") {
            broken.extend(self.below(
                &format!("minimum {resource} usage per {kind} is {bound}"),
                &resource,
                bound,
            ));
        }
        for (resource, bound) in amounts(limit, "max") {
            broken.extend(self.above(
                &format!("maximum {resource} usage per {kind} is {bound}"),
                &resource,
                bound,
            ));
        }
        if self.limits.is_none() {
            return;
        }
        for (resource, bound) in amounts(limit, "maxLimitRequestRatio") {
            let rule = format!("{resource} max limit to request ratio per {kind} is {bound}");
            broken.extend(self.apart(&rule, &resource, bound));
        }
    }

    fn amounts_of(&self, resource: &str) -> (Option<Amount>, Option<Amount>) {
        let limits = self.limits.as_ref();
        (self.requests.get(resource).copied(), limits.and_then(|limits| limits.get(resource)).copied())
    }

    fn below(&self, rule: &str, resource: &str, bound: Amount) -> Option<String> {
        match self.amounts_of(resource) {
            (None, _) => Some(format!("{rule}.  No request is specified")),
            (Some(request), _) if request.quantity() < bound.quantity() => {
                Some(format!("{rule}, but request is {request}"))
            }
            (_, Some(limit)) if limit.quantity() < bound.quantity() => {
                Some(format!("{rule}, but limit is {limit}"))
            }
            _ => None,
        }
    }

    fn above(&self, rule: &str, resource: &str, bound: Amount) -> Option<String> {
        match self.amounts_of(resource) {
            (_, None) if self.limits.is_some() => Some(format!("{rule}.  No limit is specified")),
            (None, None) => Some(format!("{rule}.  No request is specified")),
            (_, Some(limit)) if limit.quantity() > bound.quantity() => {
                Some(format!("{rule}, but limit is {limit}"))
            }
            (Some(request), _) if request.quantity() > bound.quantity() => {
                Some(format!("{rule}, but request is {request}"))
            }
            _ => None,
        }
    }

    fn apart(&self, rule: &str, resource: &str, bound: Amount) -> Option<String> {
        let (request, limit) = self.amounts_of(resource);
        let positive =
            |amount: Option<Amount>| amount.map(Amount::quantity).filter(|amount| !amount.is_zero());
        let Some(request) = positive(request) else {
            return Some(format!("{rule}, but no request is specified or request is 0"));
        };
        let Some(limit) = positive(limit) else {
            return Some(format!("{rule}, but no limit is specified or limit is 0"));
        };
        let ratio = limit.ratio_to(request);
        let most = bound.quantity().ratio_to(Amount::count(1).quantity());
        (ratio > most).then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn range(limit: Value) -> Value {
        json!({"spec": {"limits": [limit]}})
    }

    #[test]
    fn containers_get_what_they_leave_out_and_an_annotation_tells() {
        let limit = json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"}});
        let mut pod = json!({"metadata": {}, "spec": {
            "containers": [{"name": "a", "resources": {"limits": {"cpu": "2"}}}],
            "initContainers": [{"name": "b"}],
        }});
        complete("orch.io/limit-ranger", &range(limit.clone()), &mut pod);
        let resources = |pod: &Value, list: &str| pod.at("spec").items(list)[0].at("resources").clone();
        assert_eq!(
            resources(&pod, "containers"),
            json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "500m"}})
        );
        assert_eq!(
            resources(&pod, "initContainers"),
            json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        );
        assert_eq!(
            pod["metadata"]["annotations"]["orch.io/limit-ranger"],
            "LimitRanger plugin set: cpu request for container a; memory limit for container a; cpu request for init \
             container b; cpu, memory limit for init container b"
        );
        let complete_before = pod.clone();
        complete("orch.io/limit-ranger", &range(limit), &mut pod);
        assert_eq!(pod, complete_before);
    }

    #[track_caller]
    fn check_one(limit: Value, object: &Value, expected: &str) {
        let is_pod = limit.text("type") != CLAIM;
        let refused = match check(&range(limit), object, is_pod) {
            Ok(()) => String::new(),
            Err(Refusal::Forbidden(reason)) => reason,
            Err(other) => panic!("{other:?}"),
        };
        assert_eq!(refused, expected);
    }

    #[test]
    fn bounds_of_containers_and_pods() {
        let container = |requests: Value, limits: Value| json!({"name": "c", "resources": {"requests": requests, "limits": limits}});
        let pod = |containers: Vec<Value>| json!({"spec": {"containers": containers}});
        let one = pod(vec![container(json!({"cpu": "600m", "memory": "1Mi"}), json!({"cpu": "600m"}))]);
        let two = pod(vec![container(json!({"cpu": "600m"}), json!({"cpu": "600m"})); 2]);
        check_one(
            json!({"type": "Pod", "max": {"cpu": "1"}, "min": {"memory": "10Mi"}}),
            &pod(vec![container(json!({}), json!({}))]),
            "[minimum memory usage per Pod is 10Mi.  No request is specified, maximum cpu usage per Pod is 1.  No \
             limit is specified]",
        );
        check_one(
            json!({"type": "Pod", "max": {"cpu": "1"}}),
            &two,
            "maximum cpu usage per Pod is 1, but limit is 1200m",
        );
        check_one(json!({"type": "Container", "max": {"cpu": "1"}}), &two, "");
        check_one(
            json!({"type": "Container", "min": {"memory": "2Mi", "cpu": "700m"}}),
            &one,
            "[minimum cpu usage per Container is 700m, but request is 600m, minimum memory usage per Container is \
             2Mi, but request is 1Mi]",
        );
        let wide = pod(vec![container(json!({"cpu": "200m"}), json!({"cpu": "1"}))]);
        check_one(
            json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2", "memory": "1"}}),
            &wide,
            "[cpu max limit to request ratio per Container is 2, but provided ratio is 5.000000, memory max limit to \
             request ratio per Container is 1, but no request is specified or request is 0]",
        );
        check_one(
            json!({"type": "Pod", "max": {"cpu": "500m"}}),
            &wide,
            "maximum cpu usage per Pod is 500m, but limit is 1",
        );
    }

    #[test]
    fn bounds_of_claims_have_no_limits() {
        let claim = |storage: &str| json!({"spec": {"resources": {"requests": {"storage": storage}}}});
        let limit = json!({"type": CLAIM, "min": {"storage": "1Gi"}, "max": {"storage": "5Gi"}});
        for (storage, expected) in [
            ("512Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"),
            ("6Gi", "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 6Gi"),
            ("2Gi", ""),
        ] {
            check_one(limit.clone(), &claim(storage), expected);
        }
    }
}
