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
pub(super) const HUGE_PAGES: &str = "hugepages-";

/// The resource claims of a pod, which those of its containers refer to.
pub(crate) struct Claims<'a> {
    names: Distinct<&'a str>,
    /// The claims as an error shows them.
    listed: String,
}

impl<'a> Claims<'a> {
    /// Those of `spec.resourceClaims`.
    pub(crate) fn new(claims: &'a [Value]) -> Self {
        let mut named: Vec<&str> =
            claims.iter().map(|claim| claim.text("name")).filter(|name| !name.is_empty()).collect();
        named.sort_unstable();
        let listed = if named.is_empty() {
            " which is empty".to_owned()
        } else {
            format!(": {}", beginning(&named.join(", ")))
        };
        Claims { names: named.into_iter().collect(), listed }
    }
}

/// Rules for `requests` and `limits` of a container.
pub(crate) fn validate_requirements(
    brand: &Brand,
    resources: &Value,
    claims: &Claims<'_>,
    path: &Path,
) -> FieldErrors {
    let mut errors = validate_amounts(brand, resources, validate_container_resource_name, path);
    errors.extend(validate_claims(resources.items("claims"), claims, &path.child("claims")));
    errors
}

/// Rules for `requests` and `limits`, whose names `validate_name` checks.
pub(super) fn validate_amounts(
    brand: &Brand,
    resources: &Value,
    validate_name: fn(&Brand, &str, &Path) -> FieldErrors,
    path: &Path,
) -> FieldErrors {
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let mut errors = FieldErrors::new();
    for (name, amount) in resources.entries("limits") {
        errors.extend(validate_name(brand, name, &limits.key(name)));
        errors.extend(validate_amount(brand, name, amount, &limits.key(name)));
    }
    for (name, amount) in resources.entries("requests") {
        errors.extend(validate_name(brand, name, &requests.key(name)));
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
    let mut errors = validate_quantity(brand, name, amount, path);
    errors.extend(validate_huge_pages(name, amount, path));
    errors
}

fn validate_huge_pages(name: &str, amount: &Value, path: &Path) -> Option<FieldError> {
    let size = Quantity::parse(name.strip_prefix(HUGE_PAGES)?).and_then(Quantity::units);
    let text = amount.as_str().unwrap_or_default();
    let bytes = Quantity::parse(text)?.units()?;
    let detail = format!("{text} is not positive integer multiple of {name}");
    // A name without a size of pages has no multiples.
    let is_multiple = size.is_some_and(|size| size > 0 && bytes % size == 0);
    (!is_multiple).then(|| FieldError::invalid_str(path.clone(), text, &detail))
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
    // Claims that are used as a whole, those of which requests are used, and these requests.
    let (mut whole, mut parted, mut parts) = (Distinct::new(), Distinct::new(), Distinct::new());
    for (at, claim) in claims.iter().numbered() {
        let (name, request, path) = (claim.text("name"), claim.text("request"), path.index(at));
        if name.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        if request.is_empty() {
            if whole.is_repeated(name) || parted.has(&name) {
                errors.push(FieldError::duplicate(path.clone(), &super::quoted(name)));
            }
        } else {
            errors.extend(invalid_each(&path.child("request"), request, names::dns1123_label(request)));
            if whole.has(&name) {
                errors.push(FieldError::duplicate(path.clone(), &super::quoted(name)));
            } else if parts.is_repeated((name, request)) {
                let shown = super::quoted(&format!("{name}/{request}"));
                errors.push(FieldError::duplicate(path.clone(), &shown));
            }
            parted.is_repeated(name);
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
        check(
            json!({"limits": {"cpu": "1", "hugepages-x": "1"}}),
            &[
                "r.limits[hugepages-x]: Invalid value: \"1\": 1 is not positive integer multiple of hugepages-x",
            ],
        );
    }

    #[test]
    fn a_claim_is_used_once_as_a_whole_or_once_by_each_request() {
        let claims = json!([{"name": "b"}, {"name": "a"}, {"name": ""}]);
        let resources = json!({"claims": [
            {"name": "a", "request": "x"}, {"name": "a", "request": "x"}, {"name": "a"}, {"name": "b"}, {"name": "b"},
            {"name": "b", "request": "Y"}, {"name": "c", "request": "y"}
        ]});
        let known = Claims::new(claims.as_array().unwrap());
        let errors = validate_requirements(&orch_proto::brand::ORCH, &resources, &known, &Path::new("r"));
        let texts: Vec<String> =
            errors.iter().map(|error| error.to_string().chars().take(50).collect()).collect();
        assert_eq!(
            texts,
            [
                "r.claims[1]: Duplicate value: \"a/x\"",
                "r.claims[2]: Duplicate value: \"a\"",
                "r.claims[4]: Duplicate value: \"b\"",
                "r.claims[5].request: Invalid value: \"Y\": a lowerca",
                "r.claims[5]: Duplicate value: \"b\"",
                "r.claims[6]: Not found: \"c\": must be one of the na",
            ]
        );
        let listed = errors.iter().last().unwrap().to_string();
        assert!(listed.ends_with("pod.spec.resourceClaims: a, b"), "{listed}");
    }
}
