//! The loops that run where the store's leader is.
//!
//! Owns the table of these loops: the name in the log, the name by which `--controllers` leaves a loop out, the field manager of
//! its writes, and its function. It never decides who leads.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use orch_raft::Store;
use parking_lot::Mutex;

use super::client::Client;
use super::protection::Protected;
use super::{
    Options, aggregation, allocation_repair, api_endpoints, api_services, bootstrap, certificates,
    default_service, definitions, disruption, expiry, garbage, identity, keep, namespaces, policy_types,
    protection, quota_usage, root_ca, secret_tokens, selection, service_accounts, service_cidrs,
    token_cleaner, token_tracking, trust,
};
use crate::error::ApiError;
use crate::pipeline::Pipeline;

/// The kinds of storage that are protected while they are in use.
const PROTECTED: [Protected; 3] = [Protected::Claims, Protected::Volumes, Protected::Classes];

/// Runs the loops. `sightings`: what this process saw at aggregated servers while it led before.
pub(super) async fn run<S: Store>(
    pipeline: &Arc<Pipeline<S>>,
    options: &Options,
    sightings: &Arc<Mutex<garbage::Sightings>>,
) {
    let mut table = Table { pipeline, options, runs: Vec::new() };
    table.definitions();
    table.servers();
    table.accounts();
    table.storage_and_services();
    table.certificates();
    table.objects(sightings);
    table.rights_and_quotas();
    join_all(table.runs).await;
}

/// Names of one loop.
struct Names {
    /// In the log.
    log: &'static str,
    /// The reference's, by which `--controllers` leaves the loop out; `None`: it always runs.
    controller: Option<&'static str>,
    /// The field manager of its writes.
    manager: &'static str,
}

/// A loop that always runs: its name in the log, its field manager.
fn always(log: &'static str, manager: &'static str) -> Names {
    Names { log, controller: None, manager }
}

/// A loop with a name of the reference's: its name in the log, the reference's, its field manager.
fn selected(log: &'static str, controller: &'static str, manager: &'static str) -> Names {
    Names { log, controller: Some(controller), manager }
}

/// The loops of one time in the lead.
struct Table<'a, S> {
    pipeline: &'a Arc<Pipeline<S>>,
    options: &'a Options,
    /// Polled in this order, on which replays of simulations rely.
    runs: Vec<BoxFuture<'a, Infallible>>,
}

impl<'a, S: Store> Table<'a, S> {
    /// Adds the loop `run`, which has a client of its own, unless it is left out.
    fn add<F>(&mut self, names: Names, run: impl Fn(Arc<Client<S>>) -> F + Send + Sync + 'a)
    where
        F: Future<Output = Result<Infallible, ApiError>> + Send + 'a,
    {
        if let Some(controller) = names.controller {
            debug_assert!(selection::OWN.contains(&controller), "the flag knows no loop {controller}");
            if !self.options.selection.runs(controller) {
                return;
            }
        }
        let client = Arc::new(Client::new(self.pipeline.clone(), names.manager));
        self.runs.push(Box::pin(async move { keep(names.log, &client, || run(client.clone())).await }));
    }

    fn definitions(&mut self) {
        let (apis, kinds) = ("apiservice-controller", "customresourcedefinition-controller");
        self.add(
            always("registration of groups", apis),
            |client| async move { api_services::run(&client).await },
        );
        self.add(always("aggregated servers", apis), |client| async move {
            api_services::availability::run(&client).await
        });
        self.add(always("definitions", kinds), |client| async move { definitions::run(&client).await });
    }

    /// The date of token tracking and old leases of servers, where the members are known.
    fn servers(&mut self) {
        if self.options.members.is_none() {
            return;
        }
        let server = "apiserver";
        self.add(
            always("token tracking", server),
            |client| async move { token_tracking::run(&client).await },
        );
        self.add(
            always("leases of servers", server),
            |client| async move { identity::collect(&client).await },
        );
    }

    /// Fills secrets with tokens, and removes tokens that nothing uses.
    fn accounts(&mut self) {
        let (filling, cleaning) =
            ("serviceaccount-token-controller", "legacy-serviceaccount-token-cleaner-controller");
        let options = self.options;
        self.add(selected("tokens in secrets", filling, filling), move |client| async move {
            secret_tokens::fill(&client, options.root_ca.clone()).await
        });
        self.add(selected("unused tokens", cleaning, filling), |client| async move {
            secret_tokens::clean(&client).await
        });
    }

    fn storage_and_services(&mut self) {
        for kind in PROTECTED {
            let controller = kind.controller();
            self.add(selected("storage protection", controller, controller), move |client| async move {
                protection::run(&client, kind).await
            });
        }
        let (repair, ranges) = ("ipallocator-repair-controller", "service-cidr-controller");
        self.add(selected("allocation", repair, repair), |client| async move {
            allocation_repair::run(&client).await
        });
        self.add(selected("service ranges", ranges, ranges), |client| async move {
            service_cidrs::run(&client).await
        });
        if let Some(defaults) = &self.options.service {
            self.add(always("default service", "bootstrap"), move |client| async move {
                default_service::run(&client, defaults).await
            });
        }
        if let Some(members) = &self.options.members {
            self.add(always("endpoints", "bootstrap"), move |client| async move {
                api_endpoints::run(&client, &**members).await
            });
        }
    }

    /// Approves, removes and signs requests for certificates.
    fn certificates(&mut self) {
        let manager = "certificate-controller";
        let (approving, cleaning, signing) = (
            "certificatesigningrequest-approving-controller",
            "certificatesigningrequest-cleaner-controller",
            "certificatesigningrequest-signing-controller",
        );
        self.add(selected("approving", approving, manager), |client| async move {
            certificates::approve(&client).await
        });
        self.add(selected("cleaning", cleaning, manager), |client| async move {
            certificates::clean(&client).await
        });
        if let Some(signer) = &self.options.signer {
            self.add(selected("signing", signing, manager), move |client| async move {
                certificates::sign(&client, &**signer).await
            });
        }
    }

    /// Objects that every cluster has, and the ends of objects.
    fn objects(&mut self, sightings: &'a Arc<Mutex<garbage::Sightings>>) {
        let (options, aggregation) = (self.options, "clusterrole-aggregation-controller");
        let aggregates = options.selection.runs(aggregation);
        let aggregator = aggregates.then(|| Arc::new(Client::new(self.pipeline.clone(), aggregation)));
        self.add(always("bootstrap", "bootstrap"), move |client| {
            let aggregator = aggregator.clone();
            async move { bootstrap::run(&client, aggregator.as_deref()).await }
        });
        let (ending, collecting) = ("namespace-controller", "garbage-collector-controller");
        self.add(
            selected("namespaces", ending, ending),
            |client| async move { namespaces::run(&client).await },
        );
        self.add(selected("garbage", collecting, "garbage-collector"), move |client| async move {
            garbage::run(&client, sightings).await
        });
        self.add(always("expiry", "expiry"), move |client| async move {
            expiry::run(&client, options.event_ttl).await
        });
    }

    fn rights_and_quotas(&mut self) {
        let (roles, budgets) = ("clusterrole-aggregation-controller", "disruption-controller");
        self.add(
            selected("aggregation", roles, roles),
            |client| async move { aggregation::run(&client).await },
        );
        self.add(selected("disruption budgets", budgets, budgets), |client| async move {
            disruption::run(&client).await
        });
        let (quotas, accounts) = ("resourcequota-controller", "serviceaccount-controller");
        self.add(
            selected("quota usage", quotas, quotas),
            |client| async move { quota_usage::run(&client).await },
        );
        self.add(selected("service accounts", accounts, accounts), |client| async move {
            service_accounts::run(&client).await
        });
        let (root, tokens) = ("root-ca-certificate-publisher-controller", "token-cleaner-controller");
        if let Some(authority) = &self.options.root_ca {
            self.add(selected("root authority", root, root), move |client| async move {
                root_ca::run(&client, authority.clone()).await
            });
        }
        self.add(selected("bootstrap tokens", tokens, tokens), |client| async move {
            token_cleaner::run(&client).await
        });
        let types = "validatingadmissionpolicy-status";
        self.add(
            selected("types of policies", "validatingadmissionpolicy-status-controller", types),
            |client| async move { policy_types::run(&client).await },
        );
        if let Some(known) = &self.options.announcement {
            self.add(always("trust", "cluster-authentication"), move |client| async move {
                trust::run(&client, &**known).await
            });
        }
    }
}
