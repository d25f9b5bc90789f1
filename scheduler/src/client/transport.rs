//! Connections to the API servers, and which server is in use.
//!
//! Owns the choice of an address, the limit of requests a second, and the rule of which failures are sent again. One
//! HTTP/2 connection an address carries all requests; it is pinged while watches are open, so that a server that
//! vanished is noticed (`http`). All requests go to one address, and to the next in the list after that one failed, so
//! that a client sees one server's order of events while it can.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::{Instant, sleep, timeout_at};

use super::config::{Config, ConfigError, Impersonation};
use super::credentials::Credentials;
use super::endpoint::Endpoint;
use super::error::{ApiStatus, Error};
use super::http::{Failure, Http, ResponseBody};
use super::measures::{self, Sent};
use super::rate::TokenBucket;
use super::tls::{CurrentCertificate, client_config};

/// Attempts of one request that had no effect. With three addresses each is asked three times.
const ATTEMPTS_MAX: u32 = 9;

/// The longest wait that a server may impose with `Retry-After`; longer ones are cut to this.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(10);

/// Pause before a request is sent again once every address has failed.
const ROUND_PAUSE: Duration = Duration::from_millis(200);

/// Bytes of an API server's answer that is no watch. A page of 2,000 large objects is far below.
pub(super) const ANSWER_BYTES_MAX: usize = 1 << 30;

/// The characters that are encoded in a key that becomes a part of a header's name: all that may not stand there, and
/// `%`, which begins an encoded one.
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'*')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// A request as the API's verbs make it.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Path and query.
    pub(super) path: String,
    pub(super) body: Bytes,
    pub(super) content_type: Option<HeaderValue>,
    pub(super) accept: HeaderValue,
    /// Most bytes of an answer that is read whole.
    pub(super) answer_bytes_max: usize,
}

impl Call {
    /// Verb and path for errors. Queries are left out: continue tokens are long, and selectors may tell names.
    pub(super) fn described(&self) -> String {
        format!("{} {}", self.method, self.path.split('?').next().unwrap_or_default())
    }

    fn is_read(&self) -> bool {
        self.method == Method::GET
    }
}

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Bytes,
}

/// Sends requests to whichever server answers.
pub(super) struct Transport {
    http: Http,
    endpoints: Vec<Endpoint>,
    // Invariant: current < endpoints.len()
    current: AtomicUsize,
    credentials: Credentials,
    bucket: Option<TokenBucket>,
    user_agent: HeaderValue,
    impersonation: Vec<(HeaderName, HeaderValue)>,
    timeout: Duration,
}

impl Transport {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let presented = Arc::<CurrentCertificate>::default();
        let tls = client_config(config, presented.clone())?;
        let header = |field, text: &str| {
            HeaderValue::try_from(text)
                .map_err(|_| ConfigError::Invalid { field, problem: "not a valid header".to_owned() })
        };
        let http = Http::new(tls, config)?;
        measures::transport_made();
        Ok(Self {
            http,
            endpoints: config.endpoints.clone(),
            current: AtomicUsize::new(0),
            credentials: Credentials::new(config, presented),
            bucket: TokenBucket::new(config.qps, config.burst, Instant::now()),
            user_agent: header("user-agent", &config.user_agent)?,
            impersonation: impersonation(&config.impersonation, header)?,
            timeout: config.request_timeout,
        })
    }

    #[cfg(any(test, feature = "simulation"))]
    pub(super) fn is_simulated(&self) -> bool {
        self.http.is_simulated()
    }

    /// Sends `call` and reads the answer. Refusals are answers, too.
    pub(super) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        match self.attempt(call, true).await? {
            Opened::Answer(answer) => Ok(answer),
            // `attempt` reads whole answers when asked to.
            Opened::Stream(..) => {
                Err(Error::Lost { what: call.described(), problem: "unread answer".to_owned() })
            }
        }
    }

    /// Sends `call` and returns its stream as soon as the server has accepted it.
    pub(super) async fn open(&self, call: &Call) -> Result<Opened, Error> {
        self.attempt(call, false).await
    }

    /// Sends `call` until its outcome stands, for as long as requests may take. The time in which credentials are made does
    /// not count: it is not the server's.
    async fn attempt(&self, call: &Call, is_whole: bool) -> Result<Opened, Error> {
        let late = |_| Error::Timeout { what: call.described(), after: self.timeout };
        let mut deadline = Instant::now() + self.timeout;
        let mut attempts = 0;
        let mut is_refreshed = false;
        loop {
            attempts += 1;
            if let Some(bucket) = &self.bucket {
                let asked = Instant::now();
                timeout_at(deadline, bucket.take()).await.map_err(late)?;
                let next = &self.endpoints[self.current.load(Ordering::Relaxed)];
                measures::limited(next.host(), &call.method, asked.elapsed());
            }
            let used = self.current.load(Ordering::Relaxed);
            let before = Instant::now();
            let authorization = self.credentials.authorization(Instant::now()).await?;
            deadline += before.elapsed();
            let request = self.request(call, used, authorization.as_ref())?;
            let began = Instant::now();
            let Ok(outcome) = timeout_at(deadline, self.once(call, used, request, is_whole)).await else {
                // A server that does not answer within the timeout is left for the next one.
                self.leave(used);
                return Err(Error::Timeout { what: call.described(), after: self.timeout });
            };
            self.measure(call, used, &outcome, began.elapsed());
            if let Ok(Opened::Answer(Answer { code: 401, .. })) = &outcome
                && !is_refreshed
            {
                let before = Instant::now();
                is_refreshed = self.credentials.refuse(authorization.as_ref()).await;
                deadline += before.elapsed();
                if is_refreshed {
                    continue;
                }
            }
            match next_step(call, &outcome) {
                NextStep::Done => return outcome,
                _ if attempts >= ATTEMPTS_MAX => return outcome,
                NextStep::Wait(pause) => timeout_at(deadline, sleep(pause)).await.map_err(late)?,
                NextStep::NextServer => {
                    self.leave(used);
                    if usize::try_from(attempts).is_ok_and(|count| count % self.endpoints.len() == 0) {
                        timeout_at(deadline, sleep(ROUND_PAUSE)).await.map_err(late)?;
                    }
                }
            }
        }
    }

    /// Sends one request and reads what is wanted of the answer.
    async fn once(
        &self,
        call: &Call,
        used: usize,
        request: Request<Full<Bytes>>,
        is_whole: bool,
    ) -> Result<Opened, Error> {
        match self.http.request(request).await {
            Ok(response) => self.receive(call, used, response, is_whole).await,
            Err(Failure::Connect(source)) => Err(Error::Connect { what: call.described(), source }),
            Err(Failure::Lost(problem)) => Err(Error::Lost { what: call.described(), problem }),
        }
    }

    /// Tells the metrics what came of an attempt.
    fn measure(&self, call: &Call, used: usize, outcome: &Result<Opened, Error>, took: Duration) {
        let (code, is_watch, answer_bytes) = match outcome {
            Ok(Opened::Answer(answer)) => (Some(answer.code), false, Some(answer.body.len())),
            Ok(Opened::Stream(..)) => (Some(200), true, None),
            Err(_) => (None, false, None),
        };
        let sent = Sent { host: self.endpoints[used].host(), method: &call.method, code };
        measures::counted(&sent);
        if !is_watch {
            measures::ended(&sent, took, call.body.len(), answer_bytes);
        }
    }

    /// Turns to the next address, unless another request has done so already.
    fn leave(&self, used: usize) {
        let next = (used + 1) % self.endpoints.len();
        let moved = self.current.compare_exchange(used, next, Ordering::Relaxed, Ordering::Relaxed);
        if moved.is_ok() && next != used {
            let (from, to) = (&self.endpoints[used], &self.endpoints[next]);
            tracing::warn!(%from, %to, "an API server does not answer, using the next");
        }
    }

    /// Turns to the next address because a stream of `server` broke. Many streams break together with a server: only the
    /// first of them has this effect, or the rest would walk round the addresses and end where they were.
    pub(super) fn leave_server(&self, server: ServerIndex) {
        self.leave(server.0);
    }

    fn request(
        &self,
        call: &Call,
        endpoint: usize,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let unfit =
            |error: http::Error| Error::Request { what: call.described(), problem: error.to_string() };
        let uri = self.endpoints[endpoint].uri(&call.path).map_err(unfit)?;
        let mut request = Request::builder().method(call.method.clone()).uri(uri);
        request = request.header(USER_AGENT, &self.user_agent).header(ACCEPT, &call.accept);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(content_type) = &call.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        for (name, value) in &self.impersonation {
            request = request.header(name, value);
        }
        request.body(Full::new(call.body.clone())).map_err(unfit)
    }

    async fn receive(
        &self,
        call: &Call,
        used: usize,
        response: Response<ResponseBody>,
        is_whole: bool,
    ) -> Result<Opened, Error> {
        let code = response.status().as_u16();
        if !is_whole && code == 200 {
            return Ok(Opened::Stream(response.into_body(), ServerIndex(used)));
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let body = Limited::new(response.into_body(), call.answer_bytes_max).collect().await;
        let body =
            body.map_err(|error| Error::Lost { what: call.described(), problem: error.to_string() })?;
        Ok(Opened::Answer(Answer { code, retry_after, body: body.to_bytes() }))
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        measures::transport_dropped();
    }
}

/// The answer to a request.
pub(super) enum Opened {
    /// The server refused it, or the answer was wanted whole.
    Answer(Answer),
    /// The stream of a watch, and the server that it comes from.
    Stream(ResponseBody, ServerIndex),
}

/// A server of the list of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerIndex(usize);

/// The step after an attempt.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    /// The outcome stands.
    Done,
    /// The server wants to be asked later.
    Wait(Duration),
    /// Another server may know better.
    NextServer,
}

fn next_step(call: &Call, outcome: &Result<Opened, Error>) -> NextStep {
    match outcome {
        Ok(Opened::Stream(..)) => NextStep::Done,
        Ok(Opened::Answer(answer)) => match (answer.code, answer.retry_after) {
            (429 | 503, Some(pause)) => NextStep::Wait(pause.min(RETRY_AFTER_MAX)),
            (502..=504, None) if call.is_read() => NextStep::NextServer,
            _ => NextStep::Done,
        },
        Err(Error::Connect { .. }) => NextStep::NextServer,
        Err(Error::Lost { .. }) if call.is_read() => NextStep::NextServer,
        Err(_) => NextStep::Done,
    }
}

impl Answer {
    /// The refusal that this answer is, with the `Status` of its body.
    pub(super) fn into_error(self, what: String, codec: &super::codec::Codec) -> Error {
        let status = ApiStatus::new(self.code, codec.decode_status(self.body), self.retry_after);
        Error::Api { what, status: Box::new(status) }
    }
}

fn impersonation(
    impersonation: &Impersonation,
    header: impl Fn(&'static str, &str) -> Result<HeaderValue, ConfigError>,
) -> Result<Vec<(HeaderName, HeaderValue)>, ConfigError> {
    if impersonation.user.is_empty() {
        if *impersonation == Impersonation::default() {
            return Ok(Vec::new());
        }
        return Err(ConfigError::Invalid {
            field: "as",
            problem: "groups, a UID or more of a user without a name".to_owned(),
        });
    }
    let name = HeaderName::from_static;
    let mut headers = vec![(name("impersonate-user"), header("as", &impersonation.user)?)];
    if !impersonation.uid.is_empty() {
        headers.push((name("impersonate-uid"), header("as-uid", &impersonation.uid)?));
    }
    for group in &impersonation.groups {
        headers.push((name("impersonate-group"), header("as-groups", group)?));
    }
    for (key, values) in &impersonation.extra {
        let field = "as-user-extra";
        let name = HeaderName::try_from(format!("impersonate-extra-{}", utf8_percent_encode(key, IN_NAME)))
            .map_err(|_| ConfigError::Invalid { field, problem: "a key is too long".to_owned() })?;
        for value in values {
            headers.push((name.clone(), header(field, value)?));
        }
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_impersonated_user_is_sent_with_all_that_is_known_of_it() {
        let extra = [("example.com/Scope%".to_owned(), vec!["a".to_owned(), "b".to_owned()])].into();
        let someone =
            Impersonation { user: "u".to_owned(), groups: vec!["g".to_owned()], extra, ..Default::default() };
        let header = |_, text: &str| Ok(HeaderValue::try_from(text).unwrap());
        let headers = impersonation(&someone, header).unwrap();
        let shown: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        let scope = "impersonate-extra-example.com%2fscope%25";
        let expected = ["impersonate-user: u".to_owned(), "impersonate-group: g".to_owned()];
        assert_eq!(shown[..2], expected);
        assert_eq!(shown[2..], [format!("{scope}: a"), format!("{scope}: b")]);
        assert!(impersonation(&Impersonation { user: String::new(), ..someone }, header).is_err());
    }
}
