//! Variables that the server's places give to expressions.
//!
//! Owns the types of `self` and `oldSelf` in rules of custom kinds, and of `object`, `request`, `params`, `authorizer` and
//! the others in admission ([`objects`] has their members). Their values are made by the places. Invariant: values are given in the order of the variables
//! here, which is that of [`AdmissionVariable`].

mod objects;

use std::collections::HashMap;
use std::sync::Arc;

use self::objects::{Both, NAMESPACE, REQUEST, ServerObjects, VARIABLES, WithVariables};
pub use self::objects::{JSON_PATCH, MUTATED_OBJECT};
use crate::library::access_checks::{AUTHORIZER, RESOURCE_CHECK};
use crate::schema::{Declared, SchemaTypes};
use crate::scope::{Libraries, Objects, Scope};
use crate::types::Type;

/// The type of `oldSelf` in a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldSelf {
    /// That of `self`.
    Value,
    /// An optional of it: `optionalOldSelf` is set.
    Optional,
}

/// The scope of rules at the declaration `at`, whose objects are among `types`. The variables are `self` and `oldSelf`.
pub fn rule_scope(types: &Arc<SchemaTypes>, at: &Declared, old: OldSelf, brand: &'static str) -> Scope {
    let own = at.type_of();
    let before = match old {
        OldSelf::Value => own.clone(),
        OldSelf::Optional => Type::optional(own.clone()),
    };
    Scope::default()
        .with_brand(brand)
        .with_shared_objects(Arc::clone(types) as Arc<dyn Objects>)
        .with_variable("self", own)
        .with_variable("oldSelf", before)
}

/// A variable of admission, in the order of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmissionVariable {
    /// The object of the request.
    Object,
    /// The object before it.
    OldObject,
    /// The request without its objects.
    Request,
    /// The namespace of the object.
    NamespaceObject,
    /// The parameter of the binding.
    Params,
    /// The values of variables, which are evaluated when they are read.
    Variables,
    /// Questions about rights.
    Authorizer,
    /// The same about the resource of the request.
    RequestResource,
}

impl AdmissionVariable {
    /// All of them.
    pub const ALL: [AdmissionVariable; 8] = [
        AdmissionVariable::Object,
        AdmissionVariable::OldObject,
        AdmissionVariable::Request,
        AdmissionVariable::NamespaceObject,
        AdmissionVariable::Params,
        AdmissionVariable::Variables,
        AdmissionVariable::Authorizer,
        AdmissionVariable::RequestResource,
    ];

    /// The name in expressions.
    pub fn name(self) -> &'static str {
        match self {
            AdmissionVariable::Object => "object",
            AdmissionVariable::OldObject => "oldObject",
            AdmissionVariable::Request => "request",
            AdmissionVariable::NamespaceObject => "namespaceObject",
            AdmissionVariable::Params => "params",
            AdmissionVariable::Variables => "variables",
            AdmissionVariable::Authorizer => "authorizer",
            AdmissionVariable::RequestResource => "authorizer.requestResource",
        }
    }

    /// The place of its value.
    pub fn place(self) -> usize {
        self as usize
    }
}

/// Types of objects that admission shows, with those of variables that are known so far.
#[derive(Clone)]
pub struct AdmissionTypes {
    objects: Arc<dyn Objects>,
    brand: &'static str,
    variables: HashMap<String, Type>,
    /// Types that the place knows, by variable; `dyn` of others.
    known: HashMap<&'static str, Type>,
}

impl std::fmt::Debug for AdmissionTypes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AdmissionTypes").field("variables", &self.variables).finish_non_exhaustive()
    }
}

impl AdmissionTypes {
    /// Those of a cluster with the brand of this name, without variables.
    pub fn of(brand: &'static str) -> AdmissionTypes {
        AdmissionTypes {
            objects: Arc::new(ServerObjects::of(brand)),
            brand,
            variables: HashMap::new(),
            known: HashMap::new(),
        }
    }

    /// The types with one more variable of the policy, `variables.name`, whose expression has the type `of`. As in the reference, a
    /// variable that is an object, an optional, or a value of a library is `dyn`.
    #[must_use]
    pub fn with_policy_variable(mut self, name: &str, of: &Type) -> AdmissionTypes {
        self.variables.insert(name.to_owned(), of_variable(of));
        self
    }

    /// The types where `variable` has a type that is known, whose objects are among `types`.
    #[must_use]
    pub fn with_known(
        mut self,
        variable: AdmissionVariable,
        of: Type,
        types: Arc<SchemaTypes>,
    ) -> AdmissionTypes {
        self.known.insert(variable.name(), of);
        self.objects = Arc::new(Both(self.objects, types));
        self
    }

    /// The scope of an expression that may name `declared`. Values have the places of [`AdmissionVariable`].
    pub fn scope(&self, declared: &[AdmissionVariable], libraries: Libraries) -> Scope {
        let objects = WithVariables {
            objects: Arc::clone(&self.objects),
            variables: self.variables.clone(),
            has_mutations: libraries.mutations,
        };
        let mut scope =
            Scope::default().with_brand(self.brand).with_libraries(libraries).with_objects(objects);
        for variable in AdmissionVariable::ALL {
            // few: the variables of admission.
            let is_declared = declared.contains(&variable);
            let of = self.known.get(variable.name()).cloned().unwrap_or_else(|| self.type_of(variable));
            // A variable that is not declared keeps its place, under a name that no expression can spell.
            let name = if is_declared { variable.name() } else { "" };
            scope = scope.with_variable(name, of);
        }
        scope
    }

    fn type_of(&self, variable: AdmissionVariable) -> Type {
        match variable {
            AdmissionVariable::Object | AdmissionVariable::OldObject | AdmissionVariable::Params => Type::Dyn,
            AdmissionVariable::Request => Type::object(&format!("{}.{REQUEST}", self.brand)),
            AdmissionVariable::NamespaceObject => Type::object(&format!("{}.{NAMESPACE}", self.brand)),
            AdmissionVariable::Variables => Type::object(VARIABLES),
            AdmissionVariable::Authorizer => Type::Opaque(AUTHORIZER),
            AdmissionVariable::RequestResource => Type::Opaque(RESOURCE_CHECK),
        }
    }
}

/// The type of a variable whose expression has the type `of`.
fn of_variable(of: &Type) -> Type {
    match of {
        Type::List(item) => Type::list(of_variable(item)),
        Type::Map(types) => Type::map(of_variable(&types.0), of_variable(&types.1)),
        Type::Any
        | Type::Null
        | Type::Bool
        | Type::Int
        | Type::Uint
        | Type::Double
        | Type::String
        | Type::Bytes
        | Type::Duration
        | Type::Timestamp => of.clone(),
        Type::Dyn
        | Type::Error
        | Type::Optional(_)
        | Type::Type(_)
        | Type::Opaque(_)
        | Type::Object(_)
        | Type::Param(_)
        | Type::Unknown(_) => Type::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Allowance, Ast, Budget, Limits, PatternLimits, Val};

    fn check(source: &str, declared: &[AdmissionVariable]) -> Result<String, String> {
        let types = AdmissionTypes::of("brand").with_policy_variable("n", &Type::Int);
        let scope = types.scope(declared, Libraries::default());
        let ast = Ast::check(source, &scope, &mut Allowance::of(u64::MAX)).unwrap();
        ast.map(|ast| scope.written(ast.result()).to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn admission_shows_its_variables() {
        let all = AdmissionVariable::ALL;
        for (source, of) in [
            ("object.spec.replicas", "dyn"),
            ("request.userInfo.groups", "list(string)"),
            ("request.kind", "brand.GroupVersionKind"),
            ("request.options.x", "dyn"),
            ("namespaceObject.metadata.labels", "map(string, string)"),
            ("namespaceObject.status.conditions[0].type", "string"),
            ("variables.n + 1", "int"),
            ("authorizer", "brand.authorization.Authorizer"),
            ("authorizer.requestResource.check('get').allowed()", "bool"),
            (
                "authorizer.group('apps').resource('deployments').namespace('x').check('get')",
                "brand.authorization.Decision",
            ),
            ("authorizer.path('/healthz').check('get').reason()", "string"),
        ] {
            assert_eq!(check(source, &all).as_deref(), Ok(of), "{source}");
        }
        for (source, reason) in [
            ("request.uid", "undefined field 'uid'"),
            ("variables.m", "undefined field 'm'"),
            (
                "authorizer.check('get')",
                "found no matching overload for 'check' applied to 'brand.authorization.Authorizer.(string)'",
            ),
            ("self", "undeclared reference to 'self'"),
        ] {
            let told = check(source, &all).unwrap_err();
            assert!(told.contains(reason), "{source}: {told}");
        }
    }

    #[test]
    fn mutations_make_objects_and_patches() {
        let types = AdmissionTypes::of("brand");
        let scope =
            types.scope(&AdmissionVariable::ALL, Libraries { mutations: true, ..Libraries::default() });
        let evaluated = |source: &str, root: &str| -> Result<(String, String), String> {
            let ast = Ast::check(source, &scope, &mut Allowance::of(u64::MAX)).unwrap();
            let ast = ast.map_err(|error| error.to_string())?;
            let of = ast.result().to_string();
            let program = ast.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
            let object = orch_schema::json!({"spec": {"n": 2}});
            let mut variables: Vec<Option<Val<'_>>> = vec![None; AdmissionVariable::ALL.len()];
            variables[AdmissionVariable::Object.place()] = Some(Val::json(&object));
            let mut budget = Budget::of(1_000_000);
            let value = program.evaluate(&variables, Limits::CALL, &mut budget);
            let value = value.map_err(|error| error.to_string())?;
            Ok((of, value.to_document(root)?.to_string()))
        };
        let made = |source: &str| evaluated(source, MUTATED_OBJECT);
        let made_as = |source: &str, root: &str| evaluated(source, root).map(|(_, document)| document);
        let (of, document) =
            made("Object{spec: Object.spec{n: object.spec.n + 1, ?m: optional.none(), l: [{'a': 1}]}}")
                .unwrap();
        assert_eq!((of.as_str(), document.as_str()), ("Object", r#"{"spec":{"n":3,"l":[{"a":1}]}}"#));
        let path = "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}].map(p, p.path)";
        assert_eq!(made(path).unwrap().1, r#"["/metadata/labels/a~1b"]"#);
        let put =
            "[JSONPatch{op: 'add', path: '/spec', value: Object.spec{n: 1, deep: Object.spec.deep{a: 2}}}]";
        let patch = made_as(put, JSON_PATCH).unwrap();
        assert_eq!(patch, r#"[{"op":"add","path":"/spec","value":{"n":1,"deep":{"a":2}}}]"#);
        let told = made_as(
            "[JSONPatch{op: 'add', path: '/', value: Object.spec{deep: Object.other{}}}]",
            JSON_PATCH,
        );
        assert!(told.unwrap_err().contains("expected \"Object.spec.deep\""));
        for (source, reason) in [
            (
                "Object{spec: Object.status{}}",
                "unexpected type name \"Object.status\", expected \"Object.spec\"",
            ),
            ("JSONPatch{op: 1}", "expected type of field 'op' is 'string' but provided type is 'int'"),
            ("JSONPatch{what: 1}", "undefined field 'what'"),
            ("Other{a: 1}", "undeclared reference to 'Other'"),
        ] {
            let told = made(source).unwrap_err();
            assert!(told.contains(reason), "{source}: {told}");
        }
    }

    #[test]
    fn a_place_shows_only_what_it_declares() {
        let told = check("params.x == 1", &[AdmissionVariable::Object]).unwrap_err();
        assert!(told.contains("undeclared reference to 'params'"), "{told}");
        assert!(check("object.x == 1", &[AdmissionVariable::Object]).is_ok());
    }
}
