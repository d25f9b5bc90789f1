//! Tests of real `orch serve` processes on loopback: killed, paused, restarted and sent malformed requests.
//!
//! They show for the product what the simulation shows for the store: no acknowledged write is lost, a quorum read is
//! never stale, a watch resumes at another member without a gap.
#![expect(clippy::unwrap_used, reason = "tests may unwrap, in what they call too")]

mod access;
mod acknowledged_definitions;
mod admission_webhooks;
mod aggregated_lockout;
mod aggregated_servers;
mod audit;
mod backups;
mod bad_input;
mod certificates;
mod clients;
mod connect;
mod contention;
mod conversion_webhooks;
mod corpus;
mod deployments;
mod disk;
mod divergence;
mod encryption;
mod evictions;
mod expiry;
mod foundings;
mod front_proxies;
mod guides;
mod holders;
mod hostile;
mod hostile_definitions;
mod identities;
mod informers;
mod kubectl;
mod kubelet;
mod leader_loss;
mod leadership;
mod load;
mod memory;
mod migrations;
mod mirrored;
mod misbehaving;
mod objects;
mod paused_leader;
mod quorum;
mod quota;
mod rebirth;
mod recovery;
mod replacement;
mod resource_quotas;
mod restart;
mod restores;
mod rust_client;
mod rust_custom;
mod saves;
mod scheduling;
mod secrets;
mod services;
mod snapshot;
mod snapshots;
mod space;
mod stored;
mod tls_host;
mod upgrades;
mod vectors;
mod versions;
mod webhooks;
