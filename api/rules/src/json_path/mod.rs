//! JSONPath as the reference's clients write it: the paths of printer columns.
//!
//! Owns the grammar (`parse`, and `unquote` for texts in it), the evaluation over a document (`evaluate`) and the text of a result (`print`). All are pure
//! functions; they read no clock. The dialect is that of the reference's client library: members that are missing are no
//! error, a filter compares values of one type, a comparison of two types is an error.
//!
//! Invariant: the work of an evaluation is bounded by [`STEPS_MAX`], whatever the path and the document are.
//!
//!     .status.conditions[?(@.type=="Ready")].status      filters, with both quotes and spaces
//!     .metadata.labels['example\.com/zone']               escaped dots
//!     .spec.ports[0]  .spec.ports[-1:]  .spec.ports[*]    places, slices, all items

mod evaluate;
mod parse;
mod print;
#[cfg(test)]
mod tests;
mod unquote;

use orch_schema::value::Value;

pub use evaluate::{EvaluationError, Found, STEPS_MAX};
pub use parse::ParseError;
pub use print::text;
pub(crate) use unquote::simple_escape;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
    /// Steps up to the last one that finds something, or fails, where those before it found nothing.
    acting: usize,
}

/// One step of a path, from the values that the steps before it found to others.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// A member by name.
    Field(String),
    /// All members or items.
    Wildcard,
    /// Every value below, at any depth.
    Recursive,
    /// Items of a list by place.
    Slice(Slice),
    /// The results of several paths, one after another.
    Union(Vec<Vec<Step>>),
    /// The items of a list for which the comparison holds.
    Filter(Filter),
    /// A constant, whatever was found before.
    Constant(Value),
    /// A word without a meaning: an error when it is evaluated.
    Word(String),
}

/// Places of items: from `start` up to and without `end`, every `step`-th.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slice {
    /// Absent: from the first one. Negative: counted from the end.
    start: Option<i64>,
    end: SliceEnd,
    step: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SliceEnd {
    /// The end of the list.
    OfList,
    /// One item: that at `start`.
    AfterStart,
    /// This place; negative: counted from the end.
    At(i64),
}

/// A filter of items.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Step>,
    /// Absent: the item is kept where `left` finds anything.
    comparison: Option<(Operator, Vec<Step>)>,
}

/// The comparison of a filter.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// An operator that there is none of: an error when it is evaluated.
    Unknown(String),
}

impl Step {
    /// Whether it may find something, or fail, where nothing was found before it.
    fn acts_on_nothing(&self) -> bool {
        match self {
            Step::Union(_) | Step::Constant(_) | Step::Word(_) => true,
            Step::Field(_) | Step::Wildcard | Step::Recursive | Step::Slice(_) | Step::Filter(_) => false,
        }
    }
}

impl JsonPath {
    /// Parses a path without braces, as a definition's columns have it: `.spec.replicas`.
    ///
    /// # Errors
    /// Text outside of the grammar, or beyond the bounds of `parse`.
    pub fn parse(text: &str) -> Result<JsonPath, ParseError> {
        let steps = parse::steps(text)?;
        let acting = steps.iter().rposition(Step::acts_on_nothing).map_or(0, |at| at + 1);
        Ok(JsonPath { steps, acting })
    }

    /// The values at the path in `document`, in its order.
    ///
    /// # Errors
    /// A value of a type that a step cannot take, a comparison of two types, or too much work.
    pub fn evaluate<'v>(&self, document: &'v Value) -> Result<Vec<Found<'v>>, EvaluationError> {
        let (acting, others) = self.steps.split_at(self.acting);
        evaluate::evaluate(acting, others, document)
    }
}
