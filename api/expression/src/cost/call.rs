//! Upper bounds for the cost of a call and the size of its result.

use super::{CHECK, FORMAT_PATTERN, FORMAT_SIZE, Price, Range, quarter, selector, tenths};

/// An operand of a call; the target of a method is the first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument {
    pub(super) size: Range,
    /// The size of each item of a list of texts or bytes.
    pub(super) item: Option<Range>,
    pub(super) is_list: bool,
    pub(super) is_text: bool,
    /// The name of its type, of a type of the server's libraries.
    pub(super) opaque: Option<&'static str>,
    /// The number that stands there.
    pub(super) literal: Option<i64>,
}

const ONE: Range = Range::exactly(1);
/// The cost of making a list, without its items.
const MADE: Range = Range::exactly(11);

/// The cost of a call, without that of its arguments, and the size of its result where it has one.
pub(super) fn estimate(price: Price, arguments: &[Argument]) -> (Range, Option<Range>) {
    let of = |at: usize| arguments.get(at).map_or(Range::UNKNOWN, |argument| argument.size);
    let (one, other) = (of(0), of(1));
    match price {
        Price::Zero => (Range::default(), None),
        Price::One => (ONE, None),
        Price::Equal if arguments.first().is_some_and(|argument| argument.opaque.is_some()) => {
            (of_server(arguments), None)
        }
        Price::Equal | Price::Differs | Price::Order => {
            let least = one.max.min(other.max);
            (Range::new(u64::from(least > 0), tenths(least, 1)), None)
        }
        Price::AddTexts => (one.plus(other).tenths(1), Some(one.plus(other))),
        Price::AddLists => (ONE, Some(one.plus(other))),
        Price::InList => (other, None),
        Price::Affix => (other.tenths(1), None),
        Price::Contains => (one.tenths(1).times(other.tenths(1)), None),
        Price::Matches => (matching(one, other), None),
        Price::Find => (matching(one, other), Some(Range::new(0, one.max))),
        Price::Scan => (one.tenths(1), Some(one)),
        Price::Parse => (one.tenths(1), None),
        Price::ScanTwice => (one.tenths(2), None),
        Price::BytesOfText => (one.tenths(1), Some(Range::new(one.min, one.max.saturating_mul(4)))),
        Price::TextOfBytes => (one.tenths(1), Some(Range::new(one.min / 4, one.max))),
        Price::Quote => {
            let size = Range::new(one.min.saturating_add(2), one.max.saturating_mul(2).saturating_add(2));
            (one.tenths(1), Some(size))
        }
        Price::Format => (one.tenths(1), None),
        Price::IndexOf | Price::Traverse => (traversal(arguments.first()), None),
        Price::Replace => (one.tenths(2), Some(replaced(one, other, of(2)))),
        Price::Split => {
            let most =
                arguments.get(2).and_then(|most| most.literal).and_then(|most| u64::try_from(most).ok());
            (one.tenths(2), Some(Range::new(0, most.unwrap_or(one.max))))
        }
        Price::Join => joined(arguments),
        Price::Validate => {
            let pattern = quarter(FORMAT_PATTERN);
            let most = tenths(other.max, 1).saturating_mul(pattern);
            (Range::new(tenths(other.min, 1).saturating_mul(pattern), most), None)
        }
        Price::Selector => (Range::new(selector(other.min), selector(other.max)), None),
        Price::Check => (Range::exactly(CHECK), None),
        Price::Includes => (Range::new(0, 48), None),
        Price::ContainsIp => (Range::new(1, 4).plus(text(arguments.get(1))), None),
        Price::ContainsCidr => (Range::new(3, 7).plus(text(arguments.get(1))), None),
        other => lists(other, arguments),
    }
}

/// The same of functions that make lists or compare each item with each other.
fn lists(price: Price, arguments: &[Argument]) -> (Range, Option<Range>) {
    let of = |at: usize| arguments.get(at).map_or(Range::UNKNOWN, |argument| argument.size);
    let literal = |at: usize| {
        arguments.get(at).and_then(|argument| argument.literal).and_then(|number| u64::try_from(number).ok())
    };
    let (one, other) = (of(0), of(1));
    match price {
        Price::Slice => {
            let size = match (literal(1), literal(2)) {
                (Some(start), Some(end)) => Range::exactly(end.saturating_sub(start)),
                _ => Range::UNKNOWN,
            };
            (size.plus(MADE), Some(size))
        }
        Price::RangeList => {
            let size = literal(0).map_or(Range::new(0, u64::MAX), Range::exactly);
            (size.plus(MADE), Some(size))
        }
        Price::CopyList => (one.plus(MADE), Some(one)),
        Price::Flatten => {
            let depth = match arguments.get(1) {
                Some(_) => literal(1).map_or(Range::UNKNOWN, Range::exactly),
                None => ONE,
            };
            (depth.times(one).plus(MADE), None)
        }
        Price::Sort | Price::Distinct => (pairs(arguments.first()).plus(MADE), Some(one)),
        Price::SortByKeys => (pairs(arguments.get(1)).plus(MADE), Some(one)),
        Price::SetsOnce => (one.times(other).plus(ONE), None),
        Price::SetsTwice => (one.times(other).times(Range::exactly(2)).plus(ONE), None),
        _ => (ONE, None),
    }
}

/// Comparing two values of a type of the server's libraries.
fn of_server(arguments: &[Argument]) -> Range {
    match arguments {
        [Argument { opaque: Some("NamedFormat"), .. }, ..] => Range::new(1, tenths(FORMAT_SIZE, 1)),
        [Argument { opaque: Some("URL"), .. }, other] if other.size != Range::UNKNOWN => {
            Range::new(1, tenths(other.size.max, 1).max(1))
        }
        _ => ONE,
    }
}

fn matching(text: Range, pattern: Range) -> Range {
    text.plus(ONE).tenths(1).times(pattern.quarter())
}

/// Reading a text, or a list with all texts in it.
fn traversal(argument: Option<&Argument>) -> Range {
    let Some(argument) = argument else { return Range::UNKNOWN };
    match argument.item {
        Some(item) => argument.size.times(ONE.plus(item.tenths(1))),
        None if argument.is_list => argument.size,
        None => argument.size.tenths(1),
    }
}

/// Comparing each item with each other: twice, and a tenth more for texts.
fn pairs(list: Option<&Argument>) -> Range {
    let Some(list) = list else { return Range::UNKNOWN };
    let pairs = list.size.times(list.size);
    if list.item.is_some() { pairs.tenths(21) } else { pairs.times(Range::exactly(2)) }
}

/// Reading the text of an address.
fn text(argument: Option<&Argument>) -> Range {
    argument.filter(|argument| argument.is_text).map_or(Range::default(), |argument| argument.size.tenths(1))
}

fn joined(arguments: &[Argument]) -> (Range, Option<Range>) {
    let Some(list) = arguments.first() else { return (Range::UNKNOWN, None) };
    let items = list.size.times(list.item.unwrap_or(Range::UNKNOWN));
    let size = match arguments.get(1) {
        Some(separator) => {
            let gaps = Range::new(list.size.min.saturating_sub(1), list.size.max.saturating_sub(1));
            items.plus(separator.size.times(gaps))
        }
        None => items,
    };
    (size.tenths(1), Some(size))
}

/// The size of a text in which `old` was replaced by `new`.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let between = |text: u64, new: u64| text.saturating_add(1).saturating_mul(new).saturating_add(text);
    let max = if old.min == 0 {
        between(text.max, new.max)
    } else if new.max <= old.min {
        text.max
    } else {
        text.max.div_ceil(old.min).saturating_mul(new.max)
    };
    let min = if old.max == 0 {
        between(text.min, new.min)
    } else if old.max <= new.min {
        text.min
    } else {
        text.min.div_ceil(old.max).saturating_mul(new.min)
    };
    Range { min, max }
}
