//! The identity a request acts under.
//!
//! Owns the shape of a user and the well-known names of the interface. A `User` is built once per credential and
//! shared: authenticating a request allocates nothing.

use std::collections::BTreeMap;

/// Group of those who may do everything.
pub const GROUP_MASTERS: &str = "system:masters";
/// Group that everyone with a valid credential is in.
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
/// Group of the anonymous user.
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
/// Name of the anonymous user.
pub const USER_ANONYMOUS: &str = "system:anonymous";
/// Name behind the plain port of a development node and in the administrator's certificate.
pub const USER_ADMIN: &str = "system:admin";

/// Who a request comes from, as authorization and admission see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique among users.
    pub name: String,
    /// Tells apart two users that had one name at different times. Empty where the credential carries none.
    pub uid: String,
    /// Groups, in the credential's order, then those the server adds.
    pub groups: Vec<String>,
    /// What else the credential says, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user of requests without a credential.
    pub fn anonymous() -> User {
        User {
            name: USER_ANONYMOUS.to_owned(),
            groups: vec![GROUP_UNAUTHENTICATED.to_owned()],
            ..User::default()
        }
    }

    /// The administrator behind the plain loopback port of a development node.
    pub fn local_admin() -> User {
        User { name: USER_ADMIN.to_owned(), groups: vec![GROUP_MASTERS.to_owned()], ..User::default() }
            .authenticated()
    }

    /// Whether the user is in `group`.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|held| held == group)
    }

    /// The same user with the group that every valid credential brings.
    #[must_use]
    pub(super) fn authenticated(mut self) -> User {
        if !self.is_in_group(GROUP_AUTHENTICATED) && !self.is_in_group(GROUP_UNAUTHENTICATED) {
            self.groups.push(GROUP_AUTHENTICATED.to_owned());
        }
        self
    }
}
