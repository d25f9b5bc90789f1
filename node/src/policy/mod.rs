//! `orch policy test`: admission policies tried on objects, without a cluster.
//!
//! Owns the order in which documents are stored before the writes, and the bindings of policies that have none. The trial itself is
//! `orch_api::trial`'s. Never opens a port or a data directory.

mod documents;
mod report;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use orch_api::authn::User;
use orch_api::trial::{Operation, Trial};
use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};
use orch_schema::json;
use orch_schema::value::Value;

use self::documents::{Document, read, text};
use self::report::Report;
use crate::cli::{Expected, PolicyTestArgs, TriedOperation};

/// Exit code of a write with another outcome than is expected.
const CODE_OTHER_OUTCOME: u8 = 3;

/// Kinds of policies, each with that of its bindings.
const POLICIES: [(&str, &str); 2] = [
    ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
];

/// Runs the command, and prints to `out`.
///
/// # Errors
/// A file cannot be read, an object or policy cannot be used, or `out` takes no more.
pub fn test(arguments: &PolicyTestArgs, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.context("cannot start a runtime")?;
    let report = runtime.block_on(run(arguments))?;
    report.print(arguments.output, out)?;
    let is_refused = |expected: Expected| match expected {
        Expected::Allow => report.any_refused_by_policy(),
        Expected::Deny => report.any_admitted(),
    };
    if let Some(reason) = report.unusable() {
        anyhow::bail!("an object cannot be written, whatever the policies say: {reason}");
    }
    let is_other = is_refused(arguments.expect.unwrap_or(Expected::Allow));
    Ok(if is_other { ExitCode::from(CODE_OTHER_OUTCOME) } else { ExitCode::SUCCESS })
}

async fn run(arguments: &PolicyTestArgs) -> anyhow::Result<Report> {
    let mut stored = read(&arguments.files)?;
    let params = read(arguments.params.as_slice())?;
    stored.extend(params.iter().cloned());
    stored.extend(read(arguments.namespace_object.as_slice())?);
    let (olds, objects) = (read(&arguments.old_objects)?, read(&arguments.objects)?);
    anyhow::ensure!(!objects.is_empty(), "the files of --object hold no object");
    let brand = arguments.brand.as_ref().map_or_else(|| brand_of(&stored), |brand| brand.0);
    stored.extend(missing_bindings(&stored, &params));
    let operation = match (arguments.operation, olds.is_empty()) {
        (Some(TriedOperation::Create), _) | (None, true) => Operation::Create,
        (Some(TriedOperation::Update), _) | (None, false) => Operation::Update,
        (Some(TriedOperation::Delete), _) => Operation::Delete,
    };
    let trial = Trial::new(brand);
    let before = match operation {
        Operation::Create => Vec::new(),
        Operation::Update => olds,
        Operation::Delete => objects.clone(),
    };
    store_all(&trial, stored, before).await?;
    let user = user_of(arguments);
    let mut report = Report::new(operation, &user);
    for Document { value, place } in &objects {
        let tried = trial.attempt(operation, value, &user).await.with_context(|| place.clone())?;
        report.add(value, tried);
    }
    Ok(report)
}

/// Stores what the policies need, the objects `before` the writes, and then the policies, which would judge those.
async fn store_all(trial: &Trial, stored: Vec<Document>, before: Vec<Document>) -> anyhow::Result<()> {
    let mut ranked: Vec<(u8, Document)> =
        stored.into_iter().map(|document| (rank(&document.value), document)).collect();
    ranked.extend(before.into_iter().map(|document| (RANK_BEFORE, document)));
    ranked.sort_by_key(|(rank, _)| *rank);
    for (_, Document { value, place }) in ranked {
        trial.store(&value).await.with_context(|| place)?;
    }
    Ok(())
}

/// The place of objects before the writes among what is stored.
const RANK_BEFORE: u8 = 3;

/// The place of an object in the order in which objects are stored: an object behind its definition and its namespace, policies behind
/// the objects that they would judge.
fn rank(object: &Value) -> u8 {
    let kind = text(object, "kind");
    match kind {
        "CustomResourceDefinition" => 0,
        "Namespace" => 1,
        // few: two kinds.
        kind if POLICIES.iter().any(|(policy, _)| *policy == kind) => RANK_BEFORE + 1,
        // few: two kinds.
        kind if POLICIES.iter().any(|(_, binding)| *binding == kind) => RANK_BEFORE + 2,
        _ => 2,
    }
}

/// The brand whose groups the policies name.
fn brand_of(stored: &[Document]) -> &'static Brand {
    let group = format!("{}/", KUBERNETES.group("admissionregistration"));
    let names = |document: &Document| text(&document.value, "apiVersion").starts_with(&group);
    if stored.iter().any(names) { &KUBERNETES } else { &ORCH }
}

/// Bindings of the policies for which there is none.
fn missing_bindings(stored: &[Document], params: &[Document]) -> Vec<Document> {
    let mut made = Vec::new();
    for (policy_kind, binding_kind) in POLICIES {
        let of_kind =
            |kind: &'static str| stored.iter().filter(move |document| text(&document.value, "kind") == kind);
        let bound: BTreeSet<&str> =
            of_kind(binding_kind).map(|document| spec_text(&document.value, "policyName")).collect();
        for Document { value, place } in of_kind(policy_kind) {
            let name = documents::name(value);
            // set: names of bound policies.
            if bound.contains(name) {
                continue;
            }
            let mut spec = json!({"policyName": name});
            if policy_kind == POLICIES[0].0 {
                spec["validationActions"] = json!(["Deny"]);
            }
            if let Some(param) = param_of(value, params) {
                spec["paramRef"] = param;
            }
            let value = json!({
                "apiVersion": text(value, "apiVersion"), "kind": binding_kind, "metadata": {"name": name}, "spec": spec,
            });
            made.push(Document { value, place: format!("a binding for {place}") });
        }
    }
    made
}

/// The reference to the first of `params` that is of the kind that `policy` names.
fn param_of(policy: &Value, params: &[Document]) -> Option<Value> {
    let kind = policy.get("spec")?.get("paramKind")?;
    let is_of_kind = |param: &&Document| {
        ["apiVersion", "kind"].into_iter().all(|field| text(kind, field) == text(&param.value, field))
    };
    let param = &params.iter().find(is_of_kind)?.value;
    let mut reference = json!({"name": documents::name(param), "parameterNotFoundAction": "Deny"});
    if let Some(namespace) = documents::namespace(param) {
        reference["namespace"] = json!(namespace);
    }
    Some(reference)
}

fn spec_text<'v>(object: &'v Value, field: &str) -> &'v str {
    object.get("spec").map_or("", |spec| text(spec, field))
}

fn user_of(arguments: &PolicyTestArgs) -> User {
    match &arguments.user {
        None => User::local_admin(),
        Some(name) => {
            let mut groups = arguments.groups.clone();
            groups.push("system:authenticated".to_owned());
            User { name: name.clone(), groups, ..User::default() }
        }
    }
}

#[cfg(test)]
mod tests;
