//! The objects without which another one does not stay at the target.
//!
//! Owns what counts as such: owner references, whose absence has the garbage collector remove an object, and the account of a secret that
//! keeps a token, whose absence has the loop over such secrets remove it.

use orch_proto::Brand;
use serde_json::Value;

use super::kinds::Kind;
use super::left_out::is_token;

/// An object that another one needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    /// Empty for core.
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// The objects that `object` needs.
pub(super) fn owners_of(brand: &Brand, kind: &Kind, object: &Value) -> Vec<Owner> {
    let references = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let mut owners: Vec<Owner> = references.filter_map(owner).collect();
    if is_token(brand, kind, object) {
        owners.extend(account_of(brand, object));
    }
    owners
}

/// The uids of `owners`.
pub(super) fn uids_of(owners: &[Owner]) -> Vec<String> {
    owners.iter().map(|owner| owner.uid.clone()).collect()
}

/// The account of a secret that keeps a token; `None` while the secret does not tell its uid.
pub(super) fn account_of(brand: &Brand, secret: &Value) -> Option<Owner> {
    let annotations = &secret["metadata"]["annotations"];
    let text = |key: &str| annotations[brand.label(key)].as_str().filter(|text| !text.is_empty());
    let (name, uid) = (text("service-account.name")?, text("service-account.uid")?);
    Some(Owner {
        group: String::new(),
        kind: "ServiceAccount".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    })
}

fn owner(reference: &Value) -> Option<Owner> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let api_version = text("apiVersion");
    let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
    let uid = reference["uid"].as_str()?.to_owned();
    Some(Owner { group, kind: text("kind"), name: text("name"), uid })
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_secret_with_a_token_needs_its_account() {
        let kind = |plural: &str| Kind {
            group: String::new(),
            version: "v1".to_owned(),
            plural: plural.to_owned(),
            kind: "K".to_owned(),
            namespaced: true,
        };
        let secret = json!({
            "metadata": {
                "name": "s",
                "annotations": {"orch.io/service-account.name": "a", "orch.io/service-account.uid": "u-a"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u-d"}],
            },
            "type": "orch.io/service-account-token",
        });
        let owners = owners_of(&ORCH, &kind("secrets"), &secret);
        assert_eq!(uids_of(&owners), ["u-d", "u-a"]);
        assert_eq!((owners[0].group.as_str(), owners[1].kind.as_str()), ("apps", "ServiceAccount"));
        assert_eq!(uids_of(&owners_of(&ORCH, &kind("configmaps"), &secret)), ["u-d"]);
    }
}
