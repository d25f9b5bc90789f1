//! Loops over secrets that keep tokens of service accounts: filling, tracking of uses, removal of those that nothing uses.
//!
//! Owns the type of these secrets and their account. Tokens are made by the issuer of the node (`authn::service_account`),
//! which is the same on all members. No token is logged.

mod cleaning;
mod filling;
#[cfg(test)]
mod tests;
mod tracking;

use std::sync::Arc;

use orch_proto::Brand;
use orch_raft::ObjectPath;
use orch_raft::object::SharedObject;
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

pub(super) use self::cleaning::run as clean;
pub(super) use self::filling::run as fill;
pub(super) use self::tracking::run as track;

const SECRETS: &str = "secrets";
const ACCOUNTS: &str = "serviceaccounts";

/// The account that a secret keeps a token of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Owner {
    /// Namespace and name.
    path: Arc<str>,
    /// Empty where the secret does not tell: any account of the name is meant.
    uid: String,
}

impl Owner {
    /// The owner of the token in `secret`, of which the decoded form is `object`.
    fn of(brand: &Brand, path: &str, object: &Value) -> Option<Owner> {
        let namespace = ObjectPath::of(path).namespace();
        let annotations = object.at("metadata").at("annotations");
        let name = annotations.text(&brand.label("service-account.name"));
        let uid = annotations.text(&brand.label("service-account.uid")).to_owned();
        (!name.is_empty()).then(|| Owner { path: format!("{namespace}/{name}").into(), uid })
    }

    /// Whether `account` is the one that is meant.
    fn is(&self, account: &SharedObject) -> bool {
        self.uid.is_empty() || self.uid == account.index.uid
    }
}

/// Whether a secret is of the type that keeps tokens.
fn keeps_token(brand: &Brand, secret: &SharedObject) -> bool {
    secret.index.fields.value("type", 0) == brand.label("service-account-token")
}
