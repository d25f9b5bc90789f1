//! The table of functions and operators: the one list of what the language has here.
//!
//! Owns, for each function, its overloads with their types and prices, and the code that evaluates it. Checking, cost and
//! evaluation read this table, so that none of them has a list of its own. [`guards`] names calls that no overload takes. The code of a function looks at the values it
//! gets: with `dyn` arguments the overload is known in the evaluation only.

mod extensions;
pub(crate) mod guards;
mod server;
mod standard;

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::cost::Price;
use crate::evaluate::{Outcome, Run};
use crate::scope::Libraries;
use crate::types::Type;
use crate::value::Val;

/// The code of a function. A method's target comes before its arguments.
pub(crate) type Code = for<'v> fn(&mut Run<'v>, &[Val<'v>]) -> Outcome<'v>;

/// A row of the declarations: name, code, and overloads as `(int, int) -> int` or `string.(string) -> bool`.
pub(crate) type Declared = (&'static str, Code, &'static [(&'static str, Price)]);

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `f(a)`.
    Global,
    /// `a.f()`.
    Method,
}

/// One way to call a function.
#[derive(Clone, Debug)]
pub(crate) struct Overload {
    pub(crate) style: Style,
    /// The target of a method comes first.
    pub(crate) parameters: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) price: Price,
    /// Number of type parameters.
    pub(crate) is_generic: bool,
}

/// Places that have a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Places {
    /// All.
    All,
    /// Selectors of devices.
    Devices,
    /// Mutations.
    Mutations,
}

impl Places {
    /// Whether a place with `libraries` is one of them.
    pub(crate) fn include(self, libraries: Libraries) -> bool {
        match self {
            Places::All => true,
            Places::Devices => libraries.devices,
            Places::Mutations => libraries.mutations,
        }
    }
}

/// A function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) code: Code,
    pub(crate) overloads: Vec<Overload>,
    /// The places that have it.
    pub(crate) places: Places,
}

/// All functions by name.
static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> = LazyLock::new(|| {
    let lists = [
        (standard::ALL, Places::All),
        (extensions::ALL, Places::All),
        (server::ALL, Places::All),
        (extensions::DEVICES, Places::Devices),
        (server::MUTATIONS, Places::Mutations),
    ];
    let all = lists.into_iter().flat_map(|(list, places)| list.iter().map(move |row| (row, places)));
    all.map(|((name, code, overloads), places)| {
        let overloads = overloads.iter().map(|(text, price)| read(text, *price)).collect();
        (*name, Function { name, code: *code, overloads, places })
    })
    .collect()
});

/// The function `name`.
pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.get(name)
}

fn read(text: &str, price: Price) -> Overload {
    let (call, result) = text.split_once("->").expect("a declaration has a result");
    let (target, arguments) = call.trim().split_at(opening(call.trim()));
    let arguments = arguments.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let arguments = arguments.expect("arguments stand in brackets");
    let target = target.strip_suffix('.');
    let mut parameters: Vec<Type> = target.map(Type::declared).into_iter().collect();
    parameters.extend(split(arguments).into_iter().map(Type::declared));
    let style = if target.is_some() { Style::Method } else { Style::Global };
    let result = Type::declared(result);
    let is_generic = parameters.iter().chain([&result]).any(has_parameter);
    Overload { style, parameters, result, price, is_generic }
}

/// The place of the bracket before the arguments, which ends with the text.
fn opening(call: &str) -> usize {
    let mut level = 0_usize;
    for (at, letter) in call.char_indices().rev() {
        match letter {
            ')' => level += 1,
            '(' if level == 1 => return at,
            '(' => level -= 1,
            _ => {}
        }
    }
    0
}

/// The parts between commas that stand in no brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut level, mut start) = (Vec::new(), 0_usize, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => level += 1,
            ')' => level = level.saturating_sub(1),
            ',' if level == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

fn has_parameter(of: &Type) -> bool {
    match of {
        Type::Param(_) => true,
        Type::List(inner) | Type::Optional(inner) | Type::Type(inner) => has_parameter(inner),
        Type::Map(types) => has_parameter(&types.0) || has_parameter(&types.1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declaration_is_read() {
        assert!(FUNCTIONS.len() > 110, "{}", FUNCTIONS.len());
        let replace = find("replace").unwrap();
        assert_eq!(replace.overloads.len(), 2);
        assert_eq!(replace.overloads[1].parameters.len(), 4);
        let index = find("_[_]").unwrap();
        assert_eq!(index.overloads[0].parameters[0].to_string(), "list(A)");
    }

    #[test]
    fn no_function_is_declared_twice() {
        let lists = [standard::ALL, extensions::ALL, server::ALL, extensions::DEVICES, server::MUTATIONS];
        let all: usize = lists.iter().map(|list| list.len()).sum();
        assert_eq!(FUNCTIONS.len(), all);
    }
}
