//! Sizes of what stands behind a path of a schema, for the estimate of costs.

use super::{Declared, Kind};
use crate::cost::{Range, Sizes};

/// Bytes of the largest request, by which sizes without a bound are estimated. The reference's.
pub const REQUEST_BYTES_MAX: u64 = 3_145_728;

/// Sizes below the declaration of `self`. The first step of a path is not looked at: that of a comprehension over something
/// that has no path begins with the items, and is taken for a path from `self`, as in the reference.
#[derive(Debug)]
pub struct SchemaSizes<'d>(pub &'d Declared);

impl Sizes for SchemaSizes<'_> {
    fn size(&self, path: &[&str]) -> Option<Range> {
        let mut declared = self.0;
        for (at, step) in path.iter().enumerate().skip(1) {
            declared = match (&declared.kind, *step) {
                (Kind::List(list), "@items") => &list.item,
                (Kind::Map(value), "@values") => value,
                // Keys have no size.
                (Kind::Map(_), "@keys") if at + 1 == path.len() => return Some(Range::exactly(0)),
                (Kind::Object(object), name) => &object.field(name)?.declared,
                _ => return None,
            };
        }
        Some(Range::new(0, declared.size_max))
    }
}
