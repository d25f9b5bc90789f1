//! A grant: what one subject of a binding gets.
//!
//! Owns whom a subject names, and the text by which a decision names its reason. It finds no grant: that is `policy`.

use std::fmt;

use serde::Deserialize;
use smol_str::SmolStr;

use crate::authn::service_account_name::ServiceAccountName;

/// Namespace and name of a role; the namespace is empty for cluster roles.
pub type RoleKey = (SmolStr, SmolStr);

/// A subject of a binding, with the role that it gets. Formats as the reason of a decision.
#[derive(Debug, PartialEq, Eq)]
pub struct Grant {
    /// Number of the role.
    pub(super) role: u32,
    pub(super) key: RoleKey,
    pub(super) binding: BindingKey,
    /// Place of the subject in the binding.
    pub(super) place: usize,
    pub(super) subject: Subject,
}

/// Namespace and name of a binding; the namespace is empty for cluster role bindings.
pub(super) type BindingKey = (SmolStr, SmolStr);

/// A subject as bindings store it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Subject {
    pub(super) kind: SmolStr,
    pub(super) name: SmolStr,
    #[serde(default)]
    pub(super) namespace: SmolStr,
}

impl Grant {
    /// Namespace and name of the granted role; the namespace is empty for cluster roles.
    pub fn role(&self) -> &RoleKey {
        &self.key
    }

    pub(super) fn binding(&self) -> &BindingKey {
        &self.binding
    }

    /// The name of the user or of the group; `None` for a subject that is nobody.
    pub(super) fn subject_name(&self) -> Option<SmolStr> {
        let (namespace, subject) = (&self.binding.0, &self.subject);
        match subject.kind.as_str() {
            "User" | "Group" => Some(subject.name.clone()),
            "ServiceAccount" => {
                let of = if subject.namespace.is_empty() { namespace } else { &subject.namespace };
                let account = ServiceAccountName { namespace: of, name: &subject.name };
                Some(account.user_name().into()).filter(|_| !of.is_empty())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name) = &self.binding;
        let kind = if self.key.0.is_empty() { "ClusterRole" } else { "Role" };
        f.write_str("RBAC: allowed by ")?;
        match namespace.as_str() {
            "" => write!(f, "ClusterRoleBinding {name:?}")?,
            namespace => write!(f, "RoleBinding {:?}", format!("{name}/{namespace}"))?,
        }
        write!(f, " of {kind} {:?} to ", self.key.1)?;
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
