//! Webhooks that objects of the API name: admission, conversion, and whatever else this server asks because an object says so.
//!
//! Owns what such a call is made of (a URL or a service, the authorities of its certificate, its bounds), and the text of its
//! failure. It opens no connection: [`Caller`] does, in `node`. Invariant: one call is one request, and no redirect is followed;
//! the text of a failure quotes nothing of an answer.
//!
//!     clientConfig -> ClientConfig (prepared)  -> URL, or service -> host and port  -> Call -> Caller

mod config;
mod outages;
mod service;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use orch_proto::Brand;
use orch_raft::Store;
use orch_spans::TraceContext;

use crate::ambient::Ambient;
use crate::egress::{EgressError, Reply, Url};
use crate::view::View;

pub(crate) use self::config::{ClientConfig, ServicePort, authorities};
pub(crate) use self::outages::News;
pub use self::outages::{Outage, Outages};
pub use self::service::Routing;
pub(crate) use self::service::{Services, Unresolved, is_ready, resolve, slices_of};

/// Bytes of an answer of an admission webhook: a patch of the largest object, in base64.
pub(crate) const ANSWER_BYTES_MAX: usize = 3 << 20;

/// Namespace of the service of this server.
const OWN_NAMESPACE: &str = "default";

/// Sends calls. Implemented by the node, which owns the sockets.
pub trait Caller: fmt::Debug + Send + Sync {
    /// Posts the document once and reads the whole answer, of any status.
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>>;
}

/// The kind of a webhook, which selects the credentials of this server for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Admission that changes writes.
    Mutating,
    /// Admission that refuses writes.
    Validating,
    /// The conversion of objects.
    #[default]
    Conversion,
}

/// A call of one webhook.
#[derive(Clone)]
pub struct Call {
    /// The kind of the webhook, which selects the credentials for it.
    pub purpose: Purpose,
    /// The URL. The server's certificate has to be of its host.
    pub url: Url,
    /// Host and port that are dialled in place of the URL's: those of a service.
    pub at: Option<(String, u16)>,
    /// Authorities of the server's certificate, or that certificate itself, in PEM. `None`: the machine's authorities.
    pub authorities: Option<Arc<[u8]>>,
    /// The document, JSON.
    pub document: Bytes,
    /// Longest time until the answer is read, connecting included.
    pub timeout: Duration,
    /// Bytes of the answer's body.
    pub answer_bytes_max: usize,
    /// The span that the call is, which the webhook is told of; `None`: it is told of no trace.
    pub trace: Option<TraceContext>,
}

/// Documents hold objects: they are not shown.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("url", &self.url).field("at", &self.at).finish_non_exhaustive()
    }
}

/// The bounds of a call.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// Longest time until the answer is read.
    pub(crate) timeout: Duration,
    /// Bytes of the answer's body.
    pub(crate) answer_bytes_max: usize,
    /// The webhook is told its time by the query, in whole seconds, rounded up.
    pub(crate) states_timeout: bool,
    /// The span that the call is.
    pub(crate) trace: Option<TraceContext>,
}

/// The reason why a call has no answer, as clients read it: the request and its failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The configuration cannot be used, or no caller is there.
    #[error("{0}")]
    Unusable(String),
    /// The time of the call is over.
    #[error("Post \"{url}\": context deadline exceeded")]
    Late {
        /// The URL.
        url: String,
    },
    /// No connection was tried: this server had no place for the call. It tells nothing of the webhook.
    #[error("Post \"{url}\": {reason}")]
    Untried {
        /// The URL.
        url: String,
        /// The resource that the call waited for, as the message names it.
        reason: String,
    },
    /// There is no answer.
    #[error("Post \"{url}\": {reason}")]
    Failed {
        /// The URL.
        url: String,
        /// The failure of the connection.
        reason: String,
    },
    /// The answer has more bytes than the call reads.
    #[error("Post \"{url}\": the answer is larger than {bytes_max} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// Bytes that the call reads of an answer.
        bytes_max: usize,
    },
    /// The answer has another status than 200.
    #[error("{}", refusal(*.0))]
    Status(u16),
}

fn refusal(status: u16) -> String {
    match status {
        404 => "the server could not find the requested resource".to_owned(),
        status => format!("an answer of status {status} has prevented the request from succeeding"),
    }
}

/// The webhooks that a node calls. Clones share everything.
#[derive(Clone)]
pub struct Webhooks {
    /// `None`: none is called.
    inner: Option<Arc<Inner>>,
    outages: Outages,
    purpose: Purpose,
}

struct Inner {
    caller: Arc<dyn Caller>,
    state: Box<dyn Fn() -> View + Send + Sync>,
    elapsed: Box<dyn Fn() -> Duration + Send + Sync>,
    ambient: Arc<dyn Ambient>,
    brand: &'static Brand,
    routing: Routing,
    /// For webhooks at the service of this server itself. Not set: they are called like others.
    own: OnceLock<Arc<dyn Caller>>,
}

impl Inner {
    /// The caller for webhooks at the service of this server itself; `None` for other webhooks.
    fn own_service(&self, config: &ClientConfig) -> Option<&Arc<dyn Caller>> {
        let is_own = |service: &ServicePort| {
            (&*service.namespace, &*service.name, service.port)
                == (OWN_NAMESPACE, self.brand.api_service, 443)
        };
        self.own.get().filter(|_| config.service().is_some_and(is_own))
    }

    /// Host and port that are dialled for `config`; `None` for those of its URL.
    fn place(&self, config: &ClientConfig) -> Result<Option<(String, u16)>, Unresolved> {
        let Some(service) = config.service() else { return Ok(None) };
        let services = Services { view: &(self.state)(), brand: self.brand, routing: self.routing };
        resolve(&services, service, self.ambient.random()).map(Some)
    }
}

impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.inner {
            Some(inner) => f.debug_tuple("Webhooks").field(&inner.caller).finish(),
            None => f.write_str("Webhooks(none)"),
        }
    }
}

impl Webhooks {
    /// No webhook is called: every call fails, and says so.
    pub fn none() -> Webhooks {
        Webhooks { inner: None, outages: Outages::default(), purpose: Purpose::default() }
    }

    /// Webhooks that `caller` calls; their services are looked up in what `store` has applied.
    pub fn new<S: Store>(
        caller: Arc<dyn Caller>,
        store: S,
        ambient: Arc<dyn Ambient>,
        brand: &'static Brand,
        routing: Routing,
    ) -> Webhooks {
        let clock = store.clone();
        let (state, elapsed) = (Box::new(move || View::of(&store)), Box::new(move || clock.elapsed()));
        let own = OnceLock::new();
        let inner = Arc::new(Inner { caller, state, elapsed, ambient, brand, routing, own });
        Webhooks { inner: Some(inner), outages: Outages::default(), purpose: Purpose::default() }
    }

    /// The same, called for `purpose`; as they are made they are called for conversions.
    pub(crate) fn called_for(&self, purpose: Purpose) -> Webhooks {
        Webhooks { purpose, ..self.clone() }
    }

    /// Has webhooks at the service of this server itself answered by `own`. It is said once.
    pub(crate) fn answer_own_service(&self, own: Arc<dyn Caller>) {
        if let Some(inner) = &self.inner {
            assert!(inner.own.set(own).is_ok(), "a node has one service of its own");
        }
    }

    /// The webhooks that do not answer.
    pub fn outages(&self) -> &Outages {
        &self.outages
    }

    /// The time on the clock of the store; zero where no webhook is called.
    pub(crate) fn elapsed(&self) -> Duration {
        self.inner.as_ref().map_or(Duration::ZERO, |inner| (inner.elapsed)())
    }

    /// Posts `document` to the webhook of `config`, once, and returns the body of its answer of status 200.
    pub(crate) fn post(
        &self,
        config: &ClientConfig,
        document: Bytes,
        bounds: Bounds,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let Some(inner) = &self.inner else {
            let reason = "this server was started without a way to call webhooks".to_owned();
            return ready(Err(CallError::Unusable(reason))).boxed();
        };
        let url = config.url(bounds.states_timeout.then_some(bounds.timeout));
        let shown = config.shown(&url);
        let own = inner.own_service(config);
        let place = if own.is_some() { Ok(None) } else { inner.place(config) };
        let at = match place {
            Ok(at) => at,
            Err(unresolved) => {
                let reason = unresolved.to_string();
                return ready(Err(CallError::Failed { url: shown, reason })).boxed();
            }
        };
        let Bounds { timeout, answer_bytes_max, trace, .. } = bounds;
        let authorities = config.authorities();
        let purpose = self.purpose;
        let call = Call { purpose, url, at, authorities, document, timeout, answer_bytes_max, trace };
        let calling = own.unwrap_or(&inner.caller).call(call);
        async move {
            match calling.await {
                // A server of the API that takes the review for an object to create answers 201.
                Ok(reply) if (200..=206).contains(&reply.status) => Ok(reply.body),
                Ok(reply) => Err(CallError::Status(reply.status)),
                // The words by which operators know a webhook that hangs.
                Err(EgressError::Timeout { .. }) => Err(CallError::Late { url: shown }),
                Err(error @ EgressError::Busy { .. }) => {
                    Err(CallError::Untried { url: shown, reason: error.to_string() })
                }
                Err(EgressError::TooLarge { .. }) => {
                    Err(CallError::TooLarge { url: shown, bytes_max: answer_bytes_max })
                }
                Err(error) => Err(CallError::Failed { url: shown, reason: error.to_string() }),
            }
        }
        .boxed()
    }
}
