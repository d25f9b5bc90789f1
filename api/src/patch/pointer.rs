//! JSON pointers (RFC 6901), and finding their targets.

use std::borrow::Cow;

use orch_schema::value::Value;

use super::PatchError;

/// A pointer, split into steps. The empty pointer is the whole document.
pub(super) struct Pointer<'a> {
    text: &'a str,
    steps: Vec<Cow<'a, str>>,
}

impl<'a> Pointer<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, PatchError> {
        let mut parts = text.split('/');
        if parts.next() != Some("") {
            return Err(PatchError::CannotApply(format!("path must start with a slash: {text:?}")));
        }
        Ok(Pointer { text, steps: parts.map(unescape).collect() })
    }

    /// The text.
    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// Count of steps.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// The steps.
    pub(super) fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &**step)
    }

    /// The parent of the target, and the last step; `None` for the whole document.
    pub(super) fn parent_in<'v>(
        &self,
        root: &'v mut Value,
    ) -> Result<Option<(&'v mut Value, &str)>, PatchError> {
        let Some((last, above)) = self.steps.split_last() else { return Ok(None) };
        let mut place = root;
        for step in above {
            place = match place {
                Value::Object(map) => map.get_mut(step),
                Value::Array(items) => index(step, items.len()).and_then(|at| items.get_mut(at)),
                _ => None,
            }
            .ok_or_else(|| self.missing())?;
        }
        Ok(Some((place, last)))
    }

    /// The target; `None` if it is absent.
    pub(super) fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(root, |place, step| match place {
            Value::Object(map) => map.get(step),
            Value::Array(items) => items.get(index(step, items.len())?),
            _ => None,
        })
    }

    /// The error of an absent target.
    pub(super) fn missing(&self) -> PatchError {
        PatchError::CannotApply(format!("doc is missing path: {:?}", self.text))
    }
}

fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') {
        Cow::Owned(step.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(step)
    }
}

/// Index of the item `step` in a list of `len`; negative ones count from the end, as in the reference. May be out of
/// range.
pub(super) fn index(step: &str, len: usize) -> Option<usize> {
    let at: i64 = step.parse().ok()?;
    let at = if at < 0 { at.checked_add(i64::try_from(len).ok()?)? } else { at };
    usize::try_from(at).ok()
}
