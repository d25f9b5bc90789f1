//! The index at `/` against what is served.

use std::collections::BTreeSet;
use std::sync::Arc;

use orch_proto::brand::ORCH;

use super::Server;
use crate::authn::service_account::testing::{accounts, elliptic};
use crate::authn::{AnonymousAccess, Authenticator, TokenTable};
use crate::controllers::testing::bootstrap;
use crate::gate::Gate;
use crate::http::own_paths::OWN_PATHS;
use crate::http::{Api, Scope};
use crate::metrics::Exposition;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::Registry;

struct Page;

impl Exposition for Page {
    fn render(&self) -> String {
        String::new()
    }
}

/// A server of everything that a node serves.
async fn whole() -> Server {
    let server = Server::new().await;
    bootstrap(server.store.clone()).await;
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let gate = Gate::with_service_accounts(&ORCH, authenticator, Arc::new(accounts(elliptic())));
    let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]));
    let (store, clock) = (server.store.clone(), server.clock.clone());
    let pipeline = Pipeline::new(store, registry, key, clock, Features::default(), gate);
    let api = Api::new(Arc::new(pipeline), server.stopping.clone()).exposing(Arc::new(Page));
    let api = api.with_check("log", Scope::Liveness, || true).beside(["/orch/v1/cluster"]);
    Server { router: api.router(), ..server }
}

async fn listed(server: &Server) -> BTreeSet<String> {
    let index = server.get("/").await.json();
    let paths = index["paths"].as_array().unwrap().iter();
    paths.map(|path| path.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_path_of_the_index_answers_and_what_is_served_is_in_it() {
    let server = whole().await;
    let mut paths = listed(&server).await;
    assert!(paths.remove("/orch/v1/cluster"), "what the node serves beside the API");
    for path in &paths {
        let answered = server.get(path).await;
        assert_eq!(answered.code, 200, "{path}: {}", answered.text);
    }
    for own in OWN_PATHS {
        let below = format!("{own}/");
        assert!(paths.iter().any(|path| path == own || path.starts_with(&below)), "{own}: {paths:?}");
    }
    for resource in Registry::builtin(&ORCH).resources() {
        let (group, version) = (&resource.group, &resource.version);
        let of_resource = match group.as_str() {
            "" => ["/api".to_owned(), format!("/api/{version}")],
            group => [format!("/apis/{group}"), format!("/apis/{group}/{version}")],
        };
        for path in of_resource {
            assert!(paths.contains(&path), "{path}");
        }
    }
    for path in ["/apis", "/livez/log", "/readyz/etcd", "/metrics", "/openid/v1/jwks", "/version"] {
        assert!(paths.contains(path), "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn paths_that_a_node_does_not_serve_are_not_in_its_index() {
    let server = Server::new().await;
    bootstrap(server.store.clone()).await;
    let paths = listed(&server).await;
    for path in ["/metrics", "/openid/v1/jwks", "/livez/log", "/orch/v1/cluster"] {
        assert!(!paths.contains(path), "{path}");
        assert_ne!(server.get(path).await.code, 200, "{path}");
    }
    for path in &paths {
        assert_eq!(server.get(path).await.code, 200, "{path}");
    }
}
