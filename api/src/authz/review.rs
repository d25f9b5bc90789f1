//! Reviews of access: who is asked about, what is asked, and the answer's document.
//!
//! Owns the translation between documents and the authorizers' question and ruling. It asks nobody.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orch_rules::selector::{FieldSelector, LabelSelector};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::rbac::{ALL, PolicyRule, Role, Rules};
use super::{Attributes, KeptAttributes, ResourceAttributes, Ruling};
use crate::authn::service_account::TokenError;
use crate::authn::{Holder, Unauthenticated, User};

/// Texts of rules that a rules review shows: those of an administrator's default roles are a thousand, and a review is held
/// in memory a dozen times its size.
const TEXTS_SHOWN_MAX: usize = 100_000;

/// Bytes of these texts: a thousand bindings may give the same role with one text of a megabyte.
const BYTES_SHOWN_MAX: usize = 4 << 20;

/// Bytes of roles that a rules review reads, some fifty milliseconds: a role may be large and have no rules.
const READ_BYTES_MAX: usize = 16 << 20;

/// The kinds of reviews: resources that are created and never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Review {
    /// May this user do that? In the namespace of the review, where it has one.
    SubjectAccess,
    /// May I do that?
    SelfSubjectAccess,
    /// The rights of the user who asks.
    SelfSubjectRules,
    /// Who am I?
    SelfSubject,
    /// The user of a token.
    Token,
}

impl Review {
    /// The review that is created under the storage resource `storage`; `None` for objects that are stored.
    pub fn of(storage: &str) -> Option<Review> {
        Some(match storage {
            "subjectaccessreviews.authorization" | "localsubjectaccessreviews.authorization" => {
                Review::SubjectAccess
            }
            "selfsubjectaccessreviews.authorization" => Review::SelfSubjectAccess,
            "selfsubjectrulesreviews.authorization" => Review::SelfSubjectRules,
            "selfsubjectreviews.authentication" => Review::SelfSubject,
            "tokenreviews.authentication" => Review::Token,
            _ => return None,
        })
    }
}

/// The request that a review asks about, without the user.
#[derive(Debug, Default)]
pub struct Question {
    asked: KeptAttributes,
    ignored: Vec<String>,
}

impl Question {
    /// The question in the valid spec of a review.
    pub fn of(spec: &Value) -> Question {
        let path = spec.at("nonResourceAttributes");
        if path.is_object() {
            let asked = Attributes::Path { verb: path.text("verb"), path: path.text("path") };
            return Question { asked: KeptAttributes::of(asked), ignored: Vec::new() };
        }
        let asked = spec.at("resourceAttributes");
        let mut ignored = Vec::new();
        let mut selector = |member: &str, syntax: SelectorSyntax| {
            let (text, is_whole) = selector_text(asked.at(member), syntax);
            if !is_whole {
                let partially = if text.is_empty() { "" } else { "partially " };
                ignored
                    .push(format!("spec.resourceAttributes.{member} {partially}ignored due to parse error"));
            }
            text
        };
        let fields = selector("fieldSelector", SelectorSyntax::Fields);
        let labels = selector("labelSelector", SelectorSyntax::Labels);
        let asked = Attributes::Resource(ResourceAttributes {
            verb: asked.text("verb"),
            group: asked.text("group"),
            // As in the reference, a question that names no version is about all.
            version: Some(asked.text("version")).filter(|version| !version.is_empty()).unwrap_or(ALL),
            resource: asked.text("resource"),
            subresource: asked.text("subresource"),
            namespace: asked.text("namespace"),
            name: asked.text("name"),
            field_selector: &fields,
            label_selector: &labels,
        });
        Question { asked: KeptAttributes::of(asked), ignored }
    }

    /// The question to the authorizers.
    pub fn attributes(&self) -> Attributes<'_> {
        self.asked.attributes()
    }

    /// The reason why an authorizer could not decide, then the parts of the request that it was not given.
    fn faults<'a>(&'a self, ruling: &'a Ruling) -> Vec<&'a str> {
        ruling.error().into_iter().chain(self.ignored.iter().map(String::as_str)).collect()
    }

    /// The status of an access review that was answered with `ruling`.
    pub fn status(&self, ruling: &Ruling) -> Value {
        let mut status = json!({"allowed": ruling.is_allowed()});
        let members = [
            ("denied", ruling.is_denied().then(|| Value::from(true))),
            ("reason", Some(ruling.reason()).filter(|text| !text.is_empty()).map(Value::from)),
            (
                "evaluationError",
                Some(self.faults(ruling).join("; ")).filter(|text| !text.is_empty()).map(Value::from),
            ),
        ];
        let map = status.as_object_mut().into_iter();
        for map in map {
            for (name, value) in members.clone() {
                value.and_then(|value| map.insert(name, value));
            }
        }
        status
    }
}

/// Syntax of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SelectorSyntax {
    /// Of fields: one value for each, equal or not.
    Fields,
    /// Of labels: sets of values, and existence.
    Labels,
}

/// A selector as a request sends it, and whether all of it was understood.
fn selector_text(selector: &Value, syntax: SelectorSyntax) -> (String, bool) {
    let raw = selector.text("rawSelector");
    if !raw.is_empty() {
        let is_valid = match syntax {
            SelectorSyntax::Fields => FieldSelector::terms_of(raw).is_some(),
            SelectorSyntax::Labels => LabelSelector::requirements_of(raw).is_ok(),
        };
        return (if is_valid { raw.to_owned() } else { String::new() }, is_valid);
    }
    let asked = selector.items("requirements");
    let terms: Vec<String> = asked.iter().filter_map(|one| term_text(one, syntax)).collect();
    (terms.join(","), terms.len() == asked.len())
}

/// A requirement as selectors spell it; `None` where their syntax cannot express it.
fn term_text(requirement: &Value, syntax: SelectorSyntax) -> Option<String> {
    let (key, values) = (requirement.text("key"), requirement.texts("values"));
    let is_of_labels = syntax == SelectorSyntax::Labels;
    Some(match (requirement.text("operator"), &values[..]) {
        ("In", [one]) => format!("{key}={one}"),
        ("NotIn", [one]) => format!("{key}!={one}"),
        ("In", many) if is_of_labels => format!("{key} in ({})", many.join(",")),
        ("NotIn", many) if is_of_labels => format!("{key} notin ({})", many.join(",")),
        ("Exists", _) if is_of_labels => key.to_owned(),
        ("DoesNotExist", _) if is_of_labels => format!("!{key}"),
        _ => return None,
    })
}

/// The user that the spec of an access review asks about.
pub fn subject(spec: &Value) -> User {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.at("extra").as_object().into_iter().flatten();
    User {
        name: spec.text("user").to_owned(),
        uid: spec.text("uid").to_owned(),
        groups: texts(spec.at("groups")),
        extra: extra.map(|(key, values)| (key.to_ascii_lowercase(), texts(values))).collect(),
    }
}

/// The rules of a user in a namespace, as far as they can be listed.
#[derive(Clone, Debug, Default)]
pub struct UserRules {
    /// Rules that are no role's.
    pub rules: Vec<PolicyRule>,
    /// Roles, one as often as bindings give it; shared with the prepared policy.
    pub roles: Vec<Arc<Role>>,
    /// The user may have further rights.
    pub is_incomplete: bool,
    /// The reason why rules are missing; mostly empty.
    pub faults: Vec<String>,
}

impl UserRules {
    /// The rules of somebody who may do everything.
    pub fn all() -> UserRules {
        let all = || vec![ALL.into()];
        let resources =
            PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() };
        let paths = PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() };
        UserRules { rules: vec![resources, paths], ..UserRules::default() }
    }

    /// The rules of the roles, prepared for matching, those of each role once.
    pub fn prepared(&self) -> impl Iterator<Item = &Rules> {
        let mut seen = HashSet::new();
        self.roles.iter().filter(move |role| seen.insert(Arc::as_ptr(role))).map(|role| role.prepared())
    }

    /// Passes all rules to `visit` until that returns `false`; those of a role as often as bindings give it. `false`: there
    /// are more. A role is read once, and only while little was read: bindings by the thousand may give large ones.
    fn visit(&self, mut visit: impl FnMut(&PolicyRule) -> bool) -> bool {
        let mut read: HashMap<*const Role, Vec<PolicyRule>> = HashMap::new();
        let mut left = READ_BYTES_MAX;
        self.rules.iter().all(&mut visit)
            && self.roles.iter().all(|role| {
                let rules = match read.entry(Arc::as_ptr(role)) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let Some(rest) = left.checked_sub(role.stored_bytes()) else { return false };
                        left = rest;
                        new.insert(role.stored())
                    }
                };
                rules.iter().all(&mut visit)
            })
    }

    /// The status of a rules review. Of very many rules it shows the first ones, and says so.
    pub fn status(&self) -> Value {
        let list = |texts: &[smol_str::SmolStr]| -> Value {
            Value::Array(texts.iter().map(|text| Value::from(text.as_str())).collect())
        };
        let (mut of_resources, mut of_paths) = (Vec::new(), Vec::new());
        let (mut texts_left, mut bytes_left) = (TEXTS_SHOWN_MAX, BYTES_SHOWN_MAX);
        let is_whole = self.visit(|rule| {
            let left = (texts_left.checked_sub(rule.texts()), bytes_left.checked_sub(rule.bytes()));
            let (Some(texts), Some(bytes)) = left else { return false };
            (texts_left, bytes_left) = (texts, bytes);
            if !rule.resources.is_empty() {
                let mut shown = json!({"verbs": list(&rule.verbs)});
                insert_unless_empty(&mut shown, "apiGroups", list(&rule.api_groups));
                insert_unless_empty(&mut shown, "resources", list(&rule.resources));
                insert_unless_empty(&mut shown, "resourceNames", list(&rule.resource_names));
                of_resources.push(shown);
            }
            if !rule.non_resource_urls.is_empty() {
                let urls = list(&rule.non_resource_urls);
                of_paths.push(json!({"verbs": list(&rule.verbs), "nonResourceURLs": urls}));
            }
            true
        });
        let (of_resources, of_paths) = (Value::Array(of_resources), Value::Array(of_paths));
        let mut status = json!({
            "resourceRules": of_resources, "nonResourceRules": of_paths, "incomplete": self.is_incomplete || !is_whole,
        });
        let mut seen = HashSet::new();
        let faults: Vec<&str> =
            self.faults.iter().map(String::as_str).filter(|fault| seen.insert(*fault)).collect();
        let faults = Value::from(match &faults[..] {
            [one] => (*one).to_owned(),
            many => format!("[{}]", many.join(", ")),
        });
        if !self.faults.is_empty() {
            insert_unless_empty(&mut status, "evaluationError", faults);
        }
        status
    }
}

fn insert_unless_empty(value: &mut Value, name: &str, member: Value) {
    let is_empty = member.as_array().is_some_and(Vec::is_empty);
    if let Some(map) = value.as_object_mut().filter(|_| !is_empty) {
        map.insert(name, member);
    }
}

/// The status of a token review: the holder, or why there is none, and the audiences that are asked for and meant.
/// Without asked ones those of this server are meant.
///
/// `own`: the audiences of this server, which a review that names none asks for.
pub fn token_status(spec: &Value, own: &[String], holder: Result<&Holder, String>) -> Value {
    let asked = spec.texts("audiences");
    let wanted: Vec<&str> = match asked.is_empty() {
        true => own.iter().map(String::as_str).collect(),
        false => asked,
    };
    match holder {
        Ok(holder) => {
            let named = if holder.audiences.is_empty() { own } else { &holder.audiences };
            // A set: a review and a webhook may each name as many audiences as fit into a body.
            let named: HashSet<&str> = named.iter().map(String::as_str).collect();
            // In the order of those that are asked for, as in the reference.
            let meant = wanted.iter().filter(|audience| named.contains(**audience));
            let audiences: Vec<Value> = meant.map(|&audience| Value::from(audience)).collect();
            if audiences.is_empty() {
                let wanted: Vec<String> = wanted.into_iter().map(str::to_owned).collect();
                return json!({"user": {}, "error": audience_error(holder, &wanted)});
            }
            json!({
                "authenticated": true, "user": user_info(&holder.user), "audiences": Value::Array(audiences),
            })
        }
        Err(error) => json!({"user": {}, "error": error}),
    }
}

/// The error of a token that is good, but meant for none of the audiences `wanted`.
fn audience_error(holder: &Holder, wanted: &[String]) -> String {
    match holder.audiences.is_empty() {
        true => Unauthenticated::InvalidToken.to_string(),
        false => Unauthenticated::from(TokenError::audience(&holder.audiences, wanted)).to_string(),
    }
}

/// `userInfo` of `user`.
pub fn user_info(user: &User) -> Value {
    let list = |texts: &[String]| Value::Array(texts.iter().map(|text| Value::from(text.as_str())).collect());
    let mut info = json!({"username": user.name.as_str()});
    if let Some(map) = info.as_object_mut() {
        if !user.uid.is_empty() {
            map.insert("uid", Value::from(user.uid.as_str()));
        }
        if !user.groups.is_empty() {
            map.insert("groups", list(&user.groups));
        }
        if !user.extra.is_empty() {
            let mut extra = orch_schema::value::Map::new();
            for (key, values) in &user.extra {
                extra.insert(key.as_str(), list(values));
            }
            map.insert("extra", Value::Object(extra));
        }
    }
    info
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::Reason;
    use super::*;
    use orch_proto::brand::API_AUDIENCE;

    #[test]
    fn questions_are_those_of_the_spec() {
        let spec = json!({"resourceAttributes": {
            "verb": "list", "group": "apps", "resource": "deployments", "namespace": "n",
            "fieldSelector": {"requirements": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
            "labelSelector": {"requirements": [{"key": "b", "operator": "Near", "values": ["c"]}]},
        }});
        let question = Question::of(&spec);
        let Attributes::Resource(asked) = question.attributes() else { panic!("{question:?}") };
        assert_eq!((asked.verb, asked.group, asked.resource), ("list", "apps", "deployments"));
        assert_eq!((asked.field_selector, asked.label_selector), ("metadata.name=a", ""));
        let status = question.status(&Ruling::Allowed { by: "x", reason: Reason::default() });
        let told = "spec.resourceAttributes.labelSelector ignored due to parse error";
        assert_eq!(status, json!({"allowed": true, "evaluationError": told}));
        let denied = Ruling::Denied { by: "x", reason: "no".to_owned() };
        assert_eq!(
            Question::default().status(&denied),
            json!({"allowed": false, "denied": true, "reason": "no"})
        );
        let question = Question::of(&json!({"nonResourceAttributes": {"path": "/x", "verb": "get"}}));
        assert!(matches!(question.attributes(), Attributes::Path { verb: "get", path: "/x" }));
    }

    #[test]
    fn a_token_is_reviewed_for_the_audiences_that_are_asked_for() {
        let own = [API_AUDIENCE.to_owned()];
        let user = Arc::new(User { name: "x".to_owned(), ..User::default() });
        let agnostic = Holder::agnostic(user.clone());
        let audiences = vec![API_AUDIENCE.to_owned(), "more".to_owned()];
        let named = Holder { user, audiences };
        let found = json!({"authenticated": true, "user": {"username": "x"}, "audiences": [API_AUDIENCE]});
        let told = format!(
            r#"[invalid bearer token, token audiences ["{API_AUDIENCE}" "more"] is invalid for the target audiences ["a" "b"]]"#
        );
        for (holder, audiences, expected) in [
            (&agnostic, json!([]), found.clone()),
            (&agnostic, json!(["other", API_AUDIENCE]), found.clone()),
            (&agnostic, json!(["other"]), json!({"user": {}, "error": "invalid bearer token"})),
            (&named, json!(["other", API_AUDIENCE]), found),
            (&named, json!(["a", "b"]), json!({"user": {}, "error": told})),
            (
                &named,
                json!(["more", "other", API_AUDIENCE]),
                json!({"authenticated": true, "user": {"username": "x"}, "audiences": ["more", API_AUDIENCE]}),
            ),
        ] {
            assert_eq!(token_status(&json!({"audiences": audiences}), &own, Ok(holder)), expected);
        }
        let many: Vec<Value> = (0..100_000).map(|number| Value::from(format!("audience-{number}"))).collect();
        let told = token_status(&json!({"audiences": Value::Array(many)}), &own, Ok(&named));
        assert!(told.text("error").len() < 2048, "the error shows a part of them");
        let refused = token_status(&json!({}), &own, Err("invalid bearer token".to_owned()));
        assert_eq!(refused, json!({"user": {}, "error": "invalid bearer token"}));
    }

    #[test]
    fn users_are_asked_about_and_shown() {
        let spec = json!({"user": "x", "uid": "u", "groups": ["g"], "extra": {"Scope": ["a", "b"]}});
        let user = subject(&spec);
        let shown = json!({"username": "x", "uid": "u", "groups": ["g"], "extra": {"scope": ["a", "b"]}});
        assert_eq!(user_info(&user), shown);
    }
}
