//! The selectable fields of an object: names and values, packed.
//!
//! Owns their layout in memory: one allocation for each object, a length before each name and value, so that a lookup
//! skips from length to length. Names are kept with each object because objects outlive the program that wrote them: a
//! kind may declare other fields, or another order, in a later version. Objects written before names were stored
//! (format 0) have values only, found by the position that the field had then.

use std::fmt;

/// Bytes of the length before each name and value.
const LENGTH_BYTES: usize = 4;

/// Names and values of selectable fields, in a fixed order. In an object of format 0 the names are empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(Box<[u8]>);

impl Fields {
    /// Packs fields. A value longer than 4 GiB cannot be selected and counts as empty.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(fields: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut packed = Vec::new();
        for (name, value) in fields {
            push(&mut packed, name.as_ref());
            push(&mut packed, value.as_ref());
        }
        Fields(packed.into_boxed_slice())
    }

    /// The value of the field `name`; in an object of format 0, of the field at `position`. Empty if absent.
    pub fn value(&self, name: &str, position: usize) -> &str {
        let found = self.pairs().enumerate().find(|(at, (known, _))| match known.is_empty() {
            true => *at == position,
            false => *known == name.as_bytes(),
        });
        found.map_or("", |(_, (_, value))| text(value))
    }

    /// The name of the field at `position`. Empty if absent, and in an object of format 0.
    #[cfg(any(test, feature = "simulation"))]
    pub(crate) fn name_at(&self, position: usize) -> &str {
        self.pairs().nth(position).map_or("", |(name, _)| text(name))
    }

    /// Every field, as name and value. Names are empty in an object of format 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs().map(|(name, value)| (text(name), text(value)))
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the fields carry names.
    pub(crate) fn are_named(&self) -> bool {
        self.pairs().next().is_some_and(|(name, _)| !name.is_empty())
    }

    fn pairs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || take(&mut rest).zip(take(&mut rest)))
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

fn push(packed: &mut Vec<u8>, text: &str) {
    let (length, text) = u32::try_from(text.len()).map_or((0, ""), |length| (length, text));
    packed.extend_from_slice(&length.to_le_bytes());
    packed.extend_from_slice(text.as_bytes());
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<LENGTH_BYTES>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (part, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(part)
}

/// A packed name or value: always UTF-8, since [`Fields::new`] packs strings.
fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name_wherever_it_stands() {
        let fields = Fields::new([("spec.nodeName", "n1"), ("status.phase", "")]);
        assert_eq!(fields.value("spec.nodeName", 1), "n1");
        assert_eq!(fields.value("status.phase", 0), "");
        assert_eq!(fields.value("spec.other", 0), "", "a field that came later");
        assert!(fields.are_named());
        assert_eq!(format!("{fields:?}"), r#"{"spec.nodeName": "n1", "status.phase": ""}"#);
    }

    #[test]
    fn a_field_without_a_name_is_found_by_its_position() {
        let fields = Fields::new([("", "n1"), ("", ""), ("", "Running")]);
        let found: Vec<&str> = (0..4).map(|at| fields.value("status.phase", at)).collect();
        assert_eq!(found, ["n1", "", "Running", ""]);
        assert!(!fields.are_named());
        assert!(Fields::default().is_empty() && !Fields::default().are_named());
    }
}
