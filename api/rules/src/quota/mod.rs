//! Usage of quotas by objects: the evaluators of the reference, as functions of one object.
//!
//! Owns the names under which the usage of a kind is counted, its amounts, which scopes an object is in, and what a quota
//! requires of it. It never sums over objects: admission charges the difference that a write makes, and the loop of the
//! controllers adds up a namespace.
//!
//!     pods      number, requests and limits; nothing but `count/pods` once a pod has ended
//!     services  number, load balancers, node ports
//!     claims    of volumes: number and storage, again for each storage class; of devices: devices of each class
//!     others    `count/RESOURCE.GROUP`, for some an older name, too

mod claim;
pub mod pod;
mod service;

use std::collections::BTreeMap;

use orch_proto::Brand;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;

use crate::kinds::pod::resources::is_native;
use crate::validate::tree::Tree;

/// Amounts by the names of resources, as in `status.used` of a quota.
pub type Amounts = BTreeMap<String, Amount>;

/// Kinds that are counted under an older name, too.
const OLDER_NAMES: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

/// Objects that no quota counts.
const IGNORED: [&str; 1] = ["events"];

/// Resources of pods that quotas limit by these names, besides `count/pods`.
const OF_PODS: [&str; 10] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];

/// Measures the objects of one kind.
#[derive(Clone, Debug)]
pub struct Measure {
    brand: &'static Brand,
    kind: Kind,
    /// `count/RESOURCE.GROUP`.
    count: String,
    /// The older name of the count.
    older: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pod,
    Service,
    VolumeClaim,
    DeviceClaim,
    Other,
}

/// One requirement of the scopes and of the scope selector of a quota.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Name of the scope.
    pub name: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'a str,
    /// Values of the first two.
    pub values: &'a [Value],
}

impl<'a> Scope<'a> {
    /// All requirements of a quota's spec. An object must meet each.
    pub fn of_spec(spec: &'a Value) -> Vec<Scope<'a>> {
        let named = spec.texts("scopes").into_iter();
        let plain = named.map(|name| Scope { name, operator: "Exists", values: &[] });
        let selected = spec.at("scopeSelector").items("matchExpressions").iter().map(|requirement| Scope {
            name: requirement.text("scopeName"),
            operator: requirement.text("operator"),
            values: requirement.items("values"),
        });
        plain.chain(selected).collect()
    }

    /// Whether an object with these labels of the scope is selected; without a label only by the negations.
    fn selects(&self, labels: &[&str]) -> bool {
        let is_among = |label: &&str| {
            // few: the values that an administrator wrote into a quota.
            self.values.iter().any(|value| value.as_str() == Some(*label))
        };
        match self.operator {
            "Exists" => !labels.is_empty(),
            "DoesNotExist" => labels.is_empty(),
            // few: the classes that one object names.
            "In" => labels.iter().any(is_among),
            // few: as above.
            "NotIn" => labels.is_empty() || labels.iter().any(|label| !is_among(label)),
            _ => false,
        }
    }
}

impl Measure {
    /// Measures objects that are stored under `storage`, of the resource `plural` in `group`. `None`: no quota counts them.
    pub fn of(brand: &'static Brand, storage: &str, plural: &str, group: &str) -> Option<Measure> {
        // few: one name.
        if IGNORED.contains(&storage) {
            return None;
        }
        let kind = match storage {
            "pods" => Kind::Pod,
            "services" => Kind::Service,
            "persistentvolumeclaims" => Kind::VolumeClaim,
            "resourceclaims.resource" => Kind::DeviceClaim,
            _ => Kind::Other,
        };
        let count =
            if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") };
        // few: four names.
        let older = OLDER_NAMES.into_iter().find(|older| *older == storage);
        Some(Measure { brand, kind, count, older })
    }

    /// Whether the usage of an object may change while it exists.
    pub fn varies(&self) -> bool {
        self.kind != Kind::Other
    }

    /// Whether a change of an object may add to its usage, so that a quota can refuse it. `is_resize`: the change is one of
    /// a pod's resources.
    pub fn limits_updates(&self, is_resize: bool) -> bool {
        match self.kind {
            Kind::Service | Kind::VolumeClaim | Kind::DeviceClaim => true,
            Kind::Pod => is_resize,
            Kind::Other => false,
        }
    }

    /// The usage of `object` at `now`, in seconds since 1970.
    pub fn usage(&self, object: &Value, now: i64) -> Amounts {
        let mut usage = Amounts::from([(self.count.clone(), Amount::count(1))]);
        if let Some(older) = self.older {
            usage.insert(older.to_owned(), Amount::count(1));
        }
        match self.kind {
            Kind::Pod if pod::is_active(object, now) => usage.extend(pod::usage(self.brand, object)),
            Kind::Service => usage.extend(service::usage(object)),
            Kind::VolumeClaim => usage.extend(claim::volume_usage(self.brand, object)),
            Kind::DeviceClaim => usage.extend(claim::device_usage(self.brand, object)),
            Kind::Pod | Kind::Other => {}
        }
        usage
    }

    /// Whether the kind is counted under `resource`.
    pub fn counts(&self, resource: &str) -> bool {
        if resource == self.count || Some(resource) == self.older {
            return true;
        }
        match self.kind {
            Kind::Pod => {
                // few: the resources of pods.
                OF_PODS.contains(&resource)
                    || resource.starts_with("hugepages-")
                    || resource.starts_with("requests.hugepages-")
                    || resource.starts_with("requests.") && !is_native(self.brand, resource)
            }
            Kind::Service => service::counts(resource),
            Kind::VolumeClaim => claim::counts_volumes(self.brand, resource),
            Kind::DeviceClaim => claim::counts_devices(self.brand, resource),
            Kind::Other => false,
        }
    }

    /// Whether `object` is in every one of `scopes`. Kinds without scopes are in none.
    pub fn is_in(&self, scopes: &[Scope<'_>], object: &Value) -> bool {
        scopes.iter().all(|scope| match self.kind {
            Kind::Pod => pod::is_in(scope, object),
            Kind::VolumeClaim => claim::is_in(scope, object),
            Kind::Service | Kind::DeviceClaim | Kind::Other => false,
        })
    }

    /// Why a quota that limits `resources` cannot measure `object`: `must specify RESOURCE for: CONTAINER`.
    ///
    /// # Errors
    /// A container states no amount of a resource that each must state.
    pub fn check<'a>(&self, resources: impl Iterator<Item = &'a str>, object: &Value) -> Result<(), String> {
        match self.kind {
            Kind::Pod => pod::check(self.brand, resources, object),
            _ => Ok(()),
        }
    }
}

/// The amounts in the map `field` of `object`.
pub fn amounts(object: &Value, field: &str) -> Amounts {
    let entries = object.entries(field).into_iter();
    entries.filter_map(|(name, amount)| Some((name.to_owned(), Amount::parse(amount.as_str()?)?))).collect()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use orch_schema::json;

    use super::*;

    pub(super) fn measure(storage: &str) -> Measure {
        let (plural, group) = storage.split_once('.').unwrap_or((storage, ""));
        let group = if group.is_empty() { String::new() } else { ORCH.group(group) };
        Measure::of(&ORCH, storage, plural, &group).unwrap()
    }

    #[track_caller]
    pub(super) fn check(storage: &str, object: Value, expected: &[(&str, &str)]) {
        let usage = measure(storage).usage(&object, 0);
        let found: Vec<_> = usage.iter().map(|(name, amount)| (&**name, amount.to_string())).collect();
        let expected: Vec<_> = expected.iter().map(|(name, amount)| (*name, (*amount).to_owned())).collect();
        assert_eq!(found, expected, "{object}");
        assert!(usage.keys().all(|name| measure(storage).counts(name)), "{usage:?}");
    }

    #[test]
    fn objects_are_counted_by_kind_and_group() {
        check("configmaps", json!({}), &[("configmaps", "1"), ("count/configmaps", "1")]);
        check("serviceaccounts", json!({}), &[("count/serviceaccounts", "1")]);
        check("roles.rbac.authorization", json!({}), &[("count/roles.rbac.authorization.orch.io", "1")]);
        assert!(Measure::of(&ORCH, "events", "events", "").is_none());
        assert!(!measure("configmaps").counts("secrets"));
        assert!(
            !measure("configmaps")
                .is_in(&[Scope { name: "BestEffort", operator: "Exists", values: &[] }], &json!({}))
        );
    }

    #[test]
    fn scopes_select_by_labels() {
        let values = [json!("a"), json!("b")];
        for (operator, labels, expected) in [
            ("In", &["a"][..], true),
            ("In", &["c"], false),
            ("In", &[], false),
            ("NotIn", &["a"], false),
            ("NotIn", &["c"], true),
            ("NotIn", &[], true),
            ("Exists", &["c"], true),
            ("Exists", &[], false),
            ("DoesNotExist", &[], true),
            ("DoesNotExist", &["c"], false),
            ("Odd", &["a"], false),
        ] {
            let scope = Scope { name: "PriorityClass", operator, values: &values };
            assert_eq!(scope.selects(labels), expected, "{operator} {labels:?}");
        }
    }
}
