//! Paths and queries of the API.
//!
//! Owns how a kind, a namespace, a name and a sub-resource become a path, and the encoding of what users chose.

use orch_proto::Brand;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::kind::{Group, Kind};

/// Characters that are percent-encoded: all but those that need no encoding in any part of a URI.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The path of the collection of `kind` in `namespace`, or in all of them where that is empty.
pub(super) fn collection(brand: &Brand, kind: &Kind, namespace: &str) -> String {
    let root = match kind.group {
        Group::Core => "/api".to_owned(),
        Group::Plain(name) => format!("/apis/{name}"),
        Group::Branded(stem) => format!("/apis/{}", brand.group(stem)),
    };
    match namespace {
        "" => format!("{root}/v1/{}", kind.plural),
        namespace => format!("{root}/v1/namespaces/{}/{}", encode(namespace), kind.plural),
    }
}

/// The path of one object, or of a sub-resource of it where that is not empty.
pub(super) fn object(brand: &Brand, kind: &Kind, namespace: &str, name: &str, subresource: &str) -> String {
    let mut path = collection(brand, kind, namespace);
    path.push('/');
    path.push_str(&encode(name));
    if !subresource.is_empty() {
        path.push('/');
        path.push_str(subresource);
    }
    path
}

/// A query in the making: `?a=1&b=2`, nothing where no parameter has a value.
#[derive(Debug, Default)]
pub(super) struct Query(String);

impl Query {
    /// Adds `name` with `value`, unless that is empty.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        if !value.is_empty() {
            self.0.push(if self.0.is_empty() { '?' } else { '&' });
            self.0.push_str(name);
            self.0.push('=');
            self.0.push_str(&encode(value));
        }
        self
    }

    /// `path` with the query behind it.
    pub(super) fn after(self, path: String) -> String {
        path + &self.0
    }
}

fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;
    use crate::api::{apps, core, storage};
    use crate::client::kind::Object;

    #[test]
    fn paths_follow_group_brand_and_namespace() {
        let pods = &core::v1::Pod::KIND;
        assert_eq!(collection(&ORCH, pods, ""), "/api/v1/pods");
        assert_eq!(object(&ORCH, pods, "a", "b", "binding"), "/api/v1/namespaces/a/pods/b/binding");
        assert_eq!(
            collection(&ORCH, &apps::v1::ReplicaSet::KIND, "x"),
            "/apis/apps/v1/namespaces/x/replicasets"
        );
        for brand in [&ORCH, &KUBERNETES] {
            let classes = collection(brand, &storage::v1::StorageClass::KIND, "");
            assert_eq!(classes, format!("/apis/{}/v1/storageclasses", brand.group("storage")));
        }
    }

    #[test]
    fn names_and_values_are_encoded() {
        assert_eq!(object(&ORCH, &core::v1::Node::KIND, "", "a/../b?c", ""), "/api/v1/nodes/a%2F..%2Fb%3Fc");
        let query = Query::default().with("fieldSelector", "status.phase!=Failed,a=b c").with("limit", "");
        assert_eq!(query.after("/p".to_owned()), "/p?fieldSelector=status.phase%21%3DFailed%2Ca%3Db%20c");
        assert_eq!(Query::default().after("/p".to_owned()), "/p");
    }
}
