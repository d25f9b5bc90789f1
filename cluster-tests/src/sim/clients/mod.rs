//! The clients of a run, straight on the store: writers that collide, readers of the past, watchers.

mod lister;
mod watcher;
mod writer;

pub use lister::Lister;
pub use watcher::Watcher;
pub use writer::{Writer, write_once};

use super::session::Driver;

/// Clients that write.
const WRITERS: u64 = 5;

/// The clients of a usual run, in the order of their numbers.
pub fn usual() -> Vec<Box<dyn Driver>> {
    let mut clients: Vec<Box<dyn Driver>> = Vec::new();
    for _ in 0..WRITERS {
        clients.push(Box::new(Writer::default()));
    }
    clients.push(Box::new(Lister));
    clients.push(Box::new(Watcher::default()));
    clients.push(Box::new(Watcher::default()));
    clients.push(Box::new(Watcher::default()));
    clients
}
