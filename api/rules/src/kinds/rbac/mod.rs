//! rbac/v1: roles and what binds them to subjects.
//!
//! Owns the shape of rules, references and subjects. Who may grant what (escalation, bind) is the authorizer's.

mod binding;
mod role;

pub use binding::{ClusterRoleBinding, RoleBinding};
pub use role::{ClusterRole, Role};
