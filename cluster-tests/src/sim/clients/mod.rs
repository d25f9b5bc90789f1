//! The clients of a run: writers that collide, straight on the store and through the API, listers, informers, and
//! tenants whose namespaces and owner references keep the controllers busy.

mod api_writer;
mod informer;
mod lister;
mod tenant;
mod wire;
mod writer;

pub use api_writer::ApiWriter;
pub use informer::Informer;
pub use lister::Lister;
pub use tenant::Tenant;
pub use writer::{Writer, fill, read_once, write_last, write_once};

use super::session::Driver;

/// Clients that write straight into the store.
const WRITERS: u64 = 3;

/// Clients that write through the API.
const API_WRITERS: u64 = 2;

/// Informers.
pub const INFORMERS: u64 = 3;

/// The clients of a default run, in the order of their numbers.
pub fn usual() -> Vec<Box<dyn Driver>> {
    let mut clients: Vec<Box<dyn Driver>> = Vec::new();
    (0..WRITERS).for_each(|_| clients.push(Box::new(Writer::default())));
    (0..API_WRITERS).for_each(|_| clients.push(Box::new(ApiWriter::default())));
    (0..INFORMERS).for_each(|_| clients.push(Box::new(Informer::default())));
    clients.push(Box::new(Lister));
    clients.push(Box::new(Tenant));
    clients
}
