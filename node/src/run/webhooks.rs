//! Resolves the flags of webhooks and of aggregated servers.

use std::sync::Arc;

use orch_api::aggregation::Aggregation;
use orch_api::ambient::Ambient;
use orch_api::egress::{Local, Reach};
use orch_api::follow::Builder;
use orch_api::webhook::{Routing, Webhooks};
use orch_proto::Brand;
use orch_raft::Store;

use super::error::RunError;
use crate::access::admission::HookFiles;
use crate::access::authorization::Strictness;
use crate::cli::WebhookArgs;
use crate::egress::{HookUsers, Hooks, ProxyPair, Relays};

/// Connections to webhooks and aggregated servers, as the flags allow them.
#[derive(Clone, Debug)]
pub struct WebhookPlan {
    /// Addresses at which webhooks are called.
    reach: Reach,
    /// Addresses at which aggregated servers are reached. They are sent any request of users, with the certificate that names this server.
    relayed: Reach,
    routing: Routing,
    pair: ProxyPair,
    users: HookUsers,
}

impl WebhookPlan {
    /// The plan of these flags, and of the client configurations `files` of the plugins. A node for development reaches aggregated
    /// servers on its machine.
    ///
    /// # Errors
    /// One of two flags is missing, or a file that they name cannot be used.
    pub(super) fn of(
        arguments: &WebhookArgs,
        files: &HookFiles,
        strictness: Strictness,
    ) -> Result<WebhookPlan, RunError> {
        let routing = match arguments.enable_aggregator_routing {
            true => Routing::Endpoints,
            false => Routing::ClusterAddress,
        };
        let pair = match (&arguments.proxy_client_cert_file, &arguments.proxy_client_key_file) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => {
                let reason = "--proxy-client-cert-file and --proxy-client-key-file go together";
                return Err(RunError::Flags(reason.to_owned()));
            }
        };
        let pair = ProxyPair::read(pair).map_err(RunError::ProxyPair)?;
        let users = HookUsers::read(files.mutating.as_deref(), files.validating.as_deref());
        let users = users.map_err(RunError::HookUsers)?;
        let is_denied = arguments.deny_loopback_webhooks;
        let is_relayed = arguments.allow_loopback_aggregation || strictness == Strictness::Dev;
        Ok(WebhookPlan {
            reach: Reach::of_objects(if is_denied { Local::None } else { Local::Any }),
            // An aggregated server in the network of this machine may be at one of the machine's addresses.
            relayed: Reach::of_objects(match is_relayed && !is_denied {
                true => Local::Any,
                false => Local::Interfaces,
            }),
            routing,
            pair,
            users,
        })
    }

    /// The webhooks of a node over `store`.
    pub(super) fn start<S: Store>(
        &self,
        store: S,
        ambient: Arc<dyn Ambient>,
        brand: &'static Brand,
    ) -> Webhooks {
        let caller = Arc::new(Hooks::new(self.reach.clone(), self.users.clone()));
        Webhooks::new(caller, store, ambient, brand, self.routing)
    }

    /// The aggregated servers of a node.
    pub(super) fn aggregation(&self) -> Aggregation {
        let relays = Arc::new(Relays::new(self.relayed.clone(), self.pair.clone()));
        Aggregation::none(Builder::default()).through(relays, self.routing)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        webhooks: WebhookArgs,
    }

    #[test]
    fn aggregated_servers_on_this_machine_are_reached_by_choice() {
        const ALLOW: &str = "--allow-loopback-aggregation";
        for (flags, strictness, hooks, relays) in [
            (&[][..], Strictness::Serve, Local::Any, Local::Interfaces),
            (&[ALLOW], Strictness::Serve, Local::Any, Local::Any),
            (&[], Strictness::Dev, Local::Any, Local::Any),
            (&["--deny-loopback-webhooks"], Strictness::Serve, Local::None, Local::Interfaces),
            (&["--deny-loopback-webhooks"], Strictness::Dev, Local::None, Local::Interfaces),
        ] {
            let flags: Vec<&str> = std::iter::once("orch").chain(flags.iter().copied()).collect();
            let plan = WebhookPlan::of(&Only::parse_from(&flags).webhooks, &HookFiles::default(), strictness)
                .unwrap();
            let expected = (Reach::of_objects(hooks), Reach::of_objects(relays));
            assert_eq!((plan.reach, plan.relayed), expected, "{flags:?} {strictness:?}");
        }
        assert!(Only::try_parse_from(["orch", ALLOW, "--deny-loopback-webhooks"]).is_err());
    }
}
