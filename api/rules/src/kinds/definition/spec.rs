//! The specification of a definition: group, scope, versions and names, in the order in which the reference checks them.

use std::collections::HashMap;

use orch_proto::Brand;
use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use super::hoist::Hoisted;
use super::ratchet::Requirements;
use super::schema::{Extensions, Judge};
use super::version::joined;
use super::{approval, columns, conversion, selectable_fields, stored_versions, subresources, version};
use crate::kinds::{Context, NameRule};
use crate::validate::metadata::immutable;
use crate::validate::names::{check_name, dns1123_subdomain};
use crate::validate::tree::{Tree, is_empty, shown_items};
use crate::validate::{Distinct, FieldError, FieldErrors, Path};

/// Versions of a definition. The reference has no bound; each version that is served converts to each other, and public definitions have
/// seven at most.
const VERSIONS_MAX: usize = 100;

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];

/// Rules for a definition but for its metadata. `old`: the stored one.
pub(super) fn validate_whole(context: &Context<'_>, old: Option<&Value>, new: &Value) -> FieldErrors {
    let brand = context.brand;
    let Some(old) = old else { return validate_under(brand, None, new, Requirements::NEW) };
    let errors = validate_under(brand, Some(old), new, Requirements::strict(old));
    if errors.is_empty() {
        return errors;
    }
    // The rules that the stored definition breaks are looked for only where a rule is broken.
    validate_under(brand, Some(old), new, Requirements::ratcheted(brand, old))
}

fn validate_under(
    brand: &'static Brand,
    old: Option<&Value>,
    new: &Value,
    requirements: Requirements,
) -> FieldErrors {
    let mut errors = validate(brand, old, new.at("spec"), requirements);
    if let Some(old) = old {
        errors.extend(validate_immutable(old.at("spec"), new.at("spec"), requirements));
    }
    let accepted = Path::new("status").child("acceptedNames");
    errors.extend(validate_names(new.at("status").at("acceptedNames"), &accepted));
    errors.extend(stored_versions::validate(new));
    errors.extend(approval::validate(brand, old, new));
    let preserved = old.is_some_and(|old| old.at("spec").flag("preserveUnknownFields"));
    if new.at("spec").flag("preserveUnknownFields") && !preserved {
        let detail = format!(
            "cannot set to true, set {}preserve-unknown-fields to true in spec.versions[*].schema instead",
            brand.extension_prefix
        );
        let path = Path::new("spec").child("preserveUnknownFields");
        errors.push(FieldError::invalid(path, "true", &detail));
    }
    errors
}

fn validate(
    brand: &'static Brand,
    old: Option<&Value>,
    spec: &Value,
    requirements: Requirements,
) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = validate_group_and_scope(spec, &path);
    let versions = spec.items("versions");
    if versions.len() > VERSIONS_MAX {
        errors.push(FieldError::too_many(path.child("versions"), versions.len(), VERSIONS_MAX));
        return errors;
    }
    let extensions = Extensions::of(brand);
    let mut judge = Judge::new(&extensions, brand, spec, requirements);
    errors.extend(validate_presence_of_schemas(spec, versions, &path.child("versions"), requirements));
    if spec.flag("preserveUnknownFields") && judge.has_defaults() {
        let path = path.child("preserveUnknownFields");
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(path, "true", detail));
    }
    let hoisted = Hoisted::of(versions);
    let before = old.map(|old| old.at("spec").items("versions")).unwrap_or_default();
    let before: HashMap<&str, &Value> =
        before.iter().map(|version| (version.text("name"), version)).collect();
    for (at, version) in versions.iter().numbered() {
        if errors.is_full() {
            break;
        }
        let old = before.get(version.text("name")).copied();
        let path = path.child("versions").index(at);
        errors.extend(version::validate(&mut judge, old, version, &path, hoisted));
    }
    errors.extend(validate_set_of_versions(versions, &path));
    errors.extend(validate_required_names(spec.at("names"), &path.child("names")));
    errors.extend(validate_names(spec.at("names"), &path.child("names")));
    errors.extend(validate_hoisted(&mut judge, versions, &before, &path, hoisted));
    errors.extend(validate_conversion(spec, &path, requirements));
    errors
}

fn validate_group_and_scope(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (group, path_of_group) = (spec.text("group"), path.child("group"));
    let faults = dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(path_of_group, ""));
    } else if !faults.is_empty() {
        errors.push(FieldError::invalid_str(path_of_group, group, &faults.join(",")));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_str(path_of_group, group, detail));
    }
    match spec.text("scope") {
        "" => errors.push(FieldError::required(path.child("scope"), "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported(path.child("scope"), other, &SCOPES)),
    }
    errors
}

/// Every version has a schema. A stored definition without schemas needs them where they decide what is pruned.
fn validate_presence_of_schemas(
    spec: &Value,
    versions: &[Value],
    path: &Path,
    requirements: Requirements,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !requirements.schemas && spec.flag("preserveUnknownFields") {
        return errors;
    }
    for (at, version) in versions.iter().numbered() {
        if version.at("schema").has("openAPIV3Schema") {
            continue;
        }
        let path = path.index(at).child("schema").child("openAPIV3Schema");
        if requirements.schemas {
            errors.push(FieldError::required(path, ""));
        } else if version.flag("served") {
            errors.push(FieldError::required(path, "because otherwise all fields are pruned"));
        }
    }
    errors
}

/// The names of versions differ, and one of them is the storage version.
fn validate_set_of_versions(versions: &[Value], path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let value = if versions.is_empty() { "null".to_owned() } else { shown_items(versions) };
    let path_of_versions = path.child("versions");
    let mut seen = Distinct::new();
    // once: one pass over the versions.
    if versions.iter().any(|version| seen.is_repeated(version.text("name"))) {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid(path_of_versions.clone(), &value, detail));
    }
    if versions.iter().filter(|version| version.flag("storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(path_of_versions, &value, detail));
    }
    // The reference's own form repeats the name of the first version, and checks it again.
    let first = versions.first().map_or("", |version| version.text("name"));
    if !first.is_empty() {
        errors.extend(joined(&path.child("version"), first));
    }
    errors
}

fn validate_required_names(names: &Value, path: &Path) -> FieldErrors {
    let required = ["plural", "singular", "kind", "listKind"].into_iter();
    required
        .filter(|field| names.text(field).is_empty())
        .map(|field| FieldError::required(path.child(field), ""))
        .collect()
}

/// Rules for the names at `path`, none of which is required.
pub(super) fn validate_names(names: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["plural", "singular"] {
        let name = names.text(field);
        if !name.is_empty() {
            errors.extend(joined(&path.child(field), name));
        }
    }
    for field in ["kind", "listKind"] {
        let (name, path) = (names.text(field), path.child(field));
        let faults = check_name(NameRule::Dns1035Label, &name.to_lowercase(), false);
        if name.is_empty() || faults.is_empty() {
            continue;
        }
        let detail = format!("may have mixed case, but should otherwise match: {}", faults.join(","));
        errors.push(FieldError::invalid_str(path, name, &detail));
    }
    errors.extend(validate_list_of_names(names, "shortNames", path));
    let (kind, list_kind) = (names.text("kind"), names.text("listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid_str(path.child("listKind"), list_kind, detail));
    }
    errors.extend(validate_list_of_names(names, "categories", path));
    errors
}

fn validate_list_of_names(names: &Value, field: &str, path: &Path) -> FieldErrors {
    let path = path.child(field);
    let names = names.items(field).iter().numbered();
    names.filter_map(|(at, name)| joined(&path.index(at), name.as_str().unwrap_or_default())).collect()
}

/// Checks the members that all versions share.
fn validate_hoisted(
    judge: &mut Judge<'_>,
    versions: &[Value],
    before: &HashMap<&str, &Value>,
    path: &Path,
    hoisted: Hoisted,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Some(first) = versions.first() else { return errors };
    let schema = first.at("schema").at("openAPIV3Schema");
    if hoisted.schema {
        // once: one version with a status is looked for.
        let has_status = versions.iter().any(|version| version.at("subresources").has("status"));
        let old = before.get(first.text("name")).map(|old| old.at("schema").at("openAPIV3Schema"));
        errors.extend(judge.validate(schema, old, &path.child("validation"), has_status));
    }
    if hoisted.subresources {
        errors.extend(subresources::validate(first.at("subresources"), &path.child("subresources")));
    }
    if hoisted.columns {
        let columns = first.items("additionalPrinterColumns");
        errors.extend(columns::validate(columns, &path.child("additionalPrinterColumns")));
    }
    let schema = if hoisted.schema { schema } else { &Value::Null };
    let has_fields = !is_empty(first.at("selectableFields")) && !judge.has_unsupported(schema);
    if hoisted.selectable_fields && has_fields {
        let before = before.get(first.text("name")).map(|old| old.items("selectableFields"));
        let missing = "may only be set when validations.schema is included";
        let path = path.child("selectableFields");
        let fields = first.items("selectableFields");
        errors.extend(selectable_fields::validate(fields, before, schema, &path, missing));
    }
    errors
}

fn validate_conversion(spec: &Value, path: &Path, requirements: Requirements) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (path, value) = (path.child("conversion"), spec.at("conversion"));
    let strategy = value.text("strategy");
    if value.is_object() && strategy != "None" && spec.flag("preserveUnknownFields") {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid_str(path.child("strategy"), strategy, detail));
    }
    errors.extend(conversion::validate(value, &path, requirements));
    errors
}

/// Fields that name the stored objects never change; those that objects carry do not while objects are served.
fn validate_immutable(old: &Value, new: &Value, requirements: Requirements) -> FieldErrors {
    let path = Path::new("spec");
    let mut errors = FieldErrors::new();
    let (was, is) = (old.at("names"), new.at("names"));
    if requirements.immutable_names {
        errors.extend(immutable(new.at("scope"), old.at("scope"), path.child("scope")));
        errors.extend(immutable(is.at("kind"), was.at("kind"), path.child("names").child("kind")));
    }
    errors.extend(immutable(new.at("group"), old.at("group"), path.child("group")));
    errors.extend(immutable(is.at("plural"), was.at("plural"), path.child("names").child("plural")));
    errors
}
