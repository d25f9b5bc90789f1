//! A grant: what a binding gives to one of its subjects.
//!
//! Owns whom a subject names, and the text by which a decision names its reason. The subjects of a binding are read from the
//! stored object where a text needs them. It finds no grant: that is `policy`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use orch_raft::object::SharedObject;
use serde::Deserialize;
use smol_str::SmolStr;

use crate::authn::service_account_name::ServiceAccountName;
use crate::follow::Digest;

/// Namespace and name of a role; the namespace is empty for cluster roles.
pub type RoleKey = (SmolStr, SmolStr);

/// A stored binding.
#[derive(Debug)]
pub struct Binding {
    /// `namespace/name`, or `name` of a cluster role binding.
    pub(super) path: Arc<str>,
    /// Number of the role.
    pub(super) role: u32,
    pub(super) key: RoleKey,
    pub(super) object: SharedObject,
}

/// The binding of a role to a subject. Formats as the reason of a decision.
#[derive(Debug)]
pub struct Grant {
    pub(super) binding: Arc<Binding>,
    /// Place of the subject in the binding.
    place: u32,
    /// The subject, once a text has asked for it.
    subject: OnceLock<Box<Subject>>,
}

/// A subject as bindings store it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Subject {
    kind: SmolStr,
    name: SmolStr,
    #[serde(default)]
    namespace: SmolStr,
}

/// A binding as it is stored.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BindingDocument {
    #[serde(default)]
    subjects: Option<Vec<Subject>>,
    role_ref: RoleRef,
}

#[derive(Deserialize)]
struct RoleRef {
    kind: SmolStr,
    name: SmolStr,
}

/// The two parts of a path: namespace, empty for cluster scope, and name.
pub(super) fn parts(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or(("", path))
}

/// The role of the binding at `path`, and its subjects; `None` for an object that is no binding.
pub(super) fn read_binding(path: &str, object: &SharedObject) -> Option<(RoleKey, Vec<Subject>)> {
    let BindingDocument { subjects, role_ref } = serde_json::from_slice(&object.json).ok()?;
    let of = if role_ref.kind == "Role" { parts(path).0 } else { "" };
    Some(((of.into(), role_ref.name), subjects.unwrap_or_default()))
}

/// The digest under which the grants of a user in `scope` are found: a namespace, or nothing for the cluster.
pub(super) fn digest_of_user(scope: &str, name: &str) -> Digest {
    Digest::of((scope, "User", name))
}

/// As [`digest_of_user`], of a group.
pub(super) fn digest_of_group(scope: &str, name: &str) -> Digest {
    Digest::of((scope, "Group", name))
}

impl Subject {
    /// The digest of the subject of a binding in `scope`; `None` for one that is nobody.
    pub(super) fn digest(&self, scope: &str) -> Option<Digest> {
        match self.kind.as_str() {
            "User" => Some(digest_of_user(scope, &self.name)),
            "Group" => Some(digest_of_group(scope, &self.name)),
            "ServiceAccount" => {
                let of = if self.namespace.is_empty() { scope } else { &self.namespace };
                let account = ServiceAccountName { namespace: of, name: &self.name };
                (!of.is_empty()).then(|| digest_of_user(scope, &account.user_name()))
            }
            _ => None,
        }
    }
}

impl Grant {
    pub(super) fn new(binding: Arc<Binding>, place: u32) -> Grant {
        Grant { binding, place, subject: OnceLock::new() }
    }

    /// Namespace and name of the granted role; the namespace is empty for cluster roles.
    pub fn role(&self) -> &RoleKey {
        &self.binding.key
    }

    fn subject(&self) -> &Subject {
        self.subject.get_or_init(|| {
            let Binding { path, object, .. } = &*self.binding;
            let subjects = read_binding(path, object).map(|(_, subjects)| subjects);
            let subject = subjects.and_then(|subjects| subjects.into_iter().nth(self.place as usize));
            Box::new(subject.unwrap_or_default())
        })
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = parts(&self.binding.path);
        let (of, role) = self.role();
        let kind = if of.is_empty() { "ClusterRole" } else { "Role" };
        f.write_str("RBAC: allowed by ")?;
        match namespace {
            "" => write!(f, "ClusterRoleBinding {name:?}")?,
            namespace => write!(f, "RoleBinding {:?}", format!("{name}/{namespace}"))?,
        }
        write!(f, " of {kind} {role:?} to ")?;
        let Subject { kind, name, namespace: of } = self.subject();
        match kind.as_str() {
            "ServiceAccount" => {
                let of = if of.is_empty() { namespace } else { of };
                write!(f, "ServiceAccount {:?}", format!("{name}/{of}"))
            }
            kind => write!(f, "{kind} {name:?}"),
        }
    }
}
