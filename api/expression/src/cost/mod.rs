//! The reference's prices of functions: what an evaluation costs, and what it may cost.
//!
//! Owns the rules ([`Price`]), one for each kind of function; the table of functions says which function has which.
//! [`actual`] is the cost of a call that was made; [`estimate`](self::estimate) bounds the cost of an expression from the
//! sizes of its variables. Costs decide what may be stored and what is broken off, so they are the reference's to the unit.
//! Time and memory have bounds of their own.

mod call;
mod estimate;
mod size;
#[cfg(test)]
mod tests;

pub(crate) use self::estimate::estimate;
pub use self::estimate::{Estimate, Sizes};
pub use self::size::Range;
use crate::length;
use crate::value::{List, Val};

/// Cost of making a list.
pub(crate) const LIST: u64 = 10;
/// Cost of making a map.
pub(crate) const MAP: u64 = 30;
/// Cost of making an object.
pub(crate) const OBJECT: u64 = 40;
/// Cost of a question about rights.
pub(crate) const CHECK: u64 = 350_000;
/// Characters that the reference assumes of the pattern of a named format, and of a named format itself.
pub(crate) const FORMAT_PATTERN: u64 = 128;
pub(crate) const FORMAT_SIZE: u64 = 64;

/// The rule for a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Price {
    /// Nothing: its parts have costs.
    Zero,
    /// One.
    One,
    /// `==`.
    Equal,
    /// `!=`.
    Differs,
    /// `<` on texts and bytes.
    Order,
    /// `+` on texts and bytes.
    AddTexts,
    /// `+` on lists.
    AddLists,
    /// `x in list`.
    InList,
    /// `startsWith`, `endsWith`.
    Affix,
    /// `contains`.
    Contains,
    /// `matches`.
    Matches,
    /// `find`, `findAll`.
    Find,
    /// Reads its first operand once; the result is as large.
    Scan,
    /// Reads the first operand and makes something of it that has no size.
    Parse,
    /// Reads it twice.
    ScanTwice,
    /// `bytes(string)`.
    BytesOfText,
    /// `string(bytes)`.
    TextOfBytes,
    /// `strings.quote`.
    Quote,
    /// `format`.
    Format,
    /// `indexOf`, `lastIndexOf`.
    IndexOf,
    /// `replace`.
    Replace,
    /// `split`.
    Split,
    /// `join`.
    Join,
    /// `isSorted`, `sum`, `min`, `max`.
    Traverse,
    /// `slice`.
    Slice,
    /// `flatten`.
    Flatten,
    /// `sort`.
    Sort,
    /// `sortBy`.
    SortByKeys,
    /// `distinct`.
    Distinct,
    /// `reverse`.
    CopyList,
    /// `lists.range`.
    RangeList,
    /// `sets.contains`, `sets.intersects`.
    SetsOnce,
    /// `sets.equivalent`.
    SetsTwice,
    /// `containsIP`.
    ContainsIp,
    /// `containsCIDR`.
    ContainsCidr,
    /// `includes`.
    Includes,
    /// `validate` of a named format.
    Validate,
    /// `fieldSelector`, `labelSelector`.
    Selector,
    /// `check` of rights.
    Check,
}

/// `size` times `tenths` tenths, rounded up.
pub(crate) fn tenths(size: u64, tenths: u64) -> u64 {
    u64::try_from((u128::from(size) * u128::from(tenths)).div_ceil(10)).unwrap_or(u64::MAX)
}

/// A quarter, rounded up.
pub(crate) fn quarter(size: u64) -> u64 {
    size.div_ceil(4)
}

/// The size of a value: characters, bytes, entries; one of others.
fn size(value: &Val<'_>) -> u64 {
    match value {
        Val::Text(text) => characters(text),
        Val::Bytes(bytes) => length(bytes.len()),
        Val::List(list) => length(list.len()),
        Val::Map(map) => length(map.len()),
        Val::Ip(address) => {
            if address.is_ipv4() {
                4
            } else {
                16
            }
        }
        Val::Cidr(_, bits) => u64::from(*bits).div_ceil(8),
        _ => 1,
    }
}

fn characters(text: &str) -> u64 {
    // Most texts are ASCII and short.
    length(if text.is_ascii() { text.len() } else { text.chars().count() })
}

/// The cost of matching `text` with the pattern `source`.
pub(crate) fn of_match(text: &str, source: &str) -> u64 {
    tenths(characters(text).saturating_add(1), 1).saturating_mul(quarter(characters(source)))
}

/// The cost of reading a value with all that is in it, rounded down.
fn traversal(value: &Val<'_>) -> u64 {
    match value {
        Val::Text(text) => length(text.len()) / 10,
        Val::Bytes(bytes) => length(bytes.len()) / 10,
        Val::List(List::Made(items)) => items.iter().map(traversal).fold(0, u64::saturating_add),
        Val::List(list) => list.iter().map(|item| traversal(&item)).fold(0, u64::saturating_add),
        Val::Map(map) => map.iter().fold(0, |sum, (key, value)| {
            sum.saturating_add(traversal(&key)).saturating_add(traversal(&value))
        }),
        _ => 1,
    }
}

/// The cost of a call with these arguments and this result, without that of its arguments.
pub(crate) fn actual(price: Price, arguments: &[Val<'_>], result: &Val<'_>) -> u64 {
    let of = |at: usize| arguments.get(at).map_or(0, size);
    match price {
        Price::Zero => 0,
        Price::One | Price::AddLists | Price::Includes => 1,
        Price::Equal if arguments.first().is_some_and(is_of_server) => 1,
        Price::Equal | Price::Differs | Price::Order => tenths(of(0).min(of(1)), 1),
        Price::AddTexts => tenths(of(0).saturating_add(of(1)), 1),
        Price::InList => of(1),
        Price::Contains => tenths(of(0), 1).saturating_mul(tenths(of(1), 1)),
        Price::Matches | Price::Find => tenths(of(0).saturating_add(1), 1).saturating_mul(quarter(of(1))),
        Price::Affix
        | Price::Scan
        | Price::Parse
        | Price::BytesOfText
        | Price::TextOfBytes
        | Price::Quote
        | Price::Format => tenths(of(0), 1),
        Price::ScanTwice | Price::Replace | Price::Split => tenths(of(0), 2),
        Price::Join => tenths(size(result), 2),
        Price::IndexOf | Price::Traverse => arguments.first().map_or(0, traversal),
        Price::Slice | Price::CopyList | Price::RangeList => size(result).saturating_add(11),
        Price::Flatten => {
            let depth = match arguments.get(1) {
                Some(Val::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            depth.saturating_mul(of(0)).saturating_add(11)
        }
        Price::Sort | Price::Distinct => quadratic(arguments.first()),
        Price::SortByKeys => quadratic(arguments.get(1)),
        Price::SetsOnce => of(0).saturating_mul(of(1)).saturating_add(1),
        Price::SetsTwice => of(0).saturating_mul(of(1)).saturating_mul(2).saturating_add(1),
        Price::Validate => match arguments {
            [Val::Format(format), text] => {
                tenths(size(text).saturating_add(1), 1).saturating_mul(quarter(format.pattern))
            }
            _ => 1,
        },
        Price::Selector => selector(of(1)),
        Price::Check => CHECK,
        Price::ContainsIp => tenths(network(arguments), 2).saturating_add(parsed(arguments)),
        Price::ContainsCidr => {
            let bytes = network(arguments);
            tenths(bytes, 2).saturating_add(tenths(bytes, 1)).saturating_add(1 + parsed(arguments))
        }
    }
}

/// Whether the value has a type of the server's libraries.
fn is_of_server(value: &Val<'_>) -> bool {
    matches!(
        value,
        Val::Quantity(_)
            | Val::Version(_)
            | Val::Ip(_)
            | Val::Cidr(..)
            | Val::Url(_)
            | Val::Format(_)
            | Val::Check(_)
            | Val::Decision(_)
    )
}

/// The cost of a selector of `characters` characters, which the reference parses.
pub(crate) fn selector(characters: u64) -> u64 {
    let requirements = tenths(characters, 5).saturating_mul(50);
    tenths(characters, 1).saturating_add(requirements).saturating_add(10)
}

/// The cost of comparing each item with each other.
fn quadratic(list: Option<&Val<'_>>) -> u64 {
    let Some(Val::List(list)) = list else { return 1 };
    let items = length(list.len());
    let pairs = u128::from(items) * u128::from(items);
    let is_text = matches!(list.get(0), Some(Val::Text(_) | Val::Bytes(_)));
    let compared = if is_text { pairs * 21 / 10 } else { pairs * 2 };
    u64::try_from(compared).unwrap_or(u64::MAX).saturating_add(11)
}

/// Bytes of a network: those of its prefix.
fn network(arguments: &[Val<'_>]) -> u64 {
    match arguments.first() {
        Some(Val::Cidr(_, bits)) => u64::from(*bits).div_ceil(8),
        _ => 0,
    }
}

/// The cost of reading the text of an address.
fn parsed(arguments: &[Val<'_>]) -> u64 {
    match arguments.get(1) {
        Some(Val::Text(text)) => tenths(characters(text), 1),
        _ => 0,
    }
}
