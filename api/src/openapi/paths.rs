//! Paths of a resource with their operations, built from its definition in the registry.
//!
//! Owns the forms of paths and the ids of operations. A verb that discovery does not list has no operation.

use orch_rules::Action;
use orch_schema::value::Value;
use orch_schema::{Subresource, TypeId};

use super::names::{Names, capitalized, group_version_kind};
use super::operation::{Answered, Body, Described, Offer, Operation};
use super::parameters::{DELETE, DELETE_COLLECTION, LIST, NAME, NAMESPACE, PATCH, PRETTY, Parameter, WRITE};
use crate::registry::Resource;
use crate::request::Verb;

/// A path with its operations.
pub(super) struct Path {
    pub(super) path: String,
    /// Parameters shared by all operations of the path.
    pub(super) parameters: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// The objects that a path covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The objects of a cluster-scoped resource.
    Cluster,
    /// The objects of one namespace.
    Namespace,
    /// The objects of all namespaces.
    AllNamespaces,
}

/// The paths of `resource` that have operations.
pub(super) fn paths(names: &Names<'_>, resource: &Resource) -> Vec<Path> {
    let maker = Maker { names, resource };
    let home = if resource.namespaced { Reach::Namespace } else { Reach::Cluster };
    let mut paths = vec![maker.collection(home), maker.object(home)];
    paths.extend(resource.subresources.iter().flat_map(|part| match resource.action(&part.name) {
        Some(action) if action.is_passed_on() => maker.passed_on(home, part, action),
        _ => vec![maker.part(home, part)],
    }));
    if resource.namespaced {
        paths.push(maker.everywhere());
    }
    paths.extend(maker.watches(home));
    paths.retain(|path| !path.operations.is_empty());
    paths
}

pub(super) struct Maker<'a> {
    names: &'a Names<'a>,
    pub(super) resource: &'a Resource,
}

impl Maker<'_> {
    fn collection(&self, reach: Reach) -> Path {
        let mut operations = Vec::new();
        if let Some(list) = self.list(reach) {
            operations.push(list);
        }
        if self.allows("create") {
            operations.push(Operation {
                body: self.body(Action::Object, Verb::Create),
                codes: &[200, 201, 202],
                ..self.operation("post", "post", self.id("create", reach, ""), &WRITE)
            });
        }
        if self.allows("deletecollection") {
            let id = self.id_of("delete", "Collection", reach, "");
            operations.push(self.deletion(Verb::DeleteCollection, id, &DELETE_COLLECTION, &[200]));
        }
        Path { path: self.path(reach, ""), parameters: self.shared(reach, &[PRETTY]), operations }
    }

    fn object(&self, reach: Reach) -> Path {
        let mut operations = Vec::new();
        for (verb, method, prefix) in [(Verb::Get, "get", "read"), (Verb::Update, "put", "replace")] {
            if self.allows(verb.as_str()) {
                let own = self.operation(method, method, self.id(prefix, reach, ""), &[]);
                operations.push(self.written(own, Action::Object, verb));
            }
        }
        if self.allows("delete") {
            let id = self.id("delete", reach, "");
            operations.push(self.deletion(Verb::Delete, id, &DELETE, &[200, 202]));
        }
        if self.allows("patch") {
            let own = self.operation("patch", "patch", self.id("patch", reach, ""), &PATCH);
            operations.push(self.written(own, Action::Object, Verb::Patch));
        }
        let parameters = self.shared(reach, &[NAME, PRETTY]);
        Path { path: self.path(reach, "/{name}"), parameters, operations }
    }

    /// The path of a sub-resource.
    fn part(&self, reach: Reach, part: &Subresource) -> Path {
        let verbs = [
            (Verb::Get, "get", "read"),
            (Verb::Update, "put", "replace"),
            (Verb::Patch, "patch", "patch"),
            (Verb::Create, "post", "create"),
        ];
        let given =
            verbs.into_iter().filter(|(verb, ..)| part.verbs.iter().any(|given| given == verb.as_str()));
        let action = self.resource.action(&part.name).unwrap_or(Action::Object);
        let operations = given.map(|(verb, method, prefix)| {
            let id = self.id(prefix, reach, &capitalized(&part.name));
            let parameters: &'static [Parameter] = if method == "patch" { &PATCH } else { &[] };
            let own = self.operation(method, method, id, parameters);
            // Each operation of a declared kind names that kind, whatever its documents are.
            let kind = match self.is_declared() {
                true => own.kind.clone(),
                false => group_version_kind(&part.group, &part.version, &part.kind),
            };
            let description = format!("{prefix} {} of the specified {}", part.name, self.resource.kind);
            self.written(Operation { kind, description, ..own }, action, verb)
        });
        let parameters = self.shared(reach, &[NAME, PRETTY]);
        let path = self.path(reach, &format!("/{{name}}/{}", part.name));
        Path { path, parameters, operations: operations.collect() }
    }

    /// The path of the list across all namespaces.
    fn everywhere(&self) -> Path {
        let reach = Reach::AllNamespaces;
        let parameters = [&[PRETTY], &LIST[..]].concat();
        let own = self.list(reach).map(|list| Operation { parameters: &[], ..list });
        Path { path: self.path(reach, ""), parameters, operations: own.into_iter().collect() }
    }

    /// The deprecated paths of watches.
    fn watches(&self, home: Reach) -> Vec<Path> {
        // Documents of declared kinds have none: they are younger than the paths.
        if !self.allows("watch") || self.is_declared() {
            return Vec::new();
        }
        let mut shapes = vec![(home, "", "watchlist"), (home, "/{name}", "watch")];
        if home == Reach::Namespace {
            shapes.push((Reach::AllNamespaces, "", "watchlist"));
        }
        let Some(event) = self.response_type(Action::Object, Verb::Watch) else { return Vec::new() };
        let made = shapes.into_iter().map(|(reach, behind, action)| {
            let list = if action == "watch" { "" } else { "List" };
            let id = self.id_of("watch", "", reach, list);
            let own = Operation {
                answer: Answered::Object(event),
                streams: true,
                ..self.operation("get", action, id, &[])
            };
            let description = format!("watch {}. Deprecated: list with `watch` instead", self.resource.kind);
            let name: &[Parameter] = if behind.is_empty() { &[] } else { &[NAME] };
            Path {
                path: self.rooted("/watch", reach, behind),
                parameters: self.shared(reach, &[name, &[PRETTY], &LIST].concat()),
                operations: vec![Operation { description, ..own }],
            }
        });
        made.collect()
    }

    fn list(&self, reach: Reach) -> Option<Operation> {
        let answer = self.response_type(Action::Object, Verb::List).filter(|_| self.allows("list"))?;
        let own = self.operation("get", "list", self.id("list", reach, ""), &LIST);
        let streams = self.allows("watch") && !self.is_declared();
        Some(Operation { answer: Answered::Object(answer), streams, ..own })
    }

    fn deletion(
        &self,
        verb: Verb,
        id: String,
        parameters: &'static [Parameter],
        codes: &'static [u16],
    ) -> Operation {
        let own = self.operation("delete", verb.as_str(), id, parameters);
        let answer = self.response_type(Action::Object, verb).map_or(own.answer, Answered::Object);
        let body = self.request_type(Action::Object, Verb::Delete).map(Body::Optional);
        Operation { body, codes, answer, ..own }
    }

    /// An operation that returns the object and has no body.
    pub(super) fn operation(
        &self,
        method: &'static str,
        action: &'static str,
        id: String,
        parameters: &'static [Parameter],
    ) -> Operation {
        let resource = self.resource;
        Operation {
            method,
            action,
            id,
            description: format!("{action} {}", resource.kind),
            parameters,
            body: None,
            codes: &[200],
            answer: Answered::Object(self.document(Action::Object)),
            offer: if self.is_declared() { Offer::Text } else { Offer::All },
            streams: false,
            kind: group_version_kind(&resource.group, &resource.version, &resource.kind),
            tag: tag(self.names, &resource.group, &resource.version),
        }
    }

    /// `own` with the body, the response type and the codes of `action` by `verb`.
    fn written(&self, own: Operation, action: Action, verb: Verb) -> Operation {
        let answer = self.response_type(action, verb).map_or(own.answer, Answered::Object);
        let own = Operation { answer, body: self.body(action, verb), ..own };
        match verb {
            Verb::Update => Operation { codes: &[200, 201], parameters: &WRITE, ..own },
            Verb::Create => Operation { codes: &[200, 201, 202], parameters: &WRITE, ..own },
            Verb::Patch => Operation { body: Some(Body::Patch), codes: &[200, 201], ..own },
            _ => own,
        }
    }

    fn body(&self, action: Action, verb: Verb) -> Option<Body> {
        self.request_type(action, verb).map(Body::Required)
    }

    fn is_declared(&self) -> bool {
        self.resource.published.is_some()
    }

    /// See [`Resource::request_type`]. The tables of a declared kind are not made for it.
    fn request_type(&self, action: Action, verb: Verb) -> Option<Described> {
        if !self.is_declared() {
            return self.resource.request_type(action, verb).map(Described::Type);
        }
        match verb {
            Verb::Create | Verb::Update => Some(self.document(action)),
            Verb::Delete | Verb::DeleteCollection => self.built_in("meta.v1.DeleteOptions"),
            Verb::Get | Verb::List | Verb::Watch | Verb::Patch => None,
        }
    }

    /// See [`Resource::response_type`]; as [`Maker::request_type`].
    fn response_type(&self, action: Action, verb: Verb) -> Option<Described> {
        if !self.is_declared() {
            return self.resource.response_type(action, verb).map(Described::Type);
        }
        match verb {
            Verb::Get | Verb::Create | Verb::Update | Verb::Patch => Some(self.document(action)),
            Verb::List => Some(Described::DeclaredList),
            Verb::Watch => None,
            Verb::Delete | Verb::DeleteCollection => self.built_in("meta.v1.Status"),
        }
    }

    fn built_in(&self, name: &str) -> Option<Described> {
        self.names.schema.find_type(name).map(Described::Type)
    }

    /// The type that `action` reads and writes.
    fn document(&self, action: Action) -> Described {
        let part = self.resource.subresource(action.subresource());
        let own = part.map_or(self.resource.type_id, |part| part.type_id);
        let is_own = own == self.resource.type_id;
        if self.is_declared() && is_own { Described::Declared } else { Described::Type(own) }
    }

    fn id(&self, verb: &str, reach: Reach, part: &str) -> String {
        self.id_of(verb, "", reach, part)
    }

    /// An operation id: `read` + `CoreV1` + `Collection` + `Namespaced` + `Pod` + `Status` + `ForAllNamespaces`.
    pub(super) fn id_of(&self, verb: &str, group: &str, reach: Reach, part: &str) -> String {
        let resource = self.resource;
        let (before, behind) = match reach {
            Reach::Cluster => ("", ""),
            Reach::Namespace => ("Namespaced", ""),
            Reach::AllNamespaces => ("", "ForAllNamespaces"),
        };
        let api = self.names.in_operation_ids(&resource.group) + &capitalized(&resource.version);
        format!("{verb}{api}{group}{before}{}{part}{behind}", resource.kind)
    }

    pub(super) fn shared(&self, reach: Reach, more: &[Parameter]) -> Vec<Parameter> {
        let namespace: &[Parameter] = if reach == Reach::Namespace { &[NAMESPACE] } else { &[] };
        [namespace, more].concat()
    }

    pub(super) fn path(&self, reach: Reach, behind: &str) -> String {
        self.rooted("", reach, behind)
    }

    fn rooted(&self, root: &str, reach: Reach, behind: &str) -> String {
        let api = self.resource.api_version();
        let top = if self.resource.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if reach == Reach::Namespace { "/namespaces/{namespace}" } else { "" };
        format!("{top}/{api}{root}{namespace}/{}{behind}", self.resource.plural)
    }

    fn allows(&self, verb: &str) -> bool {
        self.resource.verbs.iter().any(|allowed| allowed == verb)
    }
}

/// A path of discovery: a GET for a document of type `answer`.
pub(super) fn discovery(names: &Names<'_>, path: String, id: String, answer: TypeId, tag: String) -> Path {
    let described = &names.schema.get(answer).name;
    let operation = Operation {
        method: "get",
        action: "",
        id,
        description: format!("read the {described} of this path"),
        parameters: &[],
        body: None,
        codes: &[200],
        answer: Answered::Object(Described::Type(answer)),
        offer: Offer::All,
        streams: false,
        kind: Value::Null,
        tag,
    };
    Path { path, parameters: Vec::new(), operations: vec![operation] }
}

/// The tag of a group version, or of a whole group if `version` is empty: `apps_v1`, `rbacAuthorization`.
pub(super) fn tag(names: &Names<'_>, group: &str, version: &str) -> String {
    let group = names.in_operation_ids(group);
    let mut letters = group.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    let mut tag: String = first.into_iter().chain(letters).collect();
    if !version.is_empty() {
        tag.push('_');
        tag.push_str(version);
    }
    tag
}
