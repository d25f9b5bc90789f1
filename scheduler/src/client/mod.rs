//! The client of API servers: configuration, requests, lists and watches.
//!
//! ```text
//!   file, --master, service account ──> Config ──> Client ──> get list create update patch delete
//!                                                    │
//!                                                    └──> Reflector (list, then watch) ──> Change<T> in a channel
//! ```
//!
//! Owns how the process reaches the API: where its addresses and credentials come from, which address is in use, how
//! many requests a second leave, which failures are tried again, and the two representations. It knows no pods and no
//! plans, and never links the server's crates; a kind is a [`Kind`] in a table. Nothing secret is ever in a log, an
//! error or a `Debug` text.
//!
//! A request that certainly had no effect (no connection, 429, 503 with `Retry-After`) is sent again, at another
//! address where there is one. A write whose outcome is unknown is never sent again here: the error says
//! [`Error::is_outcome_unknown`], and the caller, who knows the object, looks first.

mod backoff;
mod codec;
mod config;
mod credentials;
mod endpoint;
mod error;
mod exec;
mod http;
mod in_cluster;
mod kind;
mod kubeconfig;
mod measures;
mod paths;
mod post;
mod rate;
mod reflector;
mod request;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod tls;
mod transport;
mod watch;

pub use self::http::Failure;
#[cfg(any(test, feature = "simulation"))]
pub use self::http::{Network, ResponseBody, Simulated};
pub(crate) use backoff::Backoff;
pub(crate) use codec::Codec;
pub use codec::ContentType;
#[cfg(test)]
pub(crate) use codec::envelope;
pub use config::{
    BURST_DEFAULT, Bearer, Certificate, Config, ConfigError, Impersonation, Pem, QPS_DEFAULT,
    REQUEST_TIMEOUT_DEFAULT, Trust, user_agent,
};
pub use endpoint::Endpoint;
pub(crate) use error::chain;
pub use error::{ApiStatus, Error, Reason};
pub use exec::ExecPlugin;
pub use in_cluster::in_cluster;
pub use kind::{Group, Kind, Listed, Object, ObjectKey};
pub use kubeconfig::{from_file, from_text};
pub(crate) use post::JsonServer;
pub use rate::TokenBucket;
pub use reflector::{Change, Reflector, Relist};
pub use request::{Client, Created, DeleteOptions, ListPage, ListQuery, PatchType};
pub use watch::{WatchEvent, WatchStream};
