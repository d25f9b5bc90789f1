//! The evaluation of a path.
//!
//! Owns the meaning of each step and the bound of the work. It allocates for lists of results alone: values of the document
//! are borrowed.

use std::borrow::Cow;
use std::cmp::Ordering;

use orch_schema::budget::count_step;
use orch_schema::value::Value;

use super::{Filter, Operator, Slice, SliceEnd, Step};

/// Values that an evaluation visits at most: a list of as many conditions as an object has, many times over. A path of
/// several recursive steps would otherwise visit exponentially many.
pub const STEPS_MAX: u32 = 20_000;

/// A value that a path found: of the document, or a constant of the path.
pub type Found<'v> = Cow<'v, Value>;

/// The reason why a path has no value in a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvaluationError {
    /// A step by place, or a filter, on something else than a list.
    #[error("a value is no list")]
    NotAList,
    /// A place outside of the list, or a slice that ends before it begins.
    #[error("a place is outside of its list")]
    OutOfBounds,
    /// A filter compares values of two types, or several values, or by an unknown operator.
    #[error("values cannot be compared")]
    NotComparable,
    /// A word without a meaning.
    #[error("unrecognized identifier")]
    Word,
    /// More than [`STEPS_MAX`] values were visited, or the request was stopped.
    #[error("the path visits too many values")]
    TooMuchWork,
}

/// The values of a path in `document`: of its steps up to the last one that acts on nothing, and the others, of which none is taken where
/// nothing was found.
pub(super) fn evaluate<'v>(
    acting: &[Step],
    others: &[Step],
    document: &'v Value,
) -> Result<Vec<Found<'v>>, EvaluationError> {
    let mut evaluation = Evaluation { left: STEPS_MAX };
    let mut found = evaluation.all(acting, vec![Cow::Borrowed(document)])?;
    for step in others {
        if found.is_empty() {
            break;
        }
        found = evaluation.step(step, found)?;
    }
    Ok(found)
}

struct Evaluation {
    /// Values that may still be visited.
    left: u32,
}

type Results<'v> = Result<Vec<Found<'v>>, EvaluationError>;

impl Evaluation {
    fn visit(&mut self) -> Result<(), EvaluationError> {
        self.left = self.left.checked_sub(1).filter(|_| count_step()).ok_or(EvaluationError::TooMuchWork)?;
        Ok(())
    }

    fn all<'v>(&mut self, steps: &[Step], begin: Vec<Found<'v>>) -> Results<'v> {
        steps.iter().try_fold(begin, |found, step| self.step(step, found))
    }

    fn step<'v>(&mut self, step: &Step, found: Vec<Found<'v>>) -> Results<'v> {
        match step {
            Step::Constant(constant) => {
                self.visit()?;
                Ok(vec![Cow::Owned(constant.clone())])
            }
            Step::Word(_) => Err(EvaluationError::Word),
            Step::Union(paths) => {
                let mut results = Vec::new();
                for path in paths {
                    for _ in &found {
                        self.visit()?;
                    }
                    results.extend(self.all(path, found.clone())?);
                }
                Ok(results)
            }
            Step::Field(_) | Step::Wildcard | Step::Recursive | Step::Slice(_) | Step::Filter(_) => {
                if found.is_empty() {
                    // The step itself: a path has thousands, and a filter takes them for each item.
                    self.visit()?;
                }
                let mut results = Vec::new();
                for value in found {
                    self.visit()?;
                    // Constants have no members.
                    let Cow::Borrowed(value) = value else { continue };
                    self.within(step, value, &mut results)?;
                }
                Ok(results)
            }
        }
    }

    /// Appends what a step finds within one value of the document.
    fn within<'v>(
        &mut self,
        step: &Step,
        value: &'v Value,
        results: &mut Vec<Found<'v>>,
    ) -> Result<(), EvaluationError> {
        match step {
            Step::Field(name) => results.extend(value.get(name).map(Cow::Borrowed)),
            Step::Wildcard => {
                for child in children(value) {
                    self.visit()?;
                    results.push(Cow::Borrowed(child));
                }
            }
            Step::Recursive => self.below(value, results)?,
            Step::Slice(slice) => {
                let Some(items) = list(value)? else { return Ok(()) };
                for item in places(*slice, items.len())? {
                    self.visit()?;
                    results.push(Cow::Borrowed(&items[item]));
                }
            }
            Step::Filter(filter) => {
                let items = list(value)?.ok_or(EvaluationError::NotAList)?;
                for item in items {
                    self.visit()?;
                    if self.holds(filter, item)? {
                        results.push(Cow::Borrowed(item));
                    }
                }
            }
            Step::Constant(_) | Step::Word(_) | Step::Union(_) => {}
        }
        Ok(())
    }

    /// Appends `value` and everything below it that is an object, a list or a text and not empty. The depth is that of a decoded document.
    fn below<'v>(&mut self, value: &'v Value, results: &mut Vec<Found<'v>>) -> Result<(), EvaluationError> {
        self.visit()?;
        let is_text = value.as_str().is_some_and(|text| !text.is_empty());
        if is_text || children(value).next().is_some() {
            results.push(Cow::Borrowed(value));
        }
        for child in children(value) {
            self.below(child, results)?;
        }
        Ok(())
    }

    /// Whether an item passes a filter.
    fn holds(&mut self, filter: &Filter, item: &Value) -> Result<bool, EvaluationError> {
        let Some((operator, right)) = &filter.comparison else { return self.finds(&filter.left, item) };
        let left = self.all(&filter.left, vec![Cow::Borrowed(item)])?;
        let [left] = &*left else {
            return if left.is_empty() { Ok(false) } else { Err(EvaluationError::NotComparable) };
        };
        let right = self.all(right, vec![Cow::Borrowed(item)])?;
        match &*right {
            [] => Ok(false),
            [right] => compare(left, operator, right),
            _ => Err(EvaluationError::NotComparable),
        }
    }

    /// Whether `steps` find anything in `item`. A step that fails finds what it was given, as in the reference.
    fn finds(&mut self, steps: &[Step], item: &Value) -> Result<bool, EvaluationError> {
        let mut found: Vec<Found<'_>> = vec![Cow::Borrowed(item)];
        for step in steps {
            let was_given_any = !found.is_empty();
            found = match self.step(step, found) {
                Ok(found) => found,
                Err(EvaluationError::TooMuchWork) => return Err(EvaluationError::TooMuchWork),
                Err(
                    EvaluationError::NotAList
                    | EvaluationError::OutOfBounds
                    | EvaluationError::NotComparable
                    | EvaluationError::Word,
                ) => return Ok(was_given_any),
            };
        }
        Ok(!found.is_empty())
    }
}

/// The members of an object or the items of a list.
fn children(value: &Value) -> impl Iterator<Item = &Value> {
    let items = value.as_array().into_iter().flatten();
    let members = value.as_object().into_iter().flat_map(|map| map.iter().map(|(_, member)| member));
    items.chain(members)
}

/// The items of a list; `None` for null.
fn list(value: &Value) -> Result<Option<&[Value]>, EvaluationError> {
    match value {
        Value::Array(items) => Ok(Some(items)),
        Value::Null => Ok(None),
        _ => Err(EvaluationError::NotAList),
    }
}

/// The places that `slice` names in a list of `length` items.
fn places(slice: Slice, length: usize) -> Result<impl Iterator<Item = usize>, EvaluationError> {
    let length = i64::try_from(length).map_err(|_| EvaluationError::OutOfBounds)?;
    let from_end = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
    let start = from_end(slice.start.unwrap_or(0));
    let end = match slice.end {
        SliceEnd::OfList => length,
        SliceEnd::AfterStart => start.saturating_add(1),
        SliceEnd::At(end) => from_end(end),
    };
    let step = slice.step.unwrap_or(1);
    let is_inside =
        start == end || ((0..length).contains(&start) && (0..=length).contains(&end) && start < end);
    let bounds = usize::try_from(start).ok().zip(usize::try_from(end).ok()).zip(usize::try_from(step).ok());
    match bounds {
        _ if start == end => Ok((0..0).step_by(1)),
        Some(((start, end), step)) if is_inside && step > 0 => Ok((start..end).step_by(step)),
        _ => Err(EvaluationError::OutOfBounds),
    }
}

/// Whether `left` stands to `right` as `operator` says. Both are of one type: texts, booleans, integers or other numbers.
fn compare(left: &Value, operator: &Operator, right: &Value) -> Result<bool, EvaluationError> {
    let order = match (left, right) {
        (Value::String(left), Value::String(right)) => left.as_str().cmp(right.as_str()),
        (Value::Bool(left), Value::Bool(right)) => match operator {
            Operator::Equal | Operator::NotEqual => left.cmp(right),
            // Booleans have no order.
            _ => return Err(EvaluationError::NotComparable),
        },
        (Value::Number(left), Value::Number(right)) if left.is_f64() == right.is_f64() => {
            let floats = left.as_f64().zip(right.as_f64());
            let integers = left.as_i64().zip(right.as_i64()).map(|(left, right)| left.cmp(&right));
            let order = integers.or_else(|| floats.and_then(|(left, right)| left.partial_cmp(&right)));
            order.ok_or(EvaluationError::NotComparable)?
        }
        _ => return Err(EvaluationError::NotComparable),
    };
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::NotEqual => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
        Operator::Unknown(_) => return Err(EvaluationError::NotComparable),
    })
}
