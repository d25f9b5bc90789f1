//! From a schema to its parts with rules.
//!
//! Owns the walk over the structural part of a schema, with what each rule's place says: the types of `self` and `oldSelf`,
//! how often the part may be there, and whether its old value can be found. Invariant: a path is made for parts with rules
//! only, since a path may be as long as the schema is deep, times the longest name.

use std::sync::{Arc, OnceLock};

use orch_expression::schema::{Cardinality, Declared, Keywords, Root, SchemaTypes};
use orch_proto::Brand;
use orch_schema::value::{SmolStr, Value};

use super::compile::Texts;
use super::{Children, Node, Reason, Rule, SchemaRules, field_path};
use crate::expression::Exhausted;
use crate::validate::Path;
use crate::validate::tree::Tree;

/// Levels of a schema that are walked, as for the types of the language.
const LEVELS_MAX: usize = 100;

/// Takes the rules of each part.
pub(super) trait Visitor {
    /// The `rules` of `schema` at `place`, as the tree has them; none of a visitor that needs no tree.
    ///
    /// # Errors
    /// The steps are not left: the walk ends.
    fn rules(
        &mut self,
        schema: &Value,
        rules: &[Value],
        seen: &Seen,
        place: &Place<'_>,
    ) -> Result<Vec<Rule>, Exhausted>;
}

/// The values that expressions at a part of a schema see.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The declaration of `self`; `None` of a part without a type of the language.
    pub(super) declared: Option<Arc<Declared>>,
    /// The object types in it.
    pub(super) types: Arc<SchemaTypes>,
}

impl Seen {
    /// A part that is declared on its own.
    fn of(declared: Option<Arc<Declared>>) -> Seen {
        let types = declared.as_ref().map(SchemaTypes::of).unwrap_or_default();
        Seen { declared, types: Arc::new(types) }
    }
}

/// Where a part of a schema stands.
#[derive(Clone, Copy)]
pub(super) struct Place<'p> {
    step: Step<'p>,
    pub(super) cardinality: Cardinality,
    /// The list around, in which old values cannot be found.
    pub(super) uncorrelatable: Option<&'p Place<'p>>,
    /// Of the part, once it is visited; of the part around before.
    pub(super) typing: Typing,
    levels: usize,
}

/// Whether the rules of a part have a type for `self`. The reference looks for the types of a part only where it or a part around it has
/// rules, and below one without a type for none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Typing {
    /// Neither the part nor one around it has rules.
    Unneeded,
    /// It has a type.
    Known,
    /// It has none, or a part around it that needs one has none.
    Missing,
}

impl Typing {
    /// That of a part inside of one with this.
    fn inside(self, has_rules: bool, declared: Option<&Arc<Declared>>) -> Typing {
        match (self, declared) {
            (Typing::Unneeded, _) if !has_rules => Typing::Unneeded,
            (Typing::Missing, _) | (_, None) => Typing::Missing,
            (_, Some(_)) => Typing::Known,
        }
    }
}

/// The way from the part around.
#[derive(Clone, Copy)]
enum Step<'p> {
    /// The whole schema has this path.
    Root(&'p Path),
    Property(&'p Place<'p>, &'p str),
    Items(&'p Place<'p>),
    Values(&'p Place<'p>),
}

impl Place<'_> {
    /// The path in errors of definitions.
    pub(super) fn path(&self) -> Path {
        match self.step {
            Step::Root(path) => path.clone(),
            Step::Property(around, name) => around.path().child("properties").key(name),
            Step::Items(around) => around.path().child("items"),
            Step::Values(around) => around.path().child("additionalProperties"),
        }
    }
}

/// A walk over one schema.
pub(super) struct Walk<'w> {
    keywords: Keywords,
    names: Names,
    visitor: &'w mut dyn Visitor,
}

/// Names of the extensions that are read here.
pub(super) struct Names {
    pub(super) validations: String,
    list_type: String,
    list_map_keys: String,
}

impl Names {
    pub(super) fn of(brand: &Brand) -> Names {
        let name = |stem: &str| format!("{}{stem}", brand.extension_prefix);
        Names {
            validations: name("validations"),
            list_type: name("list-type"),
            list_map_keys: name("list-map-keys"),
        }
    }

    /// Whether a part of `schema` has rules.
    pub(super) fn any_rules(&self, schema: &Value, levels: usize) -> bool {
        let Some(levels) = levels.checked_sub(1) else { return false };
        let below = |name: &str| schema.at(name).is_object() && self.any_rules(schema.at(name), levels);
        let mut properties = schema.at("properties").as_object().into_iter().flatten();
        !schema.items(&self.validations).is_empty()
            || below("items")
            || below("additionalProperties")
            // once: each property is looked at once.
            || properties.any(|(_, property)| self.any_rules(property, levels))
    }
}

/// The beginning of a walk over a schema.
pub(super) struct Plan {
    seen: Seen,
    keywords: Keywords,
    names: Names,
}

impl Plan {
    /// The plan for `schema`, the whole schema of a version; `None` if it has no rules.
    pub(super) fn of(schema: &Value, brand: &Brand) -> Option<Plan> {
        let names = Names::of(brand);
        if !names.any_rules(schema, LEVELS_MAX) {
            return None;
        }
        let keywords = Keywords::with_prefix(brand.extension_prefix);
        let seen = Seen::of(keywords.declare(schema, Root::Resource));
        Some(Plan { seen, keywords, names })
    }

    /// Walks over `schema`, whose path is `path`.
    ///
    /// # Errors
    /// The visitor ended the walk.
    pub(super) fn walk(
        self,
        schema: &Value,
        path: &Path,
        visitor: &mut dyn Visitor,
    ) -> Result<Option<Node>, Exhausted> {
        let place = Place {
            step: Step::Root(path),
            cardinality: Cardinality::ROOT,
            uncorrelatable: None,
            typing: Typing::Unneeded,
            levels: LEVELS_MAX,
        };
        let Plan { seen, keywords, names } = self;
        Walk { keywords, names, visitor }.node(schema, seen, &place)
    }
}

impl Walk<'_> {
    fn node(&mut self, schema: &Value, seen: Seen, place: &Place<'_>) -> Result<Option<Node>, Exhausted> {
        let Some(levels) = place.levels.checked_sub(1) else { return Ok(None) };
        let rules = schema.items(&self.names.validations);
        let typing = place.typing.inside(!rules.is_empty(), seen.declared.as_ref());
        let place = &Place { typing, ..*place };
        // The reference tells of the parts inside first.
        let children = self.children(schema, &seen, place, levels)?;
        let rules = match rules {
            [] => Vec::new(),
            rules => self.visitor.rules(schema, rules, &seen, place)?,
        };
        if rules.is_empty() && matches!(children, Children::None) {
            return Ok(None);
        }
        let type_name = schema.text("type").into();
        Ok(Some(Node { type_name, seen, rules: rules.into(), children }))
    }

    /// A part of `around`, declared on its own where that does not show it.
    fn part(&self, schema: &Value, shown: Option<&Arc<Declared>>, around: &Seen) -> Seen {
        match shown {
            Some(declared) => Seen { declared: Some(declared.clone()), types: around.types.clone() },
            None => Seen::of(self.keywords.declare(schema, Root::Part)),
        }
    }

    fn children(
        &mut self,
        schema: &Value,
        seen: &Seen,
        place: &Place<'_>,
        levels: usize,
    ) -> Result<Children, Exhausted> {
        let declared = seen.declared.as_ref();
        let element = declared.and_then(|declared| declared.element());
        if schema.at("items").is_object() {
            return self.items(schema, (seen, element), place, levels);
        }
        if schema.at("additionalProperties").is_object() {
            let values = schema.at("additionalProperties");
            let cardinality = place.cardinality.of_element(bound(schema, "maxProperties"));
            let place = Place { step: Step::Values(place), cardinality, levels, ..*place };
            let part = self.part(values, element, seen);
            let node = self.node(values, part, &place)?;
            return Ok(node.map_or(Children::None, |node| Children::Values(Box::new(node))));
        }
        let mut nodes = Vec::new();
        for (name, property) in schema.at("properties").as_object().into_iter().flatten() {
            let shown = declared.and_then(|declared| declared.property(name));
            let place = Place { step: Step::Property(place, name), levels, ..*place };
            let part = self.part(property, shown, seen);
            if let Some(node) = self.node(property, part, &place)? {
                nodes.push((name.clone(), node));
            }
        }
        nodes.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(if nodes.is_empty() { Children::None } else { Children::Properties(nodes.into()) })
    }

    fn items(
        &mut self,
        schema: &Value,
        (seen, element): (&Seen, Option<&Arc<Declared>>),
        place: &Place<'_>,
        levels: usize,
    ) -> Result<Children, Exhausted> {
        let keys = (schema.text(&self.names.list_type) == "map").then(|| {
            let keys = schema.items(&self.names.list_map_keys).iter();
            keys.filter_map(Value::as_str).map(SmolStr::from).collect::<Box<[SmolStr]>>()
        });
        let place = Place {
            step: Step::Items(place),
            cardinality: place.cardinality.of_element(bound(schema, "maxItems")),
            uncorrelatable: place.uncorrelatable.or_else(|| keys.is_none().then_some(place)),
            levels,
            ..*place
        };
        let items = schema.at("items");
        let part = self.part(items, element, seen);
        let node = self.node(items, part, &place)?;
        Ok(node.map_or(Children::None, |node| Children::Items(Box::new(node), keys)))
    }
}

/// A bound of a schema; negative ones count as zero.
fn bound(schema: &Value, name: &str) -> Option<u64> {
    let bound = schema.at(name).as_i64()?;
    Some(u64::try_from(bound).unwrap_or(0))
}

/// Keeps the rules.
struct Keep;

impl Visitor for Keep {
    fn rules(
        &mut self,
        schema: &Value,
        rules: &[Value],
        _seen: &Seen,
        _place: &Place<'_>,
    ) -> Result<Vec<Rule>, Exhausted> {
        // A rule without a text is refused with the definition.
        let rules = rules.iter().filter(|rule| !rule.text("rule").trim().is_empty());
        Ok(rules.map(|rule| Rule::of(rule, schema)).collect())
    }
}

impl Rule {
    /// `rule` of `schema`.
    fn of(rule: &Value, schema: &Value) -> Rule {
        Rule {
            text: rule.text("rule").trim().into(),
            message: rule.text("message").trim().into(),
            message_expression: rule.text("messageExpression").into(),
            reason: Reason::of(rule.at("reason").as_str()),
            field_path: field_path::normalized(rule.text("fieldPath"), schema).into(),
            has_optional_old: rule.flag("optionalOldSelf"),
            compiled: OnceLock::new(),
        }
    }
}

impl<'r> Texts<'r> {
    /// The texts of `rule`, as the schema has it.
    pub(super) fn of(rule: &'r Value) -> Texts<'r> {
        let has_optional_old = rule.flag("optionalOldSelf");
        Texts { rule: rule.text("rule"), message: rule.text("messageExpression"), has_optional_old }
    }
}

/// The rules of a whole schema.
pub(super) fn rules_of(schema: &Value, brand: &'static Brand) -> SchemaRules {
    let Some(plan) = Plan::of(schema, brand) else {
        return SchemaRules { root: None, brand, reads_head: false };
    };
    // The visitor never ends the walk.
    let root = plan.walk(schema, &Path::default(), &mut Keep).unwrap_or_default();
    let own = root.as_ref().map(|root| &*root.rules).unwrap_or_default();
    let names_head = |text: &str| text.contains("apiVersion") || text.contains("kind");
    let properties = match root.as_ref().map(|root| &root.children) {
        Some(Children::Properties(nodes)) => &nodes[..],
        _ => &[],
    };
    // once: the rules of the whole object, and its properties.
    let reads_head = own.iter().any(|rule| names_head(&rule.text) || names_head(&rule.message_expression))
        // once: as above.
        || properties.iter().any(|(name, _)| matches!(&**name, "apiVersion" | "kind"));
    SchemaRules { root, brand, reads_head }
}
