//! The level that rules of a policy give to requests.

use super::super::stage::Stage;
use super::*;

fn policy(rules: &str) -> Policy {
    Policy::parse(&format!("apiVersion: audit.orch.io/v1\nkind: Policy\n{rules}")).unwrap()
}

fn resource<'a>(verb: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Attributes<'a> {
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let asked = ResourceAttributes {
        verb,
        group,
        version: "v1",
        resource,
        subresource,
        namespace,
        name,
        ..ResourceAttributes::default()
    };
    Attributes::Resource(asked)
}

fn user(name: &str, groups: &[&str]) -> User {
    let groups = groups.iter().map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}

#[test]
fn a_rule_matches_by_all_that_it_names() {
    let ann = user("ann", &["devs", "ops"]);
    let pod = resource("get", "pods", "ns", "p");
    let log = resource("get", "pods/log", "ns", "p");
    let scale = resource("update", "deployments/scale.apps", "ns", "d");
    let node = resource("get", "nodes", "", "n");
    let path = |path| Attributes::Path { verb: "get", path };
    for (rule, attributes, matches) in [
        ("{}", pod, true),
        ("{}", path("/healthz"), true),
        ("{users: [bob, ann]}", pod, true),
        ("{users: [bob]}", pod, false),
        ("{userGroups: [ops]}", pod, true),
        ("{userGroups: [admins]}", pod, false),
        ("{users: [ann], userGroups: [admins]}", pod, false),
        ("{verbs: [get]}", pod, true),
        ("{verbs: [list]}", pod, false),
        ("{verbs: [get]}", path("/x"), true),
        ("{namespaces: [ns]}", pod, true),
        ("{namespaces: [other]}", pod, false),
        ("{namespaces: [\"\"]}", node, true),
        ("{namespaces: [\"\"]}", pod, false),
        ("{namespaces: [ns]}", path("/x"), false),
        ("{resources: [{}]}", pod, true),
        ("{resources: [{}]}", log, true),
        ("{resources: [{}]}", scale, false),
        ("{resources: [{group: apps}]}", scale, true),
        ("{resources: [{}]}", path("/x"), false),
        ("{resources: [{resources: [pods]}]}", pod, true),
        ("{resources: [{resources: [pods]}]}", log, false),
        ("{resources: [{resources: [pods/log]}]}", log, true),
        ("{resources: [{resources: [pods/log]}]}", pod, false),
        ("{resources: [{resources: [pods/*]}]}", log, true),
        ("{resources: [{resources: [pods/*]}]}", pod, true),
        ("{resources: [{resources: [secrets/*]}]}", pod, false),
        ("{resources: [{resources: ['*/log']}]}", log, true),
        ("{resources: [{resources: ['*/log']}]}", pod, false),
        ("{resources: [{resources: ['*/*']}]}", log, false),
        ("{resources: [{resources: ['*']}]}", log, true),
        ("{resources: [{group: apps, resources: ['*/scale']}]}", scale, true),
        ("{resources: [{resources: [secrets]}, {resources: [pods]}]}", pod, true),
        ("{resources: [{resources: [pods], resourceNames: [p]}]}", pod, true),
        ("{resources: [{resources: [pods], resourceNames: [q]}]}", pod, false),
        ("{nonResourceURLs: [/healthz*]}", path("/healthz/ping"), true),
        ("{nonResourceURLs: [/healthz]}", path("/healthz/ping"), false),
        ("{nonResourceURLs: ['*']}", path("/x"), true),
        ("{nonResourceURLs: ['*']}", pod, false),
    ] {
        let rule = rule.replacen('{', "{level: Metadata, ", 1);
        let found = policy(&format!("rules: [{rule}]")).decide(Some(&ann), attributes).level;
        let expected = if matches { Level::Metadata } else { Level::None };
        assert_eq!(found, expected, "{rule} on {attributes:?}");
    }
}

#[test]
fn the_first_rule_that_matches_decides_with_the_settings_of_the_file() {
    let policy = policy(
        "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
         - {level: None, users: [probe]}\n\
         - {level: Request, verbs: [create], omitStages: [ResponseStarted], omitManagedFields: false}\n\
         - {level: Metadata}\n",
    );
    let pod = |verb| resource(verb, "pods", "ns", "");
    let (probe, ann) = (user("probe", &[]), user("ann", &[]));
    assert_eq!(policy.decide(Some(&probe), pod("create")).level, Level::None);
    let create = policy.decide(Some(&ann), pod("create"));
    assert_eq!((create.level, create.omits_managed_fields), (Level::Request, false));
    assert!(create.omitted.has(Stage::RequestReceived) && create.omitted.has(Stage::ResponseStarted));
    let list = policy.decide(Some(&ann), pod("list"));
    assert_eq!((list.level, list.omits_managed_fields), (Level::Metadata, true));
    assert!(list.omitted.has(Stage::RequestReceived) && !list.omitted.has(Stage::ResponseStarted));
    let nobody = policy.decide(None, pod("list"));
    assert_eq!(nobody.level, Level::Metadata, "refused credentials match rules without users");
}

#[test]
fn a_wrong_policy_is_refused_by_its_field() {
    let head = "apiVersion: audit.orch.io/v1\nkind: Policy\n";
    for (text, expected) in [
        ("apiVersion: audit.orch.io/v2\nkind: Policy\nrules: [{level: None}]\n", "apiVersion: "),
        ("apiVersion: audit.orch.io/v1\nkind: Rules\nrules: [{level: None}]\n", "kind: "),
        (&format!("{head}rules: []\n"), "rules: "),
        ("kind: Policy\nrules: [{level: None}]\n", "apiVersion: \"\" is not audit.orch.io/v1 or "),
        (&format!("{head}rule: []\n"), "unknown field `rule`"),
        (&format!("{head}rules: [{{level: None, user: [ann]}}]\n"), "unknown field `user`"),
        (&format!("{head}rules: [{{users: [ann]}}]\n"), "rules[0].level: required"),
        (&format!("{head}rules: [{{level: None}}, {{level: All}}]\n"), "rules[1].level: \"All\" is no level"),
        (&format!("{head}omitStages: [Never]\nrules: [{{level: None}}]\n"), "omitStages[0]: \"Never\""),
        (&format!("{head}rules: [{{level: None, omitStages: [Never]}}]\n"), "rules[0].omitStages[0]: "),
        (
            &format!("{head}rules: [{{level: None, nonResourceURLs: [healthz]}}]\n"),
            "rules[0].nonResourceURLs[0]: ",
        ),
        (
            &format!("{head}rules: [{{level: None, nonResourceURLs: ['/a*b']}}]\n"),
            "rules[0].nonResourceURLs[0]: ",
        ),
        (
            &format!("{head}rules: [{{level: None, nonResourceURLs: [/a], namespaces: [ns]}}]\n"),
            "rules[0].nonResourceURLs: rules cannot apply to both",
        ),
        (
            &format!("{head}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]\n"),
            "rules[0].resources[0].resourceNames: ",
        ),
        (
            &format!("{head}rules: [{{level: None, resources: [{{group: Apps}}]}}]\n"),
            "rules[0].resources[0].group: ",
        ),
    ] {
        let error = Policy::parse(text).unwrap_err().to_string();
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{text}: {error}");
    }
}

#[test]
fn a_policy_of_the_reference_is_read() {
    let text = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: example}
omitStages: ["RequestReceived"]
rules:
  - level: RequestResponse
    resources: [{group: "", resources: ["pods"]}]
  - level: None
    users: ["system:kube-proxy"]
    verbs: ["watch"]
    resources: [{group: "", resources: ["endpoints", "services"]}]
  - level: None
    userGroups: ["system:authenticated"]
    nonResourceURLs: ["/api*", "/version"]
  - level: Metadata
"#;
    let policy = Policy::parse(text).unwrap();
    let ann = user("ann", &["system:authenticated"]);
    let of = |attributes| policy.decide(Some(&ann), attributes).level;
    assert_eq!(of(resource("get", "pods", "ns", "p")), Level::RequestResponse);
    assert_eq!(of(resource("get", "pods/log", "ns", "p")), Level::Metadata);
    assert_eq!(of(Attributes::Path { verb: "get", path: "/apis/apps" }), Level::None);
    assert_eq!(of(Attributes::Path { verb: "get", path: "/livez" }), Level::Metadata);
}
