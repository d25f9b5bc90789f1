//! Compiled expressions: trees whose names are places and whose functions are code.

use crate::cost::Price;
use crate::functions::{Code, Function};
use crate::pattern::{Pattern, PatternError};
use crate::value::Val;

/// A node.
#[derive(Debug)]
pub(crate) enum Node {
    /// A literal, or what became of literals.
    Constant(Val<'static>),
    /// A variable of the place, by its place among them.
    Variable(usize),
    /// A variable of a loop or binding.
    Local(usize),
    /// `a.b`.
    Select(Box<Select>),
    /// `has(a.b)`.
    Has(Box<Select>),
    /// `a.?b`.
    OptionalSelect(Box<Select>),
    /// `a && b`.
    And(Box<(Node, Node)>),
    /// `a || b`.
    Or(Box<(Node, Node)>),
    /// `a ? b : c`.
    Conditional(Box<[Node; 3]>),
    /// `a.or(b)`: the second is evaluated where the first is empty.
    OptionalOr(Box<(Node, Node)>),
    /// `a.orValue(b)`.
    OptionalOrValue(Box<(Node, Node)>),
    /// A function of its arguments.
    Call(Box<Call>),
    /// A text and a pattern that stands in the expression.
    Matches(Box<Matches>),
    /// The places of such a pattern in a text.
    Find(Box<Find>),
    /// `[a, ?b]`.
    List(Box<[Item]>),
    /// `{a: b, ?c: d}`.
    Map(Box<[Entry]>),
    /// `Name{a: b, ?c: d}`.
    Object(Box<Object>),
    /// A loop.
    Fold(Box<Fold>),
    /// A variable with a value.
    Bind(Box<Bind>),
    /// `@result + [item]`, which adds to the list where it stands.
    Append(Box<Append>),
    /// A map of a comprehension with one more entry, added where it stands.
    Insert(Box<Insert>),
    /// The same with the entries of another map.
    Merge(Box<Append>),
}

/// A member.
#[derive(Debug)]
pub(crate) struct Select {
    pub(crate) operand: Node,
    pub(crate) field: Box<str>,
}

/// A call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    /// That of the function, or of one of its overloads.
    pub(crate) code: Code,
    pub(crate) price: Price,
    pub(crate) arguments: Box<[Node]>,
    /// The condition of a loop, which goes on behind a fault. It is known by its name: a function may have several addresses.
    pub(crate) is_condition: bool,
}

/// A match.
#[derive(Debug)]
pub(crate) struct Matches {
    pub(crate) text: Node,
    /// Place of the pattern among those of the program.
    pub(crate) pattern: usize,
    /// It is written as a function of two texts, which costs less.
    pub(crate) is_function: bool,
}

/// A search.
#[derive(Debug)]
pub(crate) struct Find {
    pub(crate) text: Node,
    /// Place of the pattern among those of the program.
    pub(crate) pattern: usize,
    pub(crate) wanted: Wanted,
}

/// The matches that a search is for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// The first one: `find`.
    First,
    /// All: `findAll`.
    All,
    /// So many, all of a negative number.
    Most(Node),
}

/// A pattern that stands in an expression.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) source: Box<str>,
    /// Bytes of the expression before it.
    pub(crate) offset: usize,
    pub(crate) compiled: Result<Pattern, PatternError>,
    /// Its places are asked for. Such a pattern is no larger than one that is not known before, so that one that cannot be used is a
    /// fault of the evaluation, as there.
    pub(crate) is_searched: bool,
}

/// An element of a list.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) value: Node,
    pub(crate) is_optional: bool,
}

/// An entry of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) key: Node,
    pub(crate) value: Node,
    pub(crate) is_optional: bool,
}

/// An object that is made.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) name: std::sync::Arc<str>,
    /// The keys are names of members.
    pub(crate) members: Box<[Entry]>,
}

/// A loop.
#[derive(Debug)]
pub(crate) struct Fold {
    pub(crate) range: Node,
    pub(crate) start: Node,
    /// `None` of one that is always true.
    pub(crate) condition: Option<Node>,
    pub(crate) step: Node,
    pub(crate) result: Node,
    /// Place of the accumulator; the variables of the loop come behind it.
    pub(crate) accumulator: usize,
    pub(crate) has_two_variables: bool,
}

/// A binding.
#[derive(Debug)]
pub(crate) struct Bind {
    pub(crate) place: usize,
    pub(crate) value: Node,
    pub(crate) result: Node,
}

/// A map that grows by an entry.
#[derive(Debug)]
pub(crate) struct Insert {
    pub(crate) accumulator: usize,
    pub(crate) key: Node,
    pub(crate) value: Node,
}

/// A list or map that grows.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) accumulator: usize,
    pub(crate) item: Node,
}
