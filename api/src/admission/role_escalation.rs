//! Refuses roles and bindings by which a user would grant rights beyond their own.
//!
//! Owns that refusal, and its exceptions: a writer that may `escalate` the role or `bind` it. As in the reference this is no
//! plugin, has no name and cannot be turned off. The pipeline asks between mutating admission and the rules of the kind: what
//! plugins added to a role is judged, too.

use std::fmt::Write;

use futures::future::{Either, FutureExt};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use super::policy::{confirm_params, is_of_policies};
use super::ruling::{ENDPOINT, Refused, awaited};
use super::{Attributes, Operation, Refusal, View, forbidden};
use crate::authn::User;
use crate::authz::rbac::{
    ALL, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, PolicyRule, ROLE_BINDINGS, ROLES, Rules, SOURCES, Uncovered,
    covers,
};
use crate::authz::review::UserRules;
use crate::authz::{Attributes as Asked, ResourceAttributes};
use crate::error::{ApiError, Subject};

/// Members of metadata that may change without a look at the rights: the garbage collector's, and the server's own.
const UNRELATED: [&str; 4] = ["finalizers", "ownerReferences", "managedFields", "resourceVersion"];

/// Refuses the create or update of a role or binding, as mutating admission left it in `object`, by which the user would
/// grant rights beyond the own ones. Other writes are none of its business.
///
/// # Errors
/// The refusal.
pub(crate) async fn confirm_rights(
    attributes: &Attributes<'_>,
    object: &Value,
    view: &View,
) -> Result<(), Refused> {
    if is_of_policies(attributes) {
        // Boxed, as below.
        let checked = Either::Right(confirm_params(attributes, object, view).boxed());
        let confirmed = awaited(checked, attributes.budget).await;
        return confirmed.map_err(|refusal| Refused::of(ENDPOINT, refusal, attributes));
    }
    let writes = [Operation::Create, Operation::Update];
    // few: four kinds.
    let is_guarded = SOURCES.into_iter().any(|kind| attributes.is(kind, &writes));
    if !is_guarded || attributes.old.is_some_and(|old| grants_same(old, object)) {
        return Ok(());
    }
    // Boxed, because it is rare, and large in the futures of all writes.
    let checked = Either::Right(check(attributes, object, view).boxed());
    awaited(checked, attributes.budget).await.map_err(|refusal| {
        let refusal = match refusal {
            Refusal::Forbidden(reason) => refused(attributes, object, &reason),
            other => other,
        };
        Refused::of(ENDPOINT, refusal, attributes)
    })
}

/// The refusal of `object`. As in the reference, one whose name is to be generated has no name yet.
fn refused(attributes: &Attributes<'_>, object: &Value, reason: &str) -> Refusal {
    let name = object.at("metadata").text("name");
    Refusal::Error(forbidden(Subject::resource(attributes.resource, name), reason))
}

/// Whether both versions grant the same to the same, apart from what the garbage collector changes.
fn grants_same(old: &Value, new: &Value) -> bool {
    let same = |name: &&str| old.get(*name) == new.get(*name);
    ["rules", "aggregationRule", "subjects", "roleRef"].iter().all(same)
        && related(old).count() == related(new).count()
        && related(old).all(|(name, value)| new.at("metadata").get(name) == Some(value))
}

/// The members of an object's metadata but for [`UNRELATED`] ones.
fn related(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = object.at("metadata").as_object().into_iter().flatten();
    let members = members.map(|(name, value)| (name.as_str(), value));
    // few: four names.
    members.filter(|(name, _)| !UNRELATED.contains(name))
}

async fn check(attributes: &Attributes<'_>, object: &Value, view: &View) -> Result<(), Refusal> {
    let is_binding = matches!(&*attributes.resource.storage, CLUSTER_ROLE_BINDINGS | ROLE_BINDINGS);
    let role = object.at("roleRef");
    let (verb, resource, name) = match is_binding {
        true if role.text("kind") == "Role" => ("bind", "roles", role.text("name")),
        true => ("bind", "clusterroles", role.text("name")),
        false => ("escalate", attributes.resource.plural.as_str(), attributes.path_name),
    };
    let own_group = attributes.brand.group("rbac.authorization");
    let asked = ResourceAttributes {
        verb,
        // As in the reference a binding is asked about in the group that it names, which its rules look at later.
        group: if is_binding { role.text("apiGroup") } else { &own_group },
        version: ALL,
        resource,
        namespace: attributes.namespace,
        name,
        ..ResourceAttributes::default()
    };
    let applied = view.applied();
    if attributes.gate.rule(attributes.user, Asked::Resource(asked), applied).await.is_allowed() {
        return Ok(());
    }
    let owned = attributes.gate.authorizers().rules_of(attributes.user, attributes.namespace, applied).await;
    if is_binding {
        let rules = granted(attributes, role, view)?;
        return confirm(attributes.user, &owned, &rules);
    }
    confirm(attributes.user, &owned, &rules_in(object.at("rules")))?;
    let gathers = |role: &Value| !role.at("aggregationRule").items("clusterRoleSelectors").is_empty();
    if gathers(object) || attributes.old.is_some_and(gathers) {
        let all = || vec![ALL.into()];
        let resources =
            PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
        let paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
        // As in the reference, the refusal lists no rights.
        confirm(attributes.user, &owned, &[resources, paths]).map_err(|_| {
            Refusal::Forbidden("must have cluster-admin privileges to use the aggregationRule".to_owned())
        })?;
    }
    Ok(())
}

/// The rules of the role that a binding names.
fn granted(attributes: &Attributes<'_>, role: &Value, view: &View) -> Result<Vec<PolicyRule>, Refusal> {
    let name = role.text("name");
    let (storage, path) = match role.text("kind") {
        "Role" => (ROLES, format!("{}/{name}", attributes.namespace)),
        _ => (CLUSTER_ROLES, name.to_owned()),
    };
    let state = &view.applied().state;
    // As in the reference, the error names the binding's resource and the role.
    let missing = || Refusal::Error(ApiError::NotFound(Subject::resource(attributes.resource, name)));
    let collection = state.collection(storage);
    let object = collection.get(&path).ok_or_else(missing)?;
    let object: Value = serde_json::from_slice(&object.json).map_err(|_| missing())?;
    Ok(rules_in(object.at("rules")))
}

fn rules_in(rules: &Value) -> Vec<PolicyRule> {
    rules.as_array().into_iter().flatten().map(PolicyRule::of).collect()
}

/// Refuses rules that `owned` does not cover.
fn confirm(user: &User, owned: &UserRules, asked: &[PolicyRule]) -> Result<(), Refusal> {
    let own = Rules::new(&owned.rules);
    let rules: Vec<&Rules> = std::iter::once(&own).chain(owned.prepared()).collect();
    let lacking = match covers(&rules, asked) {
        Ok(()) => return Ok(()),
        Err(Uncovered::TooMany) => {
            return Err(Refusal::Forbidden(
                "the role, or what the user may do, has too many rights to be compared".to_owned(),
            ));
        }
        Err(Uncovered::Rights(rights)) => rights,
    };
    let mut shown: Vec<String> = merged(lacking).iter().map(shown).collect();
    shown.sort();
    let (name, groups) = (&user.name, quoted(&user.groups));
    let mut text = format!(
        "user {name:?} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}",
        shown.join("\n")
    );
    let faults = owned.faults.join(", ");
    // Writing to a text cannot fail. As in the reference, several faults are a list in a list.
    let _ = match owned.faults.len() {
        0 => Ok(()),
        1 => write!(text, "; resolution errors: [{faults}]"),
        _ => write!(text, "; resolution errors: [[{faults}]]"),
    };
    Err(Refusal::Forbidden(text))
}

/// Single rights, those that differ only in their verb as one rule.
fn merged(rights: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut rules: Vec<PolicyRule> = Vec::new();
    for mut right in rights {
        let is_like = |rule: &PolicyRule| {
            (&rule.api_groups, &rule.resources, &rule.resource_names, &rule.non_resource_urls)
                == (&right.api_groups, &right.resources, &right.resource_names, &right.non_resource_urls)
        };
        // few: the rights that a refusal lists.
        match rules.iter_mut().find(|rule| rule.non_resource_urls.is_empty() && is_like(rule)) {
            Some(rule) => rule.verbs.append(&mut right.verbs),
            None => rules.push(right),
        }
    }
    rules
}

/// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`
fn shown(rule: &PolicyRule) -> String {
    let members = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let given = members.into_iter().filter(|(_, texts)| !texts.is_empty());
    let parts: Vec<String> = given.map(|(name, texts)| format!("{name}:{}", quoted(texts))).collect();
    format!("{{{}}}", parts.join(", "))
}

fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{:?}", text.as_ref())).collect();
    format!("[{}]", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::admission::testing::{Objects, attributes};

    /// The outcome of a write by `ann`, who has the rules `owned`, in a namespace where a role `all` grants everything.
    fn written(owned: &Value, storage: &str, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        let user = User { name: "ann".to_owned(), groups: vec!["devs".to_owned()], ..User::default() };
        let gate = crate::testing::gate();
        let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
        let binding = json!({
            "roleRef": {"kind": "Role", "name": "own"}, "subjects": [{"kind": "User", "name": "ann"}],
        });
        let objects = [
            (ROLES, "own", json!({"rules": owned.clone()})),
            (ROLES, "all", json!({"rules": all})),
            (ROLE_BINDINGS, "own", binding),
        ];
        let at = |(storage, name, object): (&str, &str, Value)| {
            ((storage.to_owned(), "ns".to_owned(), name.to_owned()), object)
        };
        let objects = Objects(objects.into_iter().map(at).collect());
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let asked = Attributes { user: &user, gate: &gate, old, ..attributes(storage, operation) };
        let view = objects.view("ns");
        let confirmed = confirm_rights(&asked, new, &view).now_or_never().expect("nobody else is asked");
        confirmed.map_err(|refused| refused.error)
    }

    fn right(verbs: Value, resources: Value) -> Value {
        json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
    }

    #[test]
    fn rights_beyond_the_own_are_listed_and_refused() {
        let owned = json!([right(json!(["get"]), json!(["pods", "secrets"]))]);
        let role = |rule: Value| json!({"metadata": {"name": "n"}, "rules": [rule]});
        let within = role(right(json!(["get"]), json!(["pods"])));
        let beyond = role(right(json!(["get", "list", "watch"]), json!(["pods"])));
        assert_eq!(written(&owned, ROLES, None, &within), Ok(()));
        let told = written(&owned, ROLES, None, &beyond).unwrap_err().to_string();
        let lacking = r#"{APIGroups:[""], Resources:["pods"], Verbs:["list" "watch"]}"#;
        let user = r#"user "ann" (groups=["devs"])"#;
        let what = format!("{user} is attempting to grant RBAC permissions not currently held:\n{lacking}");
        assert_eq!(told, format!(r#"roles.rbac.authorization.orch.io "n" is forbidden: {what}"#));
        assert!(written(&owned, ROLES, Some(&within), &beyond).is_err());
        let mut held = beyond.clone();
        orch_rules::validate::tree::set(&mut held["metadata"], "finalizers", json!(["a/b"]));
        assert_eq!(written(&owned, ROLES, Some(&beyond), &held), Ok(()), "it grants what it granted");
    }

    #[test]
    fn the_verbs_escalate_and_bind_stand_for_the_rights_themselves() {
        let rbac = |verb: &str, resource: &str| json!([{"verbs": [verb], "apiGroups": ["rbac.authorization.orch.io"], "resources": [resource]}]);
        let role = json!({"rules": [right(json!(["*"]), json!(["*"]))]});
        assert_eq!(written(&rbac("escalate", "roles"), ROLES, None, &role), Ok(()));
        assert!(written(&rbac("escalate", "clusterroles"), ROLES, None, &role).is_err());
        let own_group = "rbac.authorization.orch.io";
        let binding_in = |group: &str, name: &str| {
            json!({
                "metadata": {"generateName": "n"},
                "roleRef": {"apiGroup": group, "kind": "Role", "name": name}, "subjects": [],
            })
        };
        let binding = |name: &str| binding_in(own_group, name);
        assert_eq!(written(&rbac("bind", "roles"), ROLE_BINDINGS, None, &binding("all")), Ok(()));
        assert!(written(&rbac("bind", "clusterroles"), ROLE_BINDINGS, None, &binding("all")).is_err());
        let told = written(&json!([]), ROLE_BINDINGS, None, &binding("none")).unwrap_err();
        assert!(matches!(told, ApiError::NotFound(_)), "{told}");
        let elsewhere = binding_in("example.com", "all");
        let told = written(&rbac("bind", "roles"), ROLE_BINDINGS, None, &elsewhere).unwrap_err().to_string();
        let unnamed = r#"rolebindings.rbac.authorization.orch.io is forbidden: user "ann""#;
        assert!(told.starts_with(unnamed), "a right in one group is none in another: {told}");
    }

    #[test]
    fn an_aggregation_takes_all_rights() {
        let owned = json!([right(json!(["*"]), json!(["*"]))]);
        let role = |selectors: Value, rules: Value| {
            json!({
                "metadata": {"name": "n"}, "aggregationRule": {"clusterRoleSelectors": selectors}, "rules": rules,
            })
        };
        let gathering = role(json!([{"matchLabels": {"a": "b"}}]), json!([]));
        let refusal = r#"clusterroles.rbac.authorization.orch.io "n" is forbidden: must have cluster-admin privileges to use the aggregationRule"#;
        let told = |old: Option<&Value>, new: &Value| {
            written(&owned, CLUSTER_ROLES, old, new).map_err(|error| error.to_string())
        };
        assert_eq!(told(None, &gathering), Err(refusal.to_owned()));
        let plain = role(json!([]), json!([]));
        assert_eq!(told(None, &plain), Ok(()), "it gathers nothing");
        assert_eq!(told(Some(&gathering), &plain), Err(refusal.to_owned()), "what gathered is tightened");
        let beyond = role(json!([{}]), json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]));
        let told = told(None, &beyond).unwrap_err();
        assert!(told.contains("permissions not currently held"), "rules come first: {told}");
    }

    #[test]
    fn a_refusal_names_the_roles_that_were_not_found() {
        let user = User { name: "ann".to_owned(), ..User::default() };
        let asked = PolicyRule {
            verbs: vec!["get".into()],
            non_resource_urls: vec!["/metrics".into()],
            ..PolicyRule::default()
        };
        for (faults, shown) in [(&["a"][..], "[a]"), (&["a", "b"], "[[a, b]]")] {
            let faults = faults.iter().map(ToString::to_string).collect();
            let owned = UserRules { faults, ..UserRules::default() };
            let refused = confirm(&user, &owned, std::slice::from_ref(&asked));
            let Err(Refusal::Forbidden(told)) = refused else { panic!("a right that nobody has") };
            assert!(told.ends_with(&format!("; resolution errors: {shown}")), "{told}");
        }
    }
}
