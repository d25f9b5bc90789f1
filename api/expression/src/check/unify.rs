//! Types that an expression does not write, such as that of an element of `[]`.
//!
//! Owns what is known of them, and whether a value of one type may stand where another is asked for. A trial that fails
//! leaves nothing behind. Invariant: no type is made a part of itself.

use std::collections::HashMap;

use crate::types::Type;

/// Types that are looked for, by number.
#[derive(Debug, Default)]
pub(super) struct Unknowns {
    found: Vec<Option<Type>>,
    /// Changes since a trial began: number, and what was known before.
    changes: Vec<(usize, Option<Type>)>,
}

impl Unknowns {
    /// A new one.
    pub(super) fn add(&mut self) -> Type {
        self.found.push(None);
        Type::Unknown(self.found.len() - 1)
    }

    /// A declared type with an unknown one for each of its parameters, the same for all types of one overload.
    pub(super) fn instance(&mut self, declared: &Type, parameters: &mut HashMap<char, Type>) -> Type {
        match declared {
            Type::Param(letter) => parameters.entry(*letter).or_insert_with(|| self.add()).clone(),
            Type::List(item) => Type::list(self.instance(item, parameters)),
            Type::Optional(value) => Type::optional(self.instance(value, parameters)),
            Type::Type(of) => Type::Type(self.instance(of, parameters).into()),
            Type::Map(types) => {
                let key = self.instance(&types.0, parameters);
                Type::map(key, self.instance(&types.1, parameters))
            }
            other => other.clone(),
        }
    }

    /// `of` with unknown types replaced by those that were found; the others become `dyn`.
    pub(super) fn resolved(&self, of: &Type) -> Type {
        self.replaced(of, true)
    }

    /// `of` with unknown types replaced by those that were found.
    pub(super) fn known(&self, of: &Type) -> Type {
        self.replaced(of, false)
    }

    fn replaced(&self, of: &Type, is_last: bool) -> Type {
        match of {
            Type::Unknown(number) => match &self.found[*number] {
                Some(found) => self.replaced(found, is_last),
                None if is_last => Type::Dyn,
                None => of.clone(),
            },
            Type::List(item) => Type::list(self.replaced(item, is_last)),
            Type::Optional(value) => Type::optional(self.replaced(value, is_last)),
            Type::Type(inner) => Type::Type(self.replaced(inner, is_last).into()),
            Type::Map(types) => Type::map(self.replaced(&types.0, is_last), self.replaced(&types.1, is_last)),
            other => other.clone(),
        }
    }

    /// Whether a value of the type `found` may stand where `expected` is asked for. If so, what that says of unknown types
    /// is kept.
    pub(super) fn assign(&mut self, expected: &Type, found: &Type) -> bool {
        self.assign_all(std::iter::once((found, expected)))
    }

    /// The same for pairs of what is found and what is asked for, together.
    pub(super) fn assign_all<'t>(&mut self, pairs: impl Iterator<Item = (&'t Type, &'t Type)>) -> bool {
        self.changes.clear();
        for (found, expected) in pairs {
            if !self.fits(found, expected) {
                while let Some((number, before)) = self.changes.pop() {
                    self.found[number] = before;
                }
                return false;
            }
        }
        true
    }

    fn set(&mut self, number: usize, found: Type) {
        let before = self.found[number].replace(found);
        self.changes.push((number, before));
    }

    fn fits(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Unknown(number) = other {
            match self.substitute(one, *number) {
                Substitution::Valid => return true,
                Substitution::Known => return false,
                Substitution::Impossible => {}
            }
        }
        if let Type::Unknown(number) = one {
            return matches!(self.substitute(other, *number), Substitution::Valid);
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (Type::Null, other) | (other, Type::Null) => {
                matches!(
                    other,
                    Type::Null
                        | Type::Object(_)
                        | Type::Opaque(_)
                        | Type::Optional(_)
                        | Type::Duration
                        | Type::Timestamp
                )
            }
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.fits(one, other)
            }
            (Type::Map(one), Type::Map(other)) => self.fits(&one.0, &other.0) && self.fits(&one.1, &other.1),
            (Type::Type(_), Type::Type(_)) => true,
            (one, other) => one == other,
        }
    }

    /// Whether `one` may be what the unknown type `number` stands for.
    fn substitute(&mut self, one: &Type, number: usize) -> Substitution {
        if *one == Type::Unknown(number) {
            return Substitution::Valid;
        }
        if let Some(known) = self.found[number].clone() {
            if !self.fits(one, &known) {
                return Substitution::Known;
            }
            let general = if self.is_as_general(one, &known) { one.clone() } else { known };
            if !self.contains(&general, number) {
                self.set(number, general);
            }
            return Substitution::Valid;
        }
        if self.contains(one, number) {
            return Substitution::Impossible;
        }
        self.set(number, one.clone());
        Substitution::Valid
    }

    /// Whether the unknown type `number` is a part of `of`.
    fn contains(&self, of: &Type, number: usize) -> bool {
        match of {
            Type::Unknown(other) => {
                *other == number
                    || self.found[*other].as_ref().is_some_and(|found| self.contains(found, number))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => self.contains(inner, number),
            Type::Map(types) => self.contains(&types.0, number) || self.contains(&types.1, number),
            _ => false,
        }
    }

    /// Whether `one` says no more than `other`.
    fn is_as_general(&self, one: &Type, other: &Type) -> bool {
        match (one, other) {
            (Type::Dyn | Type::Any | Type::Unknown(_), _) => true,
            (_, Type::Dyn | Type::Any | Type::Unknown(_)) => false,
            (Type::List(one), Type::List(other)) | (Type::Optional(one), Type::Optional(other)) => {
                self.is_as_general(one, other)
            }
            (Type::Map(one), Type::Map(other)) => {
                self.is_as_general(&one.0, &other.0) && self.is_as_general(&one.1, &other.1)
            }
            (Type::Type(_), Type::Type(_)) => true,
            (one, other) => one == other,
        }
    }

    /// The more general one of two types that fit.
    pub(super) fn more_general(&self, one: Type, other: Type) -> Type {
        if self.is_as_general(&one, &other) { one } else { other }
    }
}

/// Result of a substitution.
enum Substitution {
    Valid,
    /// Another type is known, which does not fit.
    Known,
    /// The type would be a part of itself.
    Impossible,
}
