//! The service through which pods reach the API, and the cluster's default ranges of cluster addresses.
//!
//! Owns that both exist: the ServiceCIDR of `--service-cluster-ip-range`, and the service at the first address of its first
//! range. An object that exists is left as it is, but for ranges that got a second family; it comes back when it is deleted.

use std::convert::Infallible;
use std::sync::Arc;

use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_raft::state::NAMESPACES;
use orch_rules::Action;
use orch_rules::validate::Path;
use orch_rules::validate::address::{Cidr, validate_cidr};
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::client::{Client, Moment, Place, is_overtaken};
use super::turns::{Pace, any_changed};
use crate::allocation::ranges::first_address;
use crate::allocation::{CIDRS, SERVICES};
use crate::error::ApiError;

/// Namespace of the service.
pub(super) const NAMESPACE: &str = "default";

/// Bits of a range behind its prefix, at least: it has an address for the API's service and some more.
const HOST_BITS_MIN: u8 = 3;

/// Limits the warning that the stored ranges are not those of the flag.
static DIFFERS: WarningLimit<Moment> = WarningLimit::new();

/// The ranges of `--service-cluster-ip-range`, and the port that the service leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceDefaults {
    first: Cidr,
    texts: Vec<String>,
    port: u16,
}

impl ServiceDefaults {
    /// One range, or one of each family with the default family first; `port` is that of HTTPS.
    ///
    /// # Errors
    /// A text is no range, a range has few addresses, or two are of one family.
    pub fn parse(texts: &[String], port: u16) -> Result<ServiceDefaults, String> {
        let mut ranges: Vec<Cidr> = Vec::new();
        for text in texts {
            if let Some(error) = validate_cidr(&Path::new("range"), text) {
                return Err(error.to_string());
            }
            let range = Cidr::parse(text).ok_or_else(|| format!("{text:?} is no range"))?;
            if range.family().bits() - range.prefix_bits() < HOST_BITS_MIN {
                return Err(format!("{text} has too few addresses"));
            }
            // few: a flag.
            if ranges.iter().any(|other| other.family() == range.family()) {
                return Err("give one range, or one of each address family".to_owned());
            }
            ranges.push(range);
        }
        let first = ranges.first().copied().ok_or("at least one range is needed")?;
        Ok(ServiceDefaults { first, texts: texts.to_vec(), port })
    }

    /// The same for another port of HTTPS.
    #[must_use]
    pub fn at_port(&self, port: u16) -> ServiceDefaults {
        ServiceDefaults { port, ..self.clone() }
    }
}

/// Keeps both objects. Completes only with an error.
pub(super) async fn run<S: Store>(
    client: &Client<S>,
    defaults: &ServiceDefaults,
) -> Result<Infallible, ApiError> {
    let store = client.store();
    let mut changed = [NAMESPACES, CIDRS, SERVICES].map(|storage| store.subscribe(&Arc::from(storage)));
    client.most_recent().await?;
    let mut pace = Pace::new();
    loop {
        keep_ranges(client, defaults).await?;
        keep_service(client, defaults).await?;
        any_changed(&mut changed).await;
        pace.turn(store).await;
    }
}

async fn keep_ranges<S: Store>(client: &Client<S>, defaults: &ServiceDefaults) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(CIDRS) else { return Ok(()) };
    let name = client.registry().brand.api_service;
    let place = Place { resource: &resource, path: name };
    if client.store().state().collection(CIDRS).get(name).is_none() {
        let object = json!({"metadata": {"name": name}, "spec": {"cidrs": defaults.texts}});
        passed(client.create(&resource, "", &object).await)?;
    }
    let Some(object) = client.store().state().collection(CIDRS).get(name).cloned() else { return Ok(()) };
    let object: Value = serde_json::from_slice(&object.json).unwrap_or_default();
    let stored: Vec<String> = object.at("spec").texts("cidrs").into_iter().map(str::to_owned).collect();
    if stored != defaults.texts {
        if stored.len() == 1 && defaults.texts.first() == stored.first() {
            let patch = json!({"spec": {"cidrs": defaults.texts}});
            passed(client.patch(place, Action::Object, &patch).await)?;
        } else if let Some(left_out) = DIFFERS.pass_at(client.moment()) {
            tracing::warn!(?stored, flag = ?defaults.texts, left_out, "the cluster keeps its ranges of cluster addresses");
        }
    }
    if object.at("status").items("conditions").is_empty() {
        let message = format!("{} default Service CIDR is ready", client.registry().brand.product);
        let condition = json!({
            "type": "Ready", "status": "True", "reason": "", "message": message, "lastTransitionTime": client.now_text()
        });
        let patch = json!({"status": {"conditions": [condition]}});
        passed(client.patch(place, Action::Status, &patch).await)?;
    }
    Ok(())
}

/// Makes the service if it is absent and its namespace is there to stay.
async fn keep_service<S: Store>(client: &Client<S>, defaults: &ServiceDefaults) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(SERVICES) else { return Ok(()) };
    let (state, name) = (client.store().state(), client.registry().brand.api_service);
    let is_there = state.collection(SERVICES).get(&format!("{NAMESPACE}/{name}")).is_some();
    let has_namespace =
        state.collection(NAMESPACES).get(NAMESPACE).is_some_and(|found| !found.index.terminating);
    if is_there || !has_namespace {
        return Ok(());
    }
    let object = json!({
        "metadata": {"name": name, "labels": labels(name)},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": first_address(defaults.first).to_string(),
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": defaults.port}]
        }
    });
    passed(client.create(&resource, NAMESPACE, &object).await)
}

fn labels(provider: &str) -> Value {
    json!({"component": "apiserver", "provider": provider})
}

/// A refusal because the object has changed meanwhile is none: the change wakes the loop.
fn passed(result: Result<(), ApiError>) -> Result<(), ApiError> {
    match result {
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::allocation::CLAIMS;
    use crate::controllers::testing::Fixture;

    fn defaults(texts: &[&str]) -> ServiceDefaults {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        ServiceDefaults::parse(&texts, 6443).unwrap()
    }

    #[test]
    fn ranges_are_one_or_one_of_each_family() {
        let parse = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
            ServiceDefaults::parse(&texts, 1)
        };
        assert!(parse(&["10.0.0.0/24"]).is_ok() && parse(&["2001:db8::/112", "10.0.0.0/24"]).is_ok());
        for (texts, expected) in [
            (&["10.0.0.0"][..], "must be a valid CIDR value"),
            (&["10.0.0.1/24"], "must not have bits set beyond the prefix length"),
            (&["10.0.0.0/30"], "too few addresses"),
            (&["10.0.0.0/24", "10.1.0.0/24"], "one of each address family"),
            (&[], "at least one range"),
        ] {
            let refused = parse(texts).unwrap_err();
            assert!(refused.contains(expected), "{texts:?}: {refused}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_service_has_the_first_address_and_comes_back() {
        let fixture = Fixture::new();
        let ranges = defaults(&["10.0.0.0/24"]);
        let steps = async {
            let settled = || tokio::time::sleep(Duration::from_secs(3));
            settled().await;
            assert!(!fixture.exists(SERVICES, "default/orch"), "its namespace is absent");
            fixture.namespace("default").await;
            settled().await;
            let service = fixture.read(SERVICES, "default/orch");
            assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.1"]));
            assert_eq!(service["spec"]["ports"][0]["targetPort"], 6443);
            let range = fixture.read(CIDRS, "orch");
            assert_eq!(range["status"]["conditions"][0]["message"], "Orch default Service CIDR is ready");
            let before = fixture.state().applied();
            settled().await;
            assert_eq!(fixture.state().applied(), before, "nothing is written without need");
            fixture.delete(SERVICES, "default/orch", json!({})).await;
            assert!(fixture.state().collection(CLAIMS).is_empty());
            settled().await;
            assert_eq!(fixture.read(SERVICES, "default/orch")["spec"]["clusterIP"], "10.0.0.1");
        };
        fixture.beside(run(&fixture.client(), &ranges), steps).await;
    }

    #[tokio::test(start_paused = true)]
    async fn ranges_get_a_second_family_and_no_other_change() {
        let fixture = Fixture::new();
        fixture.namespace("default").await;
        for (flag, stored) in [
            (&["10.0.0.0/24"][..], json!(["10.0.0.0/24"])),
            (&["10.0.0.0/24", "2001:db8::/112"], json!(["10.0.0.0/24", "2001:db8::/112"])),
            (&["10.1.0.0/24"], json!(["10.0.0.0/24", "2001:db8::/112"])),
        ] {
            fixture.while_running(run(&fixture.client(), &defaults(flag)), 2).await;
            assert_eq!(fixture.read(CIDRS, "orch")["spec"]["cidrs"], stored);
        }
    }
}
