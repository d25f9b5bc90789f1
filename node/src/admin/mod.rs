//! `orch cluster`, `orch kubeconfig`, and `orch encryption rewrite` of running members: the administrator's side of [`crate::run`]'s paths, and
//! of the resource API.
//!
//! A client like any other: it reads a client configuration, speaks HTTPS, and knows nothing of the store.

mod access;
mod bypass;
mod command;
mod health;
mod kubeconfig;
mod migrate;
mod request;
mod rewrite;
mod session;
mod table;
mod unreached;

pub use access::{Access, AccessError};
pub use bypass::bypass_webhook;
pub use command::run;
pub use kubeconfig::make_kubeconfig;
pub(crate) use migrate::escaped;
pub use migrate::migrate_storage;
pub use request::RequestError;
pub(crate) use request::{download, open_stream};
pub use rewrite::rewrite_running;
pub(crate) use session::{Call, Reply, Session};
pub(crate) use table::bytes;

/// A status as its command gives it: the exit code, the text, and the document for programs.
#[cfg(test)]
pub(crate) fn shown(cluster: serde_json::Value) -> (u8, String, serde_json::Value) {
    let (found, text) = (health::conditions(&cluster), table::table(&cluster));
    (health::exit_code(&found), text, health::with_conditions(cluster, &found))
}

#[cfg(test)]
mod tests;
