//! The spec of a pod, in a pod or in a template.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::pod::annotations::is_mirror;
use crate::kinds::pod::container::{PodContext, one_of, padded_image, validate_containers};
use crate::kinds::pod::dns::{validate_dns, validate_host_aliases, validate_hostname_override};
use crate::kinds::pod::environment::validate_variable_files;
use crate::kinds::pod::os::{containers, validate_host_processes, validate_os};
use crate::kinds::pod::pod_resources::validate_pod_resources;
use crate::kinds::pod::resources::{Claims, validate_requirements};
use crate::kinds::pod::scheduling::{
    validate_affinity, validate_gates, validate_preemption_policy, validate_tolerations,
};
use crate::kinds::pod::security::validate_pod_security;
use crate::kinds::pod::spread::validate_spread;
use crate::kinds::pod::volume::validate_volumes;
use crate::validate::metadata::{invalid_each, validate_labels};
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, names};

/// Where a pod spec stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In a pod: fields that its defaults leave open must be set.
    Pod {
        /// The metadata of the pod.
        metadata: &'a Value,
    },
    /// In the template of another kind: some rules apply only to the pods that are made of it.
    Template,
}

impl Place<'_> {
    /// Whether the spec is that of a pod.
    pub(crate) fn is_pod(self) -> bool {
        matches!(self, Place::Pod { .. })
    }

    /// The name of the claim that is made for an ephemeral volume; `None` where the name of the pod is not known.
    pub(crate) fn claim_name(self, volume: &str) -> Option<String> {
        let Place::Pod { metadata } = self else { return None };
        let pod = Some(metadata.text("name")).filter(|name| !name.is_empty())?;
        Some(format!("{pod}-{volume}"))
    }
}

/// Rules for a pod spec.
pub(crate) fn validate_pod_spec(
    context: &Context<'_>,
    spec: &Value,
    place: Place<'_>,
    path: &Path,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !spec.has("terminationGracePeriodSeconds") {
        errors.push(FieldError::required(path.child("terminationGracePeriodSeconds"), ""));
    }
    let (volumes, broken) = validate_volumes(context, spec.items("volumes"), place, &path.child("volumes"));
    errors.extend(broken);
    let is_mirror = match place {
        Place::Pod { metadata } => is_mirror(context, metadata),
        Place::Template => false,
    };
    errors.extend(validate_claims(spec.items("resourceClaims"), is_mirror, &path.child("resourceClaims")));
    let claims = Claims::new(spec.items("resourceClaims"));
    let pod = PodContext { brand: context.brand, spec, volumes, claims };
    errors.extend(validate_containers(&pod, path));
    errors.extend(validate_pod_resources(context.brand, spec, &path.child("resources")));
    errors.extend(validate_host_ports(spec, place, path));
    errors.extend(one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path));
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    errors.extend(one_of(spec, "dnsPolicy", &policies, path));
    errors.extend(validate_labels(spec.at("nodeSelector"), &path.child("nodeSelector")));
    errors.extend(validate_pod_security(spec, &path.child("securityContext")));
    errors.extend(validate_affinity(spec.at("affinity"), &path.child("affinity")));
    errors.extend(validate_dns(spec, &path.child("dnsConfig")));
    let gates = path.child("readinessGates");
    for (at, gate) in spec.items("readinessGates").iter().numbered() {
        let kind = gate.text("conditionType");
        errors.extend(invalid_each(
            &gates.index(at).child("conditionType"),
            kind,
            names::qualified_name(kind),
        ));
    }
    errors.extend(validate_gates(spec.items("schedulingGates"), &path.child("schedulingGates")));
    let spread = path.child("topologySpreadConstraints");
    errors.extend(validate_spread(spec.items("topologySpreadConstraints"), &spread));
    errors.extend(validate_host_users(spec, path));
    errors.extend(validate_os(spec, path));
    errors.extend(validate_host_processes(spec, path));
    errors.extend(validate_names(spec, path));
    errors.extend(validate_hostname_override(spec, path));
    errors.extend(validate_deadline(spec, path));
    errors.extend(validate_tolerations(spec.items("tolerations"), &path.child("tolerations")));
    errors.extend(validate_host_aliases(spec.items("hostAliases"), &path.child("hostAliases")));
    errors.extend(validate_choices(spec, path));
    let overhead = [("limits", spec.at("overhead").clone())].into_iter().collect();
    errors.extend(validate_requirements(
        context.brand,
        &overhead,
        &Claims::new(&[]),
        &path.child("overhead"),
    ));
    errors.extend(validate_variable_files(spec, path));
    errors
}

/// Rules that apply to pods, but not to templates.
pub(super) fn validate_only_pod(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if spec.text("serviceAccountName").is_empty() {
        let volumes = path.child("volumes");
        for (at, volume) in spec.items("volumes").iter().numbered() {
            let sources = volumes.index(at).child("projected").child("sources");
            let tokens = volume.at("projected").items("sources").iter().numbered();
            let tokens = tokens.filter(|(_, source)| source.has("serviceAccountToken"));
            let detail = "must not be specified when serviceAccountName is not set";
            errors.extend(tokens.map(|(at, _)| {
                FieldError::forbidden(sources.index(at).child("serviceAccountToken"), detail)
            }));
        }
    }
    for list in ["containers", "initContainers"] {
        let path = path.child(list);
        for (at, container) in spec.items(list).iter().numbered() {
            errors.extend(padded_image(container, &path.index(at)));
        }
    }
    errors
}

fn validate_claims(claims: &[Value], is_mirror: bool, path: &Path) -> FieldErrors {
    if is_mirror {
        let detail = "static pods do not support resource claims";
        return claims.iter().map(|_| FieldError::forbidden(Path::new(""), detail)).collect();
    }
    let mut errors = FieldErrors::new();
    let mut seen = Distinct::new();
    for (at, claim) in claims.iter().numbered() {
        let (name, path) = (claim.text("name"), path.index(at));
        let is_repeated = seen.is_repeated(name);
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if is_repeated {
            errors.push(FieldError::duplicate(path.child("name"), &super::quoted(name)));
        } else {
            errors.extend(invalid_each(&path.child("name"), name, names::dns1123_label(name)));
        }
        let given =
            ["resourceClaimName", "resourceClaimTemplateName"].into_iter().filter(|field| claim.has(field));
        let detail = match given.clone().count() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            1 => None,
            _ => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
        };
        errors.extend(detail.map(|detail| FieldError::invalid(path.clone(), &shown(claim), detail)));
        for field in given {
            let value = claim.text(field);
            errors.extend(invalid_each(&path.child(field), value, names::dns1123_subdomain(value)));
        }
    }
    errors
}

fn validate_host_ports(spec: &Value, place: Place<'_>, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !spec.flag("hostNetwork") {
        return errors;
    }
    let containers = path.child("containers");
    for (at, container) in spec.items("containers").iter().numbered() {
        let ports = containers.index(at).child("ports");
        for (at, port) in container.items("ports").iter().numbered() {
            let (host, inner) = (port.int("hostPort").unwrap_or(0), port.int("containerPort").unwrap_or(0));
            if (place.is_pod() || host != 0) && host != inner {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(
                    ports.index(at).child("hostPort"),
                    &host.to_string(),
                    detail,
                ));
            }
        }
    }
    errors
}

fn validate_host_users(spec: &Value, path: &Path) -> FieldErrors {
    if spec.at("hostUsers").as_bool() != Some(false) {
        return FieldErrors::new();
    }
    let fields = [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")];
    let given = fields.into_iter().filter(|(field, _)| spec.flag(field));
    let detail = "when `hostUsers` is false";
    let mut errors: FieldErrors =
        given.map(|(_, shown)| FieldError::forbidden(path.child(shown), detail)).collect();
    let on_devices =
        containers(spec, path).filter(|(container, _)| !container.items("volumeDevices").is_empty());
    errors.extend(on_devices.map(|(_, path)| FieldError::forbidden(path.child("volumeDevices"), detail)));
    errors
}

fn validate_names(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let labels = ["hostname", "subdomain"];
    for field in
        ["serviceAccountName", "nodeName", "hostname", "subdomain", "priorityClassName", "runtimeClassName"]
    {
        let name = spec.text(field);
        // The name of a class that is there is looked at even if it is empty.
        if name.is_empty() && !(field == "runtimeClassName" && spec.has(field)) {
            continue;
        }
        // few: the names that are labels.
        let rule = if labels.contains(&field) { names::dns1123_label } else { names::dns1123_subdomain };
        errors.extend(invalid_each(&path.child(field), name, rule(name)));
    }
    errors
}

fn validate_deadline(spec: &Value, path: &Path) -> FieldErrors {
    let Some(seconds) = spec.int("activeDeadlineSeconds") else { return FieldErrors::new() };
    let messages = names::in_range(seconds, 1, i64::from(i32::MAX));
    let path = path.child("activeDeadlineSeconds");
    messages.iter().map(|message| FieldError::invalid(path.clone(), &seconds.to_string(), message)).collect()
}

fn validate_choices(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    errors.extend(validate_preemption_policy(spec, path));
    let os = spec.at("os");
    if !os.is_null() {
        let name = os.text("name");
        if name.is_empty() {
            errors.push(FieldError::required(path.child("os").child("name"), "cannot be empty"));
        } else if !["linux", "windows"].contains(&name) {
            // few: two systems.
            errors.push(FieldError::not_supported(path.child("os"), name, &["linux", "windows"]));
        }
    }
    errors
}
