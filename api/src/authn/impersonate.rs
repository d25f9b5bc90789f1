//! Impersonation: the headers by which a user asks to act as another.
//!
//! Owns the headers, the questions that have to be allowed first, and the resulting user. The gate asks the questions.
//!
//!     legacy        `impersonate` on users, groups, userextras, uids or serviceaccounts: acts as the other in all things
//!     constrained   `impersonate:MODE` on the identity, and `impersonate-on:MODE:VERB` on what is done as the other
//!
//! Invariant: a header whose name starts with `Impersonate-` is understood or refused, never ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use orch_proto::Brand;
use orch_rules::validate::prefixed_path::validate_domain_prefixed_path;
use orch_rules::validate::{FieldErrors, Path, names};
use orch_schema::excerpt::quoted;
use percent_encoding::percent_decode_str;

use super::service_account_name::{self, ServiceAccountName};
use super::{
    GROUP_AUTHENTICATED, GROUP_MASTERS, GROUP_NODES, GROUP_UNAUTHENTICATED, USER_ANONYMOUS, USER_NODE_PREFIX,
    User,
};
/// Prefix of every header of impersonation, in lower case.
pub const PREFIX: &str = "impersonate-";
const EXTRA_PREFIX: &str = "impersonate-extra-";

/// The user that a request asks to act as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// A way to impersonate, with the rights that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A pod's service account acts as the node that the pod runs on.
    AssociatedNode,
    /// Acts as a node.
    ArbitraryNode,
    /// Acts as a service account.
    ServiceAccount,
    /// Acts as any other user.
    UserInfo,
    /// Acts as anybody, with all of their rights.
    Legacy,
}

/// Groups, or values of extra, from which on the constrained modes first ask for all at once: the reference's.
const MANY: usize = 4;

/// A right on an identity, which authorizers are asked about.
#[derive(Debug, Default)]
pub struct Question {
    /// The reason why the user cannot have the right; `None`: authorizers are asked.
    pub refusal: Option<String>,
    /// How many of the following questions are answered by this one where it is allowed. Where it is not, they are asked.
    pub covers: usize,
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: &'static str,
    pub(crate) resource: &'static str,
    pub(crate) subresource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Mode {
    /// The verb of the right to do `verb` while acting as another in this mode. `None`: no right beyond the other's own
    /// is needed.
    pub fn verb_on(self, verb: &str) -> Option<String> {
        self.constrained().map(|mode| format!("impersonate-on:{mode}:{verb}"))
    }

    /// The verb of the right on the identity in a constrained mode, which audit events show.
    pub fn verb_on_identity(self) -> Option<String> {
        self.constrained().map(|mode| format!("impersonate:{mode}"))
    }

    fn constrained(self) -> Option<&'static str> {
        match self {
            Mode::AssociatedNode => Some("associated-node"),
            Mode::ArbitraryNode => Some("arbitrary-node"),
            Mode::ServiceAccount => Some("serviceaccount"),
            Mode::UserInfo => Some("user-info"),
            Mode::Legacy => None,
        }
    }
}

impl Impersonation {
    /// The impersonation that the headers ask for; `None` where there is no such header.
    ///
    /// # Errors
    /// A header of identity that does not exist, is not text, or comes without a user. The text is for the client.
    pub fn of(headers: &HeaderMap) -> Result<Option<Impersonation>, String> {
        let mut asked = Impersonation::default();
        for (header, value) in headers {
            let header = header.as_str();
            if !header.starts_with(PREFIX) {
                continue;
            }
            let value = std::str::from_utf8(value.as_bytes());
            let value = value.map_err(|_| format!("header {header} is not UTF-8"))?.to_owned();
            match header {
                // As in the reference, the first one counts.
                "impersonate-user" if asked.name.is_empty() => asked.name = value,
                "impersonate-uid" if asked.uid.is_empty() => asked.uid = value,
                "impersonate-user" | "impersonate-uid" => {}
                "impersonate-group" => asked.groups.push(value),
                _ => {
                    let Some(key) = header.strip_prefix(EXTRA_PREFIX) else {
                        return Err(format!("header {header} is not one by which a user is impersonated"));
                    };
                    asked.extra.entry(extra_key(key)).or_default().push(value);
                }
            }
        }
        match asked.name.is_empty() {
            true if !asked.is_name_only() => {
                Err("groups, uid or extra are impersonated without a user".to_owned())
            }
            // An empty name alone asks for nobody.
            true => Ok(None),
            false => Ok(Some(asked)),
        }
    }

    /// The ways in which `requestor` may be allowed to act so, in the order in which they are tried.
    pub fn modes(&self, requestor: &User, brand: &Brand) -> Vec<Mode> {
        let is_service_account = service_account_name::parse(&self.name).is_some();
        let mut modes = Vec::new();
        match self.name.strip_prefix(USER_NODE_PREFIX) {
            Some(node) if names::dns1123_subdomain(node).is_empty() => {
                if !self.is_name_only() {
                    return vec![Mode::Legacy];
                }
                if requestor.node_of_pod(brand) == Some(node) {
                    modes.push(Mode::AssociatedNode);
                }
                modes.push(Mode::ArbitraryNode);
            }
            _ if is_service_account && self.is_name_only() => modes.push(Mode::ServiceAccount),
            _ if is_service_account => {}
            _ => modes.push(Mode::UserInfo),
        }
        modes.push(Mode::Legacy);
        modes
    }

    fn is_name_only(&self) -> bool {
        self.uid.is_empty() && self.groups.is_empty() && self.extra.is_empty()
    }

    /// The rights on the identity that `mode` takes.
    pub fn questions(&self, mode: Mode, brand: &Brand) -> Vec<Question> {
        let authentication = brand.group("authentication");
        let (verb, group, version) = match mode.constrained() {
            Some(mode) => (format!("impersonate:{mode}"), authentication.as_str(), "v1"),
            None => ("impersonate".to_owned(), "", "v1"),
        };
        let question = |group: &str, resource, name: &str| Question {
            verb: verb.clone(),
            group: group.to_owned(),
            version,
            resource,
            name: name.to_owned(),
            ..Question::default()
        };
        let mut questions = vec![match (mode, service_account_name::parse(&self.name)) {
            (Mode::AssociatedNode, _) => question(group, "nodes", "*"),
            (Mode::ArbitraryNode, _) => {
                question(group, "nodes", self.name.strip_prefix(USER_NODE_PREFIX).unwrap_or_default())
            }
            (_, Some(ServiceAccountName { namespace, name })) => {
                Question { namespace: namespace.to_owned(), ..question(group, "serviceaccounts", name) }
            }
            (_, None) => question(group, "users", &self.name),
        }];
        if !self.uid.is_empty() {
            questions.push(question(&authentication, "uids", &self.uid));
        }
        let is_constrained = mode.constrained().is_some();
        if is_constrained && let Some((name, reason)) = self.unfit_group() {
            questions.push(Question { refusal: Some(reason), ..question(group, "groups", name) });
        }
        if is_constrained && self.groups.len() >= MANY {
            questions.push(Question { covers: self.groups.len(), ..question(group, "groups", "*") });
        }
        questions.extend(self.groups.iter().map(|name| question(group, "groups", name)));
        let extra = |key: &str, value: &str| Question {
            subresource: key.to_owned(),
            ..question(&authentication, "userextras", value)
        };
        if is_constrained && let Some(reason) = self.unfit_extra() {
            questions.push(Question { refusal: Some(reason), ..extra("", "") });
        }
        let values = self.extra.values().map(Vec::len).sum();
        if is_constrained && values >= MANY {
            questions.push(Question { covers: values, ..extra("*", "*") });
        }
        for (key, values) in &self.extra {
            questions.extend(values.iter().map(|value| extra(key, value)));
        }
        questions
    }

    /// A group that nobody acts as in a constrained mode, and the refusal.
    fn unfit_group(&self) -> Option<(&'static str, String)> {
        // few: the groups of one request.
        let has = |name: &str| self.groups.iter().any(|group| group == name);
        let unfit = [("", "empty string"), (GROUP_MASTERS, GROUP_MASTERS)];
        // few: two names.
        let (name, shown) = unfit.into_iter().find(|(name, _)| has(name))?;
        Some((name, format!("impersonating the {shown} group is not allowed")))
    }

    /// The refusal of extra that nobody acts with in a constrained mode.
    fn unfit_extra(&self) -> Option<String> {
        self.extra.iter().find_map(|(key, values)| {
            if key.is_empty() {
                return Some("impersonating the empty string key in extra is not allowed".to_owned());
            }
            let errors = validate_domain_prefixed_path(key, &Path::new("extra").child("key"));
            if !errors.is_empty() {
                let shown = aggregate(&errors);
                return Some(format!("impersonating an invalid key in extra is not allowed: {shown}"));
            }
            if *key != key.to_lowercase() {
                let key = quoted(key);
                return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key}"));
            }
            // few: the values of one key.
            let has_empty = values.iter().any(String::is_empty);
            has_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
        })
    }

    /// The user that the request acts as, allowed in `mode`.
    pub fn into_user(mut self, mode: Mode) -> Arc<User> {
        if self.groups.is_empty() {
            if let Some(account) = service_account_name::parse(&self.name) {
                self.groups = account.groups().into();
            }
            if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
                self.groups.push(GROUP_NODES.to_owned());
            }
        }
        let is_anonymous = self.name == USER_ANONYMOUS;
        let group = if is_anonymous { GROUP_UNAUTHENTICATED } else { GROUP_AUTHENTICATED };
        // few: the groups of one request.
        let is_known = |known: &String| known == group || known == GROUP_UNAUTHENTICATED;
        if !self.groups.iter().any(is_known) {
            self.groups.push(group.to_owned());
        }
        let Impersonation { name, uid, groups, extra } = self;
        Arc::new(User { name, uid, groups, extra })
    }
}

/// Errors as one text.
fn aggregate(errors: &FieldErrors) -> String {
    let texts: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
    match &texts[..] {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}

/// The key of a header's name behind its prefix, percent-decoded where it can be.
pub(super) fn extra_key(escaped: &str) -> String {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !escaped.split('%').skip(1).all(is_escape) {
        return escaped.to_owned();
    }
    percent_decode_str(escaped).decode_utf8().map_or_else(|_| escaped.to_owned(), |key| key.into_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use orch_proto::brand::ORCH;

    use super::*;

    fn asked(headers: &[(&str, &str)]) -> Result<Option<Impersonation>, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        Impersonation::of(&map)
    }

    fn spelled(question: &Question) -> String {
        let asked = crate::authz::ResourceAttributes::from(question);
        let scope = [asked.namespace, &asked.qualified(), asked.name].join(" ");
        format!("{} {}/{} {scope}", asked.verb, asked.group, asked.version)
    }

    #[test]
    fn headers_are_understood_or_refused() {
        assert_eq!(asked(&[("accept", "x")]), Ok(None));
        assert_eq!(asked(&[("Impersonate-User", "")]), Ok(None), "an empty name asks for nobody");
        for wrong in [
            &[("Impersonate-Group", "g")][..],
            &[("Impersonate-User", ""), ("Impersonate-Uid", "u")],
            &[("Impersonate-Grup", "g")],
        ] {
            assert!(asked(wrong).is_err(), "{wrong:?}");
        }
        let headers = [
            ("Impersonate-User", "ann"),
            ("impersonate-user", "second"),
            ("Impersonate-Uid", "u"),
            ("Impersonate-Group", "one"),
            ("impersonate-group", "two"),
            ("Impersonate-Extra-Scopes", "a"),
            ("Impersonate-Extra-Example.com%2FTeam", "red"),
            ("Impersonate-Extra-bad%zz", "x"),
        ];
        let found = asked(&headers).unwrap().unwrap();
        assert_eq!((found.name.as_str(), found.uid.as_str()), ("ann", "u"));
        let keys: Vec<&String> = found.extra.keys().collect();
        assert_eq!(keys, ["bad%zz", "example.com/team", "scopes"]);
        let told: Vec<String> = found.questions(Mode::Legacy, &ORCH).iter().map(spelled).collect();
        assert_eq!(told[0], "impersonate /v1  users ann");
        assert_eq!(told[2], "impersonate /v1  groups one");
        assert_eq!(told[5], "impersonate authentication.orch.io/v1  userextras/example.com/team red");
        assert_eq!(told[1], "impersonate authentication.orch.io/v1  uids u");
        let user = found.into_user(Mode::Legacy);
        assert_eq!(user.groups, ["one", "two", GROUP_AUTHENTICATED]);
    }

    #[test]
    fn the_user_asked_for_decides_on_the_rights_that_impersonation_takes() {
        let robot = "system:serviceaccount:ns:robot";
        let in_pod = User {
            name: robot.to_owned(),
            extra: [("authentication.orch.io/node-name".to_owned(), vec!["n1".to_owned()])].into(),
            ..User::default()
        };
        for (headers, modes, first, groups) in [
            (
                &[("impersonate-user", "system:node:n1")][..],
                &[Mode::AssociatedNode, Mode::ArbitraryNode, Mode::Legacy][..],
                "impersonate:associated-node authentication.orch.io/v1  nodes *",
                &[GROUP_NODES, GROUP_AUTHENTICATED][..],
            ),
            (
                &[("impersonate-user", "system:node:n2")],
                &[Mode::ArbitraryNode, Mode::Legacy],
                "impersonate:arbitrary-node authentication.orch.io/v1  nodes n2",
                &[GROUP_NODES, GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", robot)],
                &[Mode::ServiceAccount, Mode::Legacy],
                "impersonate:serviceaccount authentication.orch.io/v1 ns serviceaccounts robot",
                &["system:serviceaccounts", "system:serviceaccounts:ns", GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", robot), ("impersonate-group", "g")],
                &[Mode::Legacy],
                "impersonate /v1 ns serviceaccounts robot",
                &["g", GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", "system:node:n1"), ("impersonate-group", "g")],
                &[Mode::Legacy],
                "impersonate /v1  users system:node:n1",
                &["g", GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", "system:node:A B")],
                &[Mode::UserInfo, Mode::Legacy],
                "impersonate:user-info authentication.orch.io/v1  users system:node:A B",
                &[GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", "ann"), ("impersonate-group", GROUP_MASTERS)],
                &[Mode::UserInfo, Mode::Legacy],
                "impersonate:user-info authentication.orch.io/v1  users ann",
                &[GROUP_MASTERS, GROUP_AUTHENTICATED],
            ),
            (
                &[("impersonate-user", USER_ANONYMOUS)],
                &[Mode::UserInfo, Mode::Legacy],
                "impersonate:user-info authentication.orch.io/v1  users system:anonymous",
                &[GROUP_UNAUTHENTICATED],
            ),
        ] {
            let found = asked(headers).unwrap().unwrap();
            assert_eq!(found.modes(&in_pod, &ORCH), modes, "{headers:?}");
            assert_eq!(spelled(&found.questions(modes[0], &ORCH)[0]), first);
            assert_eq!(found.into_user(modes[0]).groups, groups, "{headers:?}");
        }
        let node = asked(&[("impersonate-user", "system:node:n1")]).unwrap().unwrap();
        for key in ["node-name", "example.com/node-name", "authentication.orch.io.example.com/node-name"] {
            let extra = [(key.to_owned(), vec!["n1".to_owned()])].into();
            let other = User { name: robot.to_owned(), extra, ..User::default() };
            assert_eq!(node.modes(&other, &ORCH), [Mode::ArbitraryNode, Mode::Legacy], "{key}");
        }
        assert_eq!(Mode::UserInfo.verb_on("list").as_deref(), Some("impersonate-on:user-info:list"));
        assert_eq!(Mode::Legacy.verb_on("list"), None);
    }

    #[test]
    fn constrained_modes_refuse_some_and_ask_for_many_at_once() {
        let user = ("impersonate-user", "ann");
        let refusals = |headers: &[(&str, &str)], mode: Mode| -> Vec<(String, String)> {
            let headers: Vec<_> = [user].iter().chain(headers).copied().collect();
            let questions = asked(&headers).unwrap().unwrap().questions(mode, &ORCH);
            questions
                .iter()
                .filter_map(|question| Some((spelled(question), question.refusal.clone()?)))
                .collect()
        };
        let groups = "impersonate:user-info authentication.orch.io/v1  groups ";
        let extra = "impersonate:user-info authentication.orch.io/v1  userextras ";
        for (header, question, reason) in [
            (
                ("impersonate-group", ""),
                groups.to_owned(),
                "impersonating the empty string group is not allowed",
            ),
            (
                ("impersonate-group", GROUP_MASTERS),
                format!("{groups}{GROUP_MASTERS}"),
                "impersonating the system:masters group is not allowed",
            ),
            (
                ("impersonate-extra-scopes", "a"),
                extra.to_owned(),
                "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: \"scopes\": must be a \
                 domain-prefixed path (such as \"acme.io/foo\")",
            ),
            (
                ("impersonate-extra-a.io%2F%41", "a"),
                extra.to_owned(),
                "impersonating a non-lowercase key in extra is not allowed: \"a.io/A\"",
            ),
            (
                ("impersonate-extra-a.io%2Fa", ""),
                extra.to_owned(),
                "impersonating the empty string value in extra is not allowed",
            ),
        ] {
            assert_eq!(refusals(&[header], Mode::UserInfo), [(question, reason.to_owned())]);
            assert_eq!(refusals(&[header], Mode::Legacy), [], "{header:?}");
        }
        let many = [("impersonate-group", "a"), ("impersonate-group", "b"), ("impersonate-group", "c")];
        let covering = |headers: Vec<(&str, &str)>, mode: Mode| -> Vec<(String, usize)> {
            let questions = asked(&headers).unwrap().unwrap().questions(mode, &ORCH);
            let covering = questions.iter().filter(|question| question.covers > 0);
            covering.map(|question| (spelled(question), question.covers)).collect()
        };
        let three: Vec<_> = [user].into_iter().chain(many).collect();
        assert_eq!(covering(three.clone(), Mode::UserInfo), []);
        let mut four = three;
        four.push(("impersonate-group", "d"));
        assert_eq!(covering(four.clone(), Mode::UserInfo), [(format!("{groups}*"), 4)]);
        assert_eq!(covering(four, Mode::Legacy), []);
        let values = ["1", "2", "3", "4"].map(|value| ("impersonate-extra-a.io%2Fa", value));
        let found = covering([user].into_iter().chain(values).collect(), Mode::UserInfo);
        assert_eq!(
            found,
            [("impersonate:user-info authentication.orch.io/v1  userextras/* *".to_owned(), 4)]
        );
    }
}
