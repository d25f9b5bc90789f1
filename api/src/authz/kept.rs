//! Attributes that outlive what they were read from: the question of a review, and the right to an answer that takes long.
//!
//! Owns the copies of their texts. It decides nothing.

use super::{Attributes, ResourceAttributes};

/// Attributes with texts of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeptAttributes {
    /// Verb, group, version, resource, sub-resource, namespace, name, field selector and label selector.
    Resource([Box<str>; 9]),
    /// Verb and path.
    Path([Box<str>; 2]),
}

impl Default for KeptAttributes {
    /// A request for a resource without a name.
    fn default() -> Self {
        KeptAttributes::of(Attributes::Resource(ResourceAttributes::default()))
    }
}

impl KeptAttributes {
    /// Copies of `attributes`.
    pub fn of(attributes: Attributes<'_>) -> KeptAttributes {
        match attributes {
            Attributes::Resource(ResourceAttributes {
                verb,
                group,
                version,
                resource,
                subresource,
                namespace,
                name,
                field_selector,
                label_selector,
            }) => {
                let texts = [
                    verb,
                    group,
                    version,
                    resource,
                    subresource,
                    namespace,
                    name,
                    field_selector,
                    label_selector,
                ];
                KeptAttributes::Resource(texts.map(Box::from))
            }
            Attributes::Path { verb, path } => KeptAttributes::Path([verb.into(), path.into()]),
        }
    }

    /// The same as authorizers see them.
    pub fn attributes(&self) -> Attributes<'_> {
        match self {
            KeptAttributes::Resource(texts) => {
                let texts = texts.each_ref().map(|text| &**text);
                let [
                    verb,
                    group,
                    version,
                    resource,
                    subresource,
                    namespace,
                    name,
                    field_selector,
                    label_selector,
                ] = texts;
                Attributes::Resource(ResourceAttributes {
                    verb,
                    group,
                    version,
                    resource,
                    subresource,
                    namespace,
                    name,
                    field_selector,
                    label_selector,
                })
            }
            KeptAttributes::Path([verb, path]) => Attributes::Path { verb, path },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_attributes_are_those_that_were_copied() {
        let asked = ResourceAttributes {
            verb: "list",
            group: "g",
            version: "v1",
            resource: "things",
            subresource: "status",
            namespace: "n",
            name: "x",
            field_selector: "a=b",
            label_selector: "c=d",
        };
        let kept = KeptAttributes::of(Attributes::Resource(asked));
        assert!(matches!(kept.attributes(), Attributes::Resource(found) if found == asked));
        let kept = KeptAttributes::of(Attributes::Path { verb: "get", path: "/x" });
        assert!(matches!(kept.attributes(), Attributes::Path { verb: "get", path: "/x" }));
    }
}
