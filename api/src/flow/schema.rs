//! Flow schemas as requests are matched against them.
//!
//! Owns parsing and matching. A schema matches by a rule of which a subject and a request rule match. Texts of a request
//! are compared with those of stored objects; nothing of the request is kept.

use http::HeaderValue;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

use crate::authn::User;
use crate::authn::service_account_name::ServiceAccountName;
use crate::authz::{Attributes, ResourceAttributes};

const ALL: &str = "*";

/// A flow schema.
#[derive(Debug)]
pub(super) struct Schema {
    pub name: String,
    /// For the response's header; `None` for a schema that is not stored.
    pub uid: Option<HeaderValue>,
    pub level: String,
    /// Schemas are tried in ascending order of precedence, then of name.
    pub precedence: i64,
    distinguisher: Distinguisher,
    rules: Vec<Rule>,
}

/// The attribute of requests that tells the flows of a schema apart.
#[derive(Clone, Copy, Debug)]
enum Distinguisher {
    Nothing,
    User,
    Namespace,
}

#[derive(Debug)]
struct Rule {
    subjects: Vec<Subject>,
    resources: Vec<ResourceRule>,
    paths: Vec<PathRule>,
}

#[derive(Debug)]
enum Subject {
    User(String),
    Group(String),
    /// User names of the accounts of a namespace begin with `prefix`, and go on with `name`, or anything for `*`.
    ServiceAccount {
        prefix: String,
        name: String,
    },
}

#[derive(Debug)]
struct ResourceRule {
    verbs: Names,
    groups: Names,
    resources: Names,
    namespaces: Names,
    has_cluster_scope: bool,
}

#[derive(Debug)]
struct PathRule {
    verbs: Names,
    paths: Names,
}

/// A list of texts, or all texts.
#[derive(Debug)]
enum Names {
    All,
    These(Vec<String>),
}

impl Names {
    fn of(rule: &Value, field: &str) -> Names {
        let texts = rule.texts(field);
        // few: the texts of a stored rule.
        match texts.contains(&ALL) {
            true => Names::All,
            false => Names::These(texts.into_iter().map(str::to_owned).collect()),
        }
    }

    fn has(&self, is_it: impl Fn(&str) -> bool) -> bool {
        match self {
            Names::All => true,
            // few: the texts of a stored rule.
            Names::These(texts) => texts.iter().any(|text| is_it(text)),
        }
    }
}

impl Schema {
    /// The schema of a stored `object`.
    pub(super) fn of(object: &Value) -> Schema {
        let (metadata, spec) = (object.at("metadata"), object.at("spec"));
        Schema {
            name: metadata.text("name").to_owned(),
            uid: HeaderValue::from_str(metadata.text("uid")).ok().filter(|uid| !uid.is_empty()),
            level: spec.at("priorityLevelConfiguration").text("name").to_owned(),
            precedence: spec.int("matchingPrecedence").unwrap_or(i64::MAX),
            distinguisher: match spec.at("distinguisherMethod").text("type") {
                "ByUser" => Distinguisher::User,
                "ByNamespace" => Distinguisher::Namespace,
                _ => Distinguisher::Nothing,
            },
            rules: spec.items("rules").iter().map(Rule::of).collect(),
        }
    }

    /// Whether a request of `user` belongs to this schema.
    pub(super) fn matches(&self, user: &User, asked: Attributes<'_>) -> bool {
        // few: the rules of a stored schema.
        self.rules.iter().any(|rule| rule.matches(user, asked))
    }

    /// The name of the request's flow among the schema's flows.
    pub(super) fn distinguisher<'a>(&self, user: &'a User, asked: Attributes<'a>) -> &'a str {
        match (self.distinguisher, asked) {
            (Distinguisher::User, _) => &user.name,
            (Distinguisher::Namespace, Attributes::Resource(asked)) => asked.namespace,
            (Distinguisher::Namespace, Attributes::Path { .. }) | (Distinguisher::Nothing, _) => "",
        }
    }
}

impl Rule {
    fn of(rule: &Value) -> Rule {
        let resource = |rule: &Value| ResourceRule {
            verbs: Names::of(rule, "verbs"),
            groups: Names::of(rule, "apiGroups"),
            resources: Names::of(rule, "resources"),
            namespaces: Names::of(rule, "namespaces"),
            has_cluster_scope: rule.flag("clusterScope"),
        };
        let path = |rule: &Value| PathRule {
            verbs: Names::of(rule, "verbs"),
            paths: Names::of(rule, "nonResourceURLs"),
        };
        Rule {
            subjects: rule.items("subjects").iter().filter_map(Subject::of).collect(),
            resources: rule.items("resourceRules").iter().map(resource).collect(),
            paths: rule.items("nonResourceRules").iter().map(path).collect(),
        }
    }

    fn matches(&self, user: &User, asked: Attributes<'_>) -> bool {
        // few: the subjects and rules of a stored schema.
        self.subjects.iter().any(|subject| subject.matches(user))
            && match asked {
                Attributes::Resource(asked) => self.resources.iter().any(|rule| rule.matches(&asked)),
                Attributes::Path { verb, path } => self.paths.iter().any(|rule| rule.matches(verb, path)),
            }
    }
}

impl Subject {
    fn of(subject: &Value) -> Option<Subject> {
        match subject.text("kind") {
            "User" => Some(Subject::User(subject.at("user").text("name").to_owned())),
            "Group" => Some(Subject::Group(subject.at("group").text("name").to_owned())),
            "ServiceAccount" => {
                let account = subject.at("serviceAccount");
                let prefix =
                    ServiceAccountName { namespace: account.text("namespace"), name: "" }.user_name();
                Some(Subject::ServiceAccount { prefix, name: account.text("name").to_owned() })
            }
            _ => None,
        }
    }

    fn matches(&self, user: &User) -> bool {
        match self {
            Subject::User(name) => name == ALL || *name == user.name,
            Subject::Group(name) => name == ALL || user.is_in_group(name),
            Subject::ServiceAccount { prefix, name } => {
                let rest = user.name.strip_prefix(prefix.as_str());
                rest.is_some_and(|rest| name == ALL || rest == name)
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, asked: &ResourceAttributes<'_>) -> bool {
        let is_resource = |text: &str| match asked.subresource {
            "" => text == asked.resource,
            part => text.split_once('/') == Some((asked.resource, part)),
        };
        let is_in_scope = match asked.namespace {
            "" => self.has_cluster_scope,
            namespace => self.namespaces.has(|text| text == namespace),
        };
        is_in_scope
            && self.verbs.has(|text| text == asked.verb)
            && self.groups.has(|text| text == asked.group)
            && self.resources.has(is_resource)
    }
}

impl PathRule {
    fn matches(&self, verb: &str, path: &str) -> bool {
        let is_path = |text: &str| match text.strip_suffix('*') {
            Some(beginning) => path.starts_with(beginning),
            None => text == path,
        };
        self.verbs.has(|text| text == verb) && self.paths.has(is_path)
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    fn schema(subject: Value, rule: Value) -> Schema {
        let field = if rule.get("nonResourceURLs").is_some() { "nonResourceRules" } else { "resourceRules" };
        let rule = json!({"subjects": [subject], field: [rule]});
        Schema::of(&json!({"metadata": {"name": "a"}, "spec": {"rules": [rule]}}))
    }

    fn get<'a>(resource: &'a str, subresource: &'a str, namespace: &'a str) -> Attributes<'a> {
        let asked =
            ResourceAttributes { verb: "get", resource, subresource, namespace, ..Default::default() };
        Attributes::Resource(asked)
    }

    #[test]
    fn subjects_match_by_name_group_or_account() {
        let any = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]});
        let account = |name: &str| json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "n", "name": name}});
        let named = |name: &str| json!({"kind": "User", "user": {"name": name}});
        let group = |name: &str| json!({"kind": "Group", "group": {"name": name}});
        let (ann, builder) = (user("ann", &["devs"]), user("system:serviceaccount:n:builder", &[]));
        for (subject, user, expected) in [
            (named("ann"), &ann, true),
            (named("bob"), &ann, false),
            (named("*"), &ann, true),
            (group("devs"), &ann, true),
            (group("ops"), &ann, false),
            (account("*"), &builder, true),
            (account("builder"), &builder, true),
            (account("other"), &builder, false),
            (account("*"), &ann, false),
        ] {
            let schema = schema(subject.clone(), any.clone());
            assert_eq!(schema.matches(user, get("pods", "", "ns")), expected, "{subject} {}", user.name);
        }
    }

    #[test]
    fn rules_match_by_verb_group_resource_and_scope() {
        let ann = user("ann", &[]);
        let subject = json!({"kind": "User", "user": {"name": "ann"}});
        for (rule, asked, expected) in [
            (
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}),
                get("pods", "", "ns"),
                true,
            ),
            (
                json!({"verbs": ["list"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"]}),
                get("pods", "", "ns"),
                false,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["apps"], "resources": ["pods"], "namespaces": ["*"]}),
                get("pods", "", "ns"),
                false,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"], "namespaces": ["*"]}),
                get("pods", "status", "ns"),
                false,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods/status"], "namespaces": ["*"]}),
                get("pods", "status", "ns"),
                true,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}),
                get("nodes", "", ""),
                false,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true}),
                get("nodes", "", ""),
                true,
            ),
            (
                json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true}),
                get("pods", "", "ns"),
                false,
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/x/*"]}),
                Attributes::Path { verb: "get", path: "/x/y" },
                true,
            ),
            (
                json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}),
                Attributes::Path { verb: "get", path: "/x/y" },
                false,
            ),
            (
                json!({"verbs": ["*"], "nonResourceURLs": ["*"]}),
                Attributes::Path { verb: "put", path: "/" },
                true,
            ),
        ] {
            assert_eq!(
                schema(subject.clone(), rule.clone()).matches(&ann, asked),
                expected,
                "{rule} {asked:?}"
            );
        }
    }
}
