//! The values of the variables of one evaluation, lent from documents.
//!
//! Owns [`Document`], an object with its kind, of which the tree has none, and the order of values.

use orch_expression::environments::AdmissionVariable;
use orch_expression::{Decisions, Map, Members, ResourceTarget, Text, Val};
use orch_schema::value::{Map as JsonMap, SmolStr, Value};

/// An object as expressions see it: with `apiVersion` and `kind`, which its tree does not have.
#[derive(Debug)]
pub struct Document<'a> {
    api_version: &'a str,
    kind: &'a str,
    members: &'a JsonMap,
    /// Names of the members.
    names: Vec<&'a SmolStr>,
}

const API_VERSION: &str = "apiVersion";
const KIND: &str = "kind";

impl<'a> Document<'a> {
    /// The object `value` of a kind; `None` if it is no object.
    pub fn new(api_version: &'a str, kind: &'a str, value: &'a Value) -> Option<Document<'a>> {
        let members = value.as_object()?;
        let names = members.keys().filter(|name| !is_head(name)).collect();
        Some(Document { api_version, kind, members, names })
    }
}

/// Whether the member tells the kind. Trees have none; what another server returned may.
fn is_head(name: &str) -> bool {
    name == API_VERSION || name == KIND
}

impl Members for Document<'_> {
    fn find<'v>(&'v self, name: &str) -> Option<Val<'v>> {
        match name {
            API_VERSION => Some(Val::Text(Text::Borrowed(self.api_version))),
            KIND => Some(Val::Text(Text::Borrowed(self.kind))),
            other => self.members.get(other).map(Val::json),
        }
    }

    fn has(&self, name: &str) -> bool {
        is_head(name) || self.members.contains_key(name)
    }

    fn name(&self, at: usize) -> Option<&str> {
        match at {
            0 => Some(API_VERSION),
            1 => Some(KIND),
            at => self.names.get(at - 2).map(|name| name.as_str()),
        }
    }

    fn len(&self) -> usize {
        self.names.len() + 2
    }
}

/// The values that a policy is evaluated over.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The object; `None` of a deletion.
    pub object: Option<&'a Document<'a>>,
    /// The object before; `None` of a create.
    pub old: Option<&'a Document<'a>>,
    /// The request without its objects.
    pub request: &'a Value,
    /// The request as match conditions see it.
    pub condition_request: &'a Value,
    /// The parameter; `None` without one.
    pub params: Option<&'a Document<'a>>,
    /// The namespace as expressions see it; `None` of objects without one.
    pub namespace: Option<&'a Value>,
    /// Answers to questions about rights.
    pub decisions: &'a dyn Decisions,
    /// The resource of the request, for questions about rights.
    pub target: &'a ResourceTarget,
}

/// The variables that some places lack at run time, though they may name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// All of them.
    All,
    /// Those of match conditions: all but the namespace, which is null.
    InConditions,
    /// All but the questions about rights, which have no value.
    WithoutAuthorizer,
}

/// Values in the order of the scope.
pub(super) type Values<'a> = [Option<Val<'a>>; AdmissionVariable::ALL.len()];

impl<'a> Input<'a> {
    pub(super) fn values(&self, shown: Shown) -> Values<'a> {
        let document =
            |of: Option<&'a Document<'a>>| Some(of.map_or(Val::Null, |of| Val::Map(Map::Object(of))));
        let namespace = self.namespace.filter(|_| shown != Shown::InConditions);
        let request = if shown == Shown::InConditions { self.condition_request } else { self.request };
        let authorizer = (shown != Shown::WithoutAuthorizer).then(|| {
            (Val::authorizer(self.decisions), Val::request_resource(self.decisions, self.target.clone()))
        });
        let (authorizer, resource) = authorizer.unzip();
        let mut values: Values<'a> = Default::default();
        let mut set = |variable: AdmissionVariable, value| values[variable.place()] = value;
        set(AdmissionVariable::Object, document(self.object));
        set(AdmissionVariable::OldObject, document(self.old));
        set(AdmissionVariable::Request, Some(Val::json(request)));
        set(AdmissionVariable::NamespaceObject, Some(namespace.map_or(Val::Null, Val::json)));
        set(AdmissionVariable::Params, document(self.params));
        set(AdmissionVariable::Authorizer, authorizer);
        set(AdmissionVariable::RequestResource, resource);
        values
    }
}
