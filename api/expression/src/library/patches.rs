//! `jsonpatch.escapeKey`, for paths of JSON patches.

use crate::error::no_overload;
use crate::evaluate::{Outcome, Run};
use crate::value::Val;

/// The key as a step of a JSON pointer.
pub(crate) fn escape_key<'v>(run: &mut Run<'v>, arguments: &[Val<'v>]) -> Outcome<'v> {
    let [Val::Text(key)] = arguments else { return Err(no_overload()) };
    run.make_bytes(key.len().saturating_mul(2))?;
    Ok(Val::text(key.replace('~', "~0").replace('/', "~1")))
}
