//! Claims: one object of the store for each cluster address and node port that a service holds.

use std::collections::BTreeSet;
use std::net::IpAddr;

use orch_raft::{Index, Key, Put};
use orch_rules::kinds::service::{addresses, node_ports};
use orch_rules::validate::address::parse_loose;
use orch_rules::validate::tree::Tree;
use orch_schema::json;
use orch_schema::value::Value;

use super::CLAIMS;

/// The addresses and ports that a service holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holdings {
    /// Cluster addresses.
    pub(crate) addresses: BTreeSet<IpAddr>,
    /// Node ports.
    pub(crate) ports: BTreeSet<i64>,
}

impl Holdings {
    /// The holdings of `service`.
    pub(crate) fn of(service: &Value) -> Holdings {
        let spec = service.at("spec");
        let addresses = addresses(spec).into_iter().filter_map(parse_loose).collect();
        Holdings { addresses, ports: node_ports(spec) }
    }

    /// The keys of its claims.
    pub(crate) fn claims(&self) -> BTreeSet<Key> {
        let addresses = self.addresses.iter().filter_map(|address| address_claim(*address));
        addresses.chain(self.ports.iter().filter_map(|port| port_claim(*port))).collect()
    }
}

/// The key of the claim of a cluster address.
pub(crate) fn address_claim(address: IpAddr) -> Option<Key> {
    Key::new(&CLAIMS.into(), "", &format!("address:{address}")).ok()
}

/// The key of the claim of a node port.
pub(crate) fn port_claim(port: i64) -> Option<Key> {
    Key::new(&CLAIMS.into(), "", &format!("port:{port}")).ok()
}

/// The claim under `key` of the service at `path` (`namespace/name`).
pub(crate) fn claim(key: Key, path: &str) -> Put {
    const HEAD: &str = r#"{"metadata":{"resourceVersion":""#;
    let json = format!("{HEAD}\"}},\"service\":{}}}", json!(path));
    let revision_at = u32::try_from(HEAD.len()).unwrap_or_default();
    Put { key, json: json.into(), revision_at, index: Index::default() }
}

/// The path of the service that holds a claim; empty where the bytes tell none.
pub(crate) fn holder(claim: &[u8]) -> String {
    let value: Value = serde_json::from_slice(claim).unwrap_or_default();
    value.text("service").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_names_its_service_and_takes_a_revision() {
        let put = claim(port_claim(30_000).unwrap(), "ns/\"odd\"");
        let (head, tail) = put.json.split_at(put.revision_at as usize);
        let stored = [head, b"17", tail].concat();
        assert_eq!(holder(&stored), "ns/\"odd\"");
        let value: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(value["metadata"]["resourceVersion"], "17");
    }

    #[test]
    fn holdings_follow_the_type() {
        let service = |kind: &str| {
            json!({"spec": {"type": kind, "clusterIPs": ["10.0.0.1", "2001:DB8::1"], "externalTrafficPolicy": "Local",
                "healthCheckNodePort": 30_002, "ports": [{"nodePort": 30_000}, {"nodePort": 30_000}, {}]}})
        };
        let claims = |kind: &str| {
            let claims = Holdings::of(&service(kind)).claims();
            claims.iter().map(|key| key.path().to_string()).collect::<Vec<_>>()
        };
        let addresses = ["address:10.0.0.1", "address:2001:db8::1"];
        assert_eq!(claims("ClusterIP"), addresses);
        assert_eq!(claims("NodePort"), [addresses[0], addresses[1], "port:30000"]);
        assert_eq!(claims("LoadBalancer"), [addresses[0], addresses[1], "port:30000", "port:30002"]);
        assert!(claims("ExternalName").is_empty());
    }
}
