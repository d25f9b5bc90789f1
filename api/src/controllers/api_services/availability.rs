//! Probes the servers of aggregated groups and writes the condition `Available` of each APIService.
//!
//! Owns the order of the checks and their words, which are the reference's: the service, its port, its endpoints, and then the
//! server, which is asked for the document of its group and version. An object is looked at when it changes, or its service or
//! endpoints do, and every half minute. One server that hangs holds up no other.
//!
//! Invariant: the status is written where the condition changes, and not otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures::future::{Either, select};
use http::Request;
use http::header::ACCEPT;
use orch_bounded::WarningLimit;
use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::kinds::api_service::{AVAILABLE, available, local_condition};
use orch_rules::validate::tree::Tree;
use orch_schema::excerpt::quoted;
use orch_schema::json;
use orch_schema::value::Value;

use super::super::client::{Client, Moment, Place};
use super::super::queue::Queue;
use super::super::rounds::{Progress, Queued, Round, Rounds, end};
use super::measured::Measured;
use crate::admission::View;
use crate::aggregation::identity::aggregator;
use crate::aggregation::{API_SERVICES, Remote, own_request};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};
use crate::registry::Resource;
use crate::webhook::{Services, is_ready, slices_of};

const SERVICES: &str = "services";
const ENDPOINT_SLICES: &str = "endpointslices.discovery";

/// Servers that are asked at the same time.
const AT_ONCE: usize = 32;

/// Time between two looks at a server that is there.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Longest wait for a server's answer: the reference's.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The text of a failure where that time has passed.
const LATE: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/// Attempts to have an answer in one look: of several endpoints some may be away.
const ATTEMPTS: usize = 5;

/// Time for all attempts of one look.
const LOOK_MAX: Duration = Duration::from_secs(6);

/// Limits warnings of servers that come and go.
static UNAVAILABLE: WarningLimit<Moment> = WarningLimit::new();

/// The APIServices by the services that they name.
struct Work {
    sources: [Arc<str>; 3],
    /// Label of a slice that names its service.
    label: String,
    /// `namespace/name` of the service of each APIService.
    services: BTreeMap<Arc<str>, String>,
    /// The APIServices of a service.
    users: BTreeMap<String, BTreeSet<Arc<str>>>,
    queue: Queue<Arc<str>>,
}

impl Work {
    fn new(label: String, now: Duration) -> Work {
        let mut queue = Queue::default();
        queue.advance(now);
        let sources = [API_SERVICES, SERVICES, ENDPOINT_SLICES].map(Arc::from);
        Work { sources, label, services: BTreeMap::new(), users: BTreeMap::new(), queue }
    }

    fn set(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        if let Some(service) = self.services.remove(name)
            && let Some(users) = self.users.get_mut(&service)
        {
            users.remove(name);
            if users.is_empty() {
                self.users.remove(&service);
            }
        }
        let remote = object.and_then(|object| {
            let object: Value = serde_json::from_slice(&object.json).ok()?;
            Remote::of(name, &object)
        });
        if let Some(remote) = remote {
            let service = format!("{}/{}", remote.service.namespace, remote.service.name);
            self.users.entry(service.clone()).or_default().insert(name.clone());
            self.services.insert(name.clone(), service);
        }
        self.queue.add(name, Duration::ZERO);
    }

    fn look_at_users(&mut self, service: &str) {
        for name in self.users.get(service).into_iter().flatten() {
            self.queue.add(name, Duration::ZERO);
        }
    }
}

impl Derived for Work {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if **source == *API_SERVICES {
            return self.set(&change.path, change.new.as_ref());
        }
        if self.users.is_empty() {
            return;
        }
        if **source == *SERVICES {
            return self.look_at_users(&change.path);
        }
        let Some((namespace, _)) = change.path.split_once('/') else { return };
        let named = |slice: &SharedObject| Some(format!("{namespace}/{}", slice.label(&self.label)?));
        let services = [&change.old, &change.new].map(|slice| slice.as_ref().and_then(named));
        for service in services.into_iter().flatten() {
            self.look_at_users(&service);
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.services.clear();
        self.users.clear();
        for (name, object) in state.collection(API_SERVICES).range_from("") {
            self.set(name, Some(object));
        }
    }
}

impl Queued for Work {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// The result of a look at one server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Finding {
    fn missing(reason: &'static str, message: String) -> Finding {
        Finding { status: "False", reason, message }
    }
}

/// Keeps the condition of all APIServices. Completes only with an error.
pub(in crate::controllers) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let Some(resource) = client.stored_resource(API_SERVICES) else {
        return Err(ApiError::Internal("API services are not served".to_owned()));
    };
    let label = client.registry().brand.label("service-name");
    let work = Work::new(label, client.store().elapsed());
    let mut rounds =
        Rounds::new((client, "aggregated_server_availability"), work.sources.clone(), work, AT_ONCE).await?;
    let measured = Arc::new(Measured::default());
    loop {
        let ended = |work: &mut Work, name: &Arc<str>, result| {
            end(client, &mut work.queue, (name, name), result, "a server cannot be looked for yet");
        };
        let Round { due, .. } = rounds.next(ended).await;
        let look = |_: &mut Work, applied: &Applied, name: &Arc<str>| {
            let Some(object) = applied.state.collection(API_SERVICES).get(name).cloned() else {
                measured.forget(name);
                return None;
            };
            Some(look(client, resource.clone(), name.clone(), object, measured.clone()))
        };
        rounds.start_all(due, look).await?;
    }
}

async fn look<S: Store>(
    client: &Client<S>,
    resource: Arc<Resource>,
    name: Arc<str>,
    object: SharedObject,
    measured: Arc<Measured>,
) -> Result<Progress, ApiError> {
    let stored: Value = serde_json::from_slice(&object.json)
        .map_err(|error| ApiError::Internal(format!("a stored APIService cannot be read: {error}")))?;
    let before = available(&stored);
    // date: written into conditions.
    let now = client.now_text();
    let Some(remote) = Remote::of(&name, &stored) else {
        measured.forget(&name);
        let local = local_condition(&now);
        if before.text("reason") != "Local" || before.text("status") != "True" {
            write(client, (&resource, &object), &stored, local).await?;
        }
        return Ok(Progress::Settled);
    };
    if client.aggregation().relay().is_none() {
        return Ok(Progress::After(LOOK_EVERY));
    }
    let finding = find(client, &remote).await;
    let is_same = |field: &str, text: &str| before.text(field) == text;
    measured.note(&name, &finding, !is_same("status", finding.status) || !is_same("reason", finding.reason));
    let is_known = is_same("status", finding.status)
        && is_same("reason", finding.reason)
        && is_same("message", &finding.message);
    if !is_known {
        let condition = json!({
            "type": AVAILABLE, "status": finding.status, "lastTransitionTime": now.as_str(),
            "reason": finding.reason, "message": finding.message,
        });
        let reason = finding.reason;
        if finding.status != "True"
            && let Some(left_out) = UNAVAILABLE.pass_at(client.moment())
        {
            tracing::warn!(name = &*name, reason, left_out, "an aggregated server is not available");
        }
        write(client, (&resource, &object), &stored, condition).await?;
    }
    Ok(if finding.status == "True" { Progress::After(LOOK_EVERY) } else { Progress::Waiting })
}

/// Writes `condition` among those of `stored`, if that is still the object.
async fn write<S: Store>(
    client: &Client<S>,
    (resource, object): (&Arc<Resource>, &SharedObject),
    stored: &Value,
    condition: Value,
) -> Result<(), ApiError> {
    let (uid, revision) = (&object.index.uid, object.revision.to_string());
    let conditions = with_condition(stored.at("status").items("conditions"), condition);
    let patch = json!({
        "metadata": {"uid": uid, "resourceVersion": revision}, "status": {"conditions": conditions},
    });
    let name = stored.at("metadata").text("name");
    client.patch(Place { resource, path: name }, Action::Status, &patch).await
}

/// The conditions `all` with `new` in the place of the one of its type, whose time stays as long as its status does. Those of other
/// types are their authors'.
fn with_condition(all: &[Value], new: Value) -> Vec<Value> {
    let mut all = all.to_vec();
    // few: the conditions of one object.
    let Some(own) = all.iter_mut().find(|of| of.text("type") == new.text("type")) else {
        all.push(new);
        return all;
    };
    let since = own.at("lastTransitionTime").clone();
    let is_same = own.text("status") == new.text("status");
    *own = new;
    if is_same {
        own["lastTransitionTime"] = since;
    }
    all
}

/// Looks for the server of `remote`.
async fn find<S: Store>(client: &Client<S>, remote: &Remote) -> Finding {
    let (view, brand) = (View::of(client.store()), client.registry().brand);
    let services = Services { view: &view, brand, routing: client.aggregation().routing() };
    if let Some(missing) = check_service(&services, remote) {
        return missing;
    }
    let (began, mut last) = (client.store().elapsed(), String::new());
    for _ in 0..ATTEMPTS {
        let left = LOOK_MAX.saturating_sub(client.store().elapsed().saturating_sub(began));
        if left.is_zero() {
            break;
        }
        match ask(client, &view, remote, left.min(ANSWER_MAX)).await {
            Ok(()) => {
                return Finding { status: "True", reason: "Passed", message: "all checks passed".to_owned() };
            }
            Err(reason) => last = reason,
        }
    }
    Finding::missing("FailedDiscoveryCheck", last)
}

/// The fault of the service of `remote`, its port or its endpoints; `None`: the server can be asked.
pub(super) fn check_service(services: &Services<'_>, remote: &Remote) -> Option<Finding> {
    let (name, namespace) = (&remote.service.name, quoted(&remote.service.namespace));
    let Some(service) = services.view.find(SERVICES, &remote.service.namespace, name) else {
        let message = format!("service/{name} in {namespace} is not present");
        return Some(Finding::missing("ServiceNotFound", message));
    };
    let spec = service.at("spec");
    if !matches!(spec.text("type"), "" | "ClusterIP") {
        return None;
    }
    let port = remote.service.port;
    // once: for each look at a server.
    let Some(own) = spec.items("ports").iter().find(|own| own.int("port") == Some(i64::from(port))) else {
        let message = format!("service/{name} in {namespace} is not listening on port {port}");
        return Some(Finding::missing("ServicePortError", message));
    };
    let slices = slices_of(services, &remote.service);
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace}");
        return Some(Finding::missing("EndpointsNotFound", message));
    }
    let port = own.text("name");
    let is_listening = |slice: &Value| {
        let numbered = |own: &Value| own.text("name") == port && own.int("port").is_some();
        // once: each slice is looked at once.
        slice.items("ports").iter().any(numbered) && slice.items("endpoints").iter().any(is_ready)
    };
    // once: as above.
    (!slices.iter().any(is_listening)).then(|| {
        let port = quoted(port);
        let message = format!(
            "endpointslices for service/{name} in {namespace} have no addresses with port name {port}"
        );
        Finding::missing("MissingEndpoints", message)
    })
}

/// Asks the server of `remote` for the document of its group and version, once, and waits for `patience`.
///
/// # Errors
/// The reason why it does not answer as it should.
async fn ask<S: Store>(
    client: &Client<S>,
    view: &View,
    remote: &Remote,
    patience: Duration,
) -> Result<(), String> {
    let (aggregation, brand) = (client.aggregation(), client.registry().brand);
    let failed = |url: &str, reason: &str| format!("failing or missing response from {url}: {reason}");
    let server = aggregation.locate(remote, view, brand, client.random()).map_err(|error| {
        let url = format!("https://{}:{}{}", remote.service.host(), remote.service.port, remote.path());
        failed(&url, &error.to_string())
    })?;
    let url = format!("https://{}{}", server.authority(), remote.path());
    let request = Request::get(remote.path()).header(ACCEPT, "application/json");
    let request = own_request(&server, &aggregator(brand), request, Body::empty());
    let request = request.map_err(|reason| failed(&url, &reason))?;
    let relay = aggregation.relay().ok_or_else(|| failed(&url, "there is no way to it"))?;
    let (answering, late) = (relay.relay(server, request), Box::pin(client.store().sleep(patience)));
    let got = |reason: &str| failed(&url, &format!("Get {}: {reason}", quoted(&url)));
    match select(answering, late).await {
        Either::Left((Ok(answer), _)) if answer.status().is_success() => Ok(()),
        Either::Left((Ok(answer), _)) => {
            let code = answer.status().as_u16();
            Err(failed(&url, &format!("bad status from {url}: {code}")))
        }
        Either::Left((Err(error), _)) => Err(got(&error.to_string())),
        Either::Right(_) => Err(got(LATE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_takes_the_place_of_its_type_and_keeps_its_time_while_its_status_stays() {
        let of = |kind: &str, status: &str, since: &str, reason: &str| json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason});
        let others = [of("Mine", "True", "t0", "x"), of(AVAILABLE, "True", "t1", "Passed")];
        let mine = others[0].clone();
        assert_eq!(
            with_condition(&others, of(AVAILABLE, "False", "t2", "ServiceNotFound")),
            [mine.clone(), of(AVAILABLE, "False", "t2", "ServiceNotFound")]
        );
        assert_eq!(
            with_condition(&others, of(AVAILABLE, "True", "t2", "Local")),
            [mine.clone(), of(AVAILABLE, "True", "t1", "Local")]
        );
        let first = of(AVAILABLE, "True", "t2", "Local");
        assert_eq!(with_condition(&others[..1], first.clone()), [mine, first]);
    }
}
