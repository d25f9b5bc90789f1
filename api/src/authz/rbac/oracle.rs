//! The authorizer against a slow and obvious oracle, on random roles, bindings, users and requests.
//!
//! Owns the random clusters: small alphabets, so that what is asked is often granted, and changes that follow one
//! another, so that the prepared view is brought up to date rather than derived anew.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::tests::{Cluster, allowed};
use super::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use crate::authn::User;
use crate::authz::{Attributes, ResourceAttributes};

/// Cases of one run. `PROPTEST_CASES` overrides it.
const CASES: u32 = 100_000;

/// One object that is written, or removed where it is `None`.
type Change = (&'static str, &'static str, Option<Json>);

fn texts(from: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(from), 0..=most)
}

fn rule() -> impl Strategy<Value = Json> {
    let resources = texts(&["pods", "pods/log", "*/log", "*", "nodes", "log"], 2);
    let urls = texts(&["/a", "/a/*", "*", "/a*", "/b/c"], 2);
    let (verbs, groups) = (texts(&["get", "list", "*"], 2), texts(&["", "apps", "*"], 2));
    (verbs, groups, resources, texts(&["x", "y", ""], 2), urls, any::<bool>()).prop_map(
        |(verbs, groups, resources, names, urls, is_of_resources)| match is_of_resources {
            true => {
                json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
            }
            false => json!({"verbs": verbs, "nonResourceURLs": urls}),
        },
    )
}

fn role() -> impl Strategy<Value = Json> {
    prop::collection::vec(rule(), 0..3).prop_map(|rules| json!({"rules": rules}))
}

fn binding(kinds: &'static [&'static str]) -> impl Strategy<Value = Json> {
    let subject = (
        prop::sample::select(&["User", "Group", "ServiceAccount", "Robot"][..]),
        prop::sample::select(&["ann", "devs", "bot"][..]),
        prop::sample::select(&["", "n", "m"][..]),
    );
    let subject = subject.prop_map(|(kind, name, of)| json!({"kind": kind, "name": name, "namespace": of}));
    let role = (prop::sample::select(kinds), prop::sample::select(&["r", "s"][..]));
    (prop::collection::vec(subject, 0..3), role).prop_map(
        |(subjects, (kind, name))| json!({"subjects": subjects, "roleRef": {"kind": kind, "name": name}}),
    )
}

fn change() -> impl Strategy<Value = Change> {
    let gone = |object: BoxedStrategy<Json>| prop::option::weighted(0.8, object);
    let at = |paths: &'static [&'static str]| prop::sample::select(paths);
    prop_oneof![
        (at(&["r", "s"]), gone(role().boxed())).prop_map(|(path, object)| (CLUSTER_ROLES, path, object)),
        (at(&["n/r", "m/s"]), gone(role().boxed())).prop_map(|(path, object)| (ROLES, path, object)),
        (at(&["b", "c"]), gone(binding(&["ClusterRole"]).boxed())).prop_map(|(path, object)| (
            CLUSTER_ROLE_BINDINGS,
            path,
            object
        )),
        (at(&["n/b", "m/b"]), gone(binding(&["ClusterRole", "Role"]).boxed())).prop_map(|(path, object)| (
            ROLE_BINDINGS,
            path,
            object
        )),
    ]
}

/// The rules of the reference, written down without any preparation.
fn is_allowed(objects: &[Change], user: &User, asked: Attributes<'_>) -> bool {
    let latest = |kind: &str, path: &str| {
        let found = objects.iter().rev().find(|(of, at, _)| *of == kind && *at == path);
        found.and_then(|(_, _, object)| object.clone())
    };
    let namespace = match asked {
        Attributes::Resource(asked) => asked.namespace,
        Attributes::Path { .. } => "",
    };
    let mut bindings: Vec<(String, Json)> = ["b", "c"]
        .iter()
        .filter_map(|at| Some((String::new(), latest(CLUSTER_ROLE_BINDINGS, at)?)))
        .collect();
    if !namespace.is_empty() {
        let path = format!("{namespace}/b");
        bindings.extend(latest(ROLE_BINDINGS, &path).map(|binding| (namespace.to_owned(), binding)));
    }
    bindings.iter().any(|(of, binding)| {
        let touches = list(binding, "subjects").iter().any(|subject| is_subject(subject, of, user));
        let name = binding["roleRef"]["name"].as_str().unwrap();
        let role = match binding["roleRef"]["kind"].as_str() {
            Some("Role") => latest(ROLES, &format!("{of}/{name}")),
            _ => latest(CLUSTER_ROLES, name),
        };
        touches && role.is_some_and(|role| list(&role, "rules").iter().any(|rule| matches(rule, asked)))
    })
}

fn list(object: &Json, member: &str) -> Vec<Json> {
    object[member].as_array().cloned().unwrap_or_default()
}

fn is_subject(subject: &Json, of: &str, user: &User) -> bool {
    let name = subject["name"].as_str().unwrap();
    match subject["kind"].as_str() {
        Some("User") => user.name == name,
        Some("Group") => user.groups.iter().any(|group| group == name),
        Some("ServiceAccount") => {
            let own = subject["namespace"].as_str().unwrap();
            let namespace = if own.is_empty() { of } else { own };
            !namespace.is_empty() && user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

fn matches(rule: &Json, asked: Attributes<'_>) -> bool {
    let has = |member: &str, wanted: &str| list(rule, member).iter().any(|own| own == "*" || own == wanted);
    match asked {
        Attributes::Path { verb, path } => {
            let covers = |url: &str| match url.strip_suffix('*') {
                Some(beginning) => path.starts_with(beginning),
                None => url == path,
            };
            has("verbs", verb)
                && list(rule, "nonResourceURLs").iter().any(|url| covers(url.as_str().unwrap()))
        }
        Attributes::Resource(asked) => {
            let names = list(rule, "resourceNames");
            let of_all = !asked.subresource.is_empty()
                && list(rule, "resources").iter().any(|own| own == &format!("*/{}", asked.subresource));
            has("verbs", asked.verb)
                && has("apiGroups", asked.group)
                && (has("resources", &asked.qualified()) || of_all)
                && (names.is_empty() || names.iter().any(|name| name == asked.name))
        }
    }
}

fn attributes() -> impl Strategy<Value = Attributes<'static>> {
    let one_of = |texts: &'static [&'static str]| prop::sample::select(texts);
    let path = (one_of(&["get", "list"]), one_of(&["/a", "/a/b", "/ab", "/b/c", "/"]));
    let resource = (
        one_of(&["get", "list", "watch"]),
        one_of(&["", "apps"]),
        one_of(&["pods", "nodes"]),
        one_of(&["", "log"]),
        one_of(&["", "n", "m"]),
        one_of(&["", "x", "z"]),
    );
    prop_oneof![
        1 => path.prop_map(|(verb, path)| Attributes::Path { verb, path }),
        3 => resource.prop_map(|(verb, group, resource, subresource, namespace, name)| {
            let unselected = ResourceAttributes::default();
            Attributes::Resource(ResourceAttributes {
                verb, group, resource, subresource, namespace, name, ..unselected
            })
        }),
    ]
}

fn user() -> impl Strategy<Value = User> {
    let names = &["ann", "system:serviceaccount:n:bot", "system:serviceaccount:m:bot"][..];
    (prop::sample::select(names), texts(&["devs", "ann"], 2)).prop_map(|(name, groups)| User {
        name: name.to_owned(),
        groups: groups.into_iter().map(str::to_owned).collect(),
        ..User::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, ..ProptestConfig::default() })]

    #[test]
    fn decisions_are_those_of_the_oracle(
        changes in prop::collection::vec(change(), 0..8),
        questions in prop::collection::vec((user(), attributes()), 1..6),
    ) {
        let mut cluster = Cluster::default();
        for (at, (kind, path, object)) in changes.iter().enumerate() {
            cluster.write(kind, path, object.clone());
            // Brings the view up to date now and then, so that changes are taken in one by one and together.
            if at % 2 == 0 {
                let (user, asked) = &questions[0];
                prop_assert_eq!(allowed(&cluster, user, *asked), is_allowed(&changes[..=at], user, *asked));
            }
        }
        for (user, asked) in &questions {
            prop_assert_eq!(allowed(&cluster, user, *asked), is_allowed(&changes, user, *asked));
        }
    }
}
