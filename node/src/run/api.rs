//! Builds the API of the cluster over this node's store, and starts the controllers.

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use orch_api::admission::{Chain, NamespaceMaker};
use orch_api::ambient::{Ambient, SystemAmbient};
use orch_api::authn::bootstrap_token::BootstrapTokens;
use orch_api::authn::front_proxy::FrontProxy;
use orch_api::authn::{Authenticator, LiveTokens};
use orch_api::controllers;
use orch_api::gate::Gate;
use orch_api::http::{Api as ResourceApi, Scope};
use orch_api::paging::TokenKey;
use orch_api::pipeline::Pipeline;
use orch_api::registry::Registry;
use orch_api::webhook::Webhooks;
use orch_proto::Brand;
use orch_raft::ClusterIdentity;
use tokio_util::sync::CancellationToken;

use super::backup::BackupPlan;
use super::cluster_view::OwnHealth;
use super::error::RunError;
use super::figures::StoreSeries;
use super::front_proxy;
use super::pages::{self, Pages};
use super::plan::{Plan, host_port};
use super::services::ApiMembers;
use super::store::Handle;
use super::trust::Trust;
use super::{authentication, authorization, backup, cluster, encryption, snapshot, token_file};
use crate::built;
use crate::encryption::Rewriter;
use crate::log_check::LogCheck;
use crate::tls::Reloader;

/// Name of the loop that recomputes the usage of quotas.
const QUOTA_LOOP: &str = "resourcequota-controller";

/// The API of this node, with its running controllers.
pub(super) struct Api {
    brand: &'static Brand,
    router: Router,
    stopping: CancellationToken,
}

impl Api {
    /// Builds the API of `cluster` over `handle`, advertised at `secure_port` with certificates of `tls`. Takes the token
    /// table out of the plan.
    pub(super) fn new(
        plan: &mut Plan,
        handle: Handle,
        cluster: &ClusterIdentity,
        secure_port: u16,
        rewriter: Arc<Rewriter>,
        tls: Reloader,
    ) -> Result<Api, RunError> {
        let brand =
            Brand::named(&cluster.brand).ok_or_else(|| RunError::UnknownBrand(cluster.brand.to_string()))?;
        let stopping = CancellationToken::new();
        let auditor = plan.audit.auditor(brand);
        plan.audit.follow(stopping.clone());
        let reached_at = host_port(&plan.advertise, secure_port);
        let gate = gate(plan, brand, &reached_at, &stopping)?;
        let mut pipeline = Pipeline::new(
            handle.clone(),
            Registry::builtin(brand),
            TokenKey::new(cluster.token_key).after(cluster.earlier_token_keys.clone()),
            Arc::new(SystemAmbient),
            plan.features,
            gate.clone(),
        );
        pipeline.aggregation = plan.webhooks.aggregation();
        pipeline.call_webhooks(plan.webhooks.start(handle.clone(), pipeline.ambient.clone(), brand));
        let maker = NamespaceMaker::default();
        pipeline.admission = admission(plan, &pipeline.ambient, &maker, &pipeline.webhooks);
        pipeline.watch_batch_delay = plan.watch_batch_delay;
        pipeline.allocator = plan.services.allocator();
        let pipeline = Arc::new(pipeline);
        controllers::provide_namespaces(&pipeline, &maker);
        let members = ApiMembers::new(handle.clone(), plan.name.clone(), plan.advertise.clone(), secure_port);
        let options = controllers::Options {
            event_ttl: plan.event_ttl,
            selection: plan.controllers.clone(),
            root_ca: Some(plan.service_accounts.follow_root_ca(stopping.clone())),
            announcement: Some(Arc::new(Trust::new(tls, plan.front_proxy.clone()))),
            signer: plan.signer.clone(),
            service: Some(plan.services.defaults(secure_port)),
            members: Some(Arc::new(members)),
        };
        let (prepared, store) = (gate.clone(), handle.clone());
        let until = stopping.clone();
        tokio::spawn(async move {
            until.run_until_cancelled(prepared.authorizers().keep_prepared(&store)).await;
        });
        tokio::spawn(controllers::run(pipeline.clone(), options, stopping.clone().cancelled_owned()));
        let places = snapshot::Places::new();
        let backups = plan.backup.as_ref().map(BackupPlan::health).unwrap_or_default();
        if let Some(plan) = plan.backup.clone() {
            let source = backup::Source::new(handle.clone(), cluster, places.clone());
            tokio::spawn(backup::keep_backups(plan, source, stopping.clone()));
        }
        let outages = pipeline.webhooks.outages().clone();
        let are_registered = controllers::registration(&pipeline);
        let resources = ResourceApi::new(pipeline, stopping.clone()).controlled(plan.flow);
        let resources = resources.watched_by(plan.clients.watches);
        let resources = resources.audited_by(auditor.clone()).reached_at(&reached_at);
        let resources = resources.connecting(plan.connector.clone());
        let series = StoreSeries::new(handle.clone(), cluster.cluster.clone(), brand);
        let exposition = crate::metrics::exposition(stopping.clone(), Some(series));
        let resources = resources.built(built::build()).exposing(exposition);
        let (log, prepared) = (LogCheck::of_stderr(), gate.clone());
        let resources = resources
            .with_check("log", Scope::Liveness, move || log.passes(Instant::now()))
            .with_check("informer-sync", Scope::Readiness, move || prepared.authorizers().are_prepared())
            .with_check("autoregister-completion", Scope::Readiness, are_registered);
        let resources = encryption::with_kms_check(resources, plan.keys.as_ref(), plan.reloads_keys);
        let resources = resources.beside(cluster::PATHS).beside([encryption::REWRITE_PATH]);
        let resources = resources.beside([snapshot::SNAPSHOT_PATH]).beside(pages::PATHS);
        let health = OwnHealth { expiries: plan.expiries.clone(), outages, backups };
        let own = cluster::router(handle.clone(), health);
        let own = own.merge(encryption::router(&plan.name, rewriter));
        let own = own.merge(snapshot::router(handle.clone(), cluster, places));
        let own = own.merge(pages::router(Pages::new(brand, std::mem::take(&mut plan.flags))));
        let guard = cluster::Guard { gate, handle, auditor, flow: Some(resources.flow()) };
        let router = guard.before(own).merge(resources.router());
        Ok(Api { brand, router, stopping })
    }

    /// The cluster's brand.
    pub(super) fn brand(&self) -> &'static Brand {
        self.brand
    }

    /// Routes of all paths of the API.
    pub(super) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Makes the node unready, and ends watches and controllers.
    pub(super) fn stop(&self) {
        self.stopping.cancel();
    }
}

/// The admission plugins of the plan. Usage of quotas is given back where the loop runs that would do it in the reference.
fn admission(plan: &Plan, ambient: &Arc<dyn Ambient>, maker: &NamespaceMaker, webhooks: &Webhooks) -> Chain {
    let chain = Chain::configured(plan.admission.clone(), ambient, maker, webhooks);
    match plan.controllers.runs(QUOTA_LOOP) {
        true => chain,
        false => chain.with_usage_recomputed_elsewhere(),
    }
}

/// The authenticators and authorizers of the plan. Takes the token table out of it; what is read from files again ends with
/// `stopping`.
fn gate(
    plan: &mut Plan,
    brand: &'static Brand,
    reached_at: &str,
    stopping: &CancellationToken,
) -> Result<Arc<Gate>, RunError> {
    let tokens = LiveTokens::from(std::mem::take(&mut plan.tokens));
    token_file::follow(plan.token_file.clone(), tokens.clone(), stopping.clone());
    let front_proxy = FrontProxy::new(front_proxy::headers(&plan.front_proxy)?);
    let mut authenticator = Authenticator::new(brand, tokens, plan.anonymous).behind(front_proxy);
    if plan.service_accounts.accepts_bootstrap_tokens {
        authenticator = authenticator.with(Box::new(BootstrapTokens::new(brand)));
    }
    let accounts = plan.service_accounts.start(brand, reached_at, stopping.clone());
    let authenticator =
        authentication::extend(authenticator, &plan.authentication, brand, accounts.settings(), stopping)?;
    let gate = Gate::with_service_accounts(brand, authenticator, accounts);
    authorization::start(&plan.authorization, brand, &gate, stopping.clone())?;
    Ok(gate)
}
