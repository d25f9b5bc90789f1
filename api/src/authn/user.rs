//! The user as whom a request acts.
//!
//! Owns the shape of a user and the well-known names of the interface. A `User` is built once per credential and
//! shared: authenticating a request allocates nothing.

use std::collections::BTreeMap;

use orch_proto::Brand;
use orch_rules::kinds::Requester;

use super::service_account_name;

/// Group of the administrators, who may do everything.
pub const GROUP_MASTERS: &str = "system:masters";
/// Group of the nodes' users.
pub const GROUP_NODES: &str = "system:nodes";
/// Prefix of the user name of a node; the node's name follows.
pub const USER_NODE_PREFIX: &str = "system:node:";
/// Group of every user with a valid credential.
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
/// Group of the anonymous user.
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
/// Name of the anonymous user.
pub const USER_ANONYMOUS: &str = "system:anonymous";
/// Name of the user on a development node's plain port, and in the administrator's certificate.
pub const USER_ADMIN: &str = "system:admin";
/// Name of the server's own user.
const USER_SERVER: &str = "system:apiserver";

/// The user of a request, as authorization and admission see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique among users.
    pub name: String,
    /// Tells apart users that had the same name at different times. Empty where the credential carries none.
    pub uid: String,
    /// Groups of the credential, in its order, then those that the server adds.
    pub groups: Vec<String>,
    /// Further attributes of the credential, by key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Bytes of memory that its texts hold, as the allocator counts them.
    pub(crate) fn held_bytes(&self) -> usize {
        let of = |text: &String| size_of::<String>() + text.len().next_multiple_of(16);
        let extra = self.extra.iter().map(|(key, values)| of(key) + values.iter().map(of).sum::<usize>());
        of(&self.name) + of(&self.uid) + self.groups.iter().map(of).sum::<usize>() + extra.sum::<usize>()
    }

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

    /// The server as the one who acts: its loops, and what it writes with a client's write.
    pub fn server() -> User {
        User { name: USER_SERVER.to_owned(), groups: vec![GROUP_MASTERS.to_owned()], ..User::default() }
            .authenticated()
    }

    /// The user as the strategies of kinds see it.
    pub fn requester(&self) -> Requester<'_> {
        Requester { name: &self.name, uid: &self.uid, groups: &self.groups, extra: &self.extra }
    }

    /// Whether the user is a member of `group`.
    pub fn is_in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|held| held == group)
    }

    /// The name of the node whose user this is, possibly empty. `None`: it is no node's user, for want of the name or of
    /// the group.
    pub fn node_name(&self) -> Option<&str> {
        self.name.strip_prefix(USER_NODE_PREFIX).filter(|_| self.is_in_group(GROUP_NODES))
    }

    /// The node of the pod for which the service account's token was made. `None`: the user is no service account, or its
    /// token names no pod on a node.
    pub fn node_of_pod(&self, brand: &Brand) -> Option<&str> {
        let nodes = self.extra.get(&format!("authentication.{}/node-name", brand.label_domain))?;
        let [node] = nodes.as_slice() else { return None };
        service_account_name::parse(&self.name).map(|_| node.as_str())
    }

    /// Bytes that the user takes in memory, about: what a cache of users is charged.
    pub(super) fn weight(&self) -> usize {
        /// An allocation and its place in a list or map.
        const TEXT: usize = 64;
        let texts = |all: &[String]| all.iter().map(|text| TEXT + text.len()).sum::<usize>();
        let extra =
            self.extra.iter().map(|(key, values)| 2 * TEXT + key.len() + texts(values)).sum::<usize>();
        size_of::<User>() + self.name.len() + self.uid.len() + texts(&self.groups) + extra
    }

    /// The same user as a member of `system:authenticated`.
    #[must_use]
    pub(super) fn authenticated(mut self) -> User {
        if !self.is_in_group(GROUP_AUTHENTICATED) && !self.is_in_group(GROUP_UNAUTHENTICATED) {
            self.groups.push(GROUP_AUTHENTICATED.to_owned());
        }
        self
    }
}
