//! A grant: what a binding gives to one of its subjects.
//!
//! Owns whom a subject names, and the text by which a decision names its reason. It finds no grant: that is `policy`.
//!
//! Invariant: a grant holds no stored object. Reasons are kept as long as watches last, whatever becomes of the binding.

use std::fmt;
use std::sync::Arc;

use orch_raft::ObjectPath;
use orch_raft::object::SharedObject;
use serde::Deserialize;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::authn::service_account_name::ServiceAccountName;
use crate::follow::Digest;

/// Namespace and name of a role; the namespace is empty for cluster roles.
pub type RoleKey = (SmolStr, SmolStr);

/// A binding, without its subjects.
#[derive(Debug)]
pub struct Binding {
    /// `namespace/name`, or `name` of a cluster role binding.
    pub(super) path: Arc<str>,
    /// Number of the role.
    pub(super) role: u32,
    pub(super) key: RoleKey,
}

/// The binding of a role to a subject. Formats as the reason of a decision.
#[derive(Debug)]
pub struct Grant {
    pub(super) binding: Arc<Binding>,
    subject: Subject,
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
struct BindingDocument<'a> {
    #[serde(default, borrow)]
    subjects: Option<Vec<&'a RawValue>>,
    role_ref: RoleRef,
}

#[derive(Deserialize)]
struct RoleRef {
    kind: SmolStr,
    name: SmolStr,
}

/// The two parts of a path: namespace, empty for cluster scope, and name.
pub(super) fn parts(path: &str) -> (&str, &str) {
    ObjectPath::of(path).parts()
}

/// The role of the binding at `path`, and its subjects, each with its place: the byte of the stored form at which it begins.
/// `None` for an object that is no binding.
pub(super) fn read_binding(path: &str, object: &SharedObject) -> Option<(RoleKey, Vec<(u32, Subject)>)> {
    let BindingDocument { subjects, role_ref } = serde_json::from_slice(&object.json).ok()?;
    let of = if role_ref.kind == "Role" { parts(path).0 } else { "" };
    let start = object.json.as_ptr().addr();
    let placed = |raw: &RawValue| {
        let place = u32::try_from(raw.get().as_ptr().addr() - start).ok()?;
        Some((place, serde_json::from_str(raw.get()).ok()?))
    };
    let subjects: Option<Vec<_>> = subjects.unwrap_or_default().into_iter().map(placed).collect();
    Some(((of.into(), role_ref.name), subjects?))
}

/// The subject at `place` of a binding, as [`read_binding`] told it.
pub(super) fn read_subject(object: &SharedObject, place: u32) -> Option<Subject> {
    let mut rest = serde_json::Deserializer::from_slice(object.json.get(place as usize..)?);
    Subject::deserialize(&mut rest).ok()
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
    /// The digest of the subject of a binding in `scope`; `None` for a subject that no user can be: of an unknown kind, or
    /// an account without a namespace.
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
    pub(super) fn new(binding: Arc<Binding>, subject: Subject) -> Grant {
        Grant { binding, subject }
    }

    /// Namespace and name of the granted role; the namespace is empty for cluster roles.
    pub fn role(&self) -> &RoleKey {
        &self.binding.key
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
        let Subject { kind, name, namespace: of } = &self.subject;
        match kind.as_str() {
            "ServiceAccount" => {
                let of = if of.is_empty() { namespace } else { of };
                write!(f, "ServiceAccount {:?}", format!("{name}/{of}"))
            }
            kind => write!(f, "{kind} {name:?}"),
        }
    }
}
