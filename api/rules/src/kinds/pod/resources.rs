//! Requests and limits: names of resources, amounts, and requests against their limits.

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::excerpt::beginning;
use orch_schema::quantity::Quantity;
use orch_schema::value::Value;

use crate::validate::metadata::invalid_each;
use crate::validate::tree::Tree;
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

const STANDARD: [&str; 20] = [
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
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const COUNTS: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];
const HUGE_PAGES: &str = "hugepages-";

/// The resource claims of a pod, which those of its containers refer to.
pub(crate) struct Claims<'a> {
    names: Distinct<&'a str>,
    /// The claims as an error shows them.
    listed: String,
}

impl<'a> Claims<'a> {
    /// Those of `spec.resourceClaims`.
    pub(crate) fn new(claims: &'a [Value]) -> Self {
        let names = || claims.iter().map(|claim| claim.text("name"));
        let listed = match names().next() {
            None => " which is empty".to_owned(),
            Some(_) => format!(": {}", beginning(&names().collect::<Vec<_>>().join(", "))),
        };
        Claims { names: names().collect(), listed }
    }
}

/// Rules for `requests` and `limits` of a container.
pub(crate) fn validate_requirements(
    brand: &Brand,
    resources: &Value,
    claims: &Claims<'_>,
    path: &Path,
) -> FieldErrors {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let mut errors = FieldErrors::new();
    for (name, amount) in resources.entries("limits") {
        errors.extend(validate_amount(brand, name, amount, &limits.key(name)));
    }
    for (name, amount) in resources.entries("requests") {
        errors.extend(validate_amount(brand, name, amount, &requests.key(name)));
        errors.extend(validate_against_limit(brand, resources, name, amount, path));
    }
    let named = |prefix: &str| {
        let all = resources.entries("limits").into_iter().chain(resources.entries("requests"));
        // once: asked three times of one container.
        all.into_iter().any(|(name, _)| name.starts_with(prefix))
    };
    if named(HUGE_PAGES) && !named("cpu") && !named("memory") {
        errors.push(FieldError::forbidden(path.clone(), "HugePages require cpu or memory"));
    }
    errors.extend(validate_claims(resources.items("claims"), claims, &path.child("claims")));
    errors
}

/// Checks an amount of a resource of any object: not negative, and whole where the resource is counted.
pub(crate) fn validate_quantity(brand: &Brand, name: &str, amount: &Value, path: &Path) -> FieldErrors {
    let text = amount.as_str().unwrap_or_default();
    let Some(quantity) = Quantity::parse(text) else { return FieldErrors::new() };
    let mut errors = FieldErrors::new();
    if quantity.is_negative() {
        errors.push(FieldError::invalid_str(path.clone(), text, "must be greater than or equal to 0"));
    }
    if (COUNTS.contains(&name) || is_extended(brand, name)) && !quantity.is_whole() {
        errors.push(FieldError::invalid_str(path.clone(), text, "must be an integer"));
    }
    errors
}

/// Checks the name of a resource of any object: qualified, and a standard one where it has no domain.
pub(crate) fn validate_resource_name(name: &str, path: &Path) -> FieldErrors {
    let errors = invalid_each(path, name, names::qualified_name(name));
    let is_standard = STANDARD.contains(&name) || is_huge_pages_quota(name);
    if errors.is_empty() && !name.contains('/') && !is_standard {
        let detail = "must be a standard resource type or fully qualified";
        return FieldErrors::from(FieldError::invalid_str(path.clone(), name, detail));
    }
    errors
}

/// Whether the name is one of huge pages, as a pod asks for them or as a quota counts them.
pub(crate) fn is_huge_pages_quota(name: &str) -> bool {
    name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE_PAGES)
}

/// Checks the name of a resource that a container asks for.
pub(crate) fn validate_container_resource_name(brand: &Brand, name: &str, path: &Path) -> FieldErrors {
    let mut errors = validate_resource_name(name, path);
    let for_containers =
        // few: three names.
        ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with(HUGE_PAGES);
    if !name.contains('/') {
        if !for_containers {
            let detail = "must be a standard resource for containers";
            errors.push(FieldError::invalid_str(path.clone(), name, detail));
        }
    } else if !is_native(brand, name) && !is_extended(brand, name) {
        let detail = "doesn't follow extended resource name standard";
        errors.push(FieldError::invalid_str(path.clone(), name, detail));
    }
    errors
}

fn validate_amount(brand: &Brand, name: &str, amount: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_container_resource_name(brand, name, path);
    errors.extend(validate_quantity(brand, name, amount, path));
    errors.extend(validate_huge_pages(name, amount, path));
    errors
}

fn validate_huge_pages(name: &str, amount: &Value, path: &Path) -> Option<FieldError> {
    let size = Quantity::parse(name.strip_prefix(HUGE_PAGES)?)?.units().filter(|&size| size > 0)?;
    let text = amount.as_str().unwrap_or_default();
    let bytes = Quantity::parse(text)?.units()?;
    let detail = format!("{text} is not positive integer multiple of {name}");
    (bytes % size != 0).then(|| FieldError::invalid_str(path.clone(), text, &detail))
}

fn validate_against_limit(
    brand: &Brand,
    resources: &Value,
    name: &str,
    amount: &Value,
    path: &Path,
) -> Option<FieldError> {
    let overcommits = is_native(brand, name) && !name.starts_with(HUGE_PAGES);
    let limit = resources.at("limits").at(name).as_str();
    let Some(limit) = limit else {
        let detail = "Limit must be set for non overcommitable resources";
        return (!overcommits).then(|| FieldError::required(path.child("limits"), detail));
    };
    let request = amount.as_str().unwrap_or_default();
    let (wanted, allowed) = (Quantity::parse(request)?, Quantity::parse(limit)?);
    let detail = if !overcommits && wanted != allowed {
        format!("must be equal to {name} limit of {limit}")
    } else if wanted > allowed {
        format!("must be less than or equal to {name} limit of {limit}")
    } else {
        return None;
    };
    Some(FieldError::invalid_str(path.child("requests"), request, &detail))
}

fn validate_claims(claims: &[Value], known: &Claims<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, claim) in claims.iter().numbered() {
        let (name, path) = (claim.text("name"), path.index(at));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        if seen.is_repeated(name) {
            errors.push(FieldError::duplicate(path.clone(), &super::quoted(name)));
        }
        if !known.names.has(&name) {
            let mut error = FieldError::not_found(path, &super::quoted(name));
            let choice = &known.listed;
            error.message.push_str(&format!(": must be one of the names in pod.spec.resourceClaims{choice}"));
            errors.push(error);
        }
    }
    errors
}

/// Whether the name is of the system's own resources: one without a domain, or one below the label domain.
pub(crate) fn is_native(brand: &Brand, name: &str) -> bool {
    // few: a text is searched, and no list.
    !name.contains('/') || name.contains(&format!("{}/", brand.label_domain))
}

/// Whether `name` is a resource that devices of nodes provide.
pub fn is_extended(brand: &Brand, name: &str) -> bool {
    !is_native(brand, name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;

    fn check(resources: Value, expected: &[&str]) {
        let errors =
            validate_requirements(&orch_proto::brand::ORCH, &resources, &Claims::new(&[]), &Path::new("r"));
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected, "{resources}");
    }

    #[test]
    fn names_of_resources() {
        check(json!({"limits": {"cpu": "1", "hugepages-2Mi": "4Mi"}}), &[]);
        check(json!({"limits": {"example.com/gpu": "2"}}), &[]);
        check(
            json!({"limits": {"foo": "1"}}),
            &[
                "r.limits[foo]: Invalid value: \"foo\": must be a standard resource type or fully qualified",
                "r.limits[foo]: Invalid value: \"foo\": must be a standard resource for containers",
            ],
        );
        check(
            json!({"limits": {"pods": "1"}}),
            &["r.limits[pods]: Invalid value: \"pods\": must be a standard resource for containers"],
        );
    }

    #[test]
    fn amounts_are_not_negative_and_whole_where_they_count() {
        check(
            json!({"requests": {"cpu": "-1"}}),
            &["r.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
        check(
            json!({"limits": {"example.com/gpu": "1500m"}}),
            &["r.limits[example.com/gpu]: Invalid value: \"1500m\": must be an integer"],
        );
        check(
            json!({"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}),
            &[
                "r.limits[hugepages-2Mi]: Invalid value: \"3Mi\": 3Mi is not positive integer multiple of hugepages-2Mi",
            ],
        );
        check(
            json!({"limits": {"hugepages-2Mi": "2Mi"}}),
            &["r: Forbidden: HugePages require cpu or memory"],
        );
        check(json!({"limits": [1], "requests": {"cpu": {"x": 1}}}), &[]);
    }

    #[test]
    fn requests_stay_within_limits() {
        check(
            json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}}),
            &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1500m"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}}),
            &["r.limits: Required value: Limit must be set for non overcommitable resources"],
        );
        check(
            json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "2"}}),
            &["r.requests: Invalid value: \"1\": must be equal to example.com/gpu limit of 2"],
        );
        check(
            json!({"claims": [{"name": "c"}]}),
            &[
                "r.claims[0]: Not found: \"c\": must be one of the names in pod.spec.resourceClaims which is empty",
            ],
        );
    }
}
