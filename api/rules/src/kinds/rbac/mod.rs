//! rbac/v1: roles and role bindings.
//!
//! Owns the shape of rules, references and subjects. The authorizer checks privilege escalation and `bind`.

mod binding;
mod role;

pub use binding::{ClusterRoleBinding, RoleBinding};
pub use role::{ClusterRole, Role};
