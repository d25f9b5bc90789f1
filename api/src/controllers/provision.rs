//! Makes namespaces for the admission plugin `NamespaceAutoProvision`, as a client of the pipeline.

use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt};
use orch_raft::Store;
use orch_raft::state::NAMESPACES;
use orch_schema::json;

use super::client::Client;
use crate::admission::{MakeNamespace, NamespaceMaker};
use crate::error::ApiError;
use crate::pipeline::Pipeline;

/// Has `pipeline` make the namespaces that `maker` is asked for.
pub fn provide_namespaces<S: Store>(pipeline: &Arc<Pipeline<S>>, maker: &NamespaceMaker) {
    maker.provide(Box::new(Maker(Arc::downgrade(pipeline))));
}

/// Weak: the pipeline holds the plugin that holds this.
struct Maker<S>(Weak<Pipeline<S>>);

impl<S: Store> MakeNamespace for Maker<S> {
    fn make<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), ApiError>> {
        async move {
            let Some(pipeline) = self.0.upgrade() else {
                return Err(ApiError::Unavailable("the node is stopping".to_owned()));
            };
            let client = Client::new(pipeline, "namespace-auto-provision");
            let resource = client.stored_resource(NAMESPACES).ok_or(ApiError::UnknownPath)?;
            match client.create(&resource, "", &json!({"metadata": {"name": name}})).await {
                Err(ApiError::AlreadyExists(_)) => Ok(()),
                made => made,
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Chain, PluginSelection, Settings};
    use crate::ambient::{Ambient, SystemAmbient};
    use crate::controllers::testing::Fixture;
    use crate::webhook::Webhooks;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_made_for_its_first_object() {
        let names = |name: &str| [name.to_owned()];
        let selection =
            PluginSelection::parse(&names("NamespaceAutoProvision"), &names("ServiceAccount")).unwrap();
        let (settings, maker) = (Settings { selection, ..Settings::default() }, NamespaceMaker::default());
        let ambient: Arc<dyn Ambient> = Arc::new(SystemAmbient);
        let fixture = Fixture::with_plugins(Chain::configured(settings, &ambient, &maker, &Webhooks::none()));
        provide_namespaces(&fixture.pipeline(), &maker);
        for name in ["one", "two"] {
            fixture.create("configmaps", "new", json!({"metadata": {"name": name}})).await;
        }
        assert_eq!(fixture.read("namespaces", "new")["status"]["phase"], "Active");
    }
}
