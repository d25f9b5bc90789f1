//! Places in a schema, from which the path of an error is made.
//!
//! A place is a step and a reference to the place above it, on the stack of the walk: only errors make a path of it.

use crate::validate::Path;

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    parent: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root(&'a Path),
    Child(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Place<'a> {
    /// The place of the whole schema.
    pub(super) fn root(path: &'a Path) -> Place<'a> {
        Place { parent: None, step: Step::Root(path) }
    }

    /// The field `name`.
    pub(super) fn child<'b>(&'b self, name: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        Place { parent: Some(self), step: Step::Child(name) }
    }

    /// The item at `index`.
    pub(super) fn index<'b>(&'b self, index: usize) -> Place<'b>
    where
        'a: 'b,
    {
        Place { parent: Some(self), step: Step::Index(index) }
    }

    /// The entry `key`.
    pub(super) fn key<'b>(&'b self, key: &'b str) -> Place<'b>
    where
        'a: 'b,
    {
        Place { parent: Some(self), step: Step::Key(key) }
    }

    /// The path as messages print it.
    pub(super) fn path(&self) -> Path {
        let mut steps = Vec::new();
        let mut place = Some(self);
        while let Some(&Place { parent, step }) = place {
            steps.push(step);
            place = parent;
        }
        let mut path = Path::default();
        for step in steps.into_iter().rev() {
            path = match step {
                Step::Root(root) => root.clone(),
                Step::Child(name) => path.child(name),
                Step::Index(index) => path.index(index),
                Step::Key(key) => path.key(key),
            };
        }
        path
    }
}
