//! A set of field paths as a trie.
//!
//! Owns the algebra of ownership: union, difference, intersection. A node is one sorted vector of steps; a step may be
//! a member itself, have members below it, or both.
//!
//! Invariant: entries are sorted by element without duplicates, and each is a member or has children.

use std::cmp::Ordering;

use orch_schema::budget::count_step;

use super::element::PathElement;

/// A set of field paths. The empty path (the whole object) is never a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    entries: Vec<Entry>,
}

/// One step, and the members below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) element: PathElement,
    pub(super) member: bool,
    pub(super) children: FieldSet,
}

impl Entry {
    fn is_vacant(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// A set without members.
    pub const EMPTY: FieldSet = FieldSet { entries: Vec::new() };

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Count of members.
    pub fn len(&self) -> usize {
        self.entries.iter().map(|entry| usize::from(entry.member) + entry.children.len()).sum()
    }

    /// Whether this is a subset of `other`.
    pub fn is_within(&self, other: &FieldSet) -> bool {
        self.entries.iter().all(|entry| {
            let found = other.entry(&entry.element);
            let is_found = found.is_some_and(|found| found.member);
            let below = match found {
                Some(found) => entry.children.is_within(&found.children),
                None => entry.children.is_empty(),
            };
            below && (is_found || !entry.member)
        })
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Adds an entry in any order; [`FieldSet::seal`] restores the invariant.
    pub(super) fn push(&mut self, element: PathElement, member: bool, children: FieldSet) {
        if member || !children.is_empty() {
            self.entries.push(Entry { element, member, children });
        }
    }

    /// Sorts the entries that [`FieldSet::push`] and [`FieldSet::gather`] added, and joins those of the same element.
    pub(super) fn seal(&mut self) {
        if self.entries.windows(2).all(|pair| pair[0].element < pair[1].element) {
            return;
        }
        self.entries.sort_by(|a, b| a.element.cmp(&b.element));
        let mut joined: Vec<Entry> = Vec::with_capacity(self.entries.len());
        for entry in self.entries.drain(..).take_while(|_| count_step()) {
            match joined.last_mut() {
                Some(last) if last.element == entry.element => {
                    last.member |= entry.member;
                    last.children.gather(entry.children);
                }
                _ => joined.push(entry),
            }
        }
        // Gathered first and sorted once: uniting thousands of small sets one by one takes the square of their number.
        joined.iter_mut().take_while(|_| count_step()).for_each(|entry| entry.children.seal());
        self.entries = joined;
    }

    /// Adds the entries of `other` in any order; [`FieldSet::seal`] restores the invariant.
    pub(super) fn gather(&mut self, other: FieldSet) {
        if self.entries.is_empty() {
            self.entries = other.entries;
        } else {
            self.entries.extend(other.entries);
        }
    }

    /// Adds the field at `path`; its parents do not become members.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((first, rest)) = path.split_first() else { return };
        let at = match self.find(first) {
            Ok(at) => at,
            Err(at) => {
                let entry = Entry { element: first.clone(), member: false, children: FieldSet::EMPTY };
                self.entries.insert(at, entry);
                at
            }
        };
        if rest.is_empty() {
            self.entries[at].member = true;
        } else {
            self.entries[at].children.insert(rest);
        }
    }

    /// Whether the field at `path` is a member.
    pub fn has(&self, path: &[PathElement]) -> bool {
        let Some((first, rest)) = path.split_first() else { return false };
        let Ok(at) = self.find(first) else { return false };
        if rest.is_empty() { self.entries[at].member } else { self.entries[at].children.has(rest) }
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.element.cmp(element))
    }

    /// The entry of one step.
    pub(super) fn entry(&self, element: &PathElement) -> Option<&Entry> {
        self.find(element).ok().map(|at| &self.entries[at])
    }

    /// The entry of a named field, without building its element.
    pub(super) fn entry_of_field(&self, name: &str) -> Option<&Entry> {
        // Fields sort before every other element.
        let found = self.entries.binary_search_by(|entry| match &entry.element {
            PathElement::Field(other) => (**other).cmp(name),
            PathElement::Key(_) | PathElement::Value(_) | PathElement::Index(_) => Ordering::Greater,
        });
        found.ok().map(|at| &self.entries[at])
    }

    /// Calls `change` with each entry's element, membership and children, and drops entries that become vacant.
    pub(super) fn for_each_entry_mut(
        &mut self,
        change: &mut dyn FnMut(&PathElement, &mut bool, &mut FieldSet),
    ) {
        self.entries.retain_mut(|entry| {
            if !count_step() {
                return true;
            }
            change(&entry.element, &mut entry.member, &mut entry.children);
            !entry.is_vacant()
        });
    }

    /// Adds every member of `other`.
    pub fn unite(&mut self, other: FieldSet) {
        if other.entries.is_empty() {
            return;
        }
        if self.entries.is_empty() {
            *self = other;
            return;
        }
        let left = std::mem::take(&mut self.entries);
        self.entries.reserve(left.len() + other.entries.len());
        let mut left = left.into_iter().peekable();
        for entry in other.entries.into_iter().take_while(|_| count_step()) {
            while let Some(mine) = left.next_if(|mine| mine.element < entry.element) {
                self.entries.push(mine);
            }
            match left.next_if(|mine| mine.element == entry.element) {
                Some(mut mine) => {
                    mine.member |= entry.member;
                    mine.children.unite(entry.children);
                    self.entries.push(mine);
                }
                None => self.entries.push(entry),
            }
        }
        self.entries.extend(left);
    }

    /// Removes the members of `other`, path by path; members below those stay.
    pub fn subtract(&mut self, other: &FieldSet) {
        self.zip_retain(other, |mine, theirs| {
            mine.member &= !theirs.member;
            mine.children.subtract(&theirs.children);
        });
    }

    /// Removes the members of `other` and all members below them.
    pub fn subtract_below(&mut self, other: &FieldSet) {
        self.zip_retain(other, |mine, theirs| {
            if theirs.member {
                mine.member = false;
                mine.children = FieldSet::EMPTY;
            } else {
                mine.children.subtract_below(&theirs.children);
            }
        });
    }

    /// Runs `change` on each entry that `other` has, too, and drops those that become vacant.
    fn zip_retain(&mut self, other: &FieldSet, change: impl Fn(&mut Entry, &Entry)) {
        let mut at = 0;
        self.entries.retain_mut(|mine| {
            if !count_step() {
                return true;
            }
            at = other.place_from(at, &mine.element);
            match other.entries.get(at).filter(|theirs| theirs.element == mine.element) {
                Some(theirs) => {
                    change(mine, theirs);
                    !mine.is_vacant()
                }
                None => true,
            }
        });
    }

    /// The first position from `at` on that is not before `element`. Tries a few neighbours first, then searches: this
    /// set may be much larger than the one it is compared with.
    fn place_from(&self, at: usize, element: &PathElement) -> usize {
        const NEAR: usize = 4;
        let rest = &self.entries[at.min(self.entries.len())..];
        let near = rest.iter().take(NEAR).take_while(|entry| entry.element < *element).count();
        if near < NEAR {
            return at + near;
        }
        at + near + rest[near..].partition_point(|entry| entry.element < *element)
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        let mut out = FieldSet::EMPTY;
        let mut at = 0;
        for mine in self.entries.iter().take_while(|_| count_step()) {
            at = other.place_from(at, &mine.element);
            let Some(theirs) = other.entries.get(at) else { break };
            if theirs.element == mine.element {
                let children = mine.children.intersection(&theirs.children);
                out.push(mine.element.clone(), mine.member && theirs.member, children);
            }
        }
        out
    }

    /// Calls `visit` with each member's path: the members of a level before those below it.
    pub fn for_each(&self, visit: &mut dyn FnMut(&[PathElement])) {
        self.walk(&mut Vec::new(), visit);
    }

    fn walk(&self, path: &mut Vec<PathElement>, visit: &mut dyn FnMut(&[PathElement])) {
        for entry in self.entries.iter().take_while(|_| count_step()).filter(|entry| entry.member) {
            path.push(entry.element.clone());
            visit(path);
            path.pop();
        }
        for entry in
            self.entries.iter().take_while(|_| count_step()).filter(|entry| !entry.children.is_empty())
        {
            path.push(entry.element.clone());
            entry.children.walk(path, visit);
            path.pop();
        }
    }
}
