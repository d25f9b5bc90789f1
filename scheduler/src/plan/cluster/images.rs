//! Images that nodes hold.
//!
//! Owns how many nodes hold each image, and its size in bytes. As in the reference, an image has one size on all nodes: the
//! one that the first of the nodes that hold it told, until none of them holds it any more.

use hashbrown::HashMap;

use crate::objects::intern::Symbol;

/// An image that nodes hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// How many nodes hold it; at least 1.
    pub nodes: i64,
    /// Bytes.
    pub size: i64,
}

/// All images.
#[derive(Debug, Default)]
pub struct Images {
    held: HashMap<Symbol, Image>,
    version: u64,
}

impl Images {
    /// An image by its name; `None` if no node holds it.
    pub fn find(&self, name: Symbol) -> Option<Image> {
        self.held.get(&name).copied()
    }

    /// Changes whenever the score of images may have changed on nodes that did not change themselves.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A node holds these images, each named once.
    pub(super) fn add(&mut self, images: &[(Symbol, i64)]) {
        for (name, size) in images {
            self.held.entry(*name).or_insert(Image { nodes: 0, size: *size }).nodes += 1;
            self.version += 1;
        }
    }

    /// A node that held these images holds them no longer.
    pub(super) fn remove(&mut self, images: &[(Symbol, i64)]) {
        for (name, _) in images {
            let image = self.held.get_mut(name).expect("images were added before they are removed");
            image.nodes -= 1;
            if image.nodes == 0 {
                self.held.remove(name);
            }
            self.version += 1;
        }
    }

    /// A node came or went: each image is on another part of all nodes.
    pub(super) fn node_counted(&mut self) {
        self.version += 1;
    }
}
