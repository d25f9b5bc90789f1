//! Decisions by stored roles and bindings, and their texts.

use std::sync::{Arc, OnceLock};

use orch_proto::brand::ORCH;
use orch_raft::object::{Index, Object, SharedObject};
use orch_raft::{Change, Revision};
use orch_rules::validate::tree::Tree;
use serde_json::{Value as Json, json};

use super::*;
use crate::authz::ResourceAttributes;
use crate::follow::Derived;

/// A policy, with what was written to it.
#[derive(Default)]
pub(super) struct Cluster {
    policy: Policy,
    written: u64,
}

impl Cluster {
    pub(super) fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Writes the object under `path`, or removes it.
    pub(super) fn write(&mut self, kind: &str, path: &str, object: Option<Json>) {
        self.written += 1;
        let revision = Revision(self.written);
        let new = object.map(|object| stored(&object, revision));
        let change = Change { revision, time_ms: 0, path: path.into(), old: None, new };
        self.policy.change(&kind.into(), &change);
    }

    fn grant(&mut self, name: &str, rules: &Json, user: &str) {
        self.write(CLUSTER_ROLES, name, Some(json!({"rules": rules})));
        let binding = json!({
            "roleRef": {"kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": user}],
        });
        self.write(CLUSTER_ROLE_BINDINGS, name, Some(binding));
    }

    fn reason(&self, user: &User, asked: Attributes<'_>) -> Option<String> {
        find(&self.policy, user, asked, &mut Vec::new()).map(|grant| grant.to_string())
    }
}

fn stored(object: &Json, revision: Revision) -> SharedObject {
    Arc::new(Object {
        revision,
        created: revision,
        written_ms: 0,
        json: object.to_string().into(),
        revision_at: 0,
        index: Index::default(),
        protobuf: OnceLock::new(),
    })
}

pub(super) fn allowed(cluster: &Cluster, user: &User, asked: Attributes<'_>) -> bool {
    find(&cluster.policy, user, asked, &mut Vec::new()).is_some()
}

fn user(name: &str) -> User {
    User { name: name.to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
}

fn get_pod(namespace: &'static str) -> Attributes<'static> {
    let asked =
        ResourceAttributes { verb: "get", resource: "pods", namespace, name: "p", ..Default::default() };
    Attributes::Resource(asked)
}

#[test]
fn reasons_name_binding_role_and_subject() {
    let mut cluster = Cluster::default();
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    cluster.grant("reader", &rules, "ann");
    let told = r#"RBAC: allowed by ClusterRoleBinding "reader" of ClusterRole "reader" to User "ann""#;
    assert_eq!(cluster.reason(&user("ann"), get_pod("n")).as_deref(), Some(told));
    cluster.write(ROLES, "n/r", Some(json!({"rules": rules})));
    let binding = json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "bot"}, {"kind": "Group", "name": "devs"}],
    });
    cluster.write(ROLE_BINDINGS, "n/b", Some(binding));
    let bot = User { name: "system:serviceaccount:n:bot".to_owned(), ..User::default() };
    let told = r#"RBAC: allowed by RoleBinding "b/n" of Role "r" to ServiceAccount "bot/n""#;
    assert_eq!(cluster.reason(&bot, get_pod("n")).as_deref(), Some(told));
    assert_eq!(cluster.reason(&bot, get_pod("m")), None, "the binding is of one namespace");
    let told = r#"RBAC: allowed by RoleBinding "b/n" of Role "r" to Group "devs""#;
    assert_eq!(cluster.reason(&user("tom"), get_pod("n")).as_deref(), Some(told));
    let both = json!({
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "tom"}, {"kind": "Group", "name": "devs"}, {"kind": "User", "name": "ann"}],
    });
    cluster.write(ROLE_BINDINGS, "m/both", Some(both));
    cluster.write(ROLES, "m/r", Some(json!({"rules": rules})));
    cluster.write(CLUSTER_ROLE_BINDINGS, "reader", None);
    for (name, told) in [("tom", r#"User "tom""#), ("ann", r#"Group "devs""#), ("jim", r#"Group "devs""#)] {
        let reason = cluster.reason(&user(name), get_pod("m")).unwrap();
        assert!(reason.ends_with(told), "{name} has the right by the first subject that applies: {reason}");
    }
}

#[test]
fn a_decision_that_was_prepared_ends_with_each_of_its_objects() {
    let rules = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
    let mut cluster = Cluster::default();
    let ann = user("ann");
    let decide = |cluster: &Cluster| (0..2).map(|_| allowed(cluster, &ann, get_pod("n"))).collect::<Vec<_>>();
    assert_eq!(decide(&cluster), [false; 2]);
    cluster.grant("reader", &rules, "ann");
    assert_eq!(decide(&cluster), [true; 2]);
    cluster.write(CLUSTER_ROLES, "reader", None);
    assert_eq!(decide(&cluster), [false; 2]);
    cluster.write(CLUSTER_ROLES, "reader", Some(json!({"rules": rules})));
    assert_eq!(decide(&cluster), [true; 2]);
    cluster.write(CLUSTER_ROLE_BINDINGS, "reader", None);
    assert_eq!(decide(&cluster), [false; 2]);
}

#[test]
fn namespaces_that_clients_invent_share_what_is_prepared() {
    let mut cluster = Cluster::default();
    cluster.grant("reader", &json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]), "ann");
    let first = cluster.policy().resolved(&user("ann"), "");
    for number in 0..100 {
        let invented = cluster.policy().resolved(&user("ann"), &format!("n{number}"));
        assert!(Arc::ptr_eq(&first, &invented));
    }
}

/// Objects that a user of a cluster may write must not make decisions about others slow: a subject that a binding repeats, many
/// bindings of a large role, and many rules that differ in a name.
#[test]
fn a_decision_looks_at_a_subject_a_binding_and_a_large_role_once() {
    let mut cluster = Cluster::default();
    let rule = |name: usize| json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [format!("p{name}")]});
    let rules: Vec<Json> = (0..1000).map(rule).collect();
    cluster.write(ROLES, "n/large", Some(json!({"rules": rules})));
    for binding in 0..10 {
        let subjects = vec![json!({"kind": "Group", "name": "devs"}); 1000];
        let binding_of = json!({"roleRef": {"kind": "Role", "name": "large"}, "subjects": subjects});
        cluster.write(ROLE_BINDINGS, &format!("n/b{binding}"), Some(binding_of));
    }
    let mut visits = 0;
    cluster.policy().visit(&user("ann"), "n", |_, _| {
        visits += 1;
        true
    });
    assert_eq!(visits, 1);
    let asked = |name| ResourceAttributes {
        verb: "get",
        resource: "pods",
        namespace: "n",
        name,
        ..Default::default()
    };
    for (name, allowed) in [("p0", true), ("p999", true), ("p1000", false), ("", false)] {
        let reason = cluster.reason(&user("ann"), Attributes::Resource(asked(name)));
        assert_eq!(reason.is_some(), allowed, "{name}");
    }
    let role = cluster.policy().role(&("n".into(), "large".into())).unwrap();
    assert_eq!(
        (role.stored().len(), role.prepared().count()),
        (1000, 1),
        "rules that differ in names are matched as one"
    );
    for binding in 0..10 {
        cluster.write(ROLE_BINDINGS, &format!("n/b{binding}"), None);
    }
    cluster.write(ROLES, "n/large", None);
    assert_eq!(cluster.policy().extent().0, 0, "nothing is left of them");
}

/// Bytes that the policy holds for each byte stored of `objects`, in thousandths.
fn held_permille(objects: &[(&str, String, Json)]) -> usize {
    let mut cluster = Cluster::default();
    let stored: usize = objects.iter().map(|(_, _, object)| object.to_string().len()).sum();
    for (kind, path, object) in objects {
        cluster.write(kind, path, Some(object.clone()));
    }
    cluster.policy().bytes() * 1000 / stored
}

/// Objects that a user of a namespace may write take no multiple of their stored bytes in the view that decisions read: before, a
/// subject took two kilobytes and a text of a rule 56 bytes.
#[test]
fn roles_and_bindings_hold_about_the_bytes_that_are_stored_of_them() {
    let subject = |at: usize| json!({"apiGroup": "rbac.authorization.orch.io", "kind": "User", "name": format!("{at:x}")});
    let account = |at: usize| json!({"kind": "ServiceAccount", "name": format!("{at:x}")});
    let binding = |subjects: Vec<Json>| json!({"roleRef": {"apiGroup": "rbac.authorization.orch.io", "kind": "Role", "name": "r"}, "subjects": subjects});
    let rule = |at: usize| json!({"apiGroups": [""], "resources": [format!("{:x}", at / 16)], "verbs": [format!("{:x}", at % 16)]});
    let names: Vec<String> = (0..100_000).map(|at| format!("{at:x}")).collect();
    let repeated = |count: usize| (0..count).map(|at| format!("n/b{at}"));
    let metadata = json!({"name": "b", "namespace": "n", "resourceVersion": "123456", "uid": "0f8fad5b-d9cb-469f-a165-70867728950e"});
    let mut small = binding(vec![account(1)]);
    small["metadata"] = metadata;
    for (objects, permille) in [
        (vec![(ROLE_BINDINGS, "n/users".to_owned(), binding((0..20_000).map(subject).collect()))], 1000),
        // The table is at its emptiest: it has just grown.
        (vec![(ROLE_BINDINGS, "n/accounts".to_owned(), binding((0..14_400).map(account).collect()))], 1500),
        (
            repeated(2)
                .map(|path| (ROLE_BINDINGS, path, binding((0..14_000).map(account).collect())))
                .collect(),
            1500,
        ),
        (repeated(1000).map(|path| (ROLE_BINDINGS, path, small.clone())).collect(), 1200),
        (
            vec![(ROLES, "n/rules".to_owned(), json!({"rules": (0..10_000).map(rule).collect::<Vec<_>>()}))],
            1000,
        ),
        (
            vec![(
                ROLES,
                "n/names".to_owned(),
                json!({"rules": [{"apiGroups": [""], "resourceNames": names, "resources": ["a"], "verbs": ["b"]}]}),
            )],
            1800,
        ),
    ] {
        let held = held_permille(&objects);
        assert!(held <= permille, "{}: {held} thousandths", objects[0].1);
    }
}

#[test]
fn bindings_that_go_leave_nothing_behind() {
    let mut cluster = Cluster::default();
    let subjects: Vec<Json> =
        (0..10_000).map(|at| json!({"kind": "User", "name": format!("u{at}")})).collect();
    let paths: Vec<String> = (0..4).map(|at| format!("n/b{at}")).collect();
    for path in &paths {
        let binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": subjects});
        cluster.write(ROLE_BINDINGS, path, Some(binding));
    }
    let full = cluster.policy().bytes();
    for path in &paths {
        cluster.write(ROLE_BINDINGS, path, None);
    }
    assert!(cluster.policy().bytes() * 20 < full, "{} of {full}", cluster.policy().bytes());
    assert_eq!(cluster.policy().extent().0, 0);
}

/// Ten thousand small bindings of namespaces of their own to roles that exist, or not.
#[test]
fn ten_thousand_small_bindings_that_go_leave_their_room() {
    let mut cluster = Cluster::default();
    cluster.grant("stays", &json!([]), "ann");
    let before = cluster.policy().bytes();
    let paths: Vec<String> = (0..10_000).map(|at| format!("n{at}/b")).collect();
    for (at, path) in paths.iter().enumerate() {
        let subjects = json!([{"kind": "User", "name": format!("u{at}")}, {"kind": "Group", "name": "all"}]);
        let role = json!({"kind": "Role", "name": format!("r{at}")});
        cluster.write(ROLE_BINDINGS, path, Some(json!({"roleRef": role, "subjects": subjects})));
    }
    let full = cluster.policy().bytes();
    // The policy is brought up change by change, and not derived anew.
    for (at, path) in paths.iter().enumerate() {
        cluster.write(ROLE_BINDINGS, path, None);
        if at % 200 == 0 {
            cluster.policy();
        }
    }
    let after = cluster.policy().bytes();
    assert!(full > 1_000_000 && after < before + 100_000, "{before}, {full}, {after}");
}

#[test]
fn numbers_of_roles_that_nobody_names_are_used_again() {
    let mut cluster = Cluster::default();
    for at in 0..100 {
        let name = format!("r{at}");
        cluster.grant(&name, &json!([]), "ann");
        cluster.write(CLUSTER_ROLES, &name, None);
        cluster.write(CLUSTER_ROLE_BINDINGS, &name, None);
    }
    assert_eq!(cluster.policy.extent(), (0, 0), "no role is left, nor the room of one");
}

#[test]
fn a_refusal_names_roles_that_are_missing() {
    let mut cluster = Cluster::default();
    for name in ["a", "b"] {
        cluster.grant(name, &json!([]), "ann");
    }
    cluster.write(CLUSTER_ROLES, "a", None);
    let remark = |cluster: &Cluster| {
        let mut missing = Vec::new();
        assert!(find(&cluster.policy, &user("ann"), get_pod("n"), &mut missing).is_none());
        Rbac::new(&ORCH).remark(&missing)
    };
    let a = r#"clusterrole.rbac.authorization.orch.io "a" not found"#;
    assert_eq!(remark(&cluster), format!("RBAC: {a}"));
    cluster.write(CLUSTER_ROLES, "b", None);
    assert_eq!(remark(&cluster), format!("RBAC: [{a}, {}]", a.replace("\"a\"", "\"b\"")));
}

#[test]
fn rules_are_compared_right_by_right() {
    let parse = |rules: Json| serde_json::from_value::<Vec<PolicyRule>>(rules).unwrap();
    let pods = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]});
    for (owned, asked, lacking) in [
        (json!([pods(&["get"]), pods(&["list"])]), json!([pods(&["get", "list"])]), 0),
        (json!([pods(&["get"])]), json!([pods(&["get", "list"])]), 1),
        (json!([pods(&["*"])]), json!([pods(&["get", "anything"])]), 0),
        (json!([pods(&["get"])]), json!([pods(&["*"])]), 1),
        (
            json!([{"verbs": ["get"], "apiGroups": ["*"], "resources": ["*/status"]}]),
            json!([{"verbs": ["get"], "apiGroups": ["apps"], "resources": ["pods/status", "pods"]}]),
            1,
        ),
        (
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}]),
            json!([pods(&["get"])]),
            1,
        ),
        (
            json!([{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]),
            json!([{"verbs": ["get"], "nonResourceURLs": ["/a/b", "/a/*", "/c"]}]),
            1,
        ),
    ] {
        let missing = match covers(&[&Rules::new(&parse(owned.clone()))], &parse(asked.clone())) {
            Ok(()) => 0,
            Err(Uncovered::Rights(rights)) => rights.len(),
            Err(Uncovered::TooMany) => panic!("a small role"),
        };
        assert_eq!(missing, lacking, "{asked} by {owned}");
    }
    let many: Vec<String> = (0..400).map(|number| number.to_string()).collect();
    let huge = json!([{"verbs": many, "apiGroups": many, "resources": ["pods"]}]);
    assert_eq!(covers(&[], &parse(huge)), Err(Uncovered::TooMany));
}

/// Before, a writer with many rights of names could write no role, though the first of their rules covered it.
#[test]
fn rights_are_compared_with_those_of_users_who_have_very_many() {
    let names: Vec<String> = (0..50_000).map(|number| format!("n{number}")).collect();
    let get = |names: &Json| {
        let rule =
            json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names}]);
        serde_json::from_value::<Vec<PolicyRule>>(rule).unwrap()
    };
    let many = Rules::new(&get(&json!(names)));
    let own = [&many; 20];
    assert_eq!(covers(&own, &get(&json!(["n7", "n49999"]))), Ok(()));
    assert!(
        matches!(covers(&own, &get(&json!(["n7", "m"]))), Err(Uncovered::Rights(rights)) if rights.len() == 1)
    );
    assert!(matches!(covers(&own, &get(&json!([]))), Err(Uncovered::Rights(_))), "all objects, not none");
}

/// Watches keep their reasons. Before, each kept the version of the binding that allowed it.
#[test]
fn a_reason_holds_no_binding() {
    let mut cluster = Cluster::default();
    cluster.grant("r", &json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]), "ann");
    let subjects = json!([{"kind": "Group", "name": "x"}, {"kind": "User", "name": "ann"}]);
    let binding = json!({"roleRef": {"kind": "ClusterRole", "name": "r"}, "subjects": subjects});
    let object = stored(&binding, Revision(9));
    let mut change =
        Change { revision: Revision(9), time_ms: 0, path: "r".into(), old: None, new: Some(object.clone()) };
    cluster.policy.change(&CLUSTER_ROLE_BINDINGS.into(), &change);
    let ann = User { name: "ann".to_owned(), ..User::default() };
    let reason = find(&cluster.policy, &ann, get_pod("n"), &mut Vec::new()).unwrap();
    drop(change.new.take());
    cluster.policy.change(&CLUSTER_ROLE_BINDINGS.into(), &change);
    assert_eq!(Arc::strong_count(&object), 1);
    assert!(reason.to_string().ends_with("to User \"ann\""), "{reason}");
}

#[test]
fn a_review_reads_each_role_once_and_of_large_ones_a_few() {
    let (rbac, ann) = (Rbac::new(&ORCH), user("ann"));
    let mut cluster = Cluster::default();
    let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]});
    let labels = "x".repeat(1 << 20);
    let large = |rules: Json| json!({"rules": rules, "metadata": {"labels": {"a": labels}}});
    let binding = |role: usize| {
        json!({
            "roleRef": {"kind": "Role", "name": format!("r{role}")},
            "subjects": [{"kind": "User", "name": "ann"}],
        })
    };
    cluster.write(ROLES, "n/r0", Some(large(json!([rule]))));
    for number in 0..100 {
        cluster.write(ROLE_BINDINGS, &format!("n/a{number}"), Some(binding(0)));
    }
    let shown = |cluster: &Cluster| {
        let status = rbac.rules_in(&cluster.policy, &ann, "n").status();
        (status.items("resourceRules").len(), status.at("incomplete").as_bool())
    };
    assert_eq!(shown(&cluster), (100, Some(false)), "one hundred megabytes would be too many");
    for number in 1..=20 {
        cluster.write(ROLES, &format!("n/r{number}"), Some(large(json!([]))));
        cluster.write(ROLE_BINDINGS, &format!("n/b{number:02}"), Some(binding(number)));
    }
    cluster.write(ROLE_BINDINGS, "n/c", Some(binding(0)));
    assert_eq!(shown(&cluster), (100, Some(true)));
}

#[test]
fn a_role_with_null_lists_has_empty_ones() {
    let role: PolicyRule = serde_json::from_value(json!({"verbs": null, "apiGroups": null})).unwrap();
    assert_eq!(role, PolicyRule::default());
}
