//! The user name of a service account: `system:serviceaccount:NAMESPACE:NAME`.
//!
//! Owns its form and the groups of every service account. It reads no object.

use orch_rules::validate::names::{dns1123_label, dns1123_subdomain};

const PREFIX: &str = "system:serviceaccount:";
/// Group of all service accounts; with `:NAMESPACE` behind it, of those of a namespace.
pub const GROUP_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// Namespace and name of a service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccountName<'a> {
    /// Namespace of the object.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
}

impl ServiceAccountName<'_> {
    /// The user's name.
    pub fn user_name(self) -> String {
        format!("{PREFIX}{}:{}", self.namespace, self.name)
    }

    /// The groups of the account.
    pub fn groups(self) -> [String; 2] {
        [GROUP_SERVICE_ACCOUNTS.to_owned(), format!("{GROUP_SERVICE_ACCOUNTS}:{}", self.namespace)]
    }
}

/// The service account that the user called `user` is; `None` for other users.
pub fn parse(user: &str) -> Option<ServiceAccountName<'_>> {
    let (namespace, name) = user.strip_prefix(PREFIX)?.split_once(':')?;
    let is_name = dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty();
    is_name.then_some(ServiceAccountName { namespace, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_objects_name_accounts() {
        let account = ServiceAccountName { namespace: "ns", name: "a.b" };
        assert_eq!(parse(&account.user_name()), Some(account));
        for other in [
            "ann",
            "system:serviceaccount:ns",
            "system:serviceaccount:Bad_Name:a",
            "system:serviceaccount:ns:a:b",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }
}
