//! A served resource: schema definition, strategy of the kind, and precomputed bytes of responses.
//!
//! Owns what a resource is made of: [`Kind`], whether it is built in or added while the node runs.

pub(super) mod assembled;

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;
use orch_proto::Brand;
use orch_raft::Revision;
use orch_rules::Action;
use orch_rules::kinds::version::other_form;
use orch_rules::kinds::{Strategy, strategy_for};
use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use orch_schema::{ResourceType, Schema, TypeId};

use super::published::Published;
use super::record::{End, Record, Stage};
use crate::authz::review::Review;
use crate::conversion::{Conversion, ConvertFn, Direct, Staged};
use crate::error::{ApiError, Subject};
use crate::fields::OtherVersion;
use crate::request::Verb;
use crate::tables::Tables;

/// One served resource in one version. It shares ownership of its definition and schema, so that a request keeps
/// working after its registry was replaced and dropped.
pub struct Resource {
    /// Names, verbs, sub-resources and columns. `Resource` dereferences to it.
    pub definition: Arc<ResourceType>,
    /// The schema that holds `type_id`, and is made when it is first needed.
    pub schema: Tables,
    /// The rules of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// Group of the paths that it is served under, by which errors name it: that of the object, where a sub-resource has
    /// documents of a kind in another group.
    pub path_group: String,
    /// Name of the collection in the store. Versions and groups of the same objects share it.
    pub storage: Arc<str>,
    /// The other served versions of the same objects.
    pub others: Vec<OtherVersion>,
    /// See [`Resource::stands_for_stored`].
    stands_for_stored: bool,
    /// Conversion between stored objects and this version's form; `None` when they are the same for ever.
    pub conversion: Option<Conversion>,
    /// The review that a create answers; `None` for objects that are stored.
    pub review: Option<Review>,
    /// The definition that the resource was made of, where it was added while the node runs. Its writes depend on it.
    pub record: Option<Record>,
    /// The schema that OpenAPI publishes of a declared kind; `None`: that of the types.
    pub published: Option<Published>,
    /// When the resource is taken away or served in another form; `None` for built-in ones, which are not.
    pub end: Option<End>,
    /// How far its definition has come; built-in ones are in force.
    pub stage: Stage,
    /// See [`Resource::is_of_declared`].
    is_of_declared: bool,
    /// Sub-resources whose documents are of a kind of their own, each as the resource of that kind.
    documents: Vec<(Action, Arc<Resource>)>,
    /// `{"kind":"Role","apiVersion":"...",`: the bytes before an object's stored bytes.
    pub head: Bytes,
    /// See [`Resource::resets`].
    object_resets: Vec<String>,
    status_resets: Vec<String>,
    /// Those of sub-resources that state their own.
    other_resets: Vec<(Action, Vec<String>)>,
}

impl Deref for Resource {
    type Target = ResourceType;

    fn deref(&self) -> &ResourceType {
        &self.definition
    }
}

/// A resource to serve: its definition, with what code adds to it.
pub struct Kind {
    /// Names, verbs, sub-resources and columns.
    pub definition: ResourceType,
    /// The schema that holds its types.
    pub schema: Tables,
    /// Name of the collection in the store.
    pub storage: Arc<str>,
    /// The rules of the kind.
    pub strategy: Arc<dyn Strategy>,
    /// See [`Resource::conversion`].
    pub conversion: Option<Conversion>,
    /// See [`Resource::review`].
    pub review: Option<Review>,
    /// See [`Resource::record`].
    pub record: Option<Record>,
    /// See [`Resource::end`].
    pub end: Option<End>,
    /// See [`Resource::stage`].
    pub stage: Stage,
    /// See [`Resource::published`].
    pub published: Option<Published>,
}

impl Resource {
    /// Group, version and plural name.
    pub(super) fn path(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.plural)
    }

    /// Group, version and kind.
    pub(super) fn kind_path(&self) -> (&str, &str, &str) {
        (&self.group, &self.version, &self.kind)
    }

    /// Paths of the fields that `action` resets, so that it gives no manager ownership of them. A write of the object
    /// resets `status` where the kind has a status sub-resource. A write of the status resets `spec` and further fields
    /// of the kind. Another sub-resource resets what it states, or the same as the object.
    pub fn resets(&self, action: Action) -> &[String] {
        // few: the sub-resources of one resource.
        let own = self.other_resets.iter().find(|(of, _)| *of == action);
        match action {
            Action::Status => &self.status_resets,
            _ => own.map_or(&self.object_resets, |(_, resets)| resets),
        }
    }

    /// Whether the resource itself, not a sub-resource, serves `verb`.
    pub fn allows(&self, verb: Verb) -> bool {
        self.verbs.iter().any(|allowed| allowed == verb.as_str())
    }

    /// The resource whose documents `action` reads and writes: this one, or one of the sub-resource's own kind under the
    /// same names.
    pub fn of_action(self: &Arc<Self>, action: Action) -> &Arc<Self> {
        // few: the sub-resources of one resource.
        let own = self.documents.iter().find(|(of, _)| *of == action);
        own.map_or(self, |(_, document)| document)
    }

    /// The action of a sub-resource, or of the object itself for the empty name. `None`: it is not served.
    pub fn action(&self, subresource: &str) -> Option<Action> {
        let is_served = subresource.is_empty() || self.subresource(subresource).is_some();
        Action::of(subresource).filter(|_| is_served)
    }

    /// The functions that convert a built-in kind; `None` where objects are shown as they are stored, or the conversion stage
    /// has converted them.
    pub fn direct(&self) -> Option<&Direct> {
        match &self.conversion {
            Some(Conversion::Direct(direct)) => Some(direct),
            Some(Conversion::Staged(_)) | None => None,
        }
    }

    /// The conversion of a declared kind, before the renderer.
    pub fn staged(&self) -> Option<&Staged> {
        match &self.conversion {
            Some(Conversion::Staged(staged)) => Some(staged),
            Some(Conversion::Direct(_)) | None => None,
        }
    }

    /// Whether a definition declares the kind: its bodies are text, and it has no strategic merge patches.
    pub fn is_declared(&self) -> bool {
        self.staged().is_some()
    }

    /// Whether the paths are those of a declared kind: the documents are its objects, or those of a sub-resource of it, such as its
    /// scale, whose kind is built in.
    pub fn is_of_declared(&self) -> bool {
        self.is_of_declared
    }

    /// Where `revision` is older than the kind, the revision at which that was defined: what is stored of `revision` under the
    /// same name was of an earlier kind.
    pub fn defined_after(&self, revision: Revision) -> Option<Revision> {
        self.record.as_ref().map(|record| record.created).filter(|created| revision < *created)
    }

    /// Whether this version stands for the stored objects where each of them counts once: of all versions of the same objects
    /// one. It is the version that objects are stored in, or the first one where a declared kind does not serve that.
    pub fn stands_for_stored(&self) -> bool {
        self.stands_for_stored
    }

    /// Name of the version that objects are stored in; `None`: that of the resource that stands for them.
    pub(super) fn stored_version(&self) -> Option<&str> {
        self.staged().map(|staged| &*staged.stored.version)
    }

    /// Converts `value`, which the rules of the kind apply to, to this version.
    pub fn to_version(&self, value: Value) -> Value {
        self.direct().map(|direct| checked(&direct.from_stored, &value)).unwrap_or(value)
    }

    /// Converts `value` from this version to the form that the rules of the kind apply to.
    pub fn to_rules(&self, value: Value) -> Value {
        self.direct().map(|direct| checked(&direct.to_stored, &value)).unwrap_or(value)
    }

    /// `value`, which is in this version, as it comes back from the form that the rules apply to; `None` where that is the
    /// same form.
    pub fn round_trip(&self, value: &Value) -> Option<Value> {
        self.direct().map(|direct| (direct.from_stored)(&(direct.to_stored)(value)))
    }

    /// The type of the bytes that are stored.
    pub fn stored_type(&self) -> TypeId {
        match &self.conversion {
            None => self.type_id,
            Some(Conversion::Direct(direct)) => direct.stored_type,
            Some(Conversion::Staged(staged)) => staged.stored_type,
        }
    }

    /// The schema that holds [`Resource::stored_type`].
    pub fn stored_schema(&self) -> &Tables {
        self.staged().map_or(&self.schema, |staged| &staged.stored_schema)
    }

    /// Makes the tables of its own form and of the stored one where that has not been done.
    ///
    /// # Errors
    /// `Internal`: making them has panicked, or the node stops.
    pub async fn make_tables(&self) -> Result<(), ApiError> {
        for tables in [&self.schema, self.stored_schema()] {
            tables.make().await.map_err(|error| ApiError::Internal(format!("{self:?}: {error}")))?;
        }
        Ok(())
    }

    /// The type of the bytes that come to the renderer.
    pub fn rendered_type(&self) -> TypeId {
        self.direct().map_or(self.type_id, |direct| direct.stored_type)
    }
}

impl Subject {
    /// An object, named by its resource, as most errors name it.
    pub fn resource(resource: &Resource, name: &str) -> Self {
        let group = resource.path_group.clone();
        Subject { group, kind: resource.plural.clone(), name: name.to_owned() }
    }

    /// An object, named by its kind, as validation errors name it.
    pub fn kind(resource: &Resource, name: &str) -> Self {
        // Objects of a converted version are validated in their stored form, whose group the errors name.
        let stored = resource.direct().map(|direct| direct.stored_group.to_owned());
        let group = stored.unwrap_or_else(|| resource.group.clone());
        Subject { group, kind: resource.kind.clone(), name: name.to_owned() }
    }
}

impl std::fmt::Debug for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Resource({}/{})", self.api_version(), self.plural)
    }
}

/// `value`, converted by a function of this program, which keeps its identity.
fn checked(convert: &ConvertFn, value: &Value) -> Value {
    let converted = convert(value);
    let same = |field| value.at("metadata").text(field) == converted.at("metadata").text(field);
    assert!(
        ["name", "namespace", "uid"].into_iter().all(same),
        "a conversion keeps the identity of an object"
    );
    converted
}

impl Kind {
    /// The built-in kind of `definition`, which `schema` holds; `None`: it is not served.
    pub fn built_in(schema: &Arc<Schema>, brand: &'static Brand, definition: &ResourceType) -> Option<Kind> {
        let domain = format!(".{}", brand.group_domain);
        let stem = definition.group.strip_suffix(&domain).unwrap_or(&definition.group);
        let own =
            if stem.is_empty() { definition.plural.clone() } else { format!("{}.{stem}", definition.plural) };
        let form = other_form(&own, &definition.version);
        let storage = form.map_or(own, |form| form.storage.to_owned());
        let strategy = strategy_for(&storage)?;
        let under_brand = |convert: fn(&Brand, &Value) -> Value| -> ConvertFn {
            Arc::new(move |value: &Value| convert(brand, value))
        };
        let conversion = form.map(|form| {
            Conversion::Direct(Direct {
                from_stored: under_brand(form.from_stored),
                to_stored: under_brand(form.to_stored),
                stored_field: form.stored_field,
                stored_group: form.stored_group,
                stored_type: schema.find_type(form.stored_type).expect("the stored kinds are in the schema"),
            })
        });
        let (definition, review) = (definition.clone(), Review::of(&storage));
        Some(Kind {
            definition,
            schema: schema.clone().into(),
            storage: storage.into(),
            strategy,
            conversion,
            review,
            record: None,
            end: None,
            stage: Stage::Established,
            published: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::registry::Registry;

    #[test]
    #[should_panic(expected = "keeps the identity of an object")]
    fn no_function_gives_an_object_another_name() {
        let rename: ConvertFn = Arc::new(|_| Value::from(serde_json::json!({"metadata": {"name": "b"}})));
        checked(&rename, &Value::from(serde_json::json!({"metadata": {"name": "a"}})));
    }

    #[test]
    fn every_selectable_field_has_one_name() {
        for resource in Registry::builtin(&ORCH).resources() {
            let selectable = &resource.rules.selectable;
            let names: std::collections::BTreeSet<_> = selectable.iter().map(|field| &field.name).collect();
            assert_eq!(names.len(), selectable.len(), "{resource:?}");
        }
    }

    #[test]
    fn few_objects_share_a_value_of_a_field_that_is_not_coarse() {
        let registry = Registry::builtin(&ORCH);
        let fields = registry.resources().flat_map(|resource| &resource.rules.selectable);
        let fine = fields.filter(|field| !field.withheld && !field.coarse).map(|field| field.name.as_str());
        let expected = [
            "involvedObject.name",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "spec.clusterIP",
            "spec.nodeName",
            "status.nominatedNodeName",
            "status.podIP",
            "status.podIPs",
        ];
        assert_eq!(fine.collect::<std::collections::BTreeSet<_>>(), expected.into());
    }

    #[test]
    fn versions_of_the_same_objects_have_the_same_rules() {
        let registry = Registry::builtin(&ORCH);
        let twins = |resource: &Arc<Resource>| {
            registry
                .resources()
                .filter(|other| other.storage == resource.storage)
                .cloned()
                .collect::<Vec<_>>()
        };
        for (resource, other) in
            registry.resources().flat_map(|one| twins(one).into_iter().map(move |other| (one, other)))
        {
            assert_eq!(resource.rules, other.rules, "{resource:?} and {other:?}");
        }
    }

    #[test]
    fn fields_that_a_status_leaves_alone_follow_from_the_sub_resource() {
        let registry = Registry::builtin(&ORCH);
        let resets = |group: &str, plural: &str, action| {
            registry.find(group, "v1", plural).unwrap().resets(action).to_vec()
        };
        assert_eq!(resets("apps", "deployments", Action::Object), ["status"]);
        assert_eq!(resets("apps", "deployments", Action::Status), ["spec", "metadata.labels"]);
        assert!(resets("", "configmaps", Action::Object).is_empty());
        let csr = |action| resets("certificates.orch.io", "certificatesigningrequests", action);
        assert_eq!(csr(Action::Object), ["status", "spec"]);
        assert_eq!(csr(Action::Status), ["spec", "status.conditions"]);
        assert_eq!(csr(Action::Approval), ["spec", "status.certificate"]);
    }
}
