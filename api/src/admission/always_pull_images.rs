//! `AlwaysPullImages`: nodes ask for each image anew, so that nobody runs a private image only because a node has it.

use std::collections::HashSet;

use orch_rules::validate::tree::{Tree, child_mut, items_mut, set};
use orch_rules::validate::{FieldError, Path};
use orch_schema::value::Value;

use super::{Additions, Attributes, Operation, Plugin, Refusal, Ruling, View, rule};

/// The lists of containers.
const LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const ALWAYS: &str = "Always";

#[derive(Debug)]
pub(super) struct AlwaysPullImages;

impl Plugin for AlwaysPullImages {
    fn name(&self) -> &'static str {
        "AlwaysPullImages"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[Operation::Create, Operation::Update])
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(pod) = pod else { return rule(Ok(())) };
        if has_new_image(attributes.old, pod) {
            pull_always(pod);
        }
        rule(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        pod: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        rule(match pod.filter(|pod| has_new_image(attributes.old, pod)) {
            Some(pod) => check(pod),
            None => Ok(()),
        })
    }
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    LISTS.into_iter().flat_map(|list| pod.at("spec").items(list))
}

/// Whether the pod is new, or has an image that it had not before.
fn has_new_image(old: Option<&Value>, pod: &Value) -> bool {
    let Some(old) = old else { return true };
    let before: HashSet<&str> = containers(old).map(|container| container.text("image")).collect();
    // set: `before` is one.
    !containers(pod).all(|container| before.contains(container.text("image")))
}

fn pull_always(pod: &mut Value) {
    let spec = child_mut(pod, "spec");
    for list in LISTS {
        for container in items_mut(spec, list) {
            set(container, "imagePullPolicy", ALWAYS);
        }
    }
    for volume in items_mut(spec, "volumes") {
        if volume.has("image") {
            set(child_mut(volume, "image"), "pullPolicy", ALWAYS);
        }
    }
}

fn check(pod: &Value) -> Result<(), Refusal> {
    for list in LISTS {
        let path = Path::new("spec").child(list);
        for (at, container) in pod.at("spec").items(list).iter().enumerate() {
            let policy = container.text("imagePullPolicy");
            if policy != ALWAYS {
                let path = path.index(at).child("imagePullPolicy");
                let error = FieldError::not_supported(path, policy, &[ALWAYS]);
                return Err(Refusal::Forbidden(error.to_string()));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn new_images_are_pulled_always() {
        let pod = json!({"spec": {
            "containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "IfNotPresent"}],
            "initContainers": [{"name": "d", "image": "i:2"}],
            "volumes": [{"name": "v", "image": {"reference": "r"}}],
        }});
        let mut changed = pod.clone();
        assert!(has_new_image(None, &pod) && !has_new_image(Some(&pod), &pod));
        let told = check(&pod).unwrap_err();
        let expected =
            "spec.initContainers[0].imagePullPolicy: Unsupported value: \"\": supported values: \"Always\"";
        assert_eq!(told, Refusal::Forbidden(expected.to_owned()));
        pull_always(&mut changed);
        assert_eq!(check(&changed), Ok(()));
        assert_eq!(changed["spec"]["volumes"][0]["image"]["pullPolicy"], "Always");
        changed["spec"]["containers"][0]["image"] = json!("i:3");
        assert!(has_new_image(Some(&pod), &changed));
    }
}
