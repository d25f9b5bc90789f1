//! The labels of an object, packed.
//!
//! Owns their layout in memory: the texts one behind the other, and eight bytes beside each label. A client chooses how many
//! labels an object has and how short they are, so that a text of its own for each would take ten times the bytes that are
//! stored, on every member and in the history. It neither sorts labels nor checks them.

use std::fmt;

/// Keys and values, in the order in which they were given. Those of a stored object are sorted by key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Labels {
    texts: Box<str>,
    /// Where each key and each value ends in `texts`.
    ends: Box<[[u32; 2]]>,
}

impl Labels {
    /// Packs labels. A text that would end beyond 4 GiB counts as empty; objects are far smaller.
    pub fn new<K: AsRef<str>, V: AsRef<str>>(labels: impl IntoIterator<Item = (K, V)>) -> Self {
        let (mut texts, mut ends) = (String::new(), Vec::new());
        for (key, value) in labels {
            let key = push(&mut texts, key.as_ref());
            ends.push([key, push(&mut texts, value.as_ref())]);
        }
        Labels { texts: texts.into(), ends: ends.into() }
    }

    /// Number of labels.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The value of `key` among labels that are sorted by key; `None` where it is not there.
    pub fn find(&self, key: &str) -> Option<&str> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (found, value) = self.at(middle);
            match found.cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(value),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Every label, as key and value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        (0..self.len()).map(|at| self.at(at))
    }

    /// Bytes of memory behind this value.
    pub fn held_bytes(&self) -> usize {
        self.texts.len() + size_of_val(&*self.ends)
    }

    fn at(&self, at: usize) -> (&str, &str) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before][1]);
        let [key, value] = self.ends[at];
        (self.text(start, key), self.text(key, value))
    }

    /// The text between two ends: whole characters, since ends are those of texts.
    fn text(&self, start: u32, end: u32) -> &str {
        self.texts.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// Appends `text`; where it ends.
fn push(texts: &mut String, text: &str) -> u32 {
    let before = texts.len();
    texts.push_str(text);
    u32::try_from(texts.len()).unwrap_or_else(|_| {
        texts.truncate(before);
        u32::try_from(before).unwrap_or(u32::MAX)
    })
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        Labels::new(labels)
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_key_and_listed_in_their_order() {
        let pairs = [("", "e"), ("app", "web"), ("ä", ""), ("ü", "ö")];
        let labels = Labels::new(pairs);
        assert_eq!(labels.iter().collect::<Vec<_>>(), pairs);
        for (key, value) in pairs {
            assert_eq!(labels.find(key), Some(value), "{key}");
        }
        assert_eq!((labels.find("a"), labels.find("z"), Labels::default().find("")), (None, None, None));
        assert_eq!(format!("{:?}", Labels::new([("a", "b")])), r#"{"a": "b"}"#);
        assert_ne!(Labels::new([("ab", "c")]), Labels::new([("a", "bc")]));
        assert!(Labels::default().is_empty());
    }

    /// The shortest labels that an object of the largest size has room for. Two texts for each took 80 bytes.
    #[test]
    fn many_short_labels_hold_little_more_than_what_is_stored_of_them() {
        let pairs: Vec<(String, &str)> = (0..100_000).map(|at| (format!("{at:x}"), "")).collect();
        let stored: usize =
            pairs.iter().map(|(key, value)| key.len() + value.len() + r#""":"","#.len()).sum();
        let labels = Labels::new(pairs);
        assert!(labels.held_bytes() * 10 <= stored * 14, "{} of {stored}", labels.held_bytes());
    }
}
