//! Field selectors: equality over `metadata.name`, `metadata.namespace` and the fields a kind declares selectable.
//!
//! Owns the grammar and the conditions on each field. A field that the kind does not declare is an error of parsing,
//! never a silent mismatch.

use orch_schema::Selectable;
use orch_schema::excerpt::{part, quoted};

/// A parsed field selector: all terms must hold. Without terms it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// One condition for each field, so that the cost of an object does not grow with the number of terms.
    conditions: Box<[Condition]>,
}

/// A term of a field selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldTerm {
    /// The field.
    pub field: String,
    /// Whether it must have the value; otherwise it must not.
    pub is_equal: bool,
    /// The value.
    pub value: String,
}

/// All terms about one field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    field: Field,
    /// The field must have this value.
    value: Option<Box<str>>,
    /// Two terms require different values: no object matches.
    is_contradiction: bool,
    /// The field must have none of these values, sorted.
    excluded: Vec<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// A selectable field of the kind.
    Declared {
        name: Box<str>,
        place: usize,
        is_coarse: bool,
    },
}

/// A value that a selector requires of a selectable field of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredValue<'a> {
    /// Stored name of the field.
    pub field: &'a str,
    /// Its position among those of the kind.
    pub place: usize,
    /// The value; empty: the field must be absent.
    pub value: &'a str,
    /// Very many objects share a value of the field.
    pub is_coarse: bool,
}

/// The reason why a field selector is refused. The text is part of the interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldSelectorError(pub String);

/// The fields of a kind that a selector may name.
#[derive(Clone, Copy, Debug)]
pub struct SelectableFields<'a> {
    /// The selectable fields beyond name and namespace, in the positions at which objects of feature level 0 hold them.
    pub declared: &'a [Selectable],
    /// Whether the kind is namespaced, so that selectors may name the namespace.
    pub namespaced: bool,
    /// Whether a definition declares the kind: other fields are refused in other words.
    pub is_defined: bool,
}

impl FieldSelector {
    /// Parses the query parameter's text for a kind with these fields. An empty text selects everything.
    ///
    /// # Errors
    /// A term without an operator, or a field that the kind does not declare.
    pub fn parse(text: &str, fields: SelectableFields<'_>) -> Result<Self, FieldSelectorError> {
        let mut conditions: Vec<Condition> = Vec::new();
        for term in split_terms(text).into_iter().filter(|term| !term.is_empty()) {
            let (name, equal, value) = split_term(term).ok_or_else(|| {
                FieldSelectorError(format!(
                    "invalid selector: '{}'; can't understand '{}'",
                    part(text),
                    part(term)
                ))
            })?;
            let value = unescape(value).ok_or_else(|| {
                FieldSelectorError(format!("invalid field selector: invalid escape in '{}'", part(value)))
            })?;
            let field = resolve(name, fields)?;
            // few: no more conditions than the kind has selectable fields.
            let at = conditions.iter().position(|condition| condition.field == field);
            let at = at.unwrap_or_else(|| {
                conditions.push(Condition::none(field));
                conditions.len() - 1
            });
            conditions[at].ask(equal, value.into());
        }
        for condition in &mut conditions {
            condition.excluded.sort_unstable();
            condition.excluded.dedup();
        }
        Ok(FieldSelector { conditions: conditions.into() })
    }

    /// Parses a selector of a version whose fields have other names than the stored ones: `stored_name` translates.
    ///
    /// # Errors
    /// As for [`FieldSelector::parse`].
    pub fn parse_renamed(
        text: &str,
        fields: SelectableFields<'_>,
        stored_name: fn(&str) -> Option<&'static str>,
    ) -> Result<Self, FieldSelectorError> {
        let mut terms = Vec::new();
        for term in split_terms(text).into_iter().filter(|term| !term.is_empty()) {
            let Some((name, _, _)) = split_term(term) else {
                // Text that is no term is refused below.
                terms.push(term.to_owned());
                continue;
            };
            let stored = stored_name(name).ok_or_else(|| not_supported(name))?;
            terms.push(term.replacen(name, stored, 1));
        }
        FieldSelector::parse(&terms.join(","), fields)
    }

    /// The name that the query parameter's text requires by equality, whatever the kind's fields are. `None`: it
    /// requires none, or cannot be parsed.
    pub fn name_required_by(text: &str) -> Option<String> {
        if !text.contains("metadata.name") {
            return None;
        }
        let mut required = None;
        for term in split_terms(text).into_iter().filter(|term| !term.is_empty()) {
            let (field, equal, value) = split_term(term)?;
            let value = unescape(value)?;
            if equal && field == "metadata.name" && required.is_none() {
                required = Some(value.to_string());
            }
        }
        required
    }

    /// The terms of the query parameter's text as they are written, whatever the kind's fields are. `None`: it cannot be
    /// parsed.
    pub fn terms_of(text: &str) -> Option<Vec<FieldTerm>> {
        let terms = split_terms(text).into_iter().filter(|term| !term.is_empty());
        let terms = terms.map(|term| {
            let (field, is_equal, value) = split_term(term)?;
            Some(FieldTerm { field: field.to_owned(), is_equal, value: unescape(value)?.to_string() })
        });
        terms.collect()
    }

    /// Whether a term of the query parameter's text requires by equality that `field` has `value`, whatever the kind's
    /// fields are. Text that cannot be parsed requires nothing.
    pub fn does_require(text: &str, field: &str, value: &str) -> bool {
        let terms = FieldSelector::terms_of(text).unwrap_or_default();
        // once: one pass over the terms of a selector.
        terms.iter().any(|term| term.is_equal && term.field == field && term.value == value)
    }

    /// Bytes of memory that the selector holds.
    pub fn held_bytes(&self) -> usize {
        let excluded = |condition: &Condition| -> usize {
            condition
                .excluded
                .iter()
                .map(|value| size_of::<Box<str>>() + value.len().next_multiple_of(16))
                .sum()
        };
        let condition = |condition: &Condition| {
            size_of::<Condition>()
                + condition.value.as_ref().map_or(0, |value| value.len())
                + excluded(condition)
        };
        self.conditions.iter().map(condition).sum()
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Whether the object called `name` in `namespace` is selected. `declared` finds the value of a selectable field by
    /// its stored name, or, in objects that were stored without names, by its place among those of the kind.
    pub fn matches<'o>(
        &self,
        namespace: &'o str,
        name: &'o str,
        declared: impl Fn(&str, usize) -> &'o str,
    ) -> bool {
        self.conditions.iter().all(|condition| {
            let actual = match &condition.field {
                Field::Name => name,
                Field::Namespace => namespace,
                Field::Declared { name, place, .. } => declared(name, *place),
            };
            condition.holds(actual)
        })
    }

    /// The namespace that a term requires by equality.
    pub fn required_namespace(&self) -> Option<&str> {
        // few: one condition for each selectable field.
        self.conditions.iter().find(|condition| condition.field == Field::Namespace)?.value.as_deref()
    }

    /// The values that terms require of declared fields by equality, in the order of the terms. Every selected object has all
    /// of them.
    pub fn required_values(&self) -> impl Iterator<Item = RequiredValue<'_>> {
        self.conditions.iter().filter_map(|condition| match &condition.field {
            Field::Declared { name, place, is_coarse } => {
                let value = condition.value.as_deref()?;
                Some(RequiredValue { field: name, place: *place, value, is_coarse: *is_coarse })
            }
            Field::Name | Field::Namespace => None,
        })
    }

    /// The name that a term requires by equality.
    pub fn required_name(&self) -> Option<&str> {
        // few: one condition for each selectable field.
        self.conditions.iter().find(|condition| condition.field == Field::Name)?.value.as_deref()
    }
}

impl Condition {
    fn none(field: Field) -> Self {
        Condition { field, value: None, is_contradiction: false, excluded: Vec::new() }
    }

    fn ask(&mut self, equal: bool, value: Box<str>) {
        if !equal {
            self.excluded.push(value);
        } else if let Some(other) = &self.value {
            self.is_contradiction |= *other != value;
        } else {
            self.value = Some(value);
        }
    }

    fn holds(&self, actual: &str) -> bool {
        !self.is_contradiction
            && self.value.as_deref().is_none_or(|value| value == actual)
            && self.excluded.binary_search_by(|excluded| (**excluded).cmp(actual)).is_err()
    }
}

fn resolve(name: &str, fields: SelectableFields<'_>) -> Result<Field, FieldSelectorError> {
    let is_plain = !fields.is_defined && fields.declared.iter().all(|field| field.withheld);
    match name {
        "metadata.name" => return Ok(Field::Name),
        "metadata.namespace" if fields.namespaced || is_plain => {
            return Ok(Field::Namespace);
        }
        _ => {}
    }
    let is_meant = |field: &Selectable| {
        !field.withheld && (field.name == name || field.synonym.as_deref() == Some(name))
    };
    // few: the fields of a kind.
    match fields.declared.iter().position(is_meant) {
        Some(place) => {
            let Selectable { name, coarse, .. } = &fields.declared[place];
            Ok(Field::Declared { name: name.as_str().into(), place, is_coarse: *coarse })
        }
        None if is_plain => Err(FieldSelectorError(format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quoted(name)
        ))),
        None => Err(not_supported(name)),
    }
}

fn not_supported(name: &str) -> FieldSelectorError {
    FieldSelectorError(format!("field label not supported: {}", part(name)))
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// The field, whether the operator is equality, and the value, still escaped. `None` without an operator.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in term.char_indices() {
        let rest = &term[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&term[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some(escaped @ ('\\' | ',' | '=')) => plain.push(escaped),
                _ => return None,
            },
            ',' | '=' => return None,
            plain_char => plain.push(plain_char),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: SelectableFields<'_> =
        SelectableFields { declared: &[], namespaced: true, is_defined: false };

    fn of_pod(text: &str) -> Result<FieldSelector, FieldSelectorError> {
        let field = |name: &str, synonym: Option<&str>| Selectable {
            name: name.to_owned(),
            withheld: name == "withheld",
            unindexed: false,
            synonym: synonym.map(str::to_owned),
            coarse: name == "status.phase",
        };
        let node = field("spec.nodeName", Some("spec.host"));
        let declared = &[node, field("status.phase", None), field("withheld", None)];
        FieldSelector::parse(text, SelectableFields { declared, namespaced: true, is_defined: false })
    }

    #[test]
    fn a_field_is_required_by_any_term_of_equality() {
        for (text, expected) in [
            ("spec.nodeName=n", true),
            ("spec.nodeName==n,status.phase!=Failed", true),
            ("status.phase=Running,spec.nodeName=n", true),
            ("spec.nodeName!=n", false),
            ("spec.nodeName=m", false),
            ("spec.nodeNames=n", false),
            ("spec.nodeName=n,broken", false),
            ("spec.nodeName=n,x=\\y", false),
            ("", false),
        ] {
            assert_eq!(FieldSelector::does_require(text, "spec.nodeName", "n"), expected, "{text}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_with_the_reference_texts() {
        let only = r#""nope" is not a known field selector: only "metadata.name", "metadata.namespace""#;
        let refused = |text: &str| FieldSelector::parse(text, ROLE).unwrap_err().0;
        assert_eq!(refused("nope=x"), only);
        let unclear = "invalid selector: 'metadata.name'; can't understand 'metadata.name'";
        assert_eq!(refused("metadata.name"), unclear);
        for name in ["metadata.labels", "withheld"] {
            let message = format!("field label not supported: {name}");
            assert_eq!(of_pod(&format!("{name}=x")).unwrap_err().0, message);
        }
    }

    #[test]
    fn escapes_and_operators_are_understood() {
        let parsed = of_pod(r"metadata.name==a\,b,spec.nodeName!=n1,,").unwrap();
        assert_eq!(parsed.required_name(), Some("a,b"));
        assert_eq!(parsed.conditions.len(), 2);
        assert_eq!(parsed.required_values().count(), 0, "an inequality requires no value");
        let parsed = of_pod("metadata.namespace=n,spec.host=n1,status.phase=").unwrap();
        assert_eq!(parsed.required_namespace(), Some("n"));
        let required: Vec<_> = parsed.required_values().collect();
        let expected = |field, place, value, is_coarse| RequiredValue { field, place, value, is_coarse };
        assert_eq!(
            required,
            [expected("spec.nodeName", 0, "n1", false), expected("status.phase", 1, "", true)]
        );
        let many: Vec<String> = (0..20_000).map(|at| format!("metadata.name!=n{at}")).collect();
        let parsed = of_pod(&many.join(",")).unwrap();
        assert_eq!(parsed.conditions.len(), 1, "terms about one field are one condition");
        let two = of_pod("metadata.name=a,metadata.name=b").unwrap();
        assert!(two.conditions[0].is_contradiction);
        assert!(of_pod(r"metadata.name=a\x").is_err());
        assert!(of_pod("").unwrap().is_everything());
    }
}
